"""The step of a study that puts what was found into words.

- `ExplainsWeaknesses`: gives a study `explain` and `explanations`, and what follows from them: `weaknesses`,
  `conclusion`, `deployment` and `outlook`. Every count and every sentence of terminal, report and JSON comes from
  these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from legible.environments import EnvironmentSpec
from legible.environments.domains import success_words
from legible.evaluation import Evaluation
from legible.explanation import (
    Conclusion,
    Deployment,
    Outlook,
    WeaknessExplanation,
    WeaknessGroup,
    conclude,
    explain_weaknesses,
    group_weaknesses,
    is_repair,
    look_ahead,
    weigh_deployment,
)
from legible.play import STAGES, Known
from legible.settings import StudySettings

if TYPE_CHECKING:
    from legible.evaluation import References, Runner
    from legible.evaluation.units import Setup
    from legible.improvement import Improvement
    from legible.mining import Mining
    from legible.play import Experiences
    from legible.relations import MetamorphicRelation

T = TypeVar("T")
MOST_EXPLAINED = 3


class ExplainsWeaknesses:
    """What a study says about what it found; see `legible.Study` for the attributes."""

    environment: EnvironmentSpec
    settings: StudySettings
    seed: int

    if TYPE_CHECKING:

        @property
        def evaluation(self) -> Evaluation: ...  # noqa: D102 (only its type)
        @property
        def experiences(self) -> Experiences: ...  # noqa: D102
        @property
        def improvement(self) -> Improvement: ...  # noqa: D102
        @property
        def mining(self) -> Mining: ...  # noqa: D102
        @property
        def references(self) -> References: ...  # noqa: D102
        @property
        def relations(self) -> tuple[MetamorphicRelation, ...]: ...  # noqa: D102
        @property
        def has_mistakes(self) -> bool: ...  # noqa: D102
        @property
        def folder(self) -> Path: ...  # noqa: D102
        def _do(self, step: str, work: Callable[[], T]) -> T: ...
        def _read(self, step: str, work: Callable[[], T]) -> T: ...
        def evaluate(self) -> Evaluation: ...  # noqa: D102
        def setup(self) -> Setup: ...  # noqa: D102
        def runner(self, *stages: str) -> Runner: ...  # noqa: D102

    @property
    def weaknesses(self) -> tuple[WeaknessGroup, ...]:
        """What looks like a weakness, the strongest first; rule sets that change the same states are one."""
        return self._read("weaknesses", lambda: group_weaknesses(self.evaluation, self.experiences))

    def explain(self) -> tuple[WeaknessExplanation, ...]:
        """Put the most telling weaknesses into words, with what each of their rules adds (see `leaves_rules_out`)."""
        self.evaluate()
        return self._do("explanations", self._explain)

    @property
    def explanations(self) -> tuple[WeaknessExplanation, ...]:
        """The most telling weaknesses in words."""
        return self._read("explanations", self._explain)

    def _explain(self) -> tuple[WeaknessExplanation, ...]:
        return explain_weaknesses(
            self.setup(),
            self.evaluation,
            self.mining,
            self.experiences,
            seed=self.seed,
            most=MOST_EXPLAINED,
            leave_out=self.leaves_rules_out,
            min_kept=self.settings.mining.min_accuracy,
            run=self.runner("explanation"),
        )

    @property
    def leaves_rules_out(self) -> bool:
        """Whether explanations play rule sets without each of their rules: unless that takes longer than evaluating.

        Rule sets of environments with many exchangeable things, such as vehicles, are large.
        """
        evaluation = self.evaluation
        rules = sum(len(group.front.rule_set) for group in self.weaknesses[:MOST_EXPLAINED])
        known = Known(len(evaluation.verdicts), len(evaluation.weaknesses))
        most = sum(STAGES[name].episodes(self.settings, known) for name in ("screening", "racing"))
        return rules * (evaluation.settings.confirmation_episodes or evaluation.settings.episodes) <= most

    @property
    def conclusion(self) -> Conclusion:
        """The whole study in a few sentences; composition and references must be known."""
        solved = self.environment.solved_from
        return conclude(self.evaluation, self.improvement, self.references, self.weaknesses, solved)

    @property
    def deployment(self) -> Deployment:
        """What a person wants to know before the guided policy is used."""
        return weigh_deployment(
            self.improvement,
            environment=self.environment.name,
            play=self.settings.play,
            success=success_words(self.environment),
            solved=self.environment.solved_from,
        )

    @property
    def outlook(self) -> Outlook | None:
        """What could have been seen where nothing is confirmed, and what to try next; None where guidance helps."""
        if is_repair(self.improvement, self.references):
            return None
        best = self.references.best_plain
        return look_ahead(
            self.evaluation,
            self.settings,
            has_relations=bool(self.relations),
            has_mistakes=self.has_mistakes,
            folder=str(self.folder),
            is_bad=self.conclusion.is_bad,
            better=best.words if best is not None and best.beats_policy else "",
        )
