"""Results that follow from other results, kept because computing them resamples episodes and matches rules.

- `Summary`: weaknesses, facts about deployment and figures; `summarise` computes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from legible.environments.domains import success_words
from legible.evaluation import Figure, figure_rows, figures
from legible.evaluation.endings import EndingShare, share_endings
from legible.evaluation.ledger import Ledger, split_gain
from legible.evaluation.statistics import Effect
from legible.explanation import Deployment, WeaknessGroup, group_weaknesses, summarise_deployment

if TYPE_CHECKING:
    from legible.study.study import Study


@dataclass(frozen=True)
class Summary:
    """The figures that a finished study shows first.

    Parameters
    ----------
    weaknesses
        Groups of rule sets that change the same states, the strongest first.
    deployment
        Facts that matter before the guided policy is used.
    figures, effects
        Figures of the unguided ("base") and the guided policy on held-out seeds, and the effects of guidance.
    references
        Figures of the quoted baselines, in their order.
    endings
        How the episodes end on held-out seeds, the most frequent ending first.
    ledger
        Where the gain of the guided policy comes from; None without one.
    """

    weaknesses: tuple[WeaknessGroup, ...]
    deployment: Deployment
    figures: Mapping[str, Mapping[str, Figure]]
    effects: Mapping[str, Effect]
    references: tuple[Mapping[str, Figure], ...]
    endings: tuple[EndingShare, ...] = ()
    ledger: Ledger | None = None

    def figure_rows(self, references: Sequence[str]) -> list[dict[str, Any]]:
        """Return one row per objective: both policies, their difference, and the first baselines by these names."""
        return figure_rows(self.figures, self.effects, dict(zip(references, self.references, strict=False)))


def summarise(study: Study) -> Summary:
    """Compute the summary of a study whose improvement and references are known."""
    improvement, environment = study.improvement, study.named_environment
    deployment = summarise_deployment(
        improvement,
        environment=environment.name,
        play=study.settings.play,
        success=success_words(environment),
        solved=environment.solved_from,
    )
    final, evaluation = improvement.final_blocks, study.evaluation
    states, space = study.experiences.observations, study.experiences.space
    guided = final.results[-1] if len(improvement.composition) else None
    ledger = None if guided is None else split_gain(final.base, guided, states, space)
    weaknesses = group_weaknesses(evaluation, study.experiences)
    return Summary(
        weaknesses=weaknesses,
        deployment=deployment,
        figures=improvement.figures(),
        effects=improvement.effects() if len(improvement.composition) else {},
        references=tuple(
            figures(entry.result, study.settings.evaluation.objective) for entry in study.references.quoted
        ),
        endings=share_endings(final.base, guided, states, space),
        ledger=ledger and replace(ledger, times=improvement.gain_by_time),
    )
