"""Step 3 of the paper: guide a policy with every rule set and compare returns."""

from __future__ import annotations

from legible.evaluation.blocks import PlayedBlocks, Runner, play_blocks, play_on_same_seeds
from legible.evaluation.evaluate import evaluate
from legible.evaluation.failures import WorstCase
from legible.evaluation.figures import Figure, figure_rows, figures
from legible.evaluation.objectives import (
    OBJECTIVES,
    Constraint,
    Objective,
    find_objective,
    parse_constraints,
    register_objective,
)
from legible.evaluation.references import QuotedReference, Reference, ReferenceResult, References, compare_references
from legible.evaluation.verdicts import Confirmation, Evaluation, Sample, Verdict
from legible.play.failures import FailureLimit, TooManyFailuresError
