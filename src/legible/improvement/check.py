"""Whether a composition is better than the policy alone, on seeds that chose nothing.

- `check_composition`: plays it, what it is compared with in the front, and the unguided policy.
- `front_candidates`, `non_dominated`: the compositions that no other one beats in both gain and changed actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legible.evaluation.confirmation import Judge, least_episodes
from legible.evaluation.objectives import find_objective
from legible.evaluation.units import UnitResult
from legible.improvement.composed import CompositionCheck, FrontPoint, share_changed
from legible.improvement.trials import Play
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES, EvaluationSettings

MOST_POINTS = 6
"""Compositions of the front that are played on the seeds of the check, the chosen one included."""


@dataclass(frozen=True)
class Checked:
    """A check, the front, and the environment steps that they took."""

    check: CompositionCheck
    front: tuple[FrontPoint, ...]
    environment_steps: int


def check_composition(how: Play, composition: RuleSet, others: Sequence[RuleSet], episodes: int) -> Checked:
    """Check a composition on seeds of its own.

    As in the confirmation, at least 200 episodes must be changed for a test that holds where losses are rare and large;
    where the seeds of the settings hold fewer, more are played, up to as many as a confirmation has.

    Parameters
    ----------
    how
        How they are played.
    composition, others
        The rules to check, and those of the other compositions of the front.
    episodes
        Seeds, at least.
    """
    settings, seed = how.settings, how.seed
    least = max(episodes, least_episodes(settings))
    most = max(least, settings.confirmation_seeds)
    play = how.beside("composition check", most)
    numbers = [play.add(rules) for rules in (composition, *others)]
    play.play_seeds({numbers[0]: least})
    play.play_changes({numbers[0]: FEWEST_CHANGES})
    seeds = max(least, play.seeds_for(numbers[0], FEWEST_CHANGES))
    play.play_seeds(dict.fromkeys(numbers, seeds))
    pairs = [play.pairs(number, seeds) for number in numbers]
    judge = Judge(play.results, pairs, settings, seed)
    effects = [judge.effect(one) for one in pairs]
    constraints = judge.constraints(pairs[0])
    rare = int(pairs[0].changed.sum()) < FEWEST_CHANGES
    check = CompositionCheck(
        composition=composition,
        effect=effects[0],
        changed=share_changed(pairs[0].guided),
        is_too_rare=rare,
        constraints=constraints,
        is_passed=not rare and effects[0].p <= settings.alpha and all(one.is_kept for one in constraints),
    )
    points = [
        FrontPoint(rules, effect, share_changed(one.guided), is_chosen=rules is composition)
        for rules, effect, one in zip((composition, *others), effects, pairs, strict=True)
    ]
    steps = int(play.record.result.lengths.sum()) + sum(play.steps(number) for number in numbers)
    return Checked(check, _front(points), steps)


def _front(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """The points that none beats in both, and the chosen one, the fewest changes first."""
    best = non_dominated([(point.effect.mean, point.changed) for point in points])
    chosen = [i for i, point in enumerate(points) if point.is_chosen]
    return tuple(sorted((points[i] for i in {*best, *chosen}), key=lambda point: (point.changed, point.effect.mean)))


def non_dominated(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the points, of gain and share changed, that gain more than all which change as little.

    What gains nothing is beaten by changing nothing.

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
    """Return which compositions other than the chosen one are played for the front, by the seeds that chose it."""
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
