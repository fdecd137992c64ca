"""Confirmation of raced rule sets, on seeds that no choice has seen.

- `confirm`: plays candidates, the mined rule alone behind each of them, and the unguided policy, on as many
  changed episodes as were fixed beforehand (`Expectation`); `Confirmed`: what came of it.
- `Judge`: tests what was played; `least_episodes`: how many episodes the objectives need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from legible.evaluation.blocks import PlayedBlocks, Runner
from legible.evaluation.changed import resamples_for
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import (
    ComparisonOptions,
    ConstraintCheck,
    Objective,
    find_objective,
    parse_constraints,
)
from legible.evaluation.pairs import FIRST_LOOK, PairedPlay, Pairs
from legible.evaluation.recorded import EpisodeRecord, Repetition
from legible.evaluation.statistics import Effect, benjamini_hochberg
from legible.evaluation.units import Setup, Treatment, UnitResult
from legible.evaluation.verdicts import Confirmation
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES, EvaluationSettings

OVERSAMPLING = 1.25
"""A number of changed episodes is asked for if this many times as many are expected: the share is an estimate."""
MOST_CHANGES_FACTOR = 4
"""Small effects are confirmed on more changed episodes than the settings say, at most on this many times as many."""
POWER_SAFETY_FACTOR = 4
"""Large ones on fewer: this many times as many as would show the effect of the race, which is too large at times.

Four times the episodes are enough for an effect half as large."""


class Expectation(NamedTuple):
    """What the race lets expect of a candidate.

    Parameters
    ----------
    share
        The share of the episodes that it changes.
    changes
        Changed episodes that would show an effect as large as that of the race with a power of 80 %, even if no other
        candidate had any; 0 where that is not known.
    """

    share: float
    changes: int = 0


@dataclass(frozen=True)
class Confirmed:
    """What fresh seeds say.

    Parameters
    ----------
    confirmations
        Of every candidate.
    steps
        Environment steps that each took, its mined rule alone included.
    blocks
        The unguided policy on all seeds, every candidate on the seeds on which it was judged, and the mined rules.
    """

    confirmations: tuple[Confirmation, ...]
    steps: tuple[int, ...]
    blocks: PlayedBlocks


def confirm(
    setup: Setup,
    repetition: Repetition,
    candidates: Sequence[RuleSet | Treatment],
    expected: Sequence[Expectation],
    *,
    seed: int,
    settings: EvaluationSettings,
    run: Runner,
    on_episodes: Callable[[int], None] | None = None,
) -> Confirmed:
    """Confirm candidates on fresh seeds.

    Each is played until a number of its episodes was changed that is fixed before any of them is seen: the number of
    the settings; more if the race lets expect a small effect, fewer if a large one; or, if it lets expect fewer changes
    on all seeds, the smallest number that the test is valid for. One that does not get there is too rare to tell: it
    counts as a test with p = 1. Where the race lets expect even fewer, no seeds are played for its sake: those that the
    others need tell its size.

    Parameters
    ----------
    setup, repetition
        Policy and environment, and whether the same seed gives the same episode there.
    candidates, expected
        Rule sets, and what the race lets expect of each.
    seed, settings
        Of the study.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    record = EpisodeRecord(setup, seed, "racing confirmation", settings.confirmation_seeds, run, on_episodes)
    play = PairedPlay(setup, repetition, record, run, on_episodes)
    numbers = [play.add(candidate) for candidate in candidates]
    goals = [changes_to_confirm(one, settings) for one in expected]
    play.play_changes({number: goal for number, goal in zip(numbers, goals, strict=True) if goal})
    known = record.extend(FIRST_LOOK)
    least = min(least_episodes(settings), settings.confirmation_seeds)
    seeds = [max(least, play.seeds_for(n, goal)) if goal else known for n, goal in zip(numbers, goals, strict=True)]
    play.play_seeds(dict(zip(numbers, seeds, strict=True)))
    alone = [_add_mined_rule(play, number) for number in numbers]
    # What the mined rule adds is no claim of its own: the usual number of changes tells it.
    usual = settings.confirmation_changes
    fewer = [
        min(n, max(least, play.seeds_for(number, min(goal, usual)))) if goal else n
        for number, n, goal in zip(numbers, seeds, goals, strict=True)
    ]
    wanted: dict[int, int] = {}
    for number, n in zip(alone, fewer, strict=True):
        if number is not None:
            wanted[number] = max(n, wanted.get(number, 0))
    play.play_seeds(wanted)
    judged = [play.pairs(number, n) for number, n in zip(numbers, seeds, strict=True)]
    rare = [not goal or int(pairs.changed.sum()) < goal for pairs, goal in zip(judged, goals, strict=True)]
    judge = Judge(play.results, judged, settings, seed)
    effects = judge.effects(rare)
    q = benjamini_hochberg([effect.p for effect in effects])
    confirmations = [
        Confirmation(
            effect=effects[k],
            q=float(q[k]),
            of_rule=None if rule is None else judge.effect(play.pairs(rule, fewer[k])),
            of_generalisation=None
            if rule is None
            else judge.effect(play.pairs(numbers[k], fewer[k]).beyond(play.pairs(rule, fewer[k]))),
            failed=int(judged[k].guided.failed.sum()),
            failed_unguided=int(record.result.failed[: seeds[k]].sum()),
            is_too_rare=rare[k],
            constraints=judge.constraints(judged[k]),
        )
        for k, rule in enumerate(alone)
    ]
    steps = [play.steps(n) + (play.steps(a) if a not in (None, n) else 0) for n, a in zip(numbers, alone, strict=True)]
    for number, n in zip(numbers, seeds, strict=True):
        wanted[number] = max(n, wanted.get(number, 0))
    guided = [play.pairs(number, wanted[number]).guided for number in range(len(play.treatments))]
    base = record.result
    blocks = PlayedBlocks(play.setup, tuple(record.seeds[: len(base)].tolist()), (base, *guided))
    return Confirmed(tuple(confirmations), tuple(steps), blocks)


def changes_to_confirm(expected: Expectation, settings: EvaluationSettings) -> int:
    """Return how many changed episodes a candidate is to have; 0 where too few are to be expected."""
    usual, changes = settings.confirmation_changes, expected.share * settings.confirmation_seeds
    if changes >= OVERSAMPLING * usual:
        if 0 < POWER_SAFETY_FACTOR * expected.changes < usual:
            return max(FEWEST_CHANGES, POWER_SAFETY_FACTOR * expected.changes)
        return max(usual, min(expected.changes, MOST_CHANGES_FACTOR * usual, int(changes / OVERSAMPLING)))
    return FEWEST_CHANGES if changes >= OVERSAMPLING * FEWEST_CHANGES else 0


def _add_mined_rule(play: PairedPlay, number: int) -> int | None:
    """Return the number of the mined rule alone behind a candidate; None where it has none."""
    candidate = play.treatments[number]
    if not isinstance(candidate, RuleSet) or candidate.source is None:
        return None
    if set(candidate.rules) == {candidate.source}:
        return number
    alone = RuleSet((candidate.source,), candidate.source)
    return play.treatments.index(alone) if alone in play.treatments else play.add(alone)


def least_episodes(settings: EvaluationSettings) -> int:
    """How many episodes the objectives need that are asked for."""
    asked = (find_objective(settings.objective), *(one.objective for one in parse_constraints(settings.constraint)))
    return max(objective.confirmation_episodes for objective in asked)


class Judge:
    """Tests candidates together, failed episodes at their worst.

    Parameters
    ----------
    results
        All episodes of the stage.
    pairs
        The candidates, each with the unguided policy.
    settings
        The objective, the constraints and the level.
    seed
        Of the study: resamples follow from it.
    """

    def __init__(
        self, results: Sequence[UnitResult], pairs: Sequence[Pairs], settings: EvaluationSettings, seed: int
    ) -> None:
        self._objective = find_objective(settings.objective)
        self._constraints = parse_constraints(settings.constraint)
        self._results, self._pairs = results, pairs
        self._options = (resamples_for(len(pairs), settings.alpha), seed, settings.alpha / max(1, len(pairs)))
        self._comparison = self._comparison_by(self._objective)

    def _sides(self, pairs: Pairs, objective: Objective) -> tuple[UnitResult, UnitResult]:
        return WorstCase(self._results, objective.value).of(pairs.guided, pairs.base)

    def _comparison_by(self, objective: Objective) -> ComparisonOptions:
        loss = objective.invented_loss(self._sides(pairs, objective) for pairs in self._pairs)
        return ComparisonOptions(loss, *self._options)

    def effects(self, too_rare: Sequence[bool]) -> list[Effect]:
        """Test every candidate; one that changes too few episodes to tell has p = 1."""
        found = [self.effect(pairs) for pairs in self._pairs]
        return [replace(effect, p=1.0) if rare else effect for effect, rare in zip(found, too_rare, strict=True)]

    def effect(self, pairs: Pairs) -> Effect:
        """Test whether guidance raises the objective."""
        return self._objective.test(*self._sides(pairs, self._objective), pairs.changed, self._comparison)

    def constraints(self, pairs: Pairs) -> tuple[ConstraintCheck, ...]:
        """Check every constraint."""
        checks = []
        for one in self._constraints:
            sides = self._sides(pairs, one.objective)
            effect = one.objective.test(*sides, pairs.changed, self._comparison_by(one.objective))
            checks.append(ConstraintCheck.of(one, effect))
        return tuple(checks)
