"""Results of a study as files: `RESULTS` lists the classes, `makers_of` says how a study makes what no file keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from legible.evaluation import Confirmation, Evaluation, PlayedBlocks, Reference, References, Verdict
from legible.evaluation.baselines import RandomTest
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.recorded import Repetition
from legible.evaluation.references import QuotedReference, ReferenceResult
from legible.evaluation.statistics import Effect
from legible.evaluation.units import Setup, UnitResult
from legible.evaluation.verdicts import Sample
from legible.explanation import WeaknessExplanation
from legible.explanation.contributions import Contribution
from legible.explanation.knowledge import Knowledge
from legible.explanation.weakness import StrongerRule
from legible.features import FeatureSpace
from legible.improvement import CompositionCheck, CompositionStep, FrontPoint, Improvement
from legible.records import RecordFormat
from legible.relations import FeatureRelation, Generalisation, MetamorphicRelation
from legible.relations.generalisation import Dropped
from legible.relations.values import Affine, Anything, Equal, ValueTable
from legible.rules import Condition, Rule, RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings

if TYPE_CHECKING:
    from legible.study.study import Study

RESULTS = RecordFormat(
    (
        *(Condition, Rule, RuleSet, RandomTest),
        *(Equal, Anything, Affine, ValueTable, FeatureRelation, MetamorphicRelation, Generalisation, Dropped),
        *(Effect, Sample, ConstraintCheck, Confirmation, Verdict, Evaluation, UnitResult, PlayedBlocks, Repetition),
        *(ReferenceResult, QuotedReference, References),
        *(CompositionStep, FrontPoint, CompositionCheck, Improvement),
        *(Contribution, Knowledge, StrongerRule, WeaknessExplanation),
        *(EvaluationSettings, ImprovementSettings),
    ),
    made_again={
        Setup: lambda setup: {"treatments": setup.treatments, "rows": setup.rows, "count_choices": setup.count_choices},
        FeatureSpace: lambda _: {},
        Reference: lambda reference: {
            "name": reference.name,
            "choices": reference.choices,
            "fingerprint": reference.fingerprint,
            "gerund": reference.gerund,
        },
    },
)


def makers_of(study: Study) -> Mapping[type, Callable[..., Any]]:
    """Return how the objects that no file keeps are made: policy and environment are those of the study."""

    def setup(treatments: tuple[Any, ...], rows: int, *, count_choices: bool) -> Setup:
        return Setup(study.player(), study.environment, treatments, study.settings.play, rows, count_choices)

    return {Setup: setup, FeatureSpace: lambda: study.space, Reference: Reference}
