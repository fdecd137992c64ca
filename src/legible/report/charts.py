"""Scales of the intervals that stand between texts of the report; Observable Plot draws all larger charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from legible.evaluation.statistics import Effect
from legible.workbench.looks import Interval


@dataclass(frozen=True)
class Scale:
    """A linear scale from `low` (0 %) to `high` (100 %)."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the position of a value in percent, clipped to the chart."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)


def round_step(rough: float) -> float:
    """Return the smallest of 1, 2, 5 × a power of ten that is at least a rough step.

    >>> round_step(0.7), round_step(23.0), round_step(5.0)
    (1.0, 50.0, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))


def interval_scale(effects: Sequence[Effect | Interval]) -> Scale:
    """Return a scale that holds zero and all confidence intervals, with a little room."""
    low, high = min(0.0, *(effect.low for effect in effects)), max(0.0, *(effect.high for effect in effects))
    if low == high:
        return Scale(-1.0, 1.0)
    room = 0.05 * (high - low)
    return Scale(low - room if low < 0 else low - room / 2, high + room)
