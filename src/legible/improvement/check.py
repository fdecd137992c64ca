"""Check of a composition against the unguided policy on held-out seeds.

- `judge_composition`: tests one composition; `share_of_level`: the correction for the others that could be chosen.
- `check_composition`: plays the composition and the unguided policy; then, if it gains, alternatives of the front.
- `front_candidates`, `pareto_front`, `non_dominated`: compositions that no other one beats in both gain and
  override rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from legible.evaluation.blocks import PlayedBlocks
from legible.evaluation.confirmation import Judge, least_episodes
from legible.evaluation.objectives import find_objective
from legible.evaluation.pairs import PairedPlay, Pairs
from legible.evaluation.units import UnitResult
from legible.improvement.composed import CompositionCheck, FrontPoint, share_changed
from legible.improvement.trials import Play
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES, EvaluationSettings

FINEST_SHARE = 0.01
"""Tests at smaller shares of the level draw no more resamples, whose weights make small p-values precise anyway."""

SMALLEST_SHARE = 1e-9
"""Intervals are computed for no smaller share of the level, which rounding would lose."""


class Checked(NamedTuple):
    """A check, the front, and their environment steps."""

    check: CompositionCheck
    front: tuple[FrontPoint, ...]
    environment_steps: int


def check_composition(
    how: Play,
    composition: RuleSet,
    others: Sequence[RuleSet],
    episodes: int,
    confirmed: PlayedBlocks | None = None,
    share: float = 1.0,
) -> Checked:
    """Return whether a composition (the rules to deploy) is better than the unguided policy on held-out seeds.

    The rules must change at least `FEWEST_CHANGES` episodes: with fewer, the test is not valid where large losses are
    rare. If the minimum number of seeds gives fewer, more are played, up to `confirmation_seeds`.

    Parameters
    ----------
    how
        Policy, environment, seed and settings that all compositions are played with.
    composition, others
        The rules to check, and other compositions of the Pareto front of gain and override rate. If the check is
        passed, they play the same seeds for comparison.
    episodes
        Minimum number of seeds.
    confirmed
        The episodes of the confirmation, where they had no part in the selection of the composition: then it is checked
        on their seeds, and they are not played again.
    share
        Share of the significance level that this check may use.

    Returns
    -------
    The check, the Pareto front with figures of these seeds, and the number of environment steps played.
    """
    settings, seed = how.settings, how.seed
    min_seeds = max(episodes, least_episodes(settings))
    max_seeds = max(min_seeds, settings.confirmation_seeds)
    # `play` pairs guided with unguided episodes on the same seeds. The composition decides the number of seeds; the
    # others then play as many. `seeds_for` says how many seeds hold a number of changed episodes.
    play = how.against("composition check" if confirmed is None else "racing confirmation", max_seeds)
    number, known_seeds = play.add(composition), 0
    if confirmed is not None:
        # Episodes of the confirmation count no steps here; the composition may be a rule set that was confirmed.
        known_seeds = len(confirmed.base)
        for i, treatment in enumerate(confirmed.setup.treatments):
            if isinstance(treatment, RuleSet) and set(treatment.rules) == set(composition.rules):
                play.take_over(number, confirmed.guided(i))
    play.play_seeds({number: min_seeds})
    play.play_changes({number: FEWEST_CHANGES})
    seeds = max(min_seeds, play.seeds_for(number, FEWEST_CHANGES))
    play.play_seeds({number: seeds})
    pairs = play.pairs(number, seeds)
    check = judge_composition(how, composition, play, pairs, share)
    # Gain and override rate of every composition; those that no other one beats in both are the Pareto front.
    points = [FrontPoint(composition, check.effect, check.changed, is_chosen=True)]
    if check.is_passed:
        numbers = [play.add(rules) for rules in others]
        play.play_seeds(dict.fromkeys(numbers, seeds))
        pairs_of_others = [play.pairs(other, seeds) for other in numbers]
        judge = Judge(play.results, [pairs, *pairs_of_others], settings, seed, how.worst_loss)
        points += [
            FrontPoint(rules, judge.effect(one), share_changed(one.guided))
            for rules, one in zip(others, pairs_of_others, strict=True)
        ]
    steps = int(play.record.result.lengths[known_seeds:].sum())
    return Checked(check, pareto_front(points), steps + sum(play.steps(n) for n in range(len(play.treatments))))


def judge_composition(
    how: Play, composition: RuleSet, play: PairedPlay, pairs: Pairs, share: float = 1.0
) -> CompositionCheck:
    """Return whether a composition is better than the unguided policy, and whether it keeps the constraints.

    Parameters
    ----------
    how
        Seed and settings that all compositions are played with.
    composition
        The rules to check.
    play, pairs
        The episodes of the composition and of the unguided policy, and the play that they come from.
    share
        Share of the significance level that this composition may use, if others could be tested on the same seeds. The
        p-value and the intervals are corrected accordingly, so that they hold for whichever composition is chosen.
    """
    # The level decides the number of resamples and the intervals; the bounds keep both computable for tiny shares.
    settings = replace(how.settings, alpha=how.settings.alpha * max(share, FINEST_SHARE))
    judge = Judge(play.results, [pairs], settings, how.seed, how.worst_loss, 1.0 - 0.05 * max(share, SMALLEST_SHARE))
    effect, constraints = judge.effect(pairs), judge.constraints(pairs)
    effect = replace(effect, p=min(1.0, effect.p / share))
    is_too_rare = int(pairs.changed.sum()) < FEWEST_CHANGES
    return CompositionCheck(
        composition=composition,
        effect=effect,
        changed=share_changed(pairs.guided),
        is_too_rare=is_too_rare,
        constraints=constraints,
        is_passed=not is_too_rare and effect.p <= how.settings.alpha and all(one.is_kept for one in constraints),
    )


def share_of_level(candidates: int, rule_sets: int, rules: int, removed: int) -> float:
    """Return the share of the significance level for a composition that was chosen on the seeds that it is tested on.

    Any composition might have been chosen, so each gets a share that was fixed before (weighted Bonferroni): j rule
    sets of all candidates share 2^-j of the level, and r rules removed from their union 2^-(r + 1) of that. All shares
    add up to at most 1, and small compositions, which are the likely ones, have large shares.

    Parameters
    ----------
    candidates, rule_sets
        Number of candidates, and of those that the composition takes rules from.
    rules, removed
        Number of rules of these rule sets, and of those that were removed from them.

    >>> share_of_level(4, 2, 2, 0)
    0.020833333333333332
    """
    return 1.0 / (2 ** (rule_sets + removed + 1) * math.comb(candidates, rule_sets) * math.comb(rules, removed))


def pareto_front(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Return the non-dominated points and the chosen one, the lowest override rate first."""
    best = non_dominated([(point.effect.mean, point.changed) for point in points])
    chosen = [i for i, point in enumerate(points) if point.is_chosen]
    return tuple(sorted((points[i] for i in {*best, *chosen}), key=lambda point: (point.changed, point.effect.mean)))


def non_dominated(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the points (gain, override rate) that gain more than all points with a lower rate.

    Points without a gain are dominated by changing nothing.

    >>> non_dominated([(50.0, 0.2), (30.0, 0.1), (40.0, 0.3), (-1.0, 0.01)])
    [1, 0]
    """
    best, found = 0.0, []
    for place in sorted(range(len(points)), key=lambda place: (points[place][1], -points[place][0])):
        if points[place][0] > best:
            best = points[place][0]
            found.append(place)
    return found


def front_candidates(
    looked_at: Sequence[tuple[RuleSet, UnitResult]],
    base: UnitResult,
    chosen: RuleSet,
    settings: EvaluationSettings,
    most_points: int,
) -> list[RuleSet]:
    """Return the compositions that are played for the Pareto front of gain and override rate, besides the chosen one.

    They are the best on the seeds on which compositions were selected. With the chosen one they are at most
    `most_points`.

    Parameters
    ----------
    looked_at
        All compositions that the selection has tried, with their episodes.
    base
        The unguided episodes on the same seeds.
    """
    objective = find_objective(settings.objective)
    distinct = {frozenset(rules.rules): (rules, result) for rules, result in looked_at}
    distinct.pop(frozenset(chosen.rules), None)
    tried = list(distinct.values())
    unguided_value = objective.value(base.played)
    gains_and_rates = [(objective.value(result.played) - unguided_value, share_changed(result)) for _, result in tried]
    best = non_dominated(gains_and_rates)
    if len(best) >= most_points:  # too many: take some, evenly spread
        best = [best[i] for i in np.linspace(0, len(best) - 1, most_points - 1).round().astype(int)]
    return [tried[i][0] for i in best]
