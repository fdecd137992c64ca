"""Studies that are drawn from pools of paired episodes: what each method finds, and what that takes.

A study tests the mending rule of a faulty policy among twenty rule sets without effect. Its seeds are drawn from the
pool. Rule sets without effect are rules of the pool whose differences have their sign drawn anew for every seed, so
that their mean is zero and all else is as it was played. All decisions are those of the package's own functions.

- `Outcome`: what a study found, and its environment steps.
- `paper_study`: screening by Welch's test on separate seeds for every rule set, confirmation by the paired t-test.
- `race_study`: the race and its confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.bench.planted import Pool
from legible.evaluation.changed import changed_mean_p, largest_loss, resamples_for
from legible.evaluation.confirmation import Expectation, changes_to_confirm
from legible.evaluation.pairs import FIRST_LOOK, MOST_GROWTH
from legible.evaluation.racing import Rung, changes_for_power, is_dropped, is_sure, is_worth_confirming
from legible.evaluation.recorded import RECORD_EPISODES
from legible.evaluation.statistics import benjamini_hochberg, paired, standing_of_changed, welch
from legible.settings import FEWEST_RUNG_CHANGES, EvaluationSettings

NULLS = 20


class Outcome(NamedTuple):
    """The outcome of a study: whether the fault was found, whether anything else was, and the environment steps."""

    found: bool
    false: bool
    steps: int


@dataclass(frozen=True)
class _RuleSet:
    """A rule set of a drawn study: a row of the pool, with signs of its differences."""

    row: int
    signed: bool


def _rule_sets(pool: Pool, *, planted: bool) -> list[_RuleSet]:
    """Return the mending rule (without effect, too, unless it is planted), then those without effect."""
    others = len(pool.differences) - 1
    return [_RuleSet(0, signed=not planted)] + [_RuleSet(1 + i % others, signed=True) for i in range(NULLS)]


def _differences(pool: Pool, of: _RuleSet, drawn: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    found: NDArray[np.float64] = pool.differences[of.row, drawn]
    return found * (2.0 * rng.integers(0, 2, len(drawn)) - 1.0) if of.signed else found


def paper_study(pool: Pool, settings: EvaluationSettings, seed: int, *, planted: bool = True) -> Outcome:
    """Draw a study by the paper's method, with a confirmation; without `planted` no rule set has an effect."""
    rng = np.random.default_rng(seed)
    rule_sets, n = _rule_sets(pool, planted=planted), len(pool.base)

    def block(of: _RuleSet, drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        returns: NDArray[np.float64] = pool.base[drawn] + _differences(pool, of, drawn, rng)
        return returns

    first = rng.integers(0, n, settings.episodes)
    steps, candidates = int(pool.base_steps[first].sum()), []
    for of in rule_sets:
        drawn = rng.integers(0, n, settings.episodes)
        steps += int(pool.whole_steps[of.row, drawn].sum())
        if welch(block(of, drawn), pool.base[first]) < settings.alpha:
            candidates.append(of)
    if not candidates:
        return Outcome(found=False, false=False, steps=steps)
    fresh = rng.integers(0, n, settings.confirmation_episodes)
    steps += int(pool.base_steps[fresh].sum())
    steps += sum(int(pool.whole_steps[of.row, fresh].sum()) for of in candidates)
    p = [paired(block(of, fresh), pool.base[fresh]).p for of in candidates]
    return _outcome(candidates, p, settings, steps)


def race_study(pool: Pool, settings: EvaluationSettings, seed: int, *, planted: bool = True) -> Outcome:
    """Draw a study by the race; without `planted` no rule set has an effect."""
    rng = np.random.default_rng(seed)
    stage = _Stage(pool, settings.race_seeds, rng)
    rungs = [settings.rung_changes * 2**k for k in range(settings.rungs)]
    candidates, races = [], []
    for of in _rule_sets(pool, planted=planted):
        raced = _Raced(stage, of)
        if _passes(raced, rungs) and is_worth_confirming(raced.z, raced.share, settings):
            candidates.append(of)
            races.append(raced)
    steps = stage.steps
    if not candidates:
        return Outcome(found=False, false=False, steps=steps)
    fresh = _Stage(pool, settings.confirmation_seeds, rng)
    goals = [changes_to_confirm(raced.expectation(len(races), settings.alpha), settings) for raced in races]
    played = [_Raced(fresh, of) for of in candidates]
    changed = [one.play(goal) if goal else np.empty(0) for one, goal in zip(played, goals, strict=True)]
    loss, resamples = largest_loss(changed), resamples_for(len(candidates), settings.alpha)
    p = [
        changed_mean_p(differences, invented_loss=loss, resamples=resamples, rng_seed=seed)
        if goal and len(differences) >= goal
        else 1.0
        for differences, goal in zip(changed, goals, strict=True)
    ]
    return _outcome(candidates, p, settings, steps + fresh.steps)


def _outcome(candidates: list[_RuleSet], p: list[float], settings: EvaluationSettings, steps: int) -> Outcome:
    q = benjamini_hochberg(p)
    confirmed = [of for of, value in zip(candidates, q, strict=True) if value < settings.alpha]
    return Outcome(found=any(not of.signed for of in confirmed), false=any(of.signed for of in confirmed), steps=steps)


class _Stage:
    """Seeds of a stage, and the environment steps that were played on them."""

    def __init__(self, pool: Pool, most: int, rng: np.random.Generator) -> None:
        self.pool, self.most, self.rng = pool, most, rng
        self.drawn = rng.integers(0, len(pool.base), most)
        self.known, self.guided_steps = 0, 0

    def extend(self, seeds: int) -> int:
        """Play the unguided policy on at least this many seeds, in whole units."""
        units = -(-min(seeds, self.most) // RECORD_EPISODES)
        self.known = max(self.known, min(self.most, units * RECORD_EPISODES))
        return self.known

    @property
    def steps(self) -> int:
        """Environment steps, unguided and guided."""
        return int(self.pool.base_steps[self.drawn[: self.known]].sum()) + self.guided_steps


class _Raced:
    """A rule set on the seeds of a stage, played as `legible.evaluation.pairs.PairedPlay` plays it."""

    def __init__(self, stage: _Stage, of: _RuleSet) -> None:
        self._stage, self._row = stage, of.row
        self._differences = _differences(stage.pool, of, stage.drawn, stage.rng)
        self._changed = stage.pool.changed[of.row, stage.drawn]
        self._looked, self.seeds = 0, 0

    @property
    def share(self) -> float:
        """The share of the episodes that it changes."""
        return float(self._changed[: self._looked].mean())

    @property
    def played(self) -> NDArray[np.float64]:
        """The differences of the changed episodes so far."""
        found: NDArray[np.float64] = self._differences[: self.seeds][self._changed[: self.seeds]]
        return found

    @property
    def z(self) -> float:
        """The mean of the differences so far, in standard errors."""
        return standing_of_changed(self.played, self.seeds).z

    def expectation(self, tests: int, alpha: float) -> Expectation:
        """Return the effect that the race predicts for the confirmation."""
        here = standing_of_changed(self.played, self.seeds)
        needed = changes_for_power(len(self.played), here.difference, here.error, tests, alpha)
        return Expectation(self.share, needed)

    def play(self, changes: int) -> NDArray[np.float64]:
        """Play until a number of episodes were changed; return their differences."""
        most = self._stage.most
        while (changed := int(self._changed[: self._looked].sum())) < changes and self._looked < most:
            guess = self._looked * changes // changed if changed else most
            wanted = min(max(guess, self._looked + 1), MOST_GROWTH * self._looked or FIRST_LOOK, most)
            self._looked = self._stage.extend(wanted)
        places = np.flatnonzero(self._changed[: self._looked])
        seeds = int(places[changes - 1]) + 1 if len(places) >= changes else self._looked
        new = self._stage.drawn[self.seeds : seeds]
        self._stage.guided_steps += int(self._stage.pool.new_steps[self._row, new].sum())
        self.seeds = max(seeds, self.seeds)
        return self.played


def _passes(raced: _Raced, rungs: list[int]) -> bool:
    """Take a rule set through the rungs as `legible.evaluation.racing.Race` does."""
    for changes in rungs:
        differences = raced.play(changes)
        more = len(differences) >= changes
        rung = Rung(changes if more else rungs[-1], len(differences), raced.z)
        if is_sure(rung):
            return True
        if rung.changed < FEWEST_RUNG_CHANGES or is_dropped(rung, rungs[-1]):
            return False
        if not more:
            return True
    return True
