"""Step 1: inclusion and exclusion, the filter, and rules that are known to be there."""

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from legible.errors import LegibleError
from legible.features import Action, Feature, FeatureSpace, Intervals, deciles
from legible.mining import Importance, MinedRule, Mining, exclusion, inclusion, judge_rules, mine
from legible.mining import mining as module
from legible.mining.merging import merge_slices
from legible.mining.mining import _filter, absent_values
from legible.play import Experiences, collect
from legible.policies import load_policy
from legible.rules import Condition, Rule, describe_rule, parse_rule
from legible.settings import MiningSettings
from seen_states import seen_states

FLAGS = FeatureSpace(
    tuple(Feature(name, "categorical", values={0: f"no {name}", 1: name}) for name in ("a", "b", "c", "d")),
    (Action("Left"), Action("Right"), Action("Wait")),
)


experiences = partial(seen_states, space=FLAGS)


def planted(observations: np.ndarray) -> np.ndarray:
    """Left where a and b, else Right where c, else Wait; worst is Wait where c, elsewhere Left unless it is best."""
    a, b, c = (observations[:, i] == 1 for i in range(3))
    scores = np.tile([0.0, 0.0, 0.5], (len(observations), 1))
    scores[c, 1] = 1.0
    scores[a & b, 0] = 2.0
    scores[c, 2] = -1.0
    scores[~c & ~(a & b), 0] = -1.0
    return scores


POLICY = load_policy(planted, output="values", n_features=4, n_actions=3)


def played(n: int = 3000, seed: int = 0) -> Experiences:
    rows = np.random.default_rng(seed).integers(0, 2, (n, 4)).astype(np.float32)
    scores = planted(rows)
    return experiences(rows, scores.argmax(axis=1), scores)


def test_inclusion_and_exclusion_by_hand() -> None:
    seen = experiences(
        np.zeros((4, 4)),
        [0, 1, 1, 2],
        #  lowest:   2            0            1, but it was taken   2
        [[3, 2, 1], [0, 5, 2], [2, 1, 3], [4, 3, 0]],
        [0, 0, 0, 0],
    )
    assert inclusion(seen, 1, "+").tolist() == [False, True, True, False]
    assert exclusion(seen, 1, "+").tolist() == [True, False, False, True]
    assert inclusion(seen, 0, "-").tolist() == [False, True, False, False]
    assert exclusion(seen, 0, "-").tolist() == [True, False, False, False]
    assert inclusion(seen, 1, "-").tolist() == [False, False, False, False]
    # Action 2 is lowest in the first row and in the last one, where it was taken after all.
    assert inclusion(seen, 2, "-").tolist() == [True, False, False, False]


def test_figures_by_hand() -> None:
    seen = experiences(
        [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]],
        [0, 0, 1, 1, 2],
        [[2, 1, 0], [2, 1, 0], [0, 2, 1], [0, 2, 1], [1, 0, 2]],
        [0] * 5,
    )
    positive, negative, never = judge_rules(
        [parse_rule("+Left <- a", FLAGS), parse_rule("-Left <- b", FLAGS), parse_rule("+Left <- c", FLAGS)], seen
    )
    assert (positive.agreement, positive.coverage, positive.purity, positive.triggered) == (2 / 3, 3 / 5, 2 / 3, 3)
    # b: Left was taken in neither row; it is lowest in one of them, and excluded in none.
    assert (negative.agreement, negative.coverage, negative.purity, negative.triggered) == (1.0, 2 / 5, 1.0, 2)
    assert never.triggered == 0
    assert np.isnan(never.agreement)
    assert np.isnan(never.purity)
    (unseen,) = judge_rules([positive.rule], seen, np.zeros(5, np.bool_))
    assert (unseen.coverage, unseen.triggered) == (0.0, 0)


def test_agreement_passes_a_negative_rule_that_purity_does_not() -> None:
    """Of 20 states that trigger −Left, it is lowest in one, taken in one, and merely not taken in 18."""
    actions = [0, 1] + [2] * 18
    scores = [[2, 1, 0], [0, 2, 1]] + [[1, 0, 2]] * 18
    seen = experiences(np.ones((20, 4)), actions, scores, [0] * 20)
    (figures,) = judge_rules([parse_rule("-Left <- a", FLAGS)], seen)
    assert figures.agreement == 0.95
    assert figures.purity == 0.5


def test_planted_rules_are_mined() -> None:
    mining = mine(POLICY, played(), seed=0)
    texts = {mined.rule.text(FLAGS) for mined in mining.rules}
    assert "+Left <- a & b" in texts
    assert "-Wait <- c" in texts
    right = [m.rule for m in mining.rules if m.rule.polarity == "+" and m.rule.action == 1]
    rows = played(seed=5)
    covered = np.any([rule.matches(rows.observations) for rule in right], axis=0)
    np.testing.assert_array_equal(covered, rows.actions == 1)
    assert all(3 not in mined.rule.features for mined in mining.rules)  # d means nothing
    for mined in mining.rules:
        assert mined.agreement >= 0.9
        assert mined.coverage >= 0.01


def test_the_same_seed_gives_the_same_rules_and_another_seed_others_episodes() -> None:
    seen = played()
    first, again = mine(POLICY, seen, seed=3), mine(POLICY, seen, seed=3)
    assert first == replace(again, importance=first.importance, intervals=first.intervals)
    np.testing.assert_array_equal(first.importance.weights, again.importance.weights)
    other = mine(POLICY, seen, seed=4)
    assert not np.array_equal(first.importance.weights, other.importance.weights)


def test_rules_are_judged_on_whole_episodes_that_learning_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = played(400)
    learned_from: list[np.ndarray] = []
    judged_on: list[np.ndarray] = []
    real_split = module._split

    def split(*arguments):
        learning, judging = real_split(*arguments)
        learned_from.append(learning)
        judged_on.append(judging)
        return learning, judging

    monkeypatch.setattr(module, "_split", split)
    mine(POLICY, seen, seed=0, settings=MiningSettings(importance="none", held_out=0.25))
    learning = set(seen.episode_ids[learned_from[0]].tolist())
    judging = set(seen.episode_ids[judged_on[0]].tolist())
    assert learning.isdisjoint(judging)
    assert len(judging) == 10
    assert len(learning) == 30
    # Half of what is left to learn from, no state twice.
    mine(POLICY, seen, seed=0, settings=MiningSettings(importance="none", held_out=0.25, sampled=0.5))
    assert len(learned_from[1]) == len(set(learned_from[1].tolist())) == 150
    mine(POLICY, played(20), seed=0, settings=MiningSettings(importance="none", sampled=0.001))
    assert len(learned_from[2]) == 1
    # At least one episode to judge on, and one to learn from.
    for episodes, held_out, judged in ((2, 0.1, 1), (2, 0.9, 1), (4, 0.25, 1)):
        mine(POLICY, played(10 * episodes), seed=0, settings=MiningSettings(importance="none", held_out=held_out))
        assert judged_on[-1].sum() == 10 * judged
        assert len(learned_from[-1]) == 10 * (episodes - judged)


def test_every_reason_to_drop_a_rule() -> None:
    def mined(text: str, agreement: float, coverage: float, purity: float = 1.0) -> MinedRule:
        return MinedRule(parse_rule(text, FLAGS), agreement, coverage, purity, round(coverage * 1000))

    judged = [
        mined("+Left <- a", 0.95, 0.2),
        mined("+Left <- a & b", 1.0, 0.1),  # contained in the first
        mined("-Left <- a & b", 1.0, 0.1),  # another head
        mined("+Left <- c", 0.89, 0.5),  # inaccurate
        mined("+Left <- d", 1.0, 0.009),  # rare
        mined("+Right <- d", float("nan"), 0.0),  # never triggered
        mined("-Wait <- b", 0.95, 0.3, purity=0.4),
        mined("-Wait <- b", 0.95, 0.3, purity=0.4),  # the same again
        mined("-Right <- c", 0.9, 0.01),  # as accurate and as frequent as it has to be
    ]
    kept, dropped = _filter(judged, MiningSettings())
    assert [m.rule.text(FLAGS) for m in kept] == ["+Left <- a", "-Left <- a & b", "-Wait <- b", "-Right <- c"]
    assert dropped == {"never triggered": 1, "inaccurate": 1, "rarely triggered": 1, "contained in another": 2}
    strict, _ = _filter(judged, MiningSettings(criterion="purity"))
    assert "-Wait <- b" not in [m.rule.text(FLAGS) for m in strict]


def test_importance_decides_between_features_that_tell_the_same() -> None:
    """Features a and b are copies of each other; whichever matters more to the policy is the one the rule speaks of."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 2000)
    rows = np.stack([a, a, rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)], axis=1)
    seen = experiences(rows, np.where(a == 1, 0, 1))
    for important in (0, 1):
        weights = np.zeros((1, 3, 4))
        weights[:, :, :2] = 0.5, 0.5
        weights[:, :, important] = 1.0
        mining = mine(POLICY, seen, seed=0, importance=Importance(weights, np.zeros((1, 3))))
        (rule,) = [m.rule for m in mining.rules if m.rule.polarity == "+" and m.rule.action == 0]
        assert rule.features == (important,)


def test_zero_importance_is_plain_ripper() -> None:
    seen = played()
    zero = Importance(np.zeros((1, 3, 4)), np.zeros((1, 3)))
    with_zero = mine(POLICY, seen, seed=1, importance=zero)
    without = mine(POLICY, seen, seed=1, settings=MiningSettings(importance="none"))
    assert [m.rule for m in with_zero.rules] == [m.rule for m in without.rules]
    assert without.importance is None


def test_numeric_conditions_are_intervals_of_the_deciles() -> None:
    space = FeatureSpace((Feature("x"), Feature("s", sentinels=(-1.0,))), (Action("Low"), Action("High")))
    rng = np.random.default_rng(0)
    rows = np.stack([rng.normal(size=4000), np.where(rng.random(4000) < 0.3, -1.0, rng.random(4000))], axis=1)
    rows = rows.astype(np.float32)
    seen = experiences(rows, (rows[:, 1] == -1.0).astype(int), space=space)
    policy = load_policy(
        lambda o: np.stack([o[:, 1] != -1.0, o[:, 1] == -1.0], axis=1) * 1.0, output="values", n_features=2, n_actions=2
    )
    mining = mine(policy, seen, seed=0, settings=MiningSettings(plain_intervals=False))
    intervals = deciles(space, rows)
    for mined in mining.rules:
        for condition in mined.rule.conditions:
            ends = zip(intervals.lows[condition.feature], intervals.highs[condition.feature], strict=True)
            assert (condition.low, condition.high) in {(float(low), float(high)) for low, high in ends}
    assert "+High <- s = -1" in {m.rule.text(space) for m in mining.rules}


@pytest.mark.parametrize("importance", ["lime", "none"])
def test_what_is_mined_survives_its_file(tmp_path, importance: str) -> None:
    mining = mine(POLICY, played(500), seed=0, settings=MiningSettings(importance=importance))
    mining.save(tmp_path / "mining.npz")
    loaded = Mining.load(tmp_path / "mining.npz")
    assert replace(loaded, importance=None, intervals=mining.intervals) == replace(mining, importance=None)
    for ends in ("lows", "highs"):
        for one, other in zip(getattr(loaded.intervals, ends), getattr(mining.intervals, ends), strict=True):
            np.testing.assert_array_equal(one, other)
    if mining.importance is None:
        assert loaded.importance is None
    else:
        np.testing.assert_array_equal(loaded.importance.weights, mining.importance.weights)
        np.testing.assert_array_equal(loaded.importance.intercepts, mining.importance.intercepts)


def test_rows_and_text() -> None:
    started = time.perf_counter()
    mining = mine(POLICY, played(), seed=0)
    assert sum(mining.seconds.values()) <= time.perf_counter() - started
    row = next(row for row in mining.to_rows() if row["rule"] == "+Left <- a & b")
    assert row["paper"] == "+action(0) <- f0=1, f1=1"
    assert row["action"] == "Left"
    assert row["conditions"] == 2
    assert "+Left <- a & b" in mining.text()
    assert set(mining.seconds) == {"intervals", "importance", "rules", "filter"}


def test_progress_is_reported() -> None:
    reported: list[tuple[str, int, int]] = []
    mine(POLICY, played(500), seed=0, on_progress=lambda *news: reported.append(news))
    assert reported == [("importance", done, 1) for done in range(2)] + [("rules", done, 6) for done in range(7)]


def test_experiences_that_cannot_be_mined(raises_saved) -> None:
    low, high = (tuple(np.array([end], np.float32) for _ in range(4)) for end in (-0.5, 0.5))
    with raises_saved(LegibleError):
        mine(POLICY, experiences(np.ones((20, 4)), [0] * 20), seed=0, intervals=Intervals(low, high))
    with pytest.raises(LegibleError, match="at least two episodes"):
        mine(POLICY, experiences(np.ones((5, 4)), [0] * 5, episode_ids=[0] * 5), seed=0)
    assert mine(POLICY, experiences(np.ones((40, 4)), [0] * 40), seed=0).rules == ()  # there is one action only


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("held_out", 0.0),
        ("held_out", 1.0),
        ("sampled", 1.5),
        ("min_accuracy", -0.1),
        ("min_coverage", 2),
        ("lime_states", 0),
        ("criterion", "luck"),
    ],
)
def test_bad_settings_are_refused(name: str, value: object) -> None:
    with pytest.raises(LegibleError, match=name):
        MiningSettings(**{name: value})


def test_the_papers_settings() -> None:
    paper = MiningSettings.paper()
    assert (paper.sampled, paper.optimizations, paper.description_length_allowance) == (0.2, 5, 128.0)
    assert (paper.lime_states, paper.lime_samples) == (100, 5000)
    assert (paper.min_accuracy, paper.min_coverage) == (0.9, 0.01)
    assert not paper.padded_apart
    assert not paper.plain_intervals
    assert mine(POLICY, played(), seed=0, settings=paper).rules


def test_the_whole_of_step_one_on_pacman() -> None:
    """A policy that follows the food: its rules say just that."""

    def follow(observations: np.ndarray) -> np.ndarray:
        scores = np.tile([0.0, 0.0, 0.0, 0.0, -0.5], (len(observations), 1))
        scores += 2.0 * np.pad(observations[:, 9:13], ((0, 0), (0, 1)))
        scores -= 1.0 - observations[:, 62:67]
        return scores

    policy = load_policy(follow, output="values", n_features=69, n_actions=5)
    seen = collect(policy, "legible/PacmanSmall-v0", 120, seed=0)
    mining = mine(policy, seen, seed=0)
    assert Rule("+", 3, (Condition.equals(12, 1),)) in [m.rule for m in mining.rules]
    assert Rule("-", 1, (Condition.equals(10, 0),)) in [m.rule for m in mining.rules]


# --- Things that are not there ---------------------------------------------------------------------------------------

ROAD = FeatureSpace(
    (
        Feature("car.there", "categorical", values={0: "there is no car", 1: "the car is there"}),
        Feature("car.x", words="the distance of the car", needs="car.there", cuts=(-0.5, 0.0, 0.5)),
        Feature("light", "categorical", values={0: "no light", 1: "light"}),
    ),
    (Action("Brake"), Action("Drive")),
)


def road(n: int = 4000) -> Experiences:
    """Brake exactly where there is no car; a car that is there is anywhere but at 0, padded rows are zeros."""
    rng = np.random.default_rng(0)
    there = rng.integers(0, 2, n)
    x = np.where(there, rng.uniform(-0.5, 0.0, n), 0.0)
    rows = np.stack([there, x, rng.integers(0, 2, n)], axis=1)
    return experiences(rows, there, space=ROAD)


def mined_on_the_road(*, padded_apart: bool) -> list[Rule]:
    seen = road()
    policy = load_policy(lambda rows: np.zeros((len(rows), 2)), output="values", n_features=3, n_actions=2)
    settings = MiningSettings(importance="none", padded_apart=padded_apart)
    return [found.rule for found in mine(policy, seen, seed=0, settings=settings).rules]


def test_a_rule_about_a_distance_asks_for_what_is_there(snapshot) -> None:
    for rule in mined_on_the_road(padded_apart=True):
        distances = [condition for condition in rule.conditions if condition.feature == 1]
        if distances:
            assert Condition.equals(0, 1) in rule.conditions
        assert describe_rule(rule, ROAD).count("car") <= 1
    brakes = [rule for rule in mined_on_the_road(padded_apart=True) if (rule.polarity, rule.action) == ("+", 0)]
    assert "\n".join(describe_rule(rule, ROAD) for rule in brakes) == snapshot


def test_zeros_of_what_is_not_there_are_a_value_of_their_own() -> None:
    """Learners that never see the flag still tell absent from near."""
    seen = road()
    cut = Intervals.from_cuts([[], [-0.5, 0.0, 0.5], []])
    absent = absent_values(seen)
    assert (absent[:, 1] == (seen.observations[:, 0] == 0)).all()
    assert not absent[:, [0, 2]].any()
    codes, sizes = module._encode(seen, cut, absent)
    assert sizes.tolist() == [1, 5, 1]
    assert set(codes[absent[:, 1], 1]) == {4}
    assert set(codes[~absent[:, 1], 1]) == {1}
    plain, sizes = module._encode(seen, cut, None)
    assert sizes.tolist() == [1, 4, 1]
    assert set(plain[absent[:, 1], 1]) == {1}
    there, gone = (module._conditions(((1, k),), cut, {1: 0}) for k in (1, 4))
    assert there == (Condition.equals(0, 1), Condition(1, -0.5, 0.0))
    assert gone == (Condition.equals(0, 0),)


# --- Neighbouring slices ---------------------------------------------------------------------------------------------


def sliced(low: float, high: float, action: int = 0, *others: Condition) -> Rule:
    return Rule("+", action, (Condition(1, low, high), *others))


def test_neighbouring_slices_that_say_the_same_are_one_rule() -> None:
    light = Condition.equals(2, 1)
    rules = [sliced(-np.inf, -0.5), sliced(0.0, 0.5, 0, light), sliced(-0.5, 0.0), sliced(0.5, np.inf, 0, light)]
    assert merge_slices(rules) == [sliced(-np.inf, 0.0), sliced(0.0, np.inf, 0, light)]
    # Intervals that cover the whole line are no condition.
    assert merge_slices([sliced(-np.inf, 0.0, 0, light), sliced(0.0, np.inf, 0, light)]) == [Rule("+", 0, (light,))]


def test_what_differs_in_more_than_a_slice_stays_apart() -> None:
    light, dark = Condition.equals(2, 1), Condition.equals(2, 0)
    for rules in (
        [sliced(0.0, 0.5), sliced(0.5, 1.0, 1)],
        [sliced(0.0, 0.5), sliced(0.6, 1.0)],
        [sliced(0.0, 0.5, 0, light), sliced(0.5, 1.0, 0, dark)],
        [sliced(0.0, 0.5), sliced(0.5, 1.0, 0, light)],
    ):
        assert merge_slices(rules) == rules
