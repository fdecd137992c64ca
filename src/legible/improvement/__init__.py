"""Algorithm 2 of the paper: compose the rule sets that help."""

from __future__ import annotations

from legible.improvement.composition import Improvement, Step, improve

__all__ = [
    "Improvement",
    "Step",
    "improve",
]
