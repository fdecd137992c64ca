"""Trials of compositions: selected on the first half of the seeds, tested on the second half.

- `Trials`: plays compositions on the first half and compares them with the current one; `CompositionTrial`: one trial.
- `SecondHalf`: plays selected compositions on the second half, and tests whether one is better than another.

Episodes that a composition cannot change are not played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    worst_loss
        The worst paired loss that the study has seen.
    """

    setup: Setup
    repetition: Repetition
    seed: int
    settings: EvaluationSettings
    run: Runner
    on_episodes: Callable[[int], None] | None = None
    worst_loss: float = 0.0

    def against(self, stage: str, seeds: int, *, first: int = 0, rules: RuleSet | None = None) -> PairedPlay:
        """Return play compared with the policy, guided by rules or unguided, on seeds of a stage from `first` on."""
        unguided_setup = replace(self.setup, treatments=(), rows=self.repetition.rows)
        record = EpisodeRecord(unguided_setup, self.seed, stage, seeds, self.run, self.on_episodes, rules, first)
        return PairedPlay(unguided_setup, self.repetition, record, self.run, self.on_episodes)


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


class Trials:
    """Trials of compositions on the first seeds, compared with the current composition.

    The current composition is recorded step by step, so that others are played only from where they differ.

    Parameters
    ----------
    play
        Settings of play.
    seeds
        Number of seeds.
    rules
        The current composition; None: no rules.
    """

    def __init__(self, play: Play, seeds: int, rules: RuleSet | None = None) -> None:
        self.rules = rules or RuleSet(())
        self._seeds, self._objective = seeds, find_objective(play.settings.objective)
        self._play = play.against("composition", seeds, rules=rules)
        self._play.record.extend(seeds)
        self._numbers: dict[frozenset[Rule], int] = {}

    @property
    def result(self) -> UnitResult:
        """Episodes of the current composition."""
        return self._play.record.result

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        return int(self.result.lengths.sum()) + sum(self._play.steps(n) for n in self._numbers.values())

    def play(
        self,
        compositions: Sequence[RuleSet],
        looks: Sequence[tuple[int, float]] = ADDITION_LOOKS,
        *,
        idle_goes_on: bool = False,
    ) -> list[CompositionTrial]:
        """Try compositions, and stop those that look worse than the current one on the first seeds.

        Each look is a part of the seeds, such as 4 for a quarter, and the z above which a composition plays on. With
        `idle_goes_on`, so does one that has changed nothing.
        """
        trials: dict[int, CompositionTrial] = {}
        playing = list(range(len(compositions)))
        for part, least in looks:
            seeds = max(self._seeds // part, min(self._objective.rung_episodes, self._seeds), 2)
            trials |= zip(playing, self._on_seeds([compositions[i] for i in playing], seeds), strict=True)
            idle = {i for i in playing if idle_goes_on and not trials[i].pairs.changed.any()}
            playing = [i for i in playing if trials[i].standing.z > least or i in idle or seeds == self._seeds]
        trials |= zip(playing, self._on_seeds([compositions[i] for i in playing], self._seeds), strict=True)
        return [trials[i] for i in range(len(compositions))]

    def _on_seeds(self, compositions: Sequence[RuleSet], seeds: int) -> list[CompositionTrial]:
        keys = [frozenset(rules.rules) for rules in compositions]
        for key, rules in zip(keys, compositions, strict=True):
            if key not in self._numbers:
                self._numbers[key] = self._play.add(rules)
        self._play.play_seeds({self._numbers[key]: seeds for key in keys})
        trials = []
        for key, rules in zip(keys, compositions, strict=True):
            pairs = self._play.pairs(self._numbers[key], seeds)
            sides = WorstCase(self._play.results, self._objective.value).of(pairs.guided, pairs.base)
            standing = self._objective.standing(*sides, pairs.changed)
            trials.append(CompositionTrial(rules, pairs, standing, is_whole=seeds == self._seeds))
        return trials

    def idle_rules(self, rules: RuleSet) -> tuple[Rule, ...]:
        """Return the rules that trigger in no state of the episodes of the current composition."""
        compiled = CompiledRules.compile([rules])
        triggered = np.zeros(len(rules), np.bool_)
        for _, part in self._play.record.parts(0, self._seeds):
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
    """

    def __init__(self, play: Play, first: int, seeds: int) -> None:
        self._play, self._seeds, self._seed = play.against("composition", seeds, first=first), seeds, play.seed
        self._play.record.extend(seeds)
        self._objective, self._alpha = find_objective(play.settings.objective), play.settings.alpha
        self._results: dict[frozenset[Rule], UnitResult] = {frozenset(): self._play.record.result}
        self._loss = 0.0

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        numbers = range(len(self._play.treatments))
        return int(self._play.record.result.lengths.sum()) + sum(self._play.steps(n) for n in numbers)

    def result(self, rules: RuleSet) -> UnitResult:
        """Return the episodes of a composition."""
        key = frozenset(rules.rules)
        if key not in self._results:
            number = self._play.add(rules)
            self._play.play_seeds({number: self._seeds})
            self._results[key] = self._play.pairs(number, self._seeds).guided
        return self._results[key]

    def test(self, rules: RuleSet, others: RuleSet) -> Effect:
        """Test whether a composition is better than another, with an invented loss as large as any test has seen."""
        guided, base = self.result(rules), self.result(others)
        sides = WorstCase(self._play.results, self._objective.value).of(guided, base)
        self._loss = max(self._loss, self._objective.invented_loss([sides]))
        changed = differ(guided, base)
        comparison = ComparisonOptions(self._loss, resamples_for(1, self._alpha), self._seed, self._alpha)
        return self._objective.test(*sides, changed, comparison)


def differ(first: UnitResult, second: UnitResult) -> NDArray[np.bool_]:
    """Return which episodes with the same seeds differ."""
    names = ("returns", "lengths", "changed", "success", "costs")
    same = [np.isclose(getattr(first, n), getattr(second, n), rtol=0.0, atol=0.0, equal_nan=True) for n in names]
    return ~np.logical_and.reduce(same)
