"""How many candidates of a search are tried together, and what each rung of the ladder may cost, by hand."""

from collections.abc import Callable, Generator, Sequence

import numpy as np
import pytest

import mirror_world
from legible.environments import EnvironmentSpec
from legible.features import deciles
from legible.hypotheses import MeasuredEffect, SourceInput, Trial, searched
from legible.hypotheses.ladder import RUNGS, Ladder, SearchCandidate
from legible.hypotheses.search import _Climb, rungs_for
from legible.mining import Mining
from legible.play import collect
from legible.policies import load_policy
from legible.rules import RuleSet
from legible.settings import SearchSettings

POLICY = load_policy(lambda rows: np.tile([0.0, 1.0, 0.5], (len(rows), 1)), output="values", n_features=5, n_actions=3)
SEEN = collect(POLICY, EnvironmentSpec("mirror_world:MirrorWorld"), 30, seed=0, names=mirror_world.SPACE)
LENGTH = float(SEEN.lengths.mean())


def candidates(count: int) -> list[SearchCandidate]:
    """Each changes a state of its own."""
    states = np.packbits(np.eye(count, dtype=np.bool_), axis=1)
    return [SearchCandidate((((), ("+", 0)),), RuleSet(()), row, 0.0) for row in states]


def trials_of(source: Generator[object, Sequence[MeasuredEffect], None], steps: Callable[[Trial], int]) -> list[Trial]:
    """All trials, where every rule set helps and costs so many steps."""
    trials: list[Trial] = []
    try:
        found = next(source)
        while isinstance(found, Trial):
            trials.append(found)
            effect = MeasuredEffect(1.0, 0.01, 0.01, found.changes, found.seeds, steps(found))
            found = source.send([effect] * len(found.rule_sets))
    except StopIteration:
        pass
    return trials


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
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    settings = SearchSettings(most_changed=1.0, most_conditions=1)
    dear = round(rungs_for(SourceInput(POLICY, SEEN, mining, search=settings, budget=0))[rung].changes * LENGTH)
    budget = round((100 + (count + 0.5) * dear) / share)  # a hundred steps for all trials that cost one
    given = SourceInput(POLICY, SEEN, mining, search=settings, budget=budget)
    changes = rungs_for(given)[rung].changes
    trials = trials_of(searched(given), lambda trial: dear if trial.changes == changes else 1)
    first = next(i for i, trial in enumerate(trials) if trial.changes == changes)
    assert len(trials[first].rule_sets) == count
    assert sum(sizes([trial for trial in trials[:first] if trial.changes == trials[first - 1].changes])) > 3 * count


@pytest.mark.parametrize(("conditions", "count"), [(1, 60), (2, 36), (3, 30), (4, 27)])
def test_rounds_leave_their_share_of_the_budget_to_those_with_more_conditions(conditions: int, count: int) -> None:
    """The first round has 45 of 45, 75, 90 or 100 parts of the budget, its first rung 40 % of that: for 150 trials."""
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    settings = SearchSettings(most_changed=1.0, most_conditions=conditions)
    dear = rungs_for(SourceInput(POLICY, SEEN, mining, search=settings, budget=0))[0].changes * LENGTH
    given = SourceInput(POLICY, SEEN, mining, search=settings, budget=round(150.5 * dear))
    assert len(trials_of(searched(given), lambda _: round(dear))[0].rule_sets) == count
