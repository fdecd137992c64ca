"""The budget of a search: rounds, rungs of the ladder, and lots."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import mirror_world
from hypotheses.searching import SEEN, run_search, source_input
from legible.hypotheses import MeasuredEffect, Proposal, Trial, searched
from legible.hypotheses.ladder import RUNGS, Ladder, SearchCandidate
from legible.hypotheses.search import Search, _Climb, rungs_for
from legible.rules import RuleSet

LENGTH = float(SEEN.lengths.mean())


def search(budget: int, **settings: int) -> tuple[list[Trial], Proposal]:
    """Return all trials and the proposal if every rule set helps a little, later ones more."""
    order: dict[RuleSet, int] = {}

    def measure(trial: Trial) -> list[MeasuredEffect]:
        for one in trial.rule_sets:
            order.setdefault(one, len(order))
        gains = [1.0 + order[one] for one in trial.rule_sets]
        return [MeasuredEffect(gain, 0.01, 0.01, trial.changes, trial.seeds, 10) for gain in gains]

    trials, proposal = run_search(searched(source_input(budget, **settings)), measure)
    assert isinstance(proposal, Proposal)
    return trials, proposal


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
    first = next(
        searched(source_input(10, composition, least_changed=share, most_changed=share + 0.2, most_conditions=1))
    )
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


def test_no_more_candidates_are_made_than_a_budget_is_worth() -> None:
    """Candidates that are left out at first may follow later, and none is made twice."""
    given = source_input(10, least_changed=0.0, most_conditions=2)
    made, all_made = Search(given), Search(given)
    some, rest = made.first(8), all_made.first()
    assert 0 < len([one for one in some if one.clauses[0][0]]) <= 8 < len(rest)
    assert {one.rule_set for one in some} <= {one.rule_set for one in rest}
    more = made.first()
    assert not {one.clauses for one in some} & {one.clauses for one in more}
    assert 0 < len(made.around(more[-4:], 5)) <= 5


# --- Lots ---


def candidates(count: int) -> list[SearchCandidate]:
    """Return candidates that change one state each."""
    states = np.packbits(np.eye(count, dtype=np.bool_), axis=1)
    return [SearchCandidate((((), ("+", 0)),), RuleSet(()), row, 0.0) for row in states]


def trials_of(source: Generator[Any, Any, Any], steps: Callable[[Trial], int]) -> list[Trial]:
    """Return all trials if every rule set helps and costs this number of steps."""

    def measure(trial: Trial) -> list[MeasuredEffect]:
        effect = MeasuredEffect(1.0, 0.01, 0.01, trial.changes, trial.seeds, steps(trial))
        return [effect] * len(trial.rule_sets)

    return run_search(source, measure)[0]


def sizes(trials: list[Trial]) -> list[int]:
    return [len(trial.rule_sets) for trial in trials]


def test_lots_are_no_larger_than_is_of_use() -> None:
    ladder = Ladder(spread=1.0)
    climb = _Climb(ladder, RUNGS, length=1.0)
    assert sizes(trials_of(climb.try_all(candidates(300), 1e9), lambda _: 1)) == [256, 44]
    assert sizes(trials_of(climb.to(1, 1e9), lambda _: 1)) == [64, 36]
    assert sizes(trials_of(climb.to(2, 1e9, is_spare=True), lambda _: 1)) == [64, 36]


def test_a_lot_is_what_can_be_paid_for() -> None:
    """A candidate takes 24 changed episodes of two steps."""
    for allowed, expected in ((48 * 20, [20]), (48 * 20 - 1, [19]), (48 * 3, [16])):
        climb = _Climb(Ladder(spread=1.0), RUNGS, length=2.0)
        assert sizes(trials_of(climb.try_all(candidates(40), allowed), lambda _: 48))[:1] == expected


@pytest.mark.parametrize(("rung", "share", "count"), [(1, 0.6, 2), (2, 0.8, 1), (3, 1.0, 1)])
def test_a_rung_leaves_its_share_of_the_budget_to_those_above(rung: int, share: float, count: int) -> None:
    """Only the trials of one rung are dear: one lot is made that can be paid for, though a third would go on."""
    dear = round(rungs_for(source_input())[rung].changes * LENGTH)
    budget = round((100 + (count + 0.5) * dear) / share)  # a hundred steps for all trials that cost one
    given = source_input(budget, most_conditions=1)
    changes = rungs_for(given)[rung].changes
    trials = trials_of(searched(given), lambda trial: dear if trial.changes == changes else 1)
    first = next(i for i, trial in enumerate(trials) if trial.changes == changes)
    assert len(trials[first].rule_sets) == count
    assert sum(sizes([trial for trial in trials[:first] if trial.changes == trials[first - 1].changes])) > 3 * count


@pytest.mark.parametrize(("conditions", "count"), [(1, 60), (2, 36), (3, 30), (4, 27)])
def test_rounds_leave_their_share_of_the_budget_to_those_with_more_conditions(conditions: int, count: int) -> None:
    """The first round has 45 of 45, 75, 90 or 100 parts of the budget, its first rung 40 % of that: for 150 trials."""
    dear = rungs_for(source_input())[0].changes * LENGTH
    given = source_input(round(150.5 * dear), most_conditions=conditions)
    assert len(trials_of(searched(given), lambda _: round(dear))[0].rule_sets) == count
