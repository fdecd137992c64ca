"""Tabular LIME for policies, many states at once: `lime_importance`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.mining.lime.lime import lime_importance

__all__, __getattr__, __dir__ = lazy_exports(__name__)
