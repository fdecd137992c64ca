"""Guidance: Algorithm 1 of the paper, from scores and triggered rules to actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.guidance.audit import AuditLog
    from legible.guidance.chooser import CountingChooser, GuidedChooser
    from legible.guidance.env import GuidedEnv
    from legible.guidance.intervention import Intervention, JointIntervention
    from legible.guidance.policy import GuidedPolicy

__all__, __getattr__, __dir__ = lazy_exports(__name__)
