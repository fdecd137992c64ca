"""Trials of compositions: selected on the first half of the seeds, tested on the second half.

- `PlayedCompositions`: compositions on one list of seeds, each played once.
- `Trials`: plays compositions on the first half and compares them with the current one; `CompositionTrial`: one trial.
- `SecondHalf`: plays selected compositions on the second half, and tests whether one is better than another.

Episodes that a composition cannot change are not played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Runner, WorstCase, find_objective
from legible.evaluation.changed import resamples_for
from legible.evaluation.objectives import ComparisonOptions
from legible.evaluation.pairs import PairedPlay, Pairs
from legible.evaluation.recorded import EpisodeRecord, Repetition
from legible.evaluation.statistics import Effect, Standing
from legible.evaluation.units import Setup, UnitResult
from legible.improvement.composed import share_changed
from legible.rules import CompiledRules, Rule, RuleSet
from legible.settings import EvaluationSettings

ADDITION_LOOKS = ((4, 0.0), (2, 0.5))
"""A trial of an addition is stopped if its z is no higher on the first quarter of the seeds, and on the first half."""
REMOVAL_LOOKS = ((4, -1.0),)
"""The same for a removal; one that has changed nothing goes on."""


class Play(NamedTuple):
    """Settings that all compositions are played with.

    Parameters
    ----------
    setup, repetition
        Policy and environment, and whether the same seed gives the same episode there.
    seed, settings
        Seed of the study; objective, constraints and significance level.
    run
        As in `legible.evaluation.evaluate`.
    worst_loss
        The worst paired loss that the study has seen.
    """

    setup: Setup
    repetition: Repetition
    seed: int
    settings: EvaluationSettings
    run: Runner
    worst_loss: float = 0.0

    def against(self, stage: str, seeds: int, *, first: int = 0, rules: RuleSet | None = None) -> PairedPlay:
        """Return play compared with the policy, guided by rules or unguided, on seeds of a stage from `first` on."""
        unguided_setup = replace(self.setup, treatments=(), rows=self.repetition.rows)
        record = EpisodeRecord(unguided_setup, self.seed, stage, seeds, self.run, rules, first)
        return PairedPlay(unguided_setup, self.repetition, record, self.run)


@dataclass(frozen=True)
class CompositionTrial:
    """A composition that was tried.

    Parameters
    ----------
    rules
        Its rules.
    pairs
        Its episodes, and the episodes of the current composition.
    standing
        Estimate of how much better it is by the objective.
    is_whole
        Whether all seeds were played.
    """

    rules: RuleSet
    pairs: Pairs
    standing: Standing
    is_whole: bool

    @property
    def addition(self) -> float:
        """Gain by the objective, compared with the current composition."""
        return self.standing.difference

    @property
    def result(self) -> UnitResult:
        """Its episodes."""
        return self.pairs.guided

    @property
    def changed(self) -> float:
        """Its override rate."""
        return share_changed(self.result)


class PlayedCompositions:
    """Compositions on one list of seeds, each played once, where they can differ from the recorded episodes.

    Parameters
    ----------
    paired
        Plays compositions on the seeds, and records the episodes that they are compared with.
    seeds
        Number of seeds.
    known
        Number of recorded episodes that an earlier stage has played.
    """

    def __init__(self, paired: PairedPlay, seeds: int, *, known: int = 0) -> None:
        self.paired, self.seeds, self._known = paired, seeds, known
        self._numbers: dict[frozenset[Rule], int] = {}  # of treatments in `paired`, by their rules
        paired.record.extend(seeds)

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        steps = sum(self.paired.steps(number) for number in range(len(self.paired.treatments)))
        return steps + int(self.paired.record.result.lengths[self._known :].sum())

    def take_over(self, rules: RuleSet, result: UnitResult) -> None:
        """Use the episodes of a composition that were played elsewhere on the first seeds."""
        if frozenset(rules.rules) not in self._numbers:
            self.paired.take_over(self.number(rules), result)

    def number(self, rules: RuleSet) -> int:
        """Return the number of a composition in `paired`, which knows equal ones as one."""
        key = frozenset(rules.rules)
        if key not in self._numbers:
            self._numbers[key] = self.paired.add(rules)
        return self._numbers[key]

    def is_recorded(self, rules: RuleSet) -> bool:
        """Return whether the recorded episodes are those of a composition."""
        recorded = self.paired.record.treatment
        return set(rules.rules) == (set(recorded.rules) if isinstance(recorded, RuleSet) else set())

    def play(self, compositions: Sequence[RuleSet], seeds: int) -> None:
        """Play compositions on the first seeds, all at once."""
        self.paired.play_seeds({self.number(rules): seeds for rules in compositions if not self.is_recorded(rules)})

    def result(self, rules: RuleSet, seeds: int) -> UnitResult:
        """Return the episodes of a composition on the first seeds."""
        if self.is_recorded(rules):
            return self.paired.record.result[:seeds]
        self.play([rules], seeds)
        return self.paired.pairs(self.number(rules), seeds).guided


class Trials:
    """Trials of compositions on the first seeds, compared with the current composition.

    Parameters
    ----------
    play
        Settings of play.
    seeds
        Number of seeds.
    rules
        The current composition; None: no rules.
    played
        Compositions that were played on these and further seeds. By default the current composition is recorded step by
        step, so that others are played only from where they differ from it.
    """

    def __init__(
        self, play: Play, seeds: int, rules: RuleSet | None = None, played: PlayedCompositions | None = None
    ) -> None:
        self.rules = rules or RuleSet(())
        self._seeds, self._objective = seeds, find_objective(play.settings.objective)
        self.played = played or PlayedCompositions(play.against("composition", seeds, rules=rules), seeds)

    @property
    def result(self) -> UnitResult:
        """Episodes of the current composition."""
        return self.played.result(self.rules, self._seeds)

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        return self.played.environment_steps

    def play(
        self,
        compositions: Sequence[RuleSet],
        looks: Sequence[tuple[int, float]] = ADDITION_LOOKS,
        *,
        idle_goes_on: bool = False,
    ) -> list[CompositionTrial]:
        """Try compositions, and stop those that look worse than the current one on the first seeds.

        Each look is a divisor of the number of seeds, such as 4 for a quarter, and the z above which a composition
        plays on. With `idle_goes_on`, so does one that has changed nothing. Episodes are played once, so later looks
        only play further seeds.
        """
        trials: dict[int, CompositionTrial] = {}
        playing = list(range(len(compositions)))
        for divisor, least_z in looks:
            seeds = max(self._seeds // divisor, min(self._objective.rung_episodes, self._seeds), 2)
            trials |= zip(playing, self._on_seeds([compositions[i] for i in playing], seeds), strict=True)
            idle = {i for i in playing if idle_goes_on and not trials[i].pairs.changed.any()}
            playing = [i for i in playing if trials[i].standing.z > least_z or i in idle]
        trials |= zip(playing, self._on_seeds([compositions[i] for i in playing], self._seeds), strict=True)
        return [trials[i] for i in range(len(compositions))]

    def _on_seeds(self, compositions: Sequence[RuleSet], seeds: int) -> list[CompositionTrial]:
        self.played.play(compositions, seeds)
        return [self._trial(rules, seeds) for rules in compositions]

    def _trial(self, rules: RuleSet, seeds: int) -> CompositionTrial:
        """Return a composition that was played, compared with the current one."""
        if self.played.is_recorded(self.rules) and not self.played.is_recorded(rules):
            pairs = self.played.paired.pairs(self.played.number(rules), seeds)
        else:
            guided, current = (self.played.result(one, seeds) for one in (rules, self.rules))
            pairs = Pairs(guided, current, differ(guided, current))
        sides = WorstCase(self.played.paired.results, self._objective.value).of(pairs.guided, pairs.base)
        standing = self._objective.standing(*sides, pairs.changed)
        return CompositionTrial(rules, pairs, standing, is_whole=seeds == self._seeds)

    def idle_rules(self, rules: RuleSet) -> tuple[Rule, ...]:
        """Return the rules that trigger in no state of the episodes of the current composition, if it is recorded."""
        if not self.played.is_recorded(self.rules):
            return ()
        compiled = CompiledRules.compile([rules])
        triggered = np.zeros(len(rules), np.bool_)
        for _, part in self.played.paired.record.parts(0, self._seeds):
            triggered |= compiled.matches(part.observations).any(axis=0)
        return tuple(rule for rule, some in zip(rules.rules, triggered, strict=True) if not some)


class SecondHalf:
    """Compositions on seeds on which none of them was selected, with tests whether one is better than another.

    Parameters
    ----------
    play
        Settings of play.
    first, seeds
        Number of seeds of the stage to skip, and to play.
    played
        Compositions on seeds that were played before, which are used instead.
    """

    def __init__(self, play: Play, first: int, seeds: int, played: PlayedCompositions | None = None) -> None:
        self._seed = play.seed
        self.played = played or PlayedCompositions(play.against("composition", seeds, first=first), seeds)
        self._objective, self._alpha = find_objective(play.settings.objective), play.settings.alpha
        self._loss = 0.0

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        return self.played.environment_steps

    def result(self, rules: RuleSet) -> UnitResult:
        """Return the episodes of a composition."""
        return self.played.result(rules, self.played.seeds)

    def test(self, rules: RuleSet, others: RuleSet) -> Effect:
        """Test whether a composition is better than another, with an invented loss as large as any test has seen."""
        guided, base = self.result(rules), self.result(others)
        sides = WorstCase(self.played.paired.results, self._objective.value).of(guided, base)
        self._loss = max(self._loss, self._objective.invented_loss([sides]))
        changed = differ(guided, base)
        comparison = ComparisonOptions(self._loss, resamples_for(1, self._alpha), self._seed, self._alpha)
        return self._objective.test(*sides, changed, comparison)


def differ(first: UnitResult, second: UnitResult) -> NDArray[np.bool_]:
    """Return which episodes with the same seeds differ."""
    names = ("returns", "lengths", "changed", "success", "costs")
    same = [np.isclose(getattr(first, n), getattr(second, n), rtol=0.0, atol=0.0, equal_nan=True) for n in names]
    return ~np.logical_and.reduce(same)
