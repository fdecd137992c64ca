"""Geometry of the report's charts, in percent of their width and height; the template draws them.

- `Scale`: from values to percent, with ticks.
- `histograms`: distributions of several samples on one scale, with marks of baselines.
- `interval_scale`: the scale of effects with their confidence intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.statistics import Effect
from legible.formatting import number, percent

BINS = 60


@dataclass(frozen=True)
class Scale:
    """A linear scale from `low` (0 %) to `high` (100 %)."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the position of a value in percent, clipped to the chart."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Return round values with their positions.

        >>> Scale(0.0, 10.0).ticks()
        [(0.0, '0'), (20.0, '2'), (40.0, '4'), (60.0, '6'), (80.0, '8'), (100.0, '10')]
        """
        step = round_step((self.high - self.low) / (most - 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(self.at(k * step), number(k * step, 4)) for k in range(first, last + 1)]


def round_step(rough: float) -> float:
    """Return the smallest of 1, 2, 5 × a power of ten that is at least a rough step.

    >>> round_step(0.7), round_step(23.0), round_step(5.0)
    (1.0, 50.0, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram: left end, width and height in percent, and its tooltip."""

    left: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Distribution:
    """One sample in the chart of returns: bars, and the position of its mean."""

    name: str
    bars: tuple[Bar, ...]
    mean: float


@dataclass(frozen=True)
class ReferenceMark:
    """The mean of a baseline on the scale of distributions; `outside` is "left" or "right" if it is off the chart."""

    name: str
    mean: float
    at: float
    outside: str


@dataclass(frozen=True)
class Histograms:
    """Distributions of several samples on one scale, and marks of baselines."""

    scale: Scale
    rows: tuple[Distribution, ...]
    marks: tuple[ReferenceMark, ...] = ()


def histograms(
    samples: Mapping[str, NDArray[np.float64]], references: Mapping[str, float] | None = None, bins: int = BINS
) -> Histograms:
    """Count samples in common bins; heights are shares of the fullest bin of all.

    Parameters
    ----------
    samples
        Returns by the names of policies.
    references
        Mean returns of baselines by name. They are only marks: a constant return would flatten all other distributions,
        and a distant one would narrow them.
    bins
        Approximate number of bins.
    """
    everything = np.concatenate(list(samples.values()))
    low, high = float(everything.min()), float(everything.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = round_step((high - low) / bins)
    first, last = math.floor(low / step), math.floor(high / step) + 1
    edges = np.arange(first, last + 1) * step
    scale = Scale(float(edges[0]), float(edges[-1]))
    shares = {name: np.histogram(sample, edges)[0] / len(sample) for name, sample in samples.items()}
    tallest = max(float(share.max()) for share in shares.values())
    width = round(100 / (len(edges) - 1), 3)
    rows = []
    for name, sample in samples.items():
        bars = tuple(
            Bar(
                scale.at(float(low)),
                width,
                round(100 * float(share) / tallest, 2),
                f"{number(low, 4)} to {number(high, 4)}: {percent(share)} of the episodes",
            )
            for low, high, share in zip(edges[:-1], edges[1:], shares[name], strict=True)
            if share > 0
        )
        rows.append(Distribution(name, bars, scale.at(float(sample.mean()))))
    marks = []
    for name, mean in (references or {}).items():
        outside = "left" if mean < scale.low else "right" if mean > scale.high else ""
        marks.append(ReferenceMark(name, mean, scale.at(mean), outside))
    return Histograms(scale, tuple(rows), tuple(marks))


def interval_scale(effects: Sequence[Effect]) -> Scale:
    """Return a scale that holds zero and all confidence intervals, with a little room."""
    low, high = min(0.0, *(e.low for e in effects)), max(0.0, *(e.high for e in effects))
    if low == high:
        return Scale(-1.0, 1.0)
    room = 0.05 * (high - low)
    return Scale(low - room if low < 0 else low - room / 2, high + room)
