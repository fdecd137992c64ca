"""`TrainingError`: the one error of trainings that cannot be done as asked."""

from __future__ import annotations

from legible.errors import LegibleError


class TrainingError(LegibleError):
    """A training that cannot be done or gone on with, or a policy that cannot be exported."""
