"""Results of a study as files: `RESULTS` lists their classes, `KINDS` the type of what each file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from legible.evaluation import Confirmation, Evaluation, PlayedBlocks, Reference, References, Verdict
from legible.evaluation.endings import EndingShare
from legible.evaluation.figures import Figure
from legible.evaluation.ledger import Ledger, LedgerPart
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.rare_losses import RareLosses
from legible.evaluation.recorded import Repetition
from legible.evaluation.references import QuotedReference, ReferenceResult
from legible.evaluation.statistics import Effect
from legible.evaluation.units import Setup, UnitResult
from legible.evaluation.verdicts import Continuation, Sample
from legible.explanation import Deployment, FigureChange, SeedLoss, WeaknessExplanation, WeaknessGroup
from legible.explanation.contributions import Contribution
from legible.explanation.knowledge import Knowledge
from legible.explanation.weakness import StrongerRule
from legible.failures import Alternative, Avoidable, Cause, Diagnosis, FailureMode, Failures, GroupEvidence
from legible.features import FeatureSpace
from legible.improvement import CompositionCheck, CompositionStep, FrontPoint, Improvement
from legible.records import RecordFormat
from legible.relations import FeatureRelation, MetamorphicRelation
from legible.relations.values import Affine, Anything, Equal, ValueTable
from legible.rules import Condition, Rule, RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings
from legible.study.first_facts import BaselineScore, FirstFacts
from legible.study.own_rules import OwnRule, OwnRules
from legible.study.summary import Summary
from legible.study.symmetry import SymmetryScore
from legible.study.time_limit import TimeLimitProbe

if TYPE_CHECKING:
    from legible.study.study import Study

RESULTS = RecordFormat(
    (
        *(Condition, Rule, RuleSet),
        *(Equal, Anything, Affine, ValueTable, FeatureRelation, MetamorphicRelation),
        *(Effect, Sample, RareLosses, ConstraintCheck, Confirmation, Verdict, Continuation, Evaluation),
        *(UnitResult, PlayedBlocks, Repetition),
        *(ReferenceResult, QuotedReference, References),
        *(CompositionStep, FrontPoint, CompositionCheck, Improvement),
        *(Contribution, Knowledge, StrongerRule, WeaknessExplanation),
        *(Summary, EndingShare, Ledger, LedgerPart, WeaknessGroup, Deployment, FigureChange, Figure, SeedLoss),
        *(EvaluationSettings, ImprovementSettings),
        *(Alternative, Avoidable, Cause, Diagnosis, FailureMode, Failures, GroupEvidence),
        *(BaselineScore, FirstFacts, OwnRule, OwnRules, SymmetryScore, TimeLimitProbe),
    ),
    made_again={
        Setup: lambda setup: {"treatments": setup.treatments, "rows": setup.rows, "count_choices": setup.count_choices},
        FeatureSpace: lambda _: {},
        Reference: lambda reference: {
            "name": reference.name,
            "choices": reference.choices,
            "fingerprint": reference.fingerprint,
            "gerund": reference.gerund,
            "way": reference.way,
        },
    },
)


KINDS: Mapping[str, Any] = {
    "generalisations.npz": tuple[RuleSet, ...],
    "evaluation.npz": Evaluation,
    "improvement.npz": Improvement,
    "references.npz": References,
    "explanations.npz": tuple[WeaknessExplanation, ...],
    "weakness-ledgers.npz": tuple[Ledger | None, ...],
    "mistake-ledgers.npz": tuple[Ledger | None, ...],
    "failures.npz": Failures,
    "symmetry.npz": tuple[SymmetryScore, ...],
}


def makers_of(study: Study) -> Mapping[type, Callable[..., Any]]:
    """Return the functions that make the objects that no file keeps: policy and environment come from the study."""

    def setup(treatments: tuple[Any, ...], rows: int, *, count_choices: bool) -> Setup:
        made = _ReadSetup.__new__(_ReadSetup)
        kept = {"treatments": treatments, "play": study.settings.play, "rows": rows, "count_choices": count_choices}
        made.__dict__.update(kept, _study=study)
        return made

    return {Setup: setup, FeatureSpace: lambda: study.space, Reference: Reference}


class _ReadSetup(Setup):
    """A setup that was read from a file: policy and environment come from the study, loaded when they are needed."""

    def __getattr__(self, name: str) -> Any:
        if name not in {"policy", "environment"}:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        study = self.__dict__["_study"]
        self.__dict__.update(policy=study.player(), environment=study.environment)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Setup, tuple(getattr(self, field.name) for field in fields(Setup))
