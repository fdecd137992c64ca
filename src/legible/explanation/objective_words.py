"""Figures and changes by the objective of a study, as people read them.

- `ObjectiveWords`: what an objective is called, and how its figures and their changes are written.
"""

from __future__ import annotations

from dataclasses import replace

from legible.evaluation import find_objective
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.formatting import number, percent, signed


class ObjectiveWords:
    """What an objective is called, and how its figures and their changes are written.

    Parameters
    ----------
    name
        Of the objective.

    Examples
    --------
    >>> ObjectiveWords("success").interval(Effect(0.25, 0.05, 0.15, 0.35, 0.01))
    '+25 points, 95 % CI +15 to +35'
    """

    def __init__(self, name: str = "mean") -> None:
        self.objective = find_objective(name)
        self.words = self.objective.words
        is_mean = self.objective.name == "mean"
        self.has, self.more = ("returns", "more") if is_mean else (f"has a {self.words} of", "better")
        self.has_again = "returns" if is_mean else "has"
        self.both_have = "both return" if is_mean else f"both have a {self.words} of"
        # Better and worse, as what the figure does.
        self.better, self.worse = ("lower", "raise") if self.objective.less_is_better else ("raise", "lower")

    def of(self, episodes: UnitResult) -> str:
        """The figure of some episodes."""
        value = self.objective.shown(self.objective.value(episodes.played))
        return percent(value) if self.objective.is_binary else number(value)

    def _scaled(self, value: float) -> float:
        return self.objective.shown(value) * (100.0 if self.objective.is_binary else 1.0)

    def amount(self, gain: float) -> str:
        """A change, such as "+12" or "+3 points"; above 0 is better, and a cost falls."""
        return f"{signed(self._scaled(gain))}{' points' if self.objective.is_binary else ''}"

    def interval(self, effect: Effect) -> str:
        """A change with its 95 % confidence interval: "+12, 95 % CI +3 to +21"."""
        return f"{self.amount(effect.mean)}, {self.bounds(effect)}"

    def bounds(self, effect: Effect) -> str:
        """The 95 % confidence interval of a change alone: "95 % CI +3 to +21"."""
        return f"95 % CI {self.ends(effect)}"

    def ends(self, effect: Effect) -> str:
        """The ends of that interval: "+3 to +21"."""
        low, high = sorted(self._scaled(end) for end in (effect.low, effect.high))
        return f"{signed(low)} to {signed(high)}"

    def lead(self, over: Effect) -> str:
        """How much better something is than what is `over` it by that much."""
        return self.interval(replace(over, mean=-over.mean, low=-over.high, high=-over.low))
