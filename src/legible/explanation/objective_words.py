"""Figures of the objective of a study, and their changes, as text.

- `ObjectiveWords`: the name of an objective, and the format of its figures and their changes.
"""

from __future__ import annotations

from dataclasses import replace

from legible.evaluation import find_objective
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.formatting import number, percent, signed


class ObjectiveWords:
    """The name of an objective, and the format of its figures and their changes.

    Parameters
    ----------
    name
        Name of the objective.

    Examples
    --------
    >>> ObjectiveWords("success").interval(Effect(0.25, 0.05, 0.15, 0.35, 0.01))
    '+25 points, 95 % CI +15 to +35'
    """

    def __init__(self, name: str = "mean") -> None:
        self.objective = find_objective(name)
        self.words = self.objective.words
        is_mean = self.objective.name == "mean"
        self.has, self.has_again = ("scores", "scores") if is_mean else (f"has a {self.words} of", "has")
        self.both_have = "both score" if is_mean else f"both have a {self.words} of"
        if self.objective.name == "success":
            self.has, self.has_again, self.both_have = "succeeds in", "succeeds in", "both succeed in"
        # The verbs for an improvement and a deterioration.
        self.better, self.worse = ("lower", "raise") if self.objective.less_is_better else ("raise", "lower")

    def of(self, episodes: UnitResult) -> str:
        """Return the figure of some episodes."""
        value = self.objective.shown(self.objective.value(episodes.played))
        return percent(value) if self.objective.is_binary else number(value)

    def _scaled(self, value: float) -> float:
        return self.objective.shown(value) * (100.0 if self.objective.is_binary else 1.0)

    def amount(self, gain: float) -> str:
        """Return a change as "+12" or "+3 points"; a positive gain in a cost is shown as a decrease."""
        return f"{signed(self._scaled(gain))}{' points' if self.objective.is_binary else ''}"

    def size(self, value: float) -> str:
        """Return the size of a change without a sign: "12", "3 points"."""
        return f"{number(abs(self._scaled(value)))}{' points' if self.objective.is_binary else ''}"

    def interval(self, effect: Effect) -> str:
        """Return a change with its 95 % confidence interval: "+12, 95 % CI +3 to +21"."""
        return f"{self.amount(effect.mean)}, {self.bounds(effect)}"

    def bounds(self, effect: Effect) -> str:
        """Return the 95 % confidence interval of a change: "95 % CI +3 to +21"."""
        return f"95 % CI {self.ends(effect)}"

    def ends(self, effect: Effect) -> str:
        """Return the ends of the interval: "+3 to +21"."""
        low, high = sorted(self._scaled(end) for end in (effect.low, effect.high))
        return f"{signed(low)} to {signed(high)}"

    def lead(self, over: Effect) -> str:
        """Return the reversed difference: how far the policy is ahead of a baseline, given `over` the policy."""
        return self.interval(replace(over, mean=-over.mean, low=-over.high, high=-over.low))
