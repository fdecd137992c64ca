"""Algorithm 1 of the paper: from scores and triggered rules to actions."""

from __future__ import annotations

from legible.guidance.audit import AuditLog
from legible.guidance.chooser import CountingChooser, GuidedChooser
from legible.guidance.env import GuidedEnv
from legible.guidance.intervention import Intervention, JointIntervention
from legible.guidance.policy import GuidedPolicy

__all__ = [
    "AuditLog",
    "CountingChooser",
    "GuidedChooser",
    "GuidedEnv",
    "GuidedPolicy",
    "Intervention",
    "JointIntervention",
]
