"""Names, kinds and intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from legible.errors import did_you_mean
from legible.features import (
    Action,
    Feature,
    FeatureError,
    FeatureSpace,
    Intervals,
    above,
    below,
    deciles,
    equal_width,
)
from legible_envs.pacman import pacman_features

FLOATS = st.floats(-1e6, 1e6, width=32)


def one(kind: str = "numeric", **more: object) -> FeatureSpace:
    return FeatureSpace((Feature("x", kind, **more),), (Action("Go"),))


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


@pytest.mark.parametrize("name", ["", "two words", "1st", "a&b", "a<b", "not", "a,b", "a=b"])
def test_names_that_could_not_be_read_back_are_refused(name: str) -> None:
    with pytest.raises(FeatureError, match="cannot be used"):
        Feature(name)


def test_names_must_differ(raises_saved) -> None:
    with raises_saved(FeatureError):
        FeatureSpace.of(["a", "b", "a"])


def test_unknown_names_get_the_nearest_ones(raises_saved) -> None:
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


@pytest.mark.parametrize("space", [pacman_features(2), pacman_features(4), one(cuts=(-0.5, 0.5), sentinels=(-1.0,))])
def test_a_space_survives_plain_data(space: FeatureSpace) -> None:
    assert FeatureSpace.from_dict(space.to_dict()) == space


def test_phrases_for_large_and_fractional_values_survive_plain_data() -> None:
    space = one("categorical", values={1234567: "many", 0.1: "a tenth"})
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
        ("features = [3]", r"features\[0\]: a name or a table"),
        ("feature = ['x']", "unknown key 'feature'"),
        ("[[features]\nname = 'x'", "is not valid TOML: .*line 1"),
    ],
)
def test_wrong_files_are_refused_with_the_place(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "names.toml"
    path.write_text(text)
    with pytest.raises(FeatureError, match=message) as caught:
        FeatureSpace.from_toml(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(FeatureError, match="No such file"):
        FeatureSpace.from_toml(tmp_path / "no.toml")


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


def test_equal_deciles_are_merged() -> None:
    intervals = deciles(one(), column(*[0.0] * 95, *[1.0, 2.0, 3.0, 4.0, 5.0]))
    assert intervals.highs[0].tolist() == [0.0, np.inf]


def test_categories_are_their_values_and_nothing_between() -> None:
    space = one("categorical", values={7: "seven"})
    intervals = deciles(space, column(0, 1, 3, 1))
    assert intervals.highs[0].tolist() == [0, 1, 3, 7]
    codes = intervals.encode(column(0, 1, 3, 7, 2, 0.5, np.nan, -1, 8, np.inf))[:, 0]
    assert codes.tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4]


def test_a_sentinel_has_an_interval_of_its_own_and_no_part_in_the_deciles() -> None:
    data = column(*[-1.0] * 500, *range(1, 11))
    intervals = deciles(one(sentinels=(-1.0,)), data)
    low, high = intervals.lows[0], intervals.highs[0]
    k = int(intervals.encode(column(-1.0))[0, 0])
    assert (low[k], high[k]) == (below(-1.0), -1.0)
    expected = np.percentile(np.arange(1, 11), np.arange(10, 100, 10)).astype(np.float32)
    np.testing.assert_array_equal(high[-10:-1], expected)


def test_fixed_cuts_are_kept() -> None:
    assert deciles(one(cuts=(-0.5, 0.5)), column(1, 2, 3)).highs[0].tolist() == [-0.5, 0.5, np.inf]


def test_equal_width() -> None:
    intervals = equal_width(one(), column(0.3), low=-1, high=1)
    np.testing.assert_array_equal(intervals.highs[0][:-1], np.linspace(-0.8, 0.8, 9).astype(np.float32))
    assert intervals.sizes.tolist() == [10]
    by_data = equal_width(one(), column(0, 10), bins=2)
    assert by_data.highs[0].tolist() == [5.0, np.inf]
    assert equal_width(one(), column(0, 10), bins=1).highs[0].tolist() == [np.inf]
    with pytest.raises(FeatureError, match="bins"):
        equal_width(one(), column(0), bins=0)


def test_a_feature_that_never_varies_or_is_never_a_number_has_intervals() -> None:
    assert deciles(one(), column(2, 2)).highs[0].tolist() == [2.0, np.inf]
    assert deciles(one(), column(np.nan)).sizes.tolist() == [1]
    assert equal_width(one(), column(np.nan)).highs[0].tolist() == [0.0, np.inf]


def test_there_is_one_zero_among_the_categories() -> None:
    (values,) = deciles(one("categorical"), column(0.0, -0.0, 1.0)).highs
    assert values.tolist() == [0, 1]
    assert not np.signbit(values).any()


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([0, 1], [2, 3], "must not overlap"),
        ([0, 2, 3], [2, 4, 5], "must not overlap"),
        ([1], [1], "must rise"),
        ([], [], "at least one interval"),
        ([0, 1], [1], "as many low as high ends"),
    ],
)
def test_intervals_that_make_no_sense_are_refused(low: list[float], high: list[float], words: str) -> None:
    with pytest.raises(FeatureError, match=words):
        Intervals((np.array(low, np.float32),), (np.array(high, np.float32),))


def test_every_feature_has_numbers_of_its_own() -> None:
    points = np.array([3, 5], np.float32)
    numeric = Intervals.from_cuts([[1, 2]])
    intervals = Intervals((*numeric.lows, below(points)), (*numeric.highs, points))
    rows = [[0, 3], [1.5, 5], [9, below(5)], [-np.inf, 4], [np.nan, 6]]
    assert intervals.encode(rows).tolist() == [[0, 0], [1, 1], [2, 2], [3, 2], [3, 2]]


def test_a_feature_is_cut_anew() -> None:
    old = Intervals.from_cuts([[1], [2], [3]])
    new = old.replace(1, [5, 4])
    assert [high.tolist() for high in new.highs] == [[1, np.inf], [4, 5, np.inf], [3, np.inf]]
    assert [low.tolist() for low in new.lows] == [[-np.inf, 1], [-np.inf, 4, 5], [-np.inf, 3]]
    assert old.highs[1].tolist() == [2, np.inf]


@given(
    cuts=st.lists(FLOATS, max_size=12, unique=True),
    values=arrays(np.float32, st.integers(1, 30), elements=FLOATS),
)
def test_every_number_lies_in_the_interval_that_encode_names_and_in_no_other(cuts: list[float], values) -> None:
    intervals = Intervals.from_cuts([cuts])
    codes = intervals.encode(values[:, None])[:, 0]
    inside = (values[:, None] > intervals.lows[0]) & (values[:, None] <= intervals.highs[0])
    assert (inside.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(inside.argmax(axis=1), codes)


@given(FLOATS)
def test_below_and_above_are_neighbours(value: float) -> None:
    assert below(value) < np.float32(value) < above(value)
    assert above(below(value)) == np.float32(value)
