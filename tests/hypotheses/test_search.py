"""Search: changes of rule sets, by hand, and a weakness that no mined rule describes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mirror_world
from hypotheses.searching import ALWAYS_RIGHT, WORLD, run_search, source_input
from legible.engines import InProcess
from legible.features import FeatureSpace, Intervals
from legible.hypotheses import MeasuredEffect, Proposal, SourceInput, Trial, searched
from legible.hypotheses.ladder import RUNGS, Clause
from legible.hypotheses.responses import RecordedStates, respond
from legible.hypotheses.search import BUDGET_AFTER_ROUND, BUDGET_AFTER_RUNG, FEW_ENDS, LEAST_LOT, Search, rungs_for
from legible.hypotheses.vocabulary import Span
from legible.mining import Mining
from legible.relations import parse_relations
from legible.rules import RuleSet, parse_rule
from legible.settings import (
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    PlaySettings,
    ReferenceSettings,
    SearchSettings,
    StudySettings,
)
from legible.study import Study
from seen_states import seen_states

GAP = FeatureSpace.of(["gap"], ["Brake", "Go"])

BRAKE_BELOW: Clause = ((Span(0, 0, 0),), ("+", 0))
KEEP_ABOVE: Clause = ((Span(0, 1, 1),), ("+", 1))


def rule_set(*texts: str, space: FeatureSpace = GAP) -> RuleSet:
    return RuleSet(tuple(parse_rule(text, space) for text in texts))


def test_what_rule_sets_would_change_by_hand() -> None:
    scores = np.array([[0.0, 1.0], [0.0, 3.0], [2.0, 1.0]], np.float32)  # goes, goes, brakes
    states = RecordedStates(np.array([[1.0], [5.0], [9.0]], np.float32), scores, np.array([0, 2]))
    sets = [
        rule_set("+Brake <- gap <= 5"),
        rule_set("-Go <- gap <= 5"),
        rule_set("+Brake <- gap > 5"),
        rule_set("-Brake <- gap > 5", "-Go <- gap > 5"),
    ]
    found = respond(sets, states)
    assert found.changed.tolist() == [[True, True, False]] * 2 + [[False] * 3, [False, False, True]]
    assert found.digests[0] == found.digests[1]  # other words for the same
    assert len(set(found.digests.tolist())) == 3
    assert found.changed.mean(axis=1).tolist() == pytest.approx([2 / 3, 2 / 3, 0.0, 1 / 3])
    assert found.losses[0] == 2.0  # 1 and 3 points, by the policy's own scores
    assert np.isnan(found.losses[2])


def test_negative_rules_first() -> None:
    states = RecordedStates(np.zeros((1, 1), np.float32), np.array([[0.0, 1.0]], np.float32), np.array([0, 2]))
    both = [rule_set("+Brake <- gap <= 5", "-Brake <- gap <= 5")]
    assert respond(both, states).changed.tolist() == [[True]]
    assert respond(both, states, negative_first=True).changed.tolist() == [[False]]


def test_sampled_choices_have_no_other_words_for_the_same() -> None:
    """Where a policy draws between three choices, enforcing the first of them is not blocking another."""
    space = FeatureSpace.of(["gap"], ["Stay", "Left", "Right"])
    sets = [rule_set(text, space=space) for text in ("+Left <- gap <= 5", "-Stay <- gap <= 5", "-Left <- gap <= 5")]
    known = np.ones((6, 1), np.float32), np.zeros((6, 3), np.float32), np.array([0, 3])
    draws = np.array([[0.1], [0.2], [0.4], [0.6], [0.8], [0.9]])  # two of each choice
    best, sampled = respond(sets, RecordedStates(*known)), respond(sets, RecordedStates(*known, draws))
    assert best.changed.mean(axis=1).tolist() == [1.0, 1.0, 0.0]  # the policy stays, which is its first choice
    assert best.digests[0] == best.digests[1]
    assert sampled.changed[0].tolist() == [True, True, False, False, True, True]
    assert sampled.changed[2].sum() >= 2
    assert len(set(sampled.digests.tolist())) == 3


def drive(given: SourceInput, steps: int = 10) -> list[RuleSet]:
    """Return the rule sets tried first, if only going left gains, and more so where the goal is left."""

    def measure(trial: Trial) -> list[MeasuredEffect]:
        effects = []
        for (rule,) in (one.rules for one in trial.rule_sets):
            gain = 5.0 * (rule.action == mirror_world.LEFT and rule.polarity == "+")
            gain += 5.0 * any(c.feature == 0 and c.value == 1.0 for c in rule.conditions) * bool(gain)
            effects.append(MeasuredEffect(gain - 1.0, 0.5, 0.5, 20, 40, steps))
        return effects

    trials, proposal = run_search(searched(given), measure)
    tested = [one for trial in trials if trial.changes == rungs_for(given)[0].changes for one in trial.rule_sets]
    assert isinstance(proposal, Proposal)
    assert set(proposal.rule_sets) <= set(tested)
    return tested


def test_it_goes_on_from_what_did_best_and_tests_nothing_twice() -> None:
    tested = drive(source_input(10**9, most_conditions=2, beam=1))
    assert len(set(tested)) == len(tested)
    longer = [found for found in tested if len(found.rules[0]) == 2]
    assert longer
    # What did best is refined first: it enforces Left where the goal is left.
    heads = [(found.rules[0].polarity, found.rules[0].action) for found in longer]
    assert heads[0] == ("+", mirror_world.LEFT)
    assert 0 in longer[0].rules[0].features
    # Steps are left, so that others follow.
    assert ("-", mirror_world.RIGHT) in heads


def test_acting_in_one_way_throughout_is_tried_first() -> None:
    """The policy always goes right: going left or staying throughout changes every state, which others may not."""
    mirror = parse_relations(mirror_world.MIRROR, mirror_world.SPACE)
    given = replace(source_input(10**9, most_conditions=1), relations=mirror)
    given = replace(given, search=replace(given.search, most_changed=0.5))
    first = next(searched(given))
    assert isinstance(first, Trial)
    always = [found for found in first.rule_sets if not found.rules[0].conditions]
    texts = {found.rules[0].text(mirror_world.SPACE) for found in always}
    # Blocking Right is staying, the next best, in other words; blocking the others changes nothing.
    assert texts in ({"+Left <- true", "+Stay <- true"}, {"+Left <- true", "-Right <- true"})
    assert first.rule_sets[: len(always)] == always
    assert all(len(found) == 1 for found in always)  # under the mirror, going left would become going left or right
    limited = next(searched(replace(given, most_changed=0.5)))
    assert isinstance(limited, Trial)
    assert all(found.rules[0].conditions for found in limited.rule_sets)


def test_it_stops_when_the_budget_is_spent() -> None:
    first, everything = (drive(source_input(budget, most_conditions=2)) for budget in (150, 10**9))
    assert len(first) == LEAST_LOT  # they take 160 steps
    assert everything[: len(first)] == first
    assert len(everything) > len(first)
    assert drive(source_input(0)) == []


def test_long_episodes_are_tried_in_small_lots() -> None:
    """All 62 candidates would take more than twice the budget."""
    given = source_input(10**6)
    cost = rungs_for(replace(given, budget=0))[0].changes * round(float(given.experiences.lengths.mean()))
    tested = drive(replace(given, budget=25 * cost), steps=cost)
    assert LEAST_LOT <= len(tested) <= 25 + LEAST_LOT


def test_rungs_are_lower_where_the_budget_is_small() -> None:
    """The first look has 18 % of the budget; 256 candidates with 24 changed episodes each are to fit into it."""
    given = source_input(10**9)
    assert rungs_for(given) == RUNGS
    episodes = replace(given.experiences, lengths=np.full_like(given.experiences.lengths, 100))
    half = replace(given, experiences=episodes, budget=round(128 * 24 * 100 / 0.18))
    assert [rung.changes for rung in rungs_for(half)] == [12, 48, 192, 768]
    assert [rung.changes for rung in rungs_for(replace(half, budget=0))] == [6, 24, 96, 384]
    for ends, lowest in ((1, 3), (FEW_ENDS, 3), (FEW_ENDS + 1, 6)):
        returns = (np.arange(len(episodes.returns)) % ends).astype(np.float64)
        repeated = replace(half, experiences=replace(episodes, returns=returns), budget=0)
        assert [rung.changes for rung in rungs_for(repeated)] == [lowest, 4 * lowest, 16 * lowest, 64 * lowest]


def test_longer_rules_are_drawn_where_no_short_one_gains_anything() -> None:
    """A policy that is stuck: only a rule that speaks of two things at once frees it."""

    def measure(found: RuleSet) -> MeasuredEffect:
        gain = 5.0 if len(found.rules[0]) > 1 and found.rules[0].action == mirror_world.LEFT else 0.0
        return MeasuredEffect(gain, 0.5, 0.5, 20, 40, 10)

    source = searched(source_input(10**5, most_conditions=3))
    _, proposal = run_search(source, lambda trial: [measure(one) for one in trial.rule_sets])
    assert isinstance(proposal, Proposal)
    assert proposal.rule_sets
    assert all(len(one.rules[0]) > 1 for one in proposal.rule_sets)


def test_all_short_rules_are_tried_before_longer_ones_are_drawn() -> None:
    """The first round is enough for some of them only; then come several that are said together."""
    given = source_input(5000, most_conditions=2)
    useless = MeasuredEffect(0.0, 0.5, 0.5, 20, 40, 20)
    trials, _ = run_search(searched(given), lambda trial: [useless] * len(trial.rule_sets))
    tried = [one for trial in trials if trial.changes == rungs_for(given)[0].changes for one in trial.rule_sets]
    kinds = [(max(map(len, one.rules)), len(one)) for one in tried]  # conditions, and rules said together
    assert list(dict.fromkeys(kinds)) == [(0, 1), (1, 1), (1, 2), (2, 1)]
    first = Search(given).first()
    assert kinds.index((1, 2)) == len(first)
    first_round = BUDGET_AFTER_ROUND[0] / BUDGET_AFTER_ROUND[1] * BUDGET_AFTER_RUNG[0] * 5000
    assert 20 * len(first) > first_round
    assert (1, 1) in kinds[len(first) :]  # what differs from others only in states never seen


def test_what_is_said_together_by_hand() -> None:
    """The policy always goes. What changes it as a single rule does, such as going below the cut, is not made again."""
    space = FeatureSpace.of(["gap"], ["Brake", "Keep", "Go"])
    made = search_of(space, [[1.0], [3.0]], [[0.0, 0.0, 1.0]] * 2, cuts=[2.0])
    made.first()
    together = made.together(99)
    texts = {tuple(one.rule_set.text(space).splitlines()) for one in together}
    assert texts == {("+Brake <- gap <= 2", "+Keep <- gap > 2"), ("+Keep <- gap <= 2", "+Brake <- gap > 2")}
    assert all(one.rule_set.source is None for one in together)  # no rule that the others follow from


def test_several_choices_are_never_made_while_two_are_left() -> None:
    """The policy does A, then rather B than C than D: only where both A and B are blocked it does what is new."""
    space = FeatureSpace.of(["gap"], ["A", "B", "C", "D"])
    made = search_of(space, [[1.0], [1.5]], [[3.0, 2.0, 1.0, 0.0]] * 2, cuts=[2.0])
    made._candidates((((), ("-", a)),) for a in range(4))
    never = [one.rule_set.text(space).splitlines() for one in made.together(99) if one.heads[0][0] == "-"]
    assert never == [["-A <- true", "-B <- true"]]


def test_one_of_several_rules_is_left_out_step_by_step() -> None:
    space = FeatureSpace.of(["gap"], ["Brake", "Keep", "Go"])
    states, scores = [[1.0], [3.0]], [[0.0, 0.0, 1.0]] * 2
    pair = search_of(space, states, scores, cuts=[2.0])._candidates([(BRAKE_BELOW, KEEP_ABOVE)])
    around = search_of(space, states, scores, cuts=[2.0]).around(pair)
    assert {one.rule_set.text(space) for one in around} == {"+Brake <- gap <= 2", "+Keep <- gap > 2"}


def test_what_differs_only_in_states_never_seen_is_tried_again() -> None:
    """Both features tell the two states apart; a third state may do so differently."""
    space = FeatureSpace.of(["gap", "speed"], ["Brake", "Go"])
    made = search_of(space, [[1.0, 1.0], [3.0, 3.0]], [[0.0, 1.0]] * 2, cuts=[2.0])
    first = {one.rule_set.text(space) for one in made.first()}
    again = {one.rule_set.text(space) for one in made.again(99)}
    everything = {
        f"{head} <- {condition}" for head in ("+Brake", "-Go") for condition in ("gap <= 2", "gap > 2", "true")
    }
    everything |= {text.replace("gap", "speed") for text in everything}
    assert first | again == everything
    assert not first & again
    assert len(first) == 3  # braking below, above and throughout


def search_of(space: FeatureSpace, states: list[list[float]], scores: list[list[float]], cuts: list[float]) -> Search:
    """A search that knows one episode."""
    seen = seen_states(states, np.argmax(scores, axis=1), scores, [0] * len(states), space=space)
    mining = Mining((), space, Intervals.from_cuts([cuts] * len(space)), None, 0, {})
    return Search(SourceInput(ALWAYS_RIGHT, seen, mining, search=SearchSettings(most_changed=1.0)))


def test_a_state_that_an_episode_comes_back_to_counts_once() -> None:
    space = FeatureSpace.of(["gap"], ["Brake", "Go"])
    made = search_of(space, [[1.0], [3.0], [1.0], [-0.0], [0.0], [1.0]], [[0.0, 1.0]] * 6, cuts=[2.0])
    assert made._states.observations.ravel().tolist() == [1.0, 3.0, 0.0]


def test_the_same_seed_gives_the_same_search() -> None:
    assert drive(source_input(3000, most_conditions=2)) == drive(source_input(3000, most_conditions=2))


@pytest.mark.slow
def test_a_weakness_that_no_mined_rule_describes(tmp_path: Path) -> None:
    """The policy never goes left, so that no rule mined from it says so."""
    settings = StudySettings(
        episodes=40,
        sources="mined,searched",
        mining=MiningSettings(importance="none"),
        play=PlaySettings(batch=32, unit_episodes=200),
        evaluation=EvaluationSettings(rung_changes=8, rungs=2, race_seeds=80, confirmation_seeds=700),
        search=SearchSettings(budget=40_000, most_conditions=1, most_changed=1.0),
        improvement=ImprovementSettings(episodes=60, final_episodes=80),
        references=ReferenceSettings(episodes=40),
    )
    study = Study(tmp_path, WORLD, ALWAYS_RIGHT, relations="none", settings=settings, engine=InProcess())
    best = study.evaluate().confirmed[0]
    assert best.found_by == "searched"
    assert best.rule_set.rules[0].action == mirror_world.LEFT
    assert all(verdict.found_by != "mined" for verdict in study.evaluation.confirmed)
    assert study.improve().effect.low > 0.0
