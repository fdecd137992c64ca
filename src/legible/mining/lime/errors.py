"""What goes wrong in LIME."""

from __future__ import annotations

from legible.mining.importance import ImportanceError


class LimeError(ImportanceError):
    """Something that LIME cannot explain: data, settings or scores."""
