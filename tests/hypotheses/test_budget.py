"""How a search spends its budget: on rounds, on rungs of the ladder, on lots."""

import numpy as np
import pytest

import mirror_world
from legible.environments import EnvironmentSpec
from legible.features import deciles
from legible.hypotheses import MeasuredEffect, Proposal, SourceInput, Trial, searched
from legible.hypotheses.ladder import RUNGS
from legible.hypotheses.search import Search
from legible.mining import Mining
from legible.play import collect
from legible.policies import load_policy
from legible.rules import RuleSet
from legible.settings import SearchSettings

POLICY = load_policy(lambda rows: np.tile([0.0, 1.0, 0.5], (len(rows), 1)), output="values", n_features=5, n_actions=3)
SEEN = collect(POLICY, EnvironmentSpec("mirror_world:MirrorWorld"), 30, seed=0, names=mirror_world.SPACE)
STEPS = 10


def search(budget: int, **settings: int) -> tuple[list[Trial], Proposal]:
    """All trials and what is proposed, where every rule set helps a little, later ones more."""
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    given = SourceInput(POLICY, SEEN, mining, search=SearchSettings(most_changed=1.0, **settings), budget=budget)
    source, trials = searched(given), []
    order: dict[RuleSet, int] = {}
    found = next(source)
    while isinstance(found, Trial):
        trials.append(found)
        for one in found.rule_sets:
            order.setdefault(one, len(order))
        effects = [
            MeasuredEffect(1.0 + order[one], 0.01, 0.01, found.changes, found.seeds, STEPS) for one in found.rule_sets
        ]
        found = source.send(effects)
    assert isinstance(found, Proposal)
    return trials, found


@pytest.mark.parametrize(("budget", "lots"), [(790, 2), (810, 3)])
def test_a_search_of_one_round_has_the_whole_budget(budget: int, lots: int) -> None:
    """A small lot of 16 takes 160 steps: 0.4 of 790 are spent after two, 0.4 of 810 are not."""
    trials, _ = search(budget, most_conditions=1)
    first = [trial for trial in trials if trial.changes == trials[0].changes]
    assert [len(trial.rule_sets) for trial in first] == [16] * lots
    assert trials[lots].changes == 4 * first[0].changes


def test_trials_are_of_the_rungs_in_their_order() -> None:
    """A third goes on at most; then what is left over is spent on more of what did well, again rung by rung."""
    trials, _ = search(10**9, most_conditions=1)
    rungs = [(trial.changes, trial.seeds) for trial in trials]
    turn = next(i for i in range(1, len(rungs)) if rungs[i] < rungs[i - 1])
    assert rungs[:turn] == sorted(rungs[:turn])
    assert rungs[turn:] == sorted(rungs[turn:])
    assert set(rungs) <= set(RUNGS)
    counts = [sum(len(trial.rule_sets) for trial in trials[:turn] if trial.changes == rung) for rung, _ in RUNGS]
    assert counts[0] > 6
    assert 0 < counts[1] <= counts[0] // 3
    assert counts[2] <= counts[1] // 3
    assert sum(len(trial.rule_sets) for trial in trials[turn:]) > 0


def test_what_came_further_is_proposed_the_best_first() -> None:
    trials, proposal = search(10**9, most_conditions=1, proposed=3)
    last = [one for trial in trials if trial.changes > RUNGS[0].changes for one in trial.rule_sets]
    assert len(proposal.rule_sets) == 3
    assert set(proposal.rule_sets) <= set(last)
    gains = [shown.mean for shown in proposal.shown]
    assert gains == sorted(gains, reverse=True)


def test_no_more_conditions_than_are_asked_for() -> None:
    for most in (1, 2):
        trials, _ = search(20_000, most_conditions=most)
        assert max(len(one.rules[0]) for trial in trials for one in trial.rule_sets) == most


@pytest.mark.parametrize(("share", "composition"), [(0.05, 1.0), (0.5, 1.0), (0.05, 0.2)])
def test_what_changes_too_little_or_too_much_is_not_tried(share: float, composition: float) -> None:
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    settings = SearchSettings(least_changed=share, most_changed=share + 0.2, most_conditions=1)
    given = SourceInput(POLICY, SEEN, mining, search=settings, budget=10, most_changed=composition)
    first = next(searched(given))
    assert isinstance(first, Trial)
    for one in first.rule_sets:
        (rule,) = one.rules
        holds = np.ones(len(SEEN), np.bool_)
        for condition in rule.conditions:
            column = SEEN.observations[:, condition.feature]
            holds &= (column > condition.low) & (column <= condition.high)
        # The policy always goes right.
        changes = (rule.polarity == "+") != (rule.action == mirror_world.RIGHT)
        assert changes
        most = min(share + 0.2, composition) if rule.conditions else composition  # throughout, unless it may not
        assert share <= holds.mean() <= most


def test_what_did_best_is_refined_first() -> None:
    trials, _ = search(20_000, most_conditions=2, beam=1)
    rungs = [trial.changes for trial in trials]
    turn = next(i for i in range(1, len(rungs)) if rungs[i] < rungs[i - 1])
    order = {one: i for i, one in enumerate(dict.fromkeys(one for trial in trials[:turn] for one in trial.rule_sets))}
    climbed = {one for trial in trials[:turn] if trial.changes > RUNGS[0].changes for one in trial.rule_sets}
    (best,) = max(climbed, key=lambda one: order[one]).rules
    for one in trials[turn].rule_sets:
        assert (one.rules[0].polarity, one.rules[0].action) == (best.polarity, best.action)
        assert best.conditions[0].feature in {condition.feature for condition in one.rules[0].conditions}


def test_longer_rules_are_made_up_to_the_most_conditions() -> None:
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    settings = SearchSettings(most_changed=1.0, least_changed=0.0, most_conditions=2)
    made = Search(SourceInput(POLICY, SEEN, mining, search=settings, budget=10))
    first = made.first()
    assert {len(one.clauses[0][0]) for one in first} == {0, 1}
    second = made.around(first[-4:])
    assert 2 in {len(one.clauses[0][0]) for one in second}
    assert max(len(one.clauses[0][0]) for one in made.around(second)) == 2


def test_no_more_candidates_are_made_than_a_budget_is_worth() -> None:
    """What is not drawn at first may be drawn later, and nothing is made twice."""
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    settings = SearchSettings(most_changed=1.0, least_changed=0.0, most_conditions=2)
    given = SourceInput(POLICY, SEEN, mining, search=settings, budget=10)
    made, all_made = Search(given), Search(given)
    some, rest = made.first(8), all_made.first()
    assert 0 < len([one for one in some if one.clauses[0][0]]) <= 8 < len(rest)
    assert {one.rule_set for one in some} <= {one.rule_set for one in rest}
    more = made.first()
    assert not {one.clauses for one in some} & {one.clauses for one in more}
    assert 0 < len(made.around(more[-4:], 5)) <= 5


def test_a_source_knows_that_positive_rules_come_first() -> None:
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    assert not SourceInput(POLICY, SEEN, mining).negative_first
