"""Features and actions: names, words, intervals of values, and groups of choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.features.cutting import GroupLink, cut_choices, is_cut
    from legible.features.floats import above, below
    from legible.features.groups import ActionGroup, Regions, choices_of, move_to, scores_of
    from legible.features.intervals import Intervals, deciles
    from legible.features.names import FeatureError
    from legible.features.rounding import round_cuts
    from legible.features.space import GUESSED_CATEGORIES, Action, Feature, FeatureSpace, Kind, Observations

__all__, __getattr__, __dir__ = lazy_exports(__name__)
