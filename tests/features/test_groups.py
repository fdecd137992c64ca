"""Groups of choices: regions worked out by hand, names files, and properties of all values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.features import (
    Action,
    ActionGroup,
    Feature,
    FeatureError,
    FeatureSpace,
    GroupLink,
    Regions,
    choices_of,
    cut_choices,
    is_cut,
    move_to,
    scores_of,
)

STEER = Regions(-1.0, 1.0, (-0.25, 0.5), (-0.75, 0.0, 1.0), spread=0.5)
SHIFT = (ActionGroup("steer", 0, 3, STEER), ActionGroup("gear", 3, 2))
FLOATS = st.floats(-1.0, 1.0, width=32)


def uncut(*bounds: tuple[float, float], names: tuple[str, ...] = ("low", "middle", "high")) -> FeatureSpace:
    n = len(names)
    actions = [Action(f"g{i}.{name}") for i in range(len(bounds)) for name in names]
    groups = [ActionGroup(f"g{i}", n * i, n, Regions(*ends)) for i, ends in enumerate(bounds)]
    return FeatureSpace((Feature("x"),), tuple(actions), tuple(groups))


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def cut(space: FeatureSpace, *values: float, mirrored: bool = False) -> Regions:
    """Return the regions of the first group, cut by recorded values."""
    regions = cut_choices(space, column(*values), [GroupLink(0, 0, True)] if mirrored else []).groups[0].regions
    assert regions is not None
    return regions


def test_a_region_includes_its_upper_end() -> None:
    assert STEER.region_of([-1.0, -0.25, -0.2, 0.5, 0.51, 1.0]).tolist() == [0, 0, 1, 1, 2, 2]


def test_scores_are_distances_to_the_edge_in_spreads() -> None:
    # 0.25 is 0.5 above the lower cut and 0.25 below the upper one.
    assert STEER.scores([0.25]).tolist() == [[-1.0, 0.5, -0.5]]
    # Only the inner bound of the outer regions counts.
    assert STEER.scores([-1.0]).tolist() == [[1.5, -1.5, -3.0]]
    # On a cut both neighbours have 0, and the lower one is first.
    assert STEER.scores([0.5]).argmax() == 1


def test_actions_become_choices_of_all_groups_and_scores() -> None:
    actions = np.array([[-0.5, 1.0], [0.75, 0.0]], np.float32)
    assert choices_of(SHIFT, actions).tolist() == [[0, 4], [2, 3]]
    assert scores_of(SHIFT, actions)[:, 3:].tolist() == [[0, 1], [1, 0]]


def test_values_in_the_region_stay_to_the_bit_and_others_become_typical() -> None:
    actions = np.array([[-0.3, 1], [0.3, 0]], np.float32)
    moved = move_to(SHIFT, actions, np.array([[0, 3], [2, 3]]))
    assert moved.tolist() == [[np.float32(-0.3), 0], [1.0, 0]]


def test_the_nearest_point_of_a_region_is_an_option() -> None:
    moved = move_to(SHIFT[:1], column(0.3, 0.3, 0.3), np.array([[0], [1], [2]]), "nearest")
    assert moved[0, 0] == np.float32(-0.25)
    assert moved[1, 0] == np.float32(0.3)
    assert moved[2, 0] == np.nextafter(np.float32(0.5), np.float32(1))
    assert choices_of(SHIFT[:1], moved).tolist() == [[0], [1], [2]]


@given(st.lists(FLOATS, min_size=2, max_size=40), st.booleans(), st.integers(2, 5), st.lists(FLOATS, max_size=20))
def test_the_best_score_is_that_of_the_region_of_an_action(recorded, negated, count, more) -> None:
    names = tuple(f"r{i}" for i in range(count))
    space = cut_choices(uncut((-1, 1), names=names), column(*recorded), [GroupLink(0, 0, True)] if negated else [])
    values = column(*recorded, *more, -1.0, 1.0)
    chosen = choices_of(space.groups, values)
    assert (scores_of(space.groups, values).argmax(axis=1) == chosen[:, 0]).all()
    regions = space.groups[0].regions
    assert regions is not None
    # Every typical action lies in its region.
    assert regions.region_of(regions.typical).tolist() == list(range(len(space.actions)))


@given(st.lists(FLOATS, min_size=1, max_size=40), st.lists(FLOATS, max_size=20))
def test_mirrored_regions_are_exact_images(recorded, more) -> None:
    regions, values = cut(uncut((-1, 1)), *recorded, mirrored=True), column(*recorded, *more)
    assert (regions.region_of(-values) == len(regions.typical) - 1 - regions.region_of(values)).all()
    assert [-value for value in reversed(regions.typical)] == list(regions.typical)


@pytest.mark.parametrize(
    ("bounds", "recorded", "cuts", "typical"),
    [
        # Midway between the actions at thirds; the lower median is an action that was taken.
        ((-1, 1), [-0.5, -0.25, 0, 0.25, 0.5, 1], (-0.125, 0.375), (-0.5, 0.0, 0.5)),
        # Tied quantiles merge.
        ((-1, 1), [*[-1.0] * 8, 0.0, 1.0], (-0.5,), (-1.0, 0.0)),
        # An action that is taken most of the time is a separate region.
        ((-1, 1), [-1.0, *[0.0] * 8, 1.0], (-0.5, 0.5), (-1.0, 0.0, 1.0)),
        # A part that never varies is cut into thirds of its range.
        ((0, 3), [2.5, 2.5], (1.0, 2.0), (0.5, 1.5, 2.5)),
    ],
)
def test_cuts_by_hand(bounds, recorded, cuts, typical) -> None:
    regions = cut(uncut(bounds), *recorded)
    assert (regions.cuts, regions.typical) == (cuts, typical)


def test_nearly_equal_values_make_no_regions() -> None:
    nearly = np.float32(1) - np.float32([1e-4, 1e-5, 1e-6, 0])
    space = cut_choices(uncut((-1, 1)), column(-1.0, 0.5, *nearly))
    assert space.action_names == ("g0.low", "g0.high")
    assert space.groups[0].regions.cuts == (pytest.approx(0.75, abs=1e-3),)  # type: ignore[union-attr]


def test_a_negated_part_is_cut_at_quantiles_of_its_size() -> None:
    regions = cut(uncut((-1, 1)), 0.1, -0.2, 0.4, 0.8, 0.9, 1.0, mirrored=True)
    assert regions.cuts is not None
    assert regions.cuts[1] == pytest.approx(0.3)
    assert regions.cuts[0] == np.nextafter(np.float32(-regions.cuts[1]), np.float32(-1))
    # Pooled and mirrored: 0.4, 0.8, 0.9 and 1.
    assert regions.typical == (-np.float32(0.8), 0.0, np.float32(0.8))


def test_a_policy_of_two_opposite_actions_has_a_middle_that_it_never_visits() -> None:
    assert cut(uncut((-1, 1)), -1.0, 1.0, 1.0, mirrored=True).typical == (-1.0, 0.0, 1.0)


def test_parts_that_a_relation_maps_to_each_other_share_cuts() -> None:
    actions = np.array([[-1.0, 0.0], [-0.5, 0.25], [0.0, 0.5], [0.5, 1.0]], np.float32)
    one, two = (
        group.regions for group in cut_choices(uncut((-1, 1), (-1, 1)), actions, [GroupLink(0, 1, False)]).groups
    )
    assert one == two
    apart = cut_choices(uncut((-1, 1), (-1, 1)), actions).groups
    assert apart[0].regions != apart[1].regions


def test_a_part_that_is_the_negative_of_another_has_mirrored_cuts() -> None:
    actions = np.array([[-1.0, 1.0], [-0.5, 0.5], [0.5, -0.5], [0.75, -0.75]], np.float32)
    space = cut_choices(uncut((-1, 1), (-1, 1)), actions, [GroupLink(0, 1, True)])
    mirrored = choices_of(space.groups, actions) - [0, 3]
    assert (mirrored[:, 0] == 2 - mirrored[:, 1]).all()


def test_groups_are_read_back_from_plain_data() -> None:
    space = cut_choices(uncut((-1, np.inf), (-1, 1)), np.array([[5.0, 0.0], [7.0, 0.5]], np.float32))
    assert is_cut(space)
    assert FeatureSpace.from_dict(space.to_dict()) == space
    early = uncut((-1, np.inf))
    assert not is_cut(early)
    assert FeatureSpace.from_dict(early.to_dict()) == early


def named(groups: object, actions: object = ()) -> FeatureSpace:
    return FeatureSpace.from_dict({"features": ["x"], "actions": list(actions), "groups": groups}, "names.toml")  # type: ignore[call-overload]


def test_a_names_file_gives_regions_and_words() -> None:
    steer = {"left": [-1, -0.3], "straight": [-0.3, 0.3], "right": [0.3, 1]}
    space = named({"steer": steer, "gear": ["first", "second"]}, [{"name": "gear.first", "words": "change down"}])
    assert space.action_names == ("steer.left", "steer.straight", "steer.right", "gear.first", "gear.second")
    assert [action.label for action in space.actions][2:4] == ["steer right", "change down"]
    assert space.groups[0].regions == Regions(-1.0, 1.0, (-0.3, 0.3))
    assert space.group_of(3) == 1


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"steer": {"left": [-1, 0], "right": [-0.5, 1]}}, "'left' and 'right' overlap between -0.5 and 0"),
        ({"steer": {"left": [-1, 0], "right": [0.5, 1]}}, "'left' and 'right' leave a gap from 0 to 0.5"),
        ({"steer": {"left": [0, -1], "right": [0, 1]}}, "region 'left' is empty: its bounds are 0 and -1"),
        ({"steer": {"left": 3, "right": [0, 1]}}, r"given by its two bounds, \[low, high\], got 3"),
        ({"steer": {"left": [-1, 1]}}, "'steer' needs at least 2 choices, got 1"),
        ({"steer": 3}, "expected a list of names, or a table"),
        ({}, "expected a table of groups"),
        ({"steer": ["a b", "c"]}, "cannot be used"),
    ],
)
def test_invalid_groups_are_refused_in_one_line(groups: object, message: str) -> None:
    with pytest.raises(FeatureError, match=message) as refused:
        named(groups)
    assert "\n" not in str(refused.value)


def test_error_messages(raises_saved) -> None:
    with raises_saved(FeatureError):
        named({"gear": ["first", "third"]}, ["gear.thrid"])
    with raises_saved(FeatureError):
        asymmetric = named({"steer": {"left": [-1, -0.5], "straight": [-0.5, 0.25], "right": [0.25, 1]}})
        cut(asymmetric, 0.0, mirrored=True)


def test_given_regions_stay_but_become_exact_images_where_a_relation_mirrors_them() -> None:
    space = named({"steer": {"left": [-1, -0.5], "straight": [-0.5, 0.5], "right": [0.5, 1]}})
    plain, mirrored = (cut(space, -0.75, 0.0, 1.0, mirrored=mirrored) for mirrored in (False, True))
    assert plain.cuts == (-0.5, 0.5)
    assert plain.typical == (-0.75, 0.0, 1.0)
    assert mirrored.region_of([-0.5, 0.5]).tolist() == [1, 1]
    assert mirrored.typical == (-0.75, 0.0, 0.75)
