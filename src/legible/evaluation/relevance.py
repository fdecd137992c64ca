"""The smallest effect of interest: smaller effects are real perhaps, but no reason to act."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from legible.settings import SettingsError


def parse_relevant(setting: str) -> tuple[float, bool]:
    """Return the number of the setting ``evaluation.relevant``, and whether it is a share.

    >>> parse_relevant("2 %"), parse_relevant("5")
    ((0.02, True), (5.0, False))
    """
    text, is_share = setting.strip().removesuffix("%").strip(), setting.strip().endswith("%")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise SettingsError(
            f'evaluation.relevant: {setting!r} is neither a share such as "2 %" nor a number of points, 0 or more.'
        )
    return (value / 100.0 if is_share else value), is_share


def relevant_effect(values: ArrayLike, random_mean: float, setting: str = "2 %") -> float:
    """Return the smallest effect of interest, in points of the objective: smaller effects need no action.

    A share such as "2 %" refers to the larger of two scales: the distance between the mean of the policy and that of
    random play, and the standard deviation of the values. The result is 0 if neither is known.

    Parameters
    ----------
    values
        Values of unguided episodes by the objective: returns, usually.
    random_mean
        Mean of random play; NaN where it is not known.
    setting
        A share ("2 %") or a number of points.

    >>> relevant_effect([90.0, 110.0], random_mean=0.0)
    2.0
    """
    value, is_share = parse_relevant(setting)
    if not is_share:
        return value
    sample = np.asarray(values, np.float64)
    distance_to_random = abs(float(sample.mean()) - random_mean) if sample.size else math.nan
    deviation = float(sample.std(ddof=1)) if sample.size > 1 else math.nan
    known_scales = [scale for scale in (distance_to_random, deviation) if math.isfinite(scale)]
    return value * max(known_scales, default=0.0)
