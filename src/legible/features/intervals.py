"""Intervals that turn observations into small integers.

- `Intervals`: for every feature a sorted list of disjoint intervals ``low < x <= high`` in float32. Mining, LIME and
  rule matching all use this one definition, so a state lies in an interval for all of them or for none.
- `deciles`, `equal_width`: ways to choose intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from legible.features.floats import below
from legible.features.names import FeatureError
from legible.features.space import Feature, FeatureSpace, Observations


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals ``lows[i][k] < x <= highs[i][k]`` of every feature i, rising, in float32.

    A categorical value is an interval that holds this one number. A value between two categories, or NaN, lies in no
    interval; `encode` gives it the code ``sizes[i]``.
    """

    lows: tuple[NDArray[np.float32], ...]
    highs: tuple[NDArray[np.float32], ...]

    def __post_init__(self) -> None:
        for i, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            if low.shape != high.shape or low.size == 0:
                raise FeatureError(f"feature {i} needs at least one interval, and as many low as high ends.")
            if (low >= high).any() or (low[1:] < high[:-1]).any():
                raise FeatureError(f"the intervals of feature {i} must rise and must not overlap.")

    @classmethod
    def from_cuts(cls, cuts: Sequence[ArrayLike]) -> Intervals:
        """Intervals between neighbouring cuts, the first and the last one open-ended."""
        inner = [np.unique(np.asarray(c, np.float32)) for c in cuts]
        infinity = np.array([np.inf], np.float32)
        lows = tuple(np.concatenate([-infinity, c]) for c in inner)
        highs = tuple(np.concatenate([c, infinity]) for c in inner)
        return cls(lows, highs)

    def __len__(self) -> int:
        return len(self.lows)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of intervals of every feature."""
        return np.array([len(low) for low in self.lows], np.int64)

    def encode(self, observations: ArrayLike) -> NDArray[np.uint16]:
        """Return the number of the interval of every value; ``sizes[i]`` for a value in none of them."""
        array = np.ascontiguousarray(observations, np.float32)
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        return _encode(array, np.concatenate(self.lows), np.concatenate(self.highs), starts)

    def first(self, n: int) -> Intervals:
        """Return those of the first n features."""
        return Intervals(self.lows[:n], self.highs[:n])

    def replace(self, index: int, cuts: ArrayLike) -> Intervals:
        """Return the same intervals but for one feature, which is cut anew."""
        new = Intervals.from_cuts([cuts])
        lows, highs = list(self.lows), list(self.highs)
        lows[index], highs[index] = new.lows[0], new.highs[0]
        return Intervals(tuple(lows), tuple(highs))


@njit(cache=True)
def _encode(
    array: NDArray[np.float32], lows: NDArray[np.float32], highs: NDArray[np.float32], starts: NDArray[np.int64]
) -> NDArray[np.uint16]:
    codes = np.empty(array.shape, np.uint16)
    for row in range(array.shape[0]):
        for i in range(array.shape[1]):
            x = array[row, i]
            first, last = starts[i], starts[i + 1]
            # Count the intervals that end below x. There are few, and a loop without branches beats bisection.
            low = first
            for k in range(first, last):
                low += x > highs[k]
            codes[row, i] = low - first if low < last and lows[low] < x <= highs[low] else last - first
    return codes


def _build(space: FeatureSpace, observations: Observations, cuts_of: Any) -> Intervals:
    lows, highs = [], []
    for feature, column in zip(space.features, observations.T, strict=True):
        if feature.kind == "categorical":
            # One interval for each value and for nothing else.
            values = np.concatenate([column[np.isfinite(column)], np.array(list(feature.values), np.float32)])
            highs.append(np.unique(values + np.float32(0.0)))
            lows.append(below(highs[-1]))
        else:
            # Every sentinel is cut out as an interval of its own.
            cuts = feature.cuts if feature.cuts is not None else cuts_of(feature, column)
            sentinels = np.asarray(feature.sentinels, np.float32)
            made = Intervals.from_cuts([np.concatenate([np.asarray(cuts, np.float32), sentinels, below(sentinels)])])
            lows.append(made.lows[0])
            highs.append(made.highs[0])
    return Intervals(tuple(lows), tuple(highs))


def _measured(feature: Feature, column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values of a numeric feature that are numbers: neither sentinels nor NaN."""
    sentinels = np.asarray(feature.sentinels, np.float32)
    return column[np.isfinite(column) & ~np.isin(column, sentinels)]


def deciles(space: FeatureSpace, observations: ArrayLike) -> Intervals:
    """LIME's discretisation: percentiles 10, 20 … 90 of numeric features, duplicates removed; categories as they are.

    Sentinels take no part in the percentiles. Features with fixed ``cuts`` keep them.
    """

    def cuts(feature: Feature, column: NDArray[np.float32]) -> ArrayLike:
        measured = _measured(feature, column)
        return np.percentile(measured, np.arange(10, 100, 10)) if measured.size else ()

    return _build(space, space.check(observations), cuts)


def equal_width(
    space: FeatureSpace, observations: ArrayLike, *, low: float | None = None, high: float | None = None, bins: int = 10
) -> Intervals:
    """Cut numeric features into intervals of equal width between low and high (by default their extremes)."""
    if bins < 1:
        raise FeatureError(f"bins must be at least 1, got {bins}.")

    def cuts(feature: Feature, column: NDArray[np.float32]) -> ArrayLike:
        measured = _measured(feature, column)
        first = low if low is not None else (float(measured.min()) if measured.size else 0.0)
        last = high if high is not None else (float(measured.max()) if measured.size else 0.0)
        return np.linspace(first, last, bins + 1)[1:-1]

    return _build(space, space.check(observations), cuts)
