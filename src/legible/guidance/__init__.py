"""Algorithm 1 of the paper: from scores and triggered rules to actions."""

from __future__ import annotations

from legible.guidance.env import AuditLog, GuidedEnv
from legible.guidance.policy import GuidedChooser, GuidedPolicy, Intervention

__all__ = [
    "AuditLog",
    "GuidedChooser",
    "GuidedEnv",
    "GuidedPolicy",
    "Intervention",
]
