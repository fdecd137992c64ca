"""Errors of LIME."""

from __future__ import annotations

from legible.mining.importance import ImportanceError


class LimeError(ImportanceError):
    """Data, settings or scores that LIME cannot explain."""
