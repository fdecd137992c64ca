"""Why a policy fails: what predicts failure, until when it could be avoided, and the cause in the policy.

- `modes`: failure modes, rules that predict failure; `avoiding`: the last moment at which a failure could be avoided.
- `alternatives`: what the policy does in the states of a failure mode, and whether another choice is better there.
- `causes`: what the policy does not use, misjudges or never met.
- `results`: `Failures`, what a study says about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.failures.alternatives import Alternative, Trials, find_alternative
    from legible.failures.avoiding import Avoidable, Chance, find_last_chance
    from legible.failures.causes import (
        Cause,
        GroupEvidence,
        TriedDecisions,
        choose_unusual,
        find_cause,
        weigh_decisions,
    )
    from legible.failures.modes import FailureMode, find_modes, mark_failed
    from legible.failures.results import Diagnosis, Failures

__all__, __getattr__, __dir__ = lazy_exports(__name__)
