"""Play without an environment: returns are drawn for every rule and seed, so that composing can be tested quickly.

The return of an episode is that of the unguided policy on its seed plus the contribution of each rule, so that the
effect of a composition is known exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import mirror_world
from legible.evaluation import Evaluation, Sample, Verdict
from legible.evaluation.recorded import STEPS, RecordedEpisodes, Repetition
from legible.evaluation.units import UNGUIDED, Kept, Setup, Unit, UnitResult
from legible.improvement.trials import Play
from legible.rules import Condition, Rule, RuleSet
from legible.settings import EvaluationSettings, PlaySettings

LENGTH, MOST_SEEDS = 20, 20_000
Draw = Callable[[np.random.Generator, int], np.ndarray]
"""Draws the contribution of a rule to the returns of some episodes."""


def rule(number: int) -> Rule:
    """Return a rule that always holds and is identified by its number."""
    return Rule("-", 0, (Condition(0, -1.0 - number, np.inf),))


def _number(one: Rule) -> int:
    return round(-one.conditions[0].low)


def rule_set(*numbers: int) -> RuleSet:
    return RuleSet(tuple(rule(number) for number in numbers), rule(numbers[0]))


@dataclass
class DrawnPlay:
    """Stands for `legible.evaluation.units.run_units`.

    Parameters
    ----------
    draws
        The contribution of every rule; rules without an entry add nothing.
    changes
        For every rule the number of steps of an episode in which it changes the action.
    together
        The contribution of rules that only help together.
    world
        Number of the world; worlds draw different numbers.
    """

    draws: dict[Rule, Draw]
    changes: dict[Rule, int] = field(default_factory=dict)
    together: dict[tuple[Rule, ...], float] = field(default_factory=dict)
    world: int = 0
    episodes: int = 0
    _places: dict[int, int] = field(default_factory=dict)
    _tables: dict[int, np.ndarray] = field(default_factory=dict)

    def __call__(
        self, setup: Setup, units: Sequence[Unit], *, kept: Kept[Any] | None = None, **_: Any
    ) -> UnitResult | RecordedEpisodes:
        parts = [self._unit(setup, unit) for unit in units]
        result = UnitResult.concatenate(parts)
        self.episodes += len(result)
        if kept is not STEPS:
            return result
        rows = int(result.lengths.sum())
        nothing = np.zeros(rows)
        seen = np.zeros((rows, 1), np.float32)
        return RecordedEpisodes(result, seen, seen, nothing, nothing, np.zeros((rows, 0), np.uint8))

    def _unit(self, setup: Setup, unit: Unit) -> UnitResult:
        n, seeds, treatments = len(unit), np.array(unit.seeds), np.array(unit.treatments)
        returns, changed = self._drawn(0, seeds, lambda rng, k: rng.normal(0.0, 5.0, k)), np.zeros(n, np.int64)
        for number in set(unit.treatments) - {UNGUIDED}:
            mine = treatments == number
            rules: RuleSet = setup.treatments[number]  # type: ignore[assignment]
            for one in rules.rules:
                if one in self.draws:
                    returns[mine] += self._drawn(_number(one), seeds[mine], self.draws[one])
                changed[mine] += self.changes.get(one, 1)
            for some, added in self.together.items():
                if set(some) <= set(rules.rules):
                    returns[mine] += added
        return UnitResult(
            returns=returns,
            lengths=np.full(n, LENGTH),
            truncated=np.zeros(n, np.bool_),
            success=np.full(n, np.nan),
            costs=np.zeros(n),
            fired=changed,
            changed=changed,
        )

    def _drawn(self, stream: int, seeds: np.ndarray, draw: Draw) -> np.ndarray:
        if stream not in self._tables:
            self._tables[stream] = draw(np.random.default_rng([self.world, stream]), MOST_SEEDS)
        places = [self._places.setdefault(seed, len(self._places)) for seed in seeds.tolist()]
        return self._tables[stream][places].copy()


SETUP = Setup(mirror_world.policy(), mirror_world.WORLD, (), PlaySettings(batch=16), rows=128)


def evaluation_of(rule_sets: Sequence[RuleSet], settings: EvaluationSettings | None = None) -> Evaluation:
    """Return an evaluation in which all rule sets look like weaknesses, the first as the greatest."""
    sample = Sample(2, 0.0, 0.0, LENGTH, 1.0, 0.0, 0.0, 0.0)
    verdicts = tuple(
        Verdict(one, sample, 100.0 - i, 0.01, 0.01, 0.9, 0.9, is_weakness=True, is_harmful=False)
        for i, one in enumerate(rule_sets)
    )
    # Nothing is recorded of drawn episodes, so that everything is "played".
    repetition = Repetition(rows=128, holds=False)
    return Evaluation(sample, verdicts, settings or EvaluationSettings(), repetition=repetition)


def play_with(drawn: DrawnPlay) -> Play:
    """Return how a composition plays drawn episodes."""
    repetition = evaluation_of([]).repetition
    assert repetition is not None
    return Play(SETUP, repetition, 0, EvaluationSettings(), drawn)


def turn_after(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all contributions have the other sign on seeds that come after so many others."""
    drawn = DrawnPlay._drawn

    def turned(self: DrawnPlay, stream: int, seeds: np.ndarray, draw: Draw) -> np.ndarray:
        values = drawn(self, stream, seeds, draw)
        late = np.array([self._places[seed] >= place for seed in seeds.tolist()])
        return np.where(late & (stream > 0), -values, values)

    monkeypatch.setattr(DrawnPlay, "_drawn", turned)


def always(amount: float) -> Draw:
    return lambda _, n: np.full(n, amount)


def noise(spread: float, mean: float = 0.0) -> Draw:
    return lambda rng, n: rng.normal(mean, spread, n)


def rare_loss(gain: float, loss: float, share: float, changed: float = 1.0) -> Draw:
    """Gains often and loses rarely, in a share of the episodes that are changed."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        amounts = np.where(rng.random(n) < share, -loss, gain)
        return np.where(rng.random(n) < changed, amounts, 0.0)

    return draw
