"""Cells that tables of records share: `format_figure`, `format_effect`, `interval_ends`, `interval_over_policies`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import stats


def format_figure(value: float) -> str:
    """Write a number with as many digits as it deserves."""
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2}f}"


def format_effect(effect: Mapping[str, float]) -> str:
    """Write a mean with its interval.

    >>> format_effect({"mean": 20.0, "low": 0.5, "high": 120.0})
    '20.0 (0.50 to 120)'
    """
    return f"{format_figure(effect['mean'])} ({format_figure(effect['low'])} to {format_figure(effect['high'])})"


def interval_ends(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean over policies."""
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def interval_over_policies(values: np.ndarray) -> str:
    """Write the 95 % confidence interval of the mean over policies."""
    if len(values) < 2:
        return "(one policy)"
    low, high = interval_ends(values)
    return f"({format_figure(low)} to {format_figure(high)})"
