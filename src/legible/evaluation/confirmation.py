"""Confirmation of raced rule sets, on seeds that no choice has seen.

- `confirm`: plays candidates, and the mined rule alone behind each of them, beside the unguided policy, on as many
  changed episodes as were fixed beforehand; `Confirmed`: what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.blocks import PlayedBlocks, Runner
from legible.evaluation.changed import changed_mean_test, largest_loss, resamples_for
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import find_objective
from legible.evaluation.pairs import FIRST_LOOK, PairedPlay
from legible.evaluation.recorded import Repetition, UnguidedRecord
from legible.evaluation.statistics import Effect, benjamini_hochberg
from legible.evaluation.units import Setup, Treatment, UnitResult
from legible.evaluation.verdicts import Confirmation
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES, EvaluationSettings

SPARE = 1.25
"""A candidate is to have a number of changed episodes if so many times as many are expected."""


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
    shares: Sequence[float],
    *,
    seed: int,
    settings: EvaluationSettings,
    run: Runner,
    on_episodes: Callable[[int], None] | None = None,
) -> Confirmed:
    """Confirm candidates on fresh seeds.

    Each is played until a number of its episodes was changed that is fixed before any of them is seen: the number of
    the settings, or, if the race lets expect fewer on all seeds, the smallest that the test is valid for. One that does
    not get there is too rare to tell: it counts as a test with p = 1. Where the race lets expect even fewer, no seeds
    are played for its sake: those that the others need tell its size.

    Parameters
    ----------
    setup, repetition
        Policy and environment, and whether the same seed gives the same episode there.
    candidates, shares
        Rule sets, and the share of the episodes that each changed in the race.
    seed, settings
        Of the study.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    record = UnguidedRecord(setup, seed, "racing confirmation", settings.confirmation_seeds, run, on_episodes)
    play = PairedPlay(setup, repetition, record, run, on_episodes)
    numbers = [play.add(candidate) for candidate in candidates]
    goals = [_goal(share, settings) for share in shares]
    play.play_changes({number: goal for number, goal in zip(numbers, goals, strict=True) if goal})
    known = record.extend(FIRST_LOOK)
    seeds = [play.seeds_for(n, goal) if goal else known for n, goal in zip(numbers, goals, strict=True)]
    play.play_seeds(dict(zip(numbers, seeds, strict=True)))
    alone = [_add_mined_rule(play, number) for number in numbers]
    wanted: dict[int, int] = {}
    for number, n in zip(alone, seeds, strict=True):
        if number is not None:
            wanted[number] = max(n, wanted.get(number, 0))
    play.play_seeds(wanted)
    judge = _Judge(play, settings, seed, len(candidates))
    judged = [judge.pair(number, n) for number, n in zip(numbers, seeds, strict=True)]
    judge.invented_loss = largest_loss(changed for changed, _ in judged)
    rare = [not goal or len(changed) < goal for (changed, _), goal in zip(judged, goals, strict=True)]
    effects = [judge.effect(*pair) for pair in judged]
    effects = [replace(effect, p=1.0) if is_rare else effect for effect, is_rare in zip(effects, rare, strict=True)]
    q = benjamini_hochberg([effect.p for effect in effects])
    confirmations = [
        Confirmation(
            effect=effects[k],
            q=float(q[k]),
            of_rule=None if rule is None else judge.effect(*judge.pair(rule, seeds[k])),
            of_generalisation=None if rule is None else judge.effect(*judge.difference(numbers[k], rule, seeds[k])),
            failed=int(play.pairs(numbers[k], seeds[k]).guided.failed.sum()),
            failed_unguided=int(record.result.failed[: seeds[k]].sum()),
            is_too_rare=rare[k],
        )
        for k, rule in enumerate(alone)
    ]
    steps = [play.steps(n) + (play.steps(a) if a not in (None, n) else 0) for n, a in zip(numbers, alone, strict=True)]
    for number, n in zip(numbers, seeds, strict=True):
        wanted[number] = max(n, wanted.get(number, 0))
    return Confirmed(tuple(confirmations), tuple(steps), _blocks(play, wanted))


def _goal(share: float, settings: EvaluationSettings) -> int:
    """How many changed episodes a candidate is to have; 0 where so many are not to be expected."""
    expected = share * settings.confirmation_seeds
    goals = (settings.confirmation_changes, FEWEST_CHANGES)
    return next((goal for goal in goals if expected >= SPARE * goal), 0)


def _add_mined_rule(play: PairedPlay, number: int) -> int | None:
    """Return the number of the mined rule alone behind a candidate; None where it has none."""
    candidate = play.treatments[number]
    if not isinstance(candidate, RuleSet) or candidate.source is None:
        return None
    if set(candidate.rules) == {candidate.source}:
        return number
    alone = RuleSet((candidate.source,), candidate.source)
    return play.treatments.index(alone) if alone in play.treatments else play.add(alone)


class _Judge:
    """Compares treatments on the seeds of the confirmation, failed episodes at their worst."""

    def __init__(self, play: PairedPlay, settings: EvaluationSettings, seed: int, tests: int) -> None:
        self._play, self._alpha = play, settings.alpha / tests
        self._worst = WorstCase(play.results, find_objective(settings.objective).value)
        self._resamples, self._seed = resamples_for(tests, settings.alpha), seed
        self.invented_loss = 0.0

    def pair(self, number: int, seeds: int) -> tuple[NDArray[np.float64], int]:
        """Return guided minus unguided returns of the changed episodes, and the number of all."""
        pairs = self._play.pairs(number, seeds)
        return self._differences(pairs.guided, pairs.base)[pairs.changed], seeds

    def difference(self, number: int, other: int, seeds: int) -> tuple[NDArray[np.float64], int]:
        """Return one treatment minus the other on the episodes that either changed, and the number of all."""
        one, two = self._play.pairs(number, seeds), self._play.pairs(other, seeds)
        return self._differences(one.guided, two.guided)[one.changed | two.changed], seeds

    def _differences(self, better: UnitResult, worse: UnitResult) -> NDArray[np.float64]:
        first, second = self._worst.of(better, worse)
        found: NDArray[np.float64] = first.returns - second.returns
        return found

    def effect(self, changed: NDArray[np.float64], seeds: int) -> Effect:
        """Test whether the mean of the differences is greater than zero."""
        return changed_mean_test(
            changed,
            seeds,
            invented_loss=self.invented_loss,
            resamples=self._resamples,
            rng_seed=self._seed,
            alpha=self._alpha,
        )


def _blocks(play: PairedPlay, seeds: dict[int, int]) -> PlayedBlocks:
    guided = [play.pairs(number, seeds[number]).guided for number in range(len(play.treatments))]
    base = play.record.result
    return PlayedBlocks(play.setup, tuple(play.record.seeds[: len(base)].tolist()), (base, *guided))
