"""A study: one run from policy to guided policy, in a folder."""

from __future__ import annotations

from legible.study.estimate import settings_for
from legible.study.fingerprint import fingerprint_of
from legible.study.folder import StudyFolder, UnitFiles
from legible.study.inputs import load_policy_for
from legible.study.running import Progress, StepMissingError
from legible.study.steps import STEPS, Step, register_step
from legible.study.study import Study

__all__ = [
    "STEPS",
    "Progress",
    "Step",
    "StepMissingError",
    "Study",
    "StudyFolder",
    "UnitFiles",
    "fingerprint_of",
    "load_policy_for",
    "register_step",
    "settings_for",
]
