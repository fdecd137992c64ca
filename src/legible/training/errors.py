"""`TrainingError`: the error of all trainings and exports."""

from __future__ import annotations

from legible.errors import LegibleError


class TrainingError(LegibleError):
    """A training that cannot be started or resumed, or a policy that cannot be exported."""
