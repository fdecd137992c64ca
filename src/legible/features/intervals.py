"""Intervals that encode observations as small integers.

- `Intervals`: sorted disjoint intervals ``low < x <= high`` in float32 for every feature. Mining, LIME and rules share
  this definition, so they always agree on the interval of a value.
- `deciles`: chooses intervals from observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.features.floats import below
from legible.features.names import FeatureError
from legible.features.space import FeatureSpace
from legible.imports import njit


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals ``lows[i][k] < x <= highs[i][k]`` of every feature i, in ascending order, in float32.

    A category is an interval that holds a single number. A value between two categories, or NaN, lies in no interval;
    `encode` gives it the code ``sizes[i]``.
    """

    lows: tuple[NDArray[np.float32], ...]
    highs: tuple[NDArray[np.float32], ...]

    def __post_init__(self) -> None:
        for i, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            if low.shape != high.shape or low.size == 0:
                raise FeatureError(f"feature {i} needs at least one interval, and as many low as high bounds.")
            if (low >= high).any() or (low[1:] < high[:-1]).any():
                raise FeatureError(f"the intervals of feature {i} must be in ascending order and must not overlap.")

    @classmethod
    def from_cuts(cls, cuts: Sequence[ArrayLike]) -> Intervals:
        """Return the intervals between neighbouring cuts; the first and the last one are unbounded."""
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
        """Return the index of the interval of every value; ``sizes[i]`` for a value in no interval."""
        array = np.ascontiguousarray(observations, np.float32)
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        return _encode(array, np.concatenate(self.lows), np.concatenate(self.highs), starts)

    def first(self, n: int) -> Intervals:
        """Return the intervals of the first n features."""
        return Intervals(self.lows[:n], self.highs[:n])

    def replace(self, index: int, cuts: ArrayLike) -> Intervals:
        """Return the intervals with new cuts for one feature."""
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


def deciles(space: FeatureSpace, observations: ArrayLike) -> Intervals:
    """Return the intervals that LIME uses: deciles of numeric features, single values of categorical ones.

    The deciles are those of the observations, ``float32[n, features]``. Fixed ``cuts`` of a feature replace them. Its
    ``sentinels`` are special values, such as -1 for "none left": they do not count for the deciles, and each gets an
    interval of its own.
    """
    lows, highs = [], []  # one array per feature; an interval is low < x <= high
    for feature, column in zip(space.features, space.check(observations).T, strict=True):
        # One interval per value that occurs or has a name: from the float32 number just below it to the value.
        if feature.kind == "categorical":
            named_values = np.array(list(feature.values), np.float32)
            values = np.concatenate([column[np.isfinite(column)], named_values])
            distinct = np.unique(values + np.float32(0.0))  # adding 0 turns -0.0 into 0.0
            highs.append(distinct)
            lows.append(below(distinct))
            continue
        # Cuts at the 10th, 20th, ... 90th percentile of the measured values, and around each sentinel.
        sentinels = np.asarray(feature.sentinels, np.float32)
        cuts: ArrayLike = feature.cuts or ()
        measured = column[np.isfinite(column) & ~np.isin(column, sentinels)]
        if feature.cuts is None and measured.size:
            cuts = np.percentile(measured, np.arange(10, 100, 10))
        all_cuts = np.concatenate([np.asarray(cuts, np.float32), sentinels, below(sentinels)])
        of_feature = Intervals.from_cuts([all_cuts])
        lows.append(of_feature.lows[0])
        highs.append(of_feature.highs[0])
    return Intervals(tuple(lows), tuple(highs))
