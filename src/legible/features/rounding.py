"""Rounding of interval bounds.

- `round_cuts`: intervals with round bounds that hold the same recorded values.
- `simplest_between`: the number with the fewest digits in a range.
"""

from __future__ import annotations

import math

import numpy as np

from legible.features.intervals import Intervals
from legible.features.space import FeatureSpace, Observations


def round_cuts(intervals: Intervals, space: FeatureSpace, observations: Observations) -> Intervals:
    """Return intervals with bounds as round as possible, such that no recorded value changes its interval.

    Categorical features, features with sentinels and features with fixed cuts are not changed.
    """
    rounded = intervals
    for i, feature in enumerate(space.features):
        if feature.kind == "categorical" or feature.sentinels or feature.cuts is not None:
            continue
        cuts = intervals.highs[i][:-1]
        if len(cuts) and (intervals.lows[i][1:] == cuts).all():
            values = np.unique(observations[np.isfinite(observations[:, i]), i])
            round_ends = [float(cut) for cut in cuts]
            for k, place in enumerate(np.searchsorted(values, cuts, side="right").tolist()):
                if 0 < place < len(values):  # else the cut separates no values
                    round_ends[k] = simplest_between(float(values[place - 1]), float(values[place]))
            rounded = rounded.replace(i, round_ends)
    return rounded


def simplest_between(low: float, high: float) -> float:
    """Return the number with the fewest significant digits in ``low <= x < high``, as a float32 can hold it.

    >>> simplest_between(-3.33846e-06, 0.0012), simplest_between(1.234, 1.3), simplest_between(99.0, 101.0)
    (0.0, 1.25, 100.0)
    """
    if low <= 0.0 < high:
        return 0.0
    size = math.floor(math.log10(max(abs(low), abs(high))))
    for digits in range(size, size - 8, -1):
        step = 10.0**digits
        # Halves and quarters of a step are preferred to one more digit.
        for part in (1.0, 0.5, 0.25):
            found = float(np.float32(round(math.ceil(low / (part * step)) * part * step, 2 + max(0, -digits))))
            if low <= found < high:
                return found
    return low
