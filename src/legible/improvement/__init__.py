"""Composition of the rule sets that help: by selection, or by Algorithm 2 of the paper."""

from __future__ import annotations

from legible.improvement.candidates import find_candidates
from legible.improvement.composed import CompositionCheck, CompositionStep, FrontPoint
from legible.improvement.composition import Improvement, improve

__all__ = ["CompositionCheck", "CompositionStep", "FrontPoint", "Improvement", "find_candidates", "improve"]
