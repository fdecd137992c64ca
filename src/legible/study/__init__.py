"""A study: one run from policy to guided policy, in a folder."""

from __future__ import annotations

from legible.study.study import (
    BASELINES,
    PROBE_STEPS,
    BaselineSettings,
    Progress,
    Study,
    StudySettings,
    UnitFiles,
    fingerprint_of,
)

__all__ = [
    "BASELINES",
    "PROBE_STEPS",
    "BaselineSettings",
    "Progress",
    "Study",
    "StudySettings",
    "UnitFiles",
    "fingerprint_of",
]
