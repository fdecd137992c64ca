"""Compositions that are tried on the seeds of the composition: chosen on the first half, tested on the second.

- `Trials`: plays compositions on the first half, compared with the one that there is so far; `CompositionTrial`: one.
- `SecondHalf`: plays those that are chosen on the other seeds, and tests whether one is better than another.

What a composition cannot change is not played.
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

FIRST_PART = 4
"""A trial that looks worse on a quarter of the seeds does not play the others."""


class Play(NamedTuple):
    """How compositions are played.

    Parameters
    ----------
    setup, repetition
        Policy and environment, and whether the same seed gives the same episode there.
    seed, settings
        Of the study; objective, constraints and level.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """

    setup: Setup
    repetition: Repetition
    seed: int
    settings: EvaluationSettings
    run: Runner
    on_episodes: Callable[[int], None] | None = None

    def beside(self, stage: str, seeds: int, *, first: int = 0, rules: RuleSet | None = None) -> PairedPlay:
        """Return play compared with the policy, guided by rules or alone, on seeds of a stage after the first ones."""
        this = replace(self.setup, treatments=(), rows=self.repetition.rows)
        record = EpisodeRecord(this, self.seed, stage, seeds, self.run, self.on_episodes, rules, first)
        return PairedPlay(this, self.repetition, record, self.run, self.on_episodes)


@dataclass(frozen=True)
class CompositionTrial:
    """A composition that was tried.

    Parameters
    ----------
    rules
        Its rules.
    pairs
        Its episodes, and those of the composition that there was.
    standing
        How it does by the objective compared with that one, roughly.
    is_whole
        Whether all seeds were played.
    """

    rules: RuleSet
    pairs: Pairs
    standing: Standing
    is_whole: bool

    @property
    def addition(self) -> float:
        """How much better it is than the composition that there was."""
        return self.standing.difference

    @property
    def result(self) -> UnitResult:
        """Its episodes."""
        return self.pairs.guided

    @property
    def changed(self) -> float:
        """The share of the steps in which it changes the action."""
        return share_changed(self.result)


class Trials:
    """Plays compositions on the first seeds, compared with one that there is already.

    That one is recorded step by step, so that another one is played only where, and from where, it differs.

    Parameters
    ----------
    play
        How.
    seeds
        How many seeds there are.
    rules
        The composition that there is; None: no rules.
    """

    def __init__(self, play: Play, seeds: int, rules: RuleSet | None = None) -> None:
        self.rules = rules or RuleSet(())
        self._seeds, self._objective = seeds, find_objective(play.settings.objective)
        self._play = play.beside("composition", seeds, rules=rules)
        self._play.record.extend(seeds)
        self._numbers: dict[frozenset[Rule], int] = {}

    @property
    def result(self) -> UnitResult:
        """The episodes of the composition that there is."""
        return self._play.record.result

    @property
    def environment_steps(self) -> int:
        """How many environment steps were played."""
        return int(self.result.lengths.sum()) + sum(self._play.steps(n) for n in self._numbers.values())

    def play(self, compositions: Sequence[RuleSet]) -> list[CompositionTrial]:
        """Try compositions: those that look worse than what there is on the first seeds play no more of them."""
        first = max(self._seeds // FIRST_PART, min(self._objective.rung_episodes, self._seeds), 2)
        trials = self._on_seeds(compositions, first)
        good = [i for i, trial in enumerate(trials) if trial.standing.z > 0.0 or first == self._seeds]
        for i, trial in zip(good, self._on_seeds([compositions[i] for i in good], self._seeds), strict=True):
            trials[i] = trial
        return trials

    def play_whole(self, compositions: Sequence[RuleSet]) -> list[CompositionTrial]:
        """Try compositions on all seeds."""
        return self._on_seeds(compositions, self._seeds)

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
        """Return the rules that trigger in no state of the episodes of the composition that there is."""
        compiled = CompiledRules.compile([rules])
        triggered = np.zeros(len(rules), np.bool_)
        for _, part in self._play.record.parts(0, self._seeds):
            triggered |= compiled.matches(part.observations).any(axis=0)
        return tuple(rule for rule, some in zip(rules.rules, triggered, strict=True) if not some)


class SecondHalf:
    """Plays compositions on seeds on which none of them was chosen, and tests whether one is better than another.

    Parameters
    ----------
    play
        How.
    first, seeds
        How many seeds of the stage are passed over, and how many there are then.
    """

    def __init__(self, play: Play, first: int, seeds: int) -> None:
        self._play, self._seeds, self._seed = play.beside("composition", seeds, first=first), seeds, play.seed
        self._play.record.extend(seeds)
        self._objective, self._alpha = find_objective(play.settings.objective), play.settings.alpha
        self._results: dict[frozenset[Rule], UnitResult] = {frozenset(): self._play.record.result}
        self._loss = 0.0

    @property
    def environment_steps(self) -> int:
        """How many environment steps were played."""
        numbers = range(len(self._play.treatments))
        return int(self._play.record.result.lengths.sum()) + sum(self._play.steps(n) for n in numbers)

    def result(self, rules: RuleSet) -> UnitResult:
        """The episodes of a composition."""
        key = frozenset(rules.rules)
        if key not in self._results:
            number = self._play.add(rules)
            self._play.play_seeds({number: self._seeds})
            self._results[key] = self._play.pairs(number, self._seeds).guided
        return self._results[key]

    def test(self, rules: RuleSet, others: RuleSet) -> Effect:
        """Test whether a composition is better than another one.

        One loss as large as the largest that any test has seen is invented, as in the confirmation.
        """
        guided, base = self.result(rules), self.result(others)
        sides = WorstCase(self._play.results, self._objective.value).of(guided, base)
        self._loss = max(self._loss, self._objective.invented_loss([sides]))
        changed = differ(guided, base)
        comparison = ComparisonOptions(self._loss, resamples_for(1, self._alpha), self._seed, self._alpha)
        return self._objective.test(*sides, changed, comparison)


def differ(first: UnitResult, second: UnitResult) -> NDArray[np.bool_]:
    """Return which episodes of the same seeds went another way."""
    names = ("returns", "lengths", "changed", "success", "costs")
    same = [np.isclose(getattr(first, n), getattr(second, n), rtol=0.0, atol=0.0, equal_nan=True) for n in names]
    return ~np.logical_and.reduce(same)
