"""Metamorphic relations: examples of the paper, laws of generalising, shared cuts, images of states."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from legible.features import Feature, FeatureSpace, Intervals, above, below
from legible.relations import (
    ANY,
    EQUAL,
    NEGATE,
    Affine,
    FeatureRelation,
    MetamorphicRelation,
    RelationError,
    ValueTable,
    by_name,
    generalise,
    load_relations,
    map_states,
    reflect,
    share_cuts,
    shipped_relations,
)
from legible.rules import Condition, Rule, RuleSet, parse_rule
from legible_envs.pacman.features import pacman_features

NORTH, SOUTH, EAST, WEST, STOP = range(5)
PACMAN = pacman_features(2)
TURN = load_relations(shipped_relations("legible/PacmanSmall-v0")[0].path, PACMAN)


def rule(text: str) -> Rule:
    return parse_rule(text, PACMAN)


def rules_of(made: object) -> set[Rule]:
    return set(made.rules)


# --- The paper's running example -------------------------------------------------------------------------------------

FR = FeatureRelation(0, 2, 62, 64, EQUAL)
RHO_1 = Rule("-", 0, (Condition.equals(62, 0),))
RHO_2 = Rule("-", 2, (Condition.equals(64, 0),))


def test_the_running_example_is_generalised():
    mr = MetamorphicRelation.of([FR])
    assert generalise(RHO_1, [mr]) == RuleSet((RHO_1, RHO_2), source=RHO_1)
    assert generalise(RHO_2, [mr]).rules == (RHO_2,)


# --- The appendix, relation by relation ------------------------------------------------------------------------------

APPENDIX_ACTIONS = [(0, 2), (2, 1), (1, 3), (3, 0)]
APPENDIX_PAIRS = [
    *[(2, 4), (3, 5), (4, 3), (5, 2)],
    *[(9, 11), (10, 12), (11, 10), (12, 9)],
    *[(15, 17), (16, 18), (17, 19), (18, 20), (19, 21), (20, 22), (21, 15), (22, 16)],
    *[(23, 25), (24, 26), (25, 24), (26, 23)],
    *[(29, 31), (30, 32), (31, 30), (32, 29)],
    *[(39, 41), (40, 42), (41, 43), (42, 44), (43, 45), (44, 46), (45, 39), (46, 40)],
    *[(47, 49), (48, 50), (49, 48), (50, 47)],
    *[(53, 55), (54, 56), (55, 54), (56, 53)],
    *[(62, 64), (63, 65), (64, 63), (65, 62)],
]
APPENDIX_IGNORED = [67, 68, 36, 37, 60, 61]


@pytest.mark.parametrize(("a", "b"), APPENDIX_ACTIONS)
def test_the_turn_is_the_appendix(a, b):
    (relation,) = [r for r in TURN if r.action == a]
    expected = {FeatureRelation(a, b, i, j, EQUAL) for i, j in APPENDIX_PAIRS}
    expected |= {FeatureRelation(a, b, c, c, ANY) for c in APPENDIX_IGNORED}
    assert (relation.action, relation.image_action) == (a, b)
    assert set(relation.features) == expected
    assert relation.ignored == set(APPENDIX_IGNORED)


def test_the_turn_for_four_ghosts():
    space = pacman_features(4)
    turn = load_relations(shipped_relations("legible/PacmanOriginal-v0")[0].path, space)
    general = {(i, j) for i, j in APPENDIX_PAIRS if i < 14}
    ghost = {(i - 14, j - 14) for i, j in APPENDIX_PAIRS if 14 <= i < 38}
    pairs = general | {(14 + 24 * k + i, 14 + 24 * k + j) for k in range(4) for i, j in ghost}
    pairs |= {(110, 112), (111, 113), (112, 111), (113, 110)}
    ignored = {14 + 24 * k + i for k in range(4) for i in (22, 23)} | {115, 116}
    assert [(r.action, r.image_action) for r in turn] == [(0, 2), (2, 1), (1, 3), (3, 0)]
    for relation in turn:
        equal = {(fr.feature, fr.image_feature) for fr in relation.features if fr.relation == EQUAL}
        assert equal == pairs
        assert relation.ignored == ignored
        assert len(relation.features) == len(pairs) + len(ignored)


def test_the_four_rules_written_out():
    texts = [
        f"+{action.title()} <- food.{action} & not open.{left} & ghost1.heading.stop & 2 < ghost0.length <= 5"
        for action, left in (("north", "west"), ("east", "north"), ("south", "east"), ("west", "south"))
    ]
    assert rules_of(generalise(rule(texts[0]), TURN)) == set(map(rule, texts))


def test_one_rule_for_stop():
    stop = rule("-Stop <- food.north & pacman.x <= 3")
    made = generalise(stop, TURN)
    assert made == RuleSet((stop,), source=stop)


def test_coordinates_are_removed_from_the_rule_itself_too():
    given_rule = rule("+North <- food.north & pacman.x <= 3 & 2 < ghost1.y <= 4")
    made = generalise(given_rule, TURN)
    assert made.source == given_rule
    assert made.rules[0] == rule("+North <- food.north")
    assert rules_of(made) == {rule(f"+{d.title()} <- food.{d}") for d in ("north", "east", "south", "west")}


def test_a_rule_with_nothing_but_coordinates_is_reported():
    given_rule = rule("+North <- pacman.x <= 3")
    made = generalise(given_rule, TURN)
    assert made == RuleSet((), source=given_rule)


# --- Value relations -------------------------------------------------------------------------------------------------

finite = st.floats(-1e6, 1e6, width=32)


@st.composite
def conditions(draw, feature=0):
    shape = draw(st.sampled_from(["both", "low", "high", "value"]))
    low, high = sorted((draw(finite), draw(finite)))
    if shape == "value" or low == high:
        return Condition.equals(feature, high)
    return Condition(feature, -np.inf if shape == "high" else low, np.inf if shape == "low" else high)


def holds(condition: Condition, value: float) -> bool:
    return bool(np.float32(condition.low) < np.float32(value) <= np.float32(condition.high))


def near(condition: Condition, values: list[float]) -> list[float]:
    """Return the given values, the bounds and their neighbours."""
    ends = [end for end in (condition.low, condition.high) if np.isfinite(end)]
    return [*values, *ends, *map(float, above(ends)), *map(float, below(ends))]


@given(conditions(), st.lists(finite, max_size=4))
def test_negation_is_exact(condition, values):
    (image,) = NEGATE.images(condition, 7)
    assert image.feature == 7
    assert NEGATE.images(image, 0) == (condition,)
    for x in near(condition, values):
        assert holds(condition, x) == holds(image, -x)


@pytest.mark.parametrize(
    ("affine", "low", "high"),
    [
        (Affine(2.0), 2.0, 6.0),
        (Affine(-2.0), float(below(-6.0)), float(below(-2.0))),
        (Affine(0.5), 0.5, 1.5),
    ],
)
def test_maps_without_rounding_by_hand(affine, low, high):
    assert affine.images(Condition(0, 1.0, 3.0), 4) == (Condition(4, low, high),)
    assert affine.settle(1.0) == 1.0
    assert affine.source_cut(affine.image_cut(1.0)) == 1.0


def test_images_of_cuts_beyond_the_largest_number():
    assert Affine(10.0).image_cut(3e38) == np.inf
    assert Affine(10.0).image_cut(-3e38) == -np.inf
    assert Affine(-10.0).image_cut(3e38) == -np.inf
    # At 0.9 times the largest number the next cut that maps there and back would be infinite: take the one before it.
    largest = float(np.finfo(np.float32).max)
    settled = Affine(0.9).settle(largest)
    assert Affine(0.9).source_cut(Affine(0.9).image_cut(settled)) == settled < largest


def test_there_is_one_zero():
    for zero in (NEGATE.apply(0.0), NEGATE.undo(0.0), Affine(2.0).image_cut(0.0), Affine(2.0).source_cut(0.0)):
        assert not np.signbit(zero)
    assert Affine(2.0, -0.0).text == "2 · x + 0"
    assert ValueTable(((-0.0, 1),)).text == "0→1"


def test_tables_by_hand():
    table = ValueTable(((0, 1), (2, 3), (2, 4)))
    assert table.forth == {0: (1,), 2: (3, 4)}
    images, known = ValueTable(((0, 1), (1, 5), (3, 0))).map_values(np.array([3, 1, 2, 0, 9, -1], np.float32))
    assert known.tolist() == [True, True, False, True, False, False]
    assert images[known].tolist() == [0, 5, 1]


abouts = st.one_of(st.sampled_from([0.25, 1 / 3, 0.375, -0.5235987755982988, 3.5]), st.floats(-1e4, 1e4, width=32))
affines = st.one_of(
    st.builds(reflect, abouts),
    st.builds(Affine, st.just(1.0), st.floats(-1e4, 1e4)),
    st.builds(Affine, st.floats(0.125, 8.0), st.floats(-100, 100)),
    st.builds(Affine, st.floats(-8.0, -0.125), st.floats(-100, 100)),
)


@given(affines, conditions(), st.lists(finite, max_size=4))
def test_the_image_holds_where_the_condition_held(affine, condition, values):
    """Exact for every value, whatever the map's rounding (single values apart, which go to single values)."""
    if condition.value is not None:
        (image,) = affine.images(condition, 1)
        assert image.value == float(affine.apply(condition.value))
        return
    for image in affine.images(condition, 1):
        assert image.value is None
        for y in near(image, values):
            assert holds(image, y) == holds(condition, float(affine.undo(y)))


@given(affines, conditions())
def test_only_intervals_narrower_than_the_rounding_have_no_image(affine, condition):
    if not affine.images(condition, 1):
        assert np.isfinite([condition.low, condition.high]).all()
        lowest, highest = sorted(affine.apply([condition.low, condition.high]))
        assert highest <= np.nextafter(lowest, np.float32(np.inf)) + np.spacing(lowest)


@given(affines, finite)
def test_a_settled_cut_maps_there_and_back(affine, cut):
    settled = affine.settle(cut)
    assert settled >= cut
    assert affine.source_cut(affine.image_cut(settled)) == settled
    assert affine.settle(settled) == settled
    on_image = affine.settle(cut, on_image=True)
    assert affine.image_cut(affine.source_cut(on_image)) == on_image


@given(st.builds(reflect, abouts), finite)
def test_settling_keeps_the_value_at_the_cut_and_moves_less_than_the_rounding(mirror, cut):
    settled = mirror.settle(cut)
    rounding = np.spacing(np.float32(max(abs(cut), abs(float(mirror.apply(cut))), abs(mirror.shift))))
    assert cut <= settled <= cut + rounding


def test_reflection_by_hand():
    about_three = reflect(3.0)
    assert float(about_three.apply(1.0)) == 5.0
    (image,) = about_three.images(Condition(0, 4.0, 5.0), 0)
    assert [holds(image, y) for y in (0.75, 1.0, 1.5, 2.0)] == [False, True, True, False]
    assert about_three.images(Condition.equals(0, 1.0), 0) == (Condition.equals(0, 5.0),)


def test_an_interval_narrower_than_the_rounding_has_no_image():
    far = Affine(1.0, 1e8)
    assert far.images(Condition(0, 1.0, 1.5), 0) == ()
    # Numbers of that size are 8 apart: one number is left of the second interval, two of the third.
    assert far.images(Condition(0, 1.0, 9.0), 0) == ()
    assert far.images(Condition(0, 1.0, 17.0), 0) == (Condition(0, 1e8, 1e8 + 16),)


def test_invalid_values_are_refused():
    for bad in ({"scale": 0.0}, {"scale": np.inf}, {"scale": 1.0, "shift": np.nan}):
        with pytest.raises(RelationError):
            Affine(**bad)
    for pairs in ((), ((0, np.inf),)):
        with pytest.raises(RelationError):
            ValueTable(pairs)


# --- Generalising ----------------------------------------------------------------------------------------------------


def test_every_image_of_a_value_gives_a_rule():
    several = ValueTable(((0, 1), (0, 2), (3, 4)))
    mr = MetamorphicRelation(0, 1, (FeatureRelation(0, 1, 0, 0, several), FeatureRelation(0, 1, 1, 1, several)))
    start = Rule("+", 0, (Condition.equals(0, 0), Condition.equals(1, 0)))
    images = {Rule("+", 1, (Condition.equals(0, x), Condition.equals(1, y))) for x in (1, 2) for y in (1, 2)}
    assert rules_of(generalise(start, [mr])) == {start} | images


@pytest.mark.parametrize("condition", [Condition.equals(0, 7), Condition(0, 0, 5)])
def test_a_condition_that_is_not_in_the_table_drops_the_image(condition):
    mr = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 0, ValueTable(((0, 1),)))], name="map")
    start = Rule("+", 0, (condition,))
    made = generalise(start, [mr])
    assert made.rules == (start,)


def test_a_condition_on_a_feature_that_only_is_an_image_drops_the_image():
    mr = MetamorphicRelation.of([FR])
    start = Rule("-", 0, (Condition.equals(62, 0), Condition.equals(64, 1)))
    assert generalise(start, [mr]).rules == (start,)


def test_an_unmapped_feature_drops_the_image():
    mr = MetamorphicRelation(0, 1, (), unmapped=(3,))
    start = Rule("-", 0, (Condition.equals(3, 0),))
    other = Rule("-", 0, (Condition.equals(2, 0),))
    assert generalise(start, [mr]).rules == (start,)
    assert len(generalise(other, [mr])) == 2


def test_features_that_are_not_named_stay():
    mr = MetamorphicRelation(0, 1)
    start = Rule("-", 0, (Condition(5, 1, 2),))
    assert generalise(start, [mr]).rules == (start, Rule("-", 1, (Condition(5, 1, 2),)))


def test_ignored_features_of_relations_that_apply_later_are_removed_too():
    first = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 2)])
    second = MetamorphicRelation.of([FeatureRelation(1, 2, 3, 3, ANY)])
    elsewhere = MetamorphicRelation.of([FeatureRelation(4, 4, 0, 0, ANY)])
    start = Rule("+", 0, (Condition.equals(0, 1), Condition.equals(3, 1)))
    made = generalise(start, [first, second, elsewhere])
    assert [r.features for r in made.rules] == [(0,), (2,), (2,)]


def test_images_lose_what_another_relation_ignores():
    first = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 3)])
    second = MetamorphicRelation.of([FeatureRelation(1, 2, 3, 3, ANY)])
    start = Rule("+", 0, (Condition.equals(0, 1), Condition.equals(5, 1)))
    made = generalise(start, [first, second])
    assert [(r.action, r.features) for r in made.rules] == [(0, (0, 5)), (1, (5,)), (2, (5,))]
    # With nothing else in its body the image says nothing, so there is none.
    alone = Rule("+", 0, (Condition.equals(0, 1),))
    assert generalise(alone, [first, second]).rules == (alone,)


def test_more_rules_than_allowed_are_refused(raises_saved):
    drift = MetamorphicRelation(0, 0, (FeatureRelation(0, 0, 0, 0, Affine(1.0, 1.0)),), name="drift")
    with raises_saved(RelationError):
        generalise(Rule("+", 0, (Condition(0, 0, 1),)), [drift])
    many = ValueTable(tuple((0, y) for y in range(10)))
    burst = MetamorphicRelation(0, 1, tuple(FeatureRelation(0, 1, i, i, many) for i in range(40)))
    with pytest.raises(RelationError, match="more than 256"):
        generalise(Rule("+", 0, tuple(Condition.equals(i, 0) for i in range(40))), [burst])


def test_invalid_relations_are_refused(raises_saved):
    with raises_saved(RelationError):
        MetamorphicRelation(0, 1, (FeatureRelation(0, 3, 0, 0),), name="odd")
    with raises_saved(RelationError):
        MetamorphicRelation(0, 1, (FeatureRelation(0, 1, 0, 1), FeatureRelation(0, 1, 0, 2)), name="twice")
    with raises_saved(RelationError):
        MetamorphicRelation(0, 1, (FeatureRelation(0, 1, 0, 2), FeatureRelation(0, 1, 1, 2)))
    with raises_saved(RelationError):
        MetamorphicRelation(0, 1, (FeatureRelation(0, 1, 0, 2),), unmapped=(0,))
    with pytest.raises(RelationError, match="must not be negative"):
        FeatureRelation(0, -1, 0, 0)
    with pytest.raises(RelationError, match="needs actions"):
        MetamorphicRelation.of([])


# --- Laws ------------------------------------------------------------------------------------------------------------


@st.composite
def pacman_rules(draw, actions=(NORTH, SOUTH, EAST, WEST, STOP)):
    features = draw(st.sets(st.integers(0, len(PACMAN) - 1), min_size=1, max_size=6))
    body = []
    for i in sorted(features):
        if PACMAN[i].kind == "categorical":
            body.append(Condition.equals(i, draw(st.sampled_from([0.0, 1.0]))))
        else:
            low = draw(st.integers(0, 9))
            body.append(Condition(i, low, low + draw(st.integers(1, 3))))
    return Rule(draw(st.sampled_from("+-")), draw(st.sampled_from(actions)), tuple(body))


def files(env: str, *names: str) -> tuple[MetamorphicRelation, ...]:
    shipped = {file.name: file.path for file in shipped_relations(env)}
    return tuple(r for name in names for r in load_relations(shipped[name], PACMAN))


MIRRORS = files("legible/PacmanSmall-v0", "mirror-east-west", "mirror-north-south")
EXCHANGE = files("legible/PacmanSmall-v0", "exchange-2-ghosts")
ALL = (*TURN, *MIRRORS, *EXCHANGE)


@pytest.mark.parametrize("relations", [TURN, MIRRORS, EXCHANGE, ALL], ids=["turn", "mirrors", "exchange", "all"])
@given(start=pacman_rules())
@settings(max_examples=40, deadline=None)
def test_any_rule_of_the_set_gives_the_set(relations, start):
    made = generalise(start, relations)
    assert made.source == start
    assert all(r.polarity == start.polarity for r in made.rules)
    assert len(rules_of(made)) == len(made) <= 16
    for member in made.rules:
        assert rules_of(generalise(member, relations)) == rules_of(made)


@given(pacman_rules(actions=(NORTH, SOUTH, EAST, WEST)), st.data())
@settings(max_examples=60, deadline=None)
def test_a_rule_triggers_exactly_where_its_image_triggers_in_the_image(start, data):
    made = generalise(start, ALL).rules
    seed = data.draw(st.integers(0, 2**32 - 1))
    states = random_states(np.random.default_rng(seed), made)
    for member in made:
        for relation in ALL:
            if relation.action == member.action:
                image = generalise(member, [relation]).rules[-1]
                images, defined = map_states(relation, states)
                assert defined.all()
                assert np.array_equal(member.matches(states), image.matches(images))


def random_states(rng: np.random.Generator, rules) -> np.ndarray:
    """Return random states, and for each rule a state in which it triggers."""
    states = rng.integers(0, 12, (20, len(PACMAN))).astype(np.float32)
    flags = [i for i, feature in enumerate(PACMAN.features) if feature.kind == "categorical"]
    states[:, flags] = rng.integers(0, 2, (20, len(flags)))
    triggered = states[: len(rules)].copy()
    for row, r in zip(triggered, rules, strict=False):
        for condition in r.conditions:
            row[condition.feature] = condition.high
    return np.concatenate([states, triggered])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_four_turns_and_two_mirrors_are_the_identity(seed):
    states = np.random.default_rng(seed).normal(size=(5, len(PACMAN))).astype(np.float32)
    turned = states
    for relation in TURN:
        turned, _ = map_states(relation, turned)
    assert np.array_equal(turned, states)
    assert not np.array_equal(map_states(TURN[0], states)[0], states)
    for mirror in MIRRORS:
        back = next(r for r in MIRRORS if r.name == mirror.name and r.action == mirror.image_action)
        assert np.array_equal(map_states(back, map_states(mirror, states)[0])[0], states)


@st.composite
def mirrored_rules(draw):
    """Rules on a negated feature, a reflected one and one that stays."""
    body = [draw(conditions(feature)) for feature in sorted(draw(st.sets(st.integers(0, 2), min_size=1)))]
    return Rule(draw(st.sampled_from("+-")), draw(st.integers(0, 2)), tuple(body))


@given(mirrored_rules(), abouts, st.lists(finite, min_size=3, max_size=6))
def test_the_laws_of_mirrors_with_any_middle(start, about, values):
    mirror = tuple(
        MetamorphicRelation(
            a, b, (FeatureRelation(a, b, 0, 0, NEGATE), FeatureRelation(a, b, 1, 1, reflect(about))), name="mirror"
        )
        for a, b in ((0, 1), (1, 0), (2, 2))
    )
    made = generalise(start, mirror).rules
    # A single value or a very narrow interval may be rounded away by the reflection.
    assume(not any(c.feature == 1 and c.value is not None for c in start.conditions))
    maps = {0: NEGATE, 1: reflect(about)}
    assume(all(maps[c.feature].images(c, c.feature) for r in made for c in r.conditions if c.feature in maps))
    assert 1 <= len(made) <= 2
    for member in made:
        assert rules_of(generalise(member, mirror)) == set(made)
        axes = [near(c, values) for c in member.conditions] or [values]
        states = np.zeros((max(map(len, axes)), 3), np.float32)
        for c, axis in zip(member.conditions, axes, strict=True):
            states[:, c.feature] = np.resize(np.array(axis, np.float32), len(states))
        (relation,) = [r for r in mirror if r.action == member.action]
        image = generalise(member, [relation]).rules[-1]
        assert np.array_equal(member.matches(states), image.matches(map_states(relation, states)[0]))


# --- Shared cuts -----------------------------------------------------------------------------------------------------

SPACE = FeatureSpace(
    (Feature("a"), Feature("b"), Feature("c"), Feature("f", "categorical"), Feature("g", "categorical")), ()
)


def relations_on(*pairs) -> list[MetamorphicRelation]:
    return [MetamorphicRelation.of([FeatureRelation(0, 1, i, j, r) for i, j, r in pairs])]


def intervals(cuts, values=((0,), (1, 2))) -> Intervals:
    numeric = Intervals.from_cuts(cuts)
    points = [np.array(v, np.float32) for v in values]
    return Intervals((*numeric.lows, *map(below, points)), (*numeric.highs, *points))


def cuts_of(made: Intervals, feature: int) -> list[float]:
    return [float(high) for high in made.highs[feature][:-1]]


def test_equal_features_share_the_union():
    made = share_cuts(intervals([[1, 2], [2, 5], [7]]), SPACE, relations_on((0, 1, EQUAL), (3, 4, EQUAL)))
    assert cuts_of(made, 0) == cuts_of(made, 1) == [1, 2, 5]
    assert cuts_of(made, 2) == [7]
    assert made.highs[3].tolist() == made.highs[4].tolist() == [0, 1, 2]
    assert np.array_equal(made.lows[3], below(made.highs[3]))


def test_sharing_goes_on_over_several_relations():
    made = share_cuts(intervals([[1], [2], [3]]), SPACE, [*relations_on((0, 1, EQUAL)), *relations_on((1, 2, EQUAL))])
    assert cuts_of(made, 0) == cuts_of(made, 1) == cuts_of(made, 2) == [1, 2, 3]


def test_negated_cuts_are_mirrored():
    made = share_cuts(intervals([[1, 3], [9], [7]]), SPACE, relations_on((0, 0, NEGATE), (2, 2, ANY)))
    assert cuts_of(made, 0) == [float(below(-3)), float(below(-1)), 1, 3]
    assert cuts_of(made, 1) == [9]
    assert cuts_of(made, 2) == [7]
    for low, high in zip(made.lows[0], made.highs[0], strict=True):
        (image,) = NEGATE.images(Condition(0, low, high), 0)
        assert np.float32(image.low) in made.lows[0]
        assert np.float32(image.high) in made.highs[0]


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=8),
    st.lists(st.floats(-100, 100, width=32), max_size=8),
    st.builds(reflect, st.floats(-10, 10, width=32)),
)
@settings(max_examples=50, deadline=None)
def test_every_interval_has_an_image_among_the_intervals(first, second, mirror):
    made = share_cuts(intervals([first, second, [1]]), SPACE, relations_on((0, 1, mirror), (1, 0, mirror)))
    for i, j in ((0, 1), (1, 0)):
        for k, (low, high) in enumerate(zip(made.lows[i], made.highs[i], strict=True)):
            there = len(made.lows[j]) - 1 - k
            ends = (float(made.lows[j][there]), float(made.highs[j][there]))
            if high > above(low) and ends[1] > above(ends[0]):
                (image,) = mirror.images(Condition(i, float(low), float(high)), j)
                assert (image.low, image.high) == ends


def test_tables_share_values_and_single_them_out():
    table = ValueTable(((0, 5), (5, 6)))
    made = share_cuts(intervals([[3], [3], [3]]), SPACE, relations_on((0, 1, table), (3, 4, table)))
    assert cuts_of(made, 0) == [float(below(0)), 0, 3, float(below(5)), 5]
    assert cuts_of(made, 1) == [3, float(below(5)), 5, float(below(6)), 6]
    assert made.highs[3].tolist() == [0, 5]
    assert made.highs[4].tolist() == [1, 2, 5, 6]
    assert share_cuts(intervals([[3], [3], [3]]), SPACE, relations_on((3, 4, NEGATE))).highs[3].tolist() == [-2, -1, 0]


def test_scaled_features_share_cuts_forwards_and_backwards():
    # y = 4 x + 1: 1 and 2 become 5 and 9, and 13 comes from 3. Of the values 0 becomes 1, and 2 comes from 0.25.
    scaled = Affine(4.0, 1.0)
    made = share_cuts(intervals([[1, 2], [13], [7]]), SPACE, relations_on((0, 1, scaled), (3, 4, scaled)))
    assert cuts_of(made, 0) == [1, 2, 3]
    assert cuts_of(made, 1) == [5, 9, 13]
    assert made.highs[3].tolist() == [0, 0.25]
    assert made.highs[4].tolist() == [1, 2]


@pytest.mark.parametrize("affine", [Affine(0.3, 0.7), Affine(3.3, -0.1), Affine(-0.7, 100.0)])
def test_scaled_intervals_have_images_among_the_intervals(affine):
    rng = np.random.default_rng(0)
    given_cuts = [rng.normal(size=20), rng.normal(size=20), [1]]
    made = share_cuts(intervals(given_cuts), SPACE, relations_on((0, 1, affine)))
    # Cuts that the map rounds to the same place may become one.
    assert 35 <= len(cuts_of(made, 0)) == len(cuts_of(made, 1)) <= 40
    cuts = [affine.image_cut(cut) for cut in cuts_of(made, 0)]
    assert sorted(cuts) == cuts_of(made, 1)


def test_cuts_that_never_stop_moving_and_other_kinds_are_refused(raises_saved):
    with raises_saved(RelationError):
        share_cuts(intervals([[1], [2], [3]]), SPACE, relations_on((0, 0, Affine(1.0, 1.0))))
    with pytest.raises(RelationError, match="pairs 'a' with 'f'"):
        share_cuts(intervals([[1], [2], [3]]), SPACE, relations_on((0, 3, EQUAL)))


# --- Images of states, and text --------------------------------------------------------------------------------------


def test_images_of_states():
    mr = MetamorphicRelation(
        0,
        2,
        (
            FeatureRelation(0, 2, 0, 1),
            FeatureRelation(0, 2, 1, 0, NEGATE),
            FeatureRelation(0, 2, 2, 2, ValueTable(((0, 1), (1, 0)))),
            FeatureRelation(0, 2, 3, 3, ANY),
        ),
        unmapped=(5,),
    )
    images, defined = map_states(mr, [[1, 2, 0, 9, 8, 7], [3, 4, 5, 6, 7, 8]])
    assert images.dtype == np.float32
    assert images[0].tolist() == [-2, 1, 1, 9, 8, 7]
    assert defined.tolist() == [True, False]
    assert np.isnan(images[1, 2])
    assert mr.unconstrained == (3, 5)


def test_states_cannot_be_mapped_by_a_table_with_several_images():
    mr = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 0, ValueTable(((0, 1), (0, 2))))])
    with pytest.raises(RelationError, match="several images"):
        map_states(mr, [[0.0]])


def test_a_value_that_becomes_infinite_has_no_image():
    mr = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 0, Affine(10.0))])
    _, defined = map_states(mr, [[1.0], [3e38], [np.inf], [np.nan]])
    assert defined.tolist() == [True, False, True, True]


def test_rows_and_words(snapshot):
    mr = MetamorphicRelation(0, 1, (FeatureRelation(0, 1, 0, 0, reflect(2.5)),), unmapped=(1,), name="m")
    assert mr.rows(FeatureSpace.of(["y", "z"], ["L", "R"])) == [
        ("y", "y", "reflected about 2.5"),
        ("z", "", "no image"),
    ]
    texts = [r.text for r in (NEGATE, Affine(2.0, 1.0), *(ValueTable(tuple((i, i) for i in range(n))) for n in (4, 5)))]
    assert "\n".join(texts) == snapshot


def test_relations_of_one_name_go_together():
    groups = by_name((*TURN, *EXCHANGE))
    assert {name: len(group) for name, group in groups.items()} == {"turn": 4, "exchange ghosts 0 and 1": 5}
    assert len({*TURN, *EXCHANGE, *TURN}) == 9  # `holds` does not count for equality


def test_restricting_a_relation_to_the_first_features() -> None:
    pairs = [(0, 1), (1, 0), (2, 4), (4, 2)]
    relation = MetamorphicRelation(0, 1, tuple(FeatureRelation(0, 1, i, j) for i, j in pairs), unmapped=(3, 5))
    first = relation.of_first(2)
    assert [(fr.feature, fr.image_feature) for fr in first.features] == [(0, 1), (1, 0)]
    assert (first.action, first.image_action, first.unmapped) == (0, 1, ())
    fewer = relation.of_first(4)
    assert ([(fr.feature, fr.image_feature) for fr in fewer.features], fewer.unmapped) == ([(0, 1), (1, 0)], (3,))
    assert relation.of_first(6) == relation
