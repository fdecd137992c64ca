"""Features and actions, their names and words, the intervals of their values, and the choices that actions take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.features.cutting import GroupLink, cut_choices, is_cut
    from legible.features.floats import above, below
    from legible.features.groups import ActionGroup, Regions, choices_of, move_to, scores_of
    from legible.features.intervals import Intervals, deciles, equal_width
    from legible.features.names import FeatureError
    from legible.features.rounding import round_cuts
    from legible.features.space import GUESSED_CATEGORIES, Action, Feature, FeatureSpace, Kind, Observations

__all__ = [
    "GUESSED_CATEGORIES",
    "Action",
    "ActionGroup",
    "Feature",
    "FeatureError",
    "FeatureSpace",
    "GroupLink",
    "Intervals",
    "Kind",
    "Observations",
    "Regions",
    "above",
    "below",
    "choices_of",
    "cut_choices",
    "deciles",
    "equal_width",
    "is_cut",
    "move_to",
    "round_cuts",
    "scores_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "cutting": ("GroupLink", "cut_choices", "is_cut"),
        "floats": ("above", "below"),
        "groups": ("ActionGroup", "Regions", "choices_of", "move_to", "scores_of"),
        "intervals": ("Intervals", "deciles", "equal_width"),
        "names": ("FeatureError",),
        "rounding": ("round_cuts",),
        "space": ("Action", "Feature", "FeatureSpace", "GUESSED_CATEGORIES", "Kind", "Observations"),
    },
)
