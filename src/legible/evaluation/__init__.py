"""Step 3 of the paper: guide a policy with every rule set and compare returns."""

from __future__ import annotations

from legible.evaluation.verdicts import (
    STAGE_EPISODES,
    Confirmation,
    Evaluation,
    Runner,
    Sample,
    Stage,
    Verdict,
    evaluate,
    notes_on,
    play_all,
    stage_seeds,
)

__all__ = [
    "STAGE_EPISODES",
    "Confirmation",
    "Evaluation",
    "Runner",
    "Sample",
    "Stage",
    "Verdict",
    "evaluate",
    "notes_on",
    "play_all",
    "stage_seeds",
]
