"""Check of a composition against the unguided policy on held-out seeds.

- `check_composition`: plays the composition, alternatives of the front, and the unguided policy.
- `front_candidates`, `non_dominated`: compositions that no other one beats in both gain and override rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from legible.evaluation.confirmation import Judge, least_episodes
from legible.evaluation.objectives import find_objective
from legible.evaluation.units import UnitResult
from legible.improvement.composed import CompositionCheck, FrontPoint, share_changed
from legible.improvement.trials import Play
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES, EvaluationSettings

MOST_POINTS = 6
"""Maximum number of compositions of the front that are played, including the chosen one."""


class Checked(NamedTuple):
    """A check, the front, and their environment steps."""

    check: CompositionCheck
    front: tuple[FrontPoint, ...]
    environment_steps: int


def check_composition(how: Play, composition: RuleSet, others: Sequence[RuleSet], episodes: int) -> Checked:
    """Return whether a composition (the rules to deploy) is better than the unguided policy on held-out seeds.

    The rules must change at least `FEWEST_CHANGES` episodes: with fewer, the test is not valid where large losses are
    rare. If the minimum number of seeds gives fewer, more are played, up to `confirmation_seeds`.

    Parameters
    ----------
    how
        Policy, environment, seed and settings that all compositions are played with.
    composition, others
        The rules to check, and other compositions of the Pareto front of gain and override rate, which play the same
        seeds for comparison.
    episodes
        Minimum number of seeds.

    Returns
    -------
    The check, the Pareto front with figures of these seeds, and the number of environment steps played.
    """
    settings, seed = how.settings, how.seed
    min_seeds = max(episodes, least_episodes(settings))
    max_seeds = max(min_seeds, settings.confirmation_seeds)
    # `play` pairs guided with unguided episodes on the same seeds. The composition decides the number of seeds; the
    # others then play as many.
    play = how.against("composition check", max_seeds)
    numbers = [play.add(rules) for rules in (composition, *others)]
    play.play_seeds({numbers[0]: min_seeds})
    play.play_changes({numbers[0]: FEWEST_CHANGES})
    seeds = max(min_seeds, play.seeds_for(numbers[0], FEWEST_CHANGES))
    play.play_seeds(dict.fromkeys(numbers, seeds))
    pairs = [play.pairs(number, seeds) for number in numbers]
    # Test all, and whether the composition keeps the constraints.
    judge = Judge(play.results, pairs, settings, seed, how.worst_loss)
    effects = [judge.effect(one) for one in pairs]
    constraints = judge.constraints(pairs[0])
    is_too_rare = int(pairs[0].changed.sum()) < FEWEST_CHANGES
    check = CompositionCheck(
        composition=composition,
        effect=effects[0],
        changed=share_changed(pairs[0].guided),
        is_too_rare=is_too_rare,
        constraints=constraints,
        is_passed=not is_too_rare and effects[0].p <= settings.alpha and all(one.is_kept for one in constraints),
    )
    points = [
        FrontPoint(rules, effect, share_changed(one.guided), is_chosen=rules is composition)
        for rules, effect, one in zip((composition, *others), effects, pairs, strict=True)
    ]
    steps = int(play.record.result.lengths.sum()) + sum(play.steps(number) for number in numbers)
    return Checked(check, _front(points), steps)


def _front(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
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
    looked_at: Sequence[tuple[RuleSet, UnitResult]], base: UnitResult, chosen: RuleSet, settings: EvaluationSettings
) -> list[RuleSet]:
    """Return the other compositions that are played for the front, by the seeds on which they were selected."""
    objective = find_objective(settings.objective)
    different = {frozenset(rules.rules): (rules, result) for rules, result in looked_at}
    different.pop(frozenset(chosen.rules), None)
    tried = list(different.values())
    alone = objective.value(base.played)
    gains = [(objective.value(result.played) - alone, share_changed(result)) for _, result in tried]
    best = non_dominated(gains)
    if len(best) >= MOST_POINTS:
        best = [best[i] for i in np.linspace(0, len(best) - 1, MOST_POINTS - 1).round().astype(int)]
    return [tried[i][0] for i in best]
