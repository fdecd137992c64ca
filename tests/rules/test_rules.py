"""Rules as values: text that parses back, the paper's notation, matching, containment."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.features import Action, Feature, FeatureSpace, below, deciles
from legible.rules import CompiledRules, Condition, Rule, RuleError, RuleSet, parse_rule
from legible_envs.pacman import pacman_features

PACMAN = pacman_features(2)
SPACE = FeatureSpace.of(["speed", "gap", "lane"], ["Brake", "Go"])
FLOATS = st.floats(width=32, allow_nan=False)


@st.composite
def conditions(draw: st.DrawFn, feature: int) -> Condition:
    low, high = sorted([draw(FLOATS), draw(FLOATS)])
    if draw(st.booleans()) or not np.float32(low) < np.float32(high):
        return Condition.equals(feature, draw(st.floats(-(2.0**100), 2.0**100, width=32)))
    return Condition(feature, low, high)


@st.composite
def rules(draw: st.DrawFn, width: int = len(PACMAN), actions: int = 5) -> Rule:
    features = draw(st.sets(st.integers(0, width - 1), max_size=5))
    body = tuple(draw(conditions(feature)) for feature in sorted(features))
    return Rule(draw(st.sampled_from("+-")), draw(st.integers(0, actions - 1)), body)


def test_the_rules_of_the_paper() -> None:
    first = Rule("-", 0, (Condition.equals(62, 0),))
    second = Rule("+", 0, tuple(Condition.equals(i, 1) for i in (9, 50, 62, 65)))
    assert first.text(PACMAN) == "-North <- not open.north"
    assert second.text(PACMAN) == "+North <- food.north & ghost1.path.west & open.north & open.west"
    assert first.paper() == "-action(0) <- f62=0"
    assert second.paper() == "+action(0) <- f9=1, f50=1, f62=1, f65=1"


def test_numeric_conditions_are_interval_numbers_in_the_papers_notation() -> None:
    data = np.arange(30, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    intervals = deciles(SPACE, data)
    low, high = intervals.lows[1], intervals.highs[1]
    rule = Rule("+", 1, (Condition(1, low[3], high[3]),))
    assert rule.paper(intervals, SPACE) == "+action(1) <- f1=3"
    assert Rule("+", 1, (Condition(1, 2, 5),)).paper(intervals, SPACE) == "+action(1) <- f1∈(2, 5]"


def test_single_values_in_the_papers_notation() -> None:
    space = FeatureSpace((Feature("kind", "categorical"), Feature("gap", sentinels=(-1.0,))), (Action("Go"),))
    data = np.array([[0, -1], [5, 10], [7, 20], [7, 30]], np.float32)
    intervals = deciles(space, data)
    assert intervals.highs[0].tolist() == [0, 5, 7]
    assert intervals.highs[1][1] == -1.0
    # A category is written as its value, a sentinel as the index of its interval.
    for condition, text in (
        (Condition.equals(0, 7), "f0=7"),
        (Condition.equals(1, -1), "f1=1"),
        (Condition.equals(1, 10), "f1=10"),
        (Condition(1, intervals.lows[1][3], intervals.highs[1][3]), "f1=3"),
    ):
        assert Rule("+", 0, (condition,)).paper(intervals, space) == f"+action(0) <- {text}"
    # Two intervals together are written with their bounds.
    wide = Condition(1, intervals.lows[1][3], intervals.highs[1][4])
    assert Rule("+", 0, (wide,)).paper(intervals, space) == f"+action(0) <- f1∈({wide.low:g}, {wide.high:g}]"
    assert Rule("-", 0, (Condition(1, 2, 5), Condition.equals(0, 7))).paper() == "-action(0) <- f0=7, f1∈(2, 5]"
    assert Rule("-", 0, ()).paper() == "-action(0) <- true"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition(0, -np.inf, 5), "speed <= 5"),
        (Condition(0, -np.inf, below(5)), "speed < 5"),
        (Condition(0, -2.5, np.inf), "speed > -2.5"),
        (Condition(0, below(0), np.inf), "speed >= 0"),
        (Condition(0, 1, 3), "1 < speed <= 3"),
        (Condition(0, below(1), below(3)), "1 <= speed < 3"),
        (Condition(0, 1.2345678, 2.3456075), "1.2345678 < speed <= 2.3456075"),  # no bound is shorter
        (Condition(0, -np.inf, np.inf), "speed <= inf"),
        (Condition.equals(0, 1), "speed = 1"),
    ],
)
def test_conditions_are_written_with_the_shorter_bound(condition: Condition, text: str) -> None:
    assert condition.text(SPACE[0]) == text
    assert parse_rule(f"+Go <- {text}", SPACE).conditions == (condition,)


def test_there_is_one_zero() -> None:
    """−0 is written as 0, so that equal rules have equal files."""
    assert json.dumps(Rule("+", 0, (Condition(0, -0.0, 1),)).to_dict()["conditions"]) == (
        '[{"feature": 0, "low": 0.0, "high": 1.0}]'
    )


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("speed = 3", Condition.equals(0, 3)),
        ("speed == 3", Condition.equals(0, 3)),
        ("speed", Condition.equals(0, 1)),
        ("not speed", Condition.equals(0, 0)),
        ("-3 <= speed < -1", Condition(0, below(-3), below(-1))),
        ("1e-3<speed<=2.5E2", Condition(0, 1e-3, 250)),
    ],
)
def test_other_ways_to_write_a_condition(text: str, condition: Condition) -> None:
    assert parse_rule(f"+Go <- {text}", SPACE).conditions == (condition,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Go <- speed > 1", "is not a rule"),
        ("+Go speed > 1", "is not a rule"),
        ("+Gone <- speed > 1", "no action called 'Gone'. Did you mean 'Go'"),
        ("+Go <- sped > 1", "no feature called 'sped'. Did you mean 'speed'"),
        ("+Go <- speed >", "'speed >' is not a condition"),
        ("+Go <- ", "is not a condition"),
        ("+Go <- speed > 1 and gap < 3", "write & for 'and'"),
        ("+Go <- !speed", "write 'not name' for '!name'"),
        ("+Go <- speed > 1 & speed < 3", "one condition per feature, and 'speed' has 2"),
        ("+Go <- 5 < speed <= 3", "3.0 of feature 0 is empty"),
        ("+Go <- speed = nan", "is not a condition"),
    ],
)
def test_invalid_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse_rule(text, SPACE)


@given(rules())
def test_text_parses_back_to_the_same_bits(rule: Rule) -> None:
    assert parse_rule(rule.text(PACMAN), PACMAN) == rule


@given(rules(), rules())
def test_rule_sets_are_read_back_from_json_and_united(first: Rule, second: Rule) -> None:
    rule_set = RuleSet((first, second), source=first)
    assert RuleSet.from_dict(json.loads(json.dumps(rule_set.to_dict(), allow_nan=False))) == rule_set
    assert (RuleSet((first,)) | RuleSet((second, first))).rules == tuple(dict.fromkeys((first, second)))


@pytest.mark.parametrize(
    "data", [{}, {"polarity": "+", "action": 0}, {"polarity": "+", "action": "x", "conditions": []}, 3]
)
def test_invalid_data_is_refused(data: object) -> None:
    with pytest.raises(RuleError, match="not a rule"):
        Rule.from_dict(data)


def test_the_order_of_conditions_does_not_matter() -> None:
    a, b = Condition.equals(3, 1), Condition.equals(1, 0)
    assert Rule("+", 0, (a, b)) == Rule("+", 0, (b, a))
    assert hash(Rule("+", 0, (a, b))) == hash(Rule("+", 0, (b, a)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rule("*", 0, ()),
        lambda: Rule("+", -1, ()),
        lambda: Condition(-1, 0, 1),
        lambda: Condition(0, 1, 1),
        lambda: Condition(0, np.nan, 1),
        lambda: Condition(0, 0, 1e-60),
        lambda: Rule("+", 2, ()).text(SPACE),
        lambda: Rule("+", 0, (Condition.equals(3, 0),)).text(SPACE),
    ],
)
def test_invalid_rules_are_refused(make) -> None:
    with pytest.raises(RuleError):
        make()


def test_matching_by_hand() -> None:
    rule = parse_rule("+Go <- 1 < speed <= 3 & gap > 0", SPACE)
    rows = [[1, 1, 0], [1.5, 1, 0], [3, 1, 0], [3.1, 1, 0], [2, 0, 0], [np.nan, 1, 0], [2, np.inf, 0]]
    assert rule.matches(np.array(rows)).tolist() == [False, True, True, False, False, False, True]
    assert Rule("+", 0, ()).matches(np.array(rows)).all()


@given(st.lists(rules(width=4), max_size=6), st.integers(0, 2**32 - 1))
def test_compiled_rules_match_like_single_ones(many: list[Rule], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = [end for rule in many for c in rule.conditions for end in (c.low, c.high)]
    rows = rng.choice([0.0, 1.0, np.nan, -1.0, *ends], size=(40, 4)).astype(np.float32)
    expected = np.array([rule.matches(rows) for rule in many]).reshape(len(many), len(rows)).T
    np.testing.assert_array_equal(CompiledRules.compile([many]).matches(rows), expected)


def test_a_minus_sign_is_read_like_a_hyphen() -> None:
    assert parse_rule("−Go <- lane = 1", SPACE) == parse_rule("-Go <- lane = 1", SPACE)


def test_compiled_rules_keep_sets_apart_and_check_the_width() -> None:
    one, two = parse_rule("+Go <- speed > 1", SPACE), parse_rule("-Go <- lane = 1", SPACE)
    compiled = CompiledRules.compile([RuleSet((one, two)), RuleSet(()), [two]])
    assert compiled.set_starts.tolist() == [0, 2, 2, 3]
    assert compiled.positive.tolist() == [True, False, False]
    with pytest.raises(RuleError, match=r"\(n, ≥3\), got \(1, 2\)"):
        compiled.matches(np.zeros((1, 2)))
    assert compiled.matches(np.zeros((1, 3))).tolist() == [[False, False, False]]
    assert CompiledRules.compile([[Rule("+", 0, ())]]).matches(np.zeros((2, 0))).tolist() == [[True], [True]]


@given(rules(width=3, actions=2), rules(width=3, actions=2), st.integers(0, 2**32 - 1))
def test_containment_implies_triggering(general: Rule, special: Rule, seed: int) -> None:
    assert general.contains(general)
    assert Rule(general.polarity, general.action, ()).contains(general)
    if general.contains(special):
        ends = [end for c in general.conditions + special.conditions for end in (c.low, c.high)]
        rows = np.random.default_rng(seed).choice([0.0, 1.0, *ends], size=(50, 3)).astype(np.float32)
        assert (general.matches(rows) | ~special.matches(rows)).all()


@pytest.mark.parametrize(
    ("text", "is_contained"),
    [
        ("-Go <- 2 < speed <= 5 & gap > 0", True),
        ("-Go <- 0 < speed <= 5", False),
        ("-Go <- gap > 0", False),
        ("+Go <- 1 < speed <= 5", False),
        ("-Brake <- 1 < speed <= 5", False),
    ],
)
def test_containment_by_hand(text: str, is_contained: bool) -> None:
    general = parse_rule("-Go <- 1 < speed <= 5", SPACE)
    assert general.contains(parse_rule(text, SPACE)) == is_contained
