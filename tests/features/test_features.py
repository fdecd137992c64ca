"""Names, kinds and intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from legible.errors import did_you_mean
from legible.features import Action, Feature, FeatureError, FeatureSpace, Intervals, above, below, deciles
from legible_envs.pacman import pacman_features

FLOATS = st.floats(-1e6, 1e6, width=32)


def one(kind: str = "numeric", **more: object) -> FeatureSpace:
    return FeatureSpace((Feature("x", kind, **more),), (Action("Go"),))


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


@pytest.mark.parametrize("name", ["", "two words", "1st", "a&b", "a<b", "not", "a,b", "a=b"])
def test_names_that_rules_cannot_use_are_refused(name: str) -> None:
    with pytest.raises(FeatureError, match="cannot be used"):
        Feature(name)


def test_unknown_names_suggest_the_nearest_ones(raises_saved) -> None:
    space = pacman_features(2)
    with raises_saved(FeatureError):
        space.feature_index("food.nroth")
    with pytest.raises(FeatureError, match="Did you mean 'North'"):
        space.action_index("north")
    assert did_you_mean("zzz", ["food.north"]) == ""


@pytest.mark.parametrize(
    "bad", [{"kind": "ordinal"}, {"cuts": (2.0, 1.0)}, {"cuts": (1.0, 1.0)}, {"cuts": (float("nan"),)}]
)
def test_bad_features_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(FeatureError, match="'x'"):
        Feature("x", **bad)


@pytest.mark.parametrize(
    "space",
    [
        pacman_features(4),
        one(cuts=(-0.5, 0.5), sentinels=(-1.0,)),
        one("categorical", values={1234567: "many", 0.1: "a tenth"}),
    ],
)
def test_a_space_is_read_back_from_plain_data(space: FeatureSpace) -> None:
    assert FeatureSpace.from_dict(space.to_dict()) == space


def test_a_space_is_read_from_toml(tmp_path) -> None:
    path = tmp_path / "names.toml"
    path.write_text(
        """
        actions = ["Left", {name = "Right", words = "push right"}]
        [[features]]
        name = "angle"
        words = "the angle of the pole"
        cuts = [-0.1, 0.1]
        [[features]]
        name = "touch"
        kind = "categorical"
        values = {1 = "the leg touches ground", 0 = "the leg is in the air"}
        """
    )
    space = FeatureSpace.from_toml(path)
    assert space.names == ("angle", "touch")
    assert space[0].label == "the angle of the pole"
    assert space[1].is_flag
    assert not space[0].is_flag
    assert [action.label for action in space.actions] == ["do “Left”", "push right"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[features]]\nnam = 'x'", r"features\[0\]: unknown key 'nam'. Did you mean 'name'"),
        ("[[features]]\nkind = 'numeric'", r"features\[0\]: 'name' is missing"),
        ("[[features]]\nname = 'a b'", r"features\[0\]: feature name 'a b'"),
        ("features = [3]", r"features\[0\]: expected a name or a table"),
        ("feature = ['x']", "unknown key 'feature'"),
        ("[[features]\nname = 'x'", "is not valid TOML: .*line 1"),
    ],
)
def test_errors_in_a_names_file_name_the_place(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "names.toml"
    path.write_text(text)
    with pytest.raises(FeatureError, match=message) as caught:
        FeatureSpace.from_toml(path)
    assert str(path) in str(caught.value)


def test_observations_of_the_wrong_width_are_refused(raises_saved) -> None:
    with raises_saved(FeatureError):
        pacman_features(2).check(np.zeros((2, 3)))


def test_kinds_are_guessed_from_data_and_can_be_overridden() -> None:
    space = FeatureSpace.of(["flag", "count", "many", "half"])
    rows = np.arange(40)
    data = np.stack([rows % 2, rows % 10, rows % 11, rows % 2 / 2], axis=1)
    guessed = space.guess_kinds(data)
    assert [feature.kind for feature in guessed.features] == ["categorical", "categorical", "numeric", "numeric"]
    assert guessed.with_kinds({"count": "numeric"})[1].kind == "numeric"
    with pytest.raises(FeatureError, match="no feature called 'cuont'"):
        guessed.with_kinds({"cuont": "numeric"})


def test_deciles_are_the_percentiles_that_lime_takes() -> None:
    data = np.random.default_rng(0).normal(size=1001).astype(np.float32)
    intervals = deciles(one(), data[:, None])
    expected = np.percentile(data, [10, 20, 30, 40, 50, 60, 70, 80, 90]).astype(np.float32)
    np.testing.assert_array_equal(intervals.highs[0][:-1], expected)
    np.testing.assert_array_equal(np.bincount(intervals.encode(data[:, None])[:, 0]), [101] + [100] * 8 + [100])


@pytest.mark.parametrize(
    ("feature", "values", "cuts"),
    [
        ({}, [*[0.0] * 95, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0]),  # equal deciles are merged
        ({"cuts": (-0.5, 0.5)}, [1, 2, 3], [-0.5, 0.5]),
        ({}, [2, 2], [2.0]),
        ({}, [np.nan], []),
    ],
)
def test_cuts_by_hand(feature: dict[str, object], values: list[float], cuts: list[float]) -> None:
    assert deciles(one(**feature), column(*values)).highs[0].tolist() == [*cuts, np.inf]


def test_categories_are_single_values() -> None:
    space = one("categorical", values={7: "seven"})
    intervals = deciles(space, column(0, 1, 3, 1))
    assert intervals.highs[0].tolist() == [0, 1, 3, 7]
    codes = intervals.encode(column(0, 1, 3, 7, 2, 0.5, np.nan, -1, 8, np.inf))[:, 0]
    assert codes.tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4]


def test_a_sentinel_has_a_separate_interval_and_does_not_count_for_the_deciles() -> None:
    data = column(*[-1.0] * 500, *range(1, 11))
    intervals = deciles(one(sentinels=(-1.0,)), data)
    low, high = intervals.lows[0], intervals.highs[0]
    k = int(intervals.encode(column(-1.0))[0, 0])
    assert (low[k], high[k]) == (below(-1.0), -1.0)
    expected = np.percentile(np.arange(1, 11), np.arange(10, 100, 10)).astype(np.float32)
    np.testing.assert_array_equal(high[-10:-1], expected)


def test_there_is_one_zero_among_the_categories() -> None:
    (values,) = deciles(one("categorical"), column(0.0, -0.0, 1.0)).highs
    assert values.tolist() == [0, 1]
    assert not np.signbit(values).any()


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([0, 1], [2, 3], "must not overlap"),
        ([0, 2, 3], [2, 4, 5], "must not overlap"),
        ([1], [1], "ascending"),
        ([], [], "at least one interval"),
        ([0, 1], [1], "as many low as high bounds"),
    ],
)
def test_invalid_intervals_are_refused(low: list[float], high: list[float], words: str) -> None:
    with pytest.raises(FeatureError, match=words):
        Intervals((np.array(low, np.float32),), (np.array(high, np.float32),))


def test_every_feature_has_separate_codes() -> None:
    points = np.array([3, 5], np.float32)
    numeric = Intervals.from_cuts([[1, 2]])
    intervals = Intervals((*numeric.lows, below(points)), (*numeric.highs, points))
    rows = [[0, 3], [1.5, 5], [9, below(5)], [-np.inf, 4], [np.nan, 6]]
    assert intervals.encode(rows).tolist() == [[0, 0], [1, 1], [2, 2], [3, 2], [3, 2]]


def test_replacing_the_cuts_of_one_feature() -> None:
    old = Intervals.from_cuts([[1], [2], [3]])
    new = old.replace(1, [5, 4])
    assert [high.tolist() for high in new.highs] == [[1, np.inf], [4, 5, np.inf], [3, np.inf]]
    assert [low.tolist() for low in new.lows] == [[-np.inf, 1], [-np.inf, 4, 5], [-np.inf, 3]]
    assert old.highs[1].tolist() == [2, np.inf]


@given(
    cuts=st.lists(FLOATS, max_size=12, unique=True),
    values=arrays(np.float32, st.integers(1, 30), elements=FLOATS),
)
def test_every_number_lies_in_exactly_the_interval_of_its_code(cuts: list[float], values) -> None:
    intervals = Intervals.from_cuts([cuts])
    codes = intervals.encode(values[:, None])[:, 0]
    inside = (values[:, None] > intervals.lows[0]) & (values[:, None] <= intervals.highs[0])
    assert (inside.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(inside.argmax(axis=1), codes)


@given(FLOATS)
def test_below_and_above_are_neighbours(value: float) -> None:
    assert below(value) < np.float32(value) < above(value)
    assert above(below(value)) == np.float32(value)
