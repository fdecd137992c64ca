"""Random observations for LIME, drawn feature by feature: `DrawnValues`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from legible.features import Feature, FeatureSpace, Intervals, Observations, above, below
from legible.imports import njit
from legible.mining.importance import ImportanceError

DRAWS = 8192
"""Number of values drawn for each feature, and so the maximum batch of observations for the policy."""


@dataclass(frozen=True, eq=False)
class DrawnValues:
    """Values of every feature in random order, ``[feature, draw]``, distributed as in the background.

    An observation takes one value of every feature, at the same distance from a random start per feature and pool. So
    features are independent and pools differ, at the cost of a copy instead of new draws.
    """

    values: NDArray[np.float32]
    codes: NDArray[np.uint16]

    @classmethod
    def draw(
        cls, background: Observations, intervals: Intervals, space: FeatureSpace, rng: np.random.Generator
    ) -> DrawnValues:
        """Draw values of every feature with the distribution of the background."""
        codes = intervals.encode(background)
        outside = codes >= intervals.sizes
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ImportanceError(
                f"background: {space[column].name} = {background[row, column]:g} in row {row} is in none of "
                "its intervals; compute the intervals from the same observations."
            )
        drawn = cls(np.empty((len(space), DRAWS), np.float32), np.empty((len(space), DRAWS), np.uint16))
        for i, feature in enumerate(space.features):
            column, code = background[:, i].copy(), codes[:, i].copy()
            cells = _cells(feature, column, code, intervals.lows[i], intervals.highs[i])
            drawn.values[i], drawn.codes[i] = _draw_values(cells, rng)
        return drawn

    def combine(self, rows: int, rng: np.random.Generator) -> tuple[Observations, NDArray[np.uint16]]:
        """Return new observations and their codes, ``[row, feature]``, at most `DRAWS` rows."""
        return _combine(self.values, self.codes, rng.integers(DRAWS, size=len(self.values)), rows)


# A cell is an interval of a numeric feature, or a value of a categorical one, that occurs in the background. Its values
# are distributed as a normal variable with this mean and deviation that lies between low and high.
_CELL = np.dtype(
    [("code", np.uint16), ("count", np.int64), *((name, np.float64) for name in ("mean", "deviation", "low", "high"))]
)


def _cells(
    feature: Feature,
    column: NDArray[np.float32],
    codes: NDArray[np.uint16],
    lows: NDArray[np.float32],
    highs: NDArray[np.float32],
) -> NDArray[np.void]:
    """Return the distribution of one feature as an array of records, one for each cell that is not empty.

    A cell is an interval; or a single value, for a categorical feature with several values in an interval. Its record
    (`_CELL`) has the number of the interval ("code"), the count of values, and the normal distribution that is fitted
    to them: mean and deviation, truncated at low and high.

    Parameters
    ----------
    column
        ``float32[n]``: its recorded values.
    codes
        ``uint16[n]``: the number of the interval that each value is in.
    lows, highs
        ``float32[intervals]``: the bounds of its intervals, ``low < value <= high``.
    """
    count, total, least, most = _extremes(column, codes, len(lows))
    is_single_value = least == most  # by interval
    if feature.kind == "categorical" and not is_single_value[count > 0].all():
        # Some interval holds several values, so use one cell per value.
        values, first, count = np.unique(column, return_index=True, return_counts=True)
        cells = np.zeros(len(values), _CELL)
        cells["code"], cells["count"] = codes[first], count
        cells["mean"] = cells["low"] = cells["high"] = values
        return cells

    # One cell per interval. At an open end, or next to a sentinel (a special value such as -1 for "none"), the extreme
    # value limits the cell. (`above` and `below` return the neighbouring float32 numbers.)
    no_low = is_single_value | np.isin(lows, np.array([-np.inf, *feature.sentinels], np.float32))
    no_high = is_single_value | np.isin(highs, np.array([np.inf, *below(np.array(feature.sentinels))], np.float32))
    cells = np.zeros(len(lows), _CELL)
    cells["code"], cells["count"] = np.arange(len(lows)), count
    cells["mean"] = np.where(is_single_value, least, total / np.maximum(count, 1))
    if not is_single_value[count > 0].all():
        cells["deviation"] = np.sqrt(_squares(column, codes, cells["mean"].copy()) / np.maximum(count, 1))
    cells["low"], cells["high"] = np.where(no_low, least, above(lows)), np.where(no_high, most, highs)
    return cells[count > 0]


def _draw_values(cells: NDArray[np.void], rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Draw one value and its code from each of `DRAWS` equally likely slices of a distribution, and shuffle."""
    # A sorted random number in [0, 1) for each draw; the cells divide [0, 1) by the shares of their values.
    quantile = (np.arange(DRAWS) + rng.random(DRAWS)) / DRAWS
    order = rng.permutation(DRAWS)
    end = np.cumsum(cells["count"]) / cells["count"].sum()
    first_draw = np.searchsorted(quantile, end[:-1])
    cell = np.repeat(np.arange(len(cells)), np.diff(first_draw, prepend=0, append=DRAWS))  # of each draw
    codes = cells["code"][cell[order]]
    if not cells["deviation"].any():
        return cells["mean"].astype(np.float32)[cell[order]], codes
    # The position of a number within its cell is uniform, so it selects the value of the truncated normal.
    begin = np.concatenate([[0.0], end[:-1]])
    position = (quantile - begin[cell]) / (end - begin)[cell]
    # Avoid a division by zero for cells with a single value.
    scale = np.where(cells["deviation"] > 0, cells["deviation"], 1.0)
    p_low, p_high = (ndtr((cells[side] - cells["mean"]) / scale) for side in ("low", "high"))
    drawn = cells["mean"][cell] + cells["deviation"][cell] * ndtri(p_low[cell] + position * (p_high - p_low)[cell])
    return np.clip(drawn, cells["low"][cell], cells["high"][cell]).astype(np.float32)[order], codes


@njit(cache=True)
def _extremes(
    column: NDArray[np.float32], codes: NDArray[np.uint16], bins: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return count, sum, smallest and largest value of every bin."""
    count, total = np.zeros(bins, np.int64), np.zeros(bins)
    least, most = np.full(bins, np.inf), np.full(bins, -np.inf)
    for row in range(len(column)):
        code, value = codes[row], np.float64(column[row])
        count[code] += 1
        total[code] += value
        least[code] = min(least[code], value)
        most[code] = max(most[code], value)
    return count, total, least, most


@njit(cache=True)
def _squares(column: NDArray[np.float32], codes: NDArray[np.uint16], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of squared distances from the mean of every bin."""
    squares = np.zeros(len(mean))
    for row in range(len(column)):
        squares[codes[row]] += (np.float64(column[row]) - mean[codes[row]]) ** 2
    return squares


@njit(cache=True)
def _combine(
    values: NDArray[np.float32], codes: NDArray[np.uint16], starts: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Read the values ``[feature, draw]`` of each feature from its start on, around the end: ``[row, feature]``."""
    features, draws = len(values), DRAWS  # a constant power of two: % becomes a mask
    observations, their_codes = np.empty((rows, features), np.float32), np.empty((rows, features), np.uint16)
    for first in range(0, rows, 64):  # blocks of rows that fit the cache
        for i in range(features):
            for row in range(first, min(first + 64, rows)):
                place = (starts[i] + row) % draws
                observations[row, i] = values[i, place]
                their_codes[row, i] = codes[i, place]
    return observations, their_codes
