"""Features, their names and words, and the intervals of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.features.intervals import Intervals, deciles, equal_width
    from legible.features.space import (
        GUESSED_CATEGORIES,
        Action,
        Feature,
        FeatureError,
        FeatureSpace,
        Kind,
        Observations,
        above,
        below,
    )

__all__ = [
    "GUESSED_CATEGORIES",
    "Action",
    "Feature",
    "FeatureError",
    "FeatureSpace",
    "Intervals",
    "Kind",
    "Observations",
    "above",
    "below",
    "deciles",
    "equal_width",
]

__getattr__ = lazy_names(
    __name__,
    {
        "intervals": (
            "Intervals",
            "deciles",
            "equal_width",
        ),
        "space": (
            "Action",
            "Feature",
            "FeatureError",
            "FeatureSpace",
            "GUESSED_CATEGORIES",
            "Kind",
            "Observations",
            "above",
            "below",
        ),
    },
)
