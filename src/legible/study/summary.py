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
    """Return the summary of a study: its weaknesses, what deployment gains, and figures of all policies.

    The study must have composed its rules (`improvement`) and played the baselines (`references`). Nothing is played.
    """
    improvement, environment = study.improvement, study.named_environment
    deployment = summarise_deployment(
        improvement,
        environment=environment.name,
        play=study.settings.play,
        success=success_words(environment),
        solved=environment.solved_from,
    )
    # The ledger splits the gain by ending, by reward term and by time. Endings that the environment does not
    # name are grouped by the features of recorded states.
    final, evaluation = improvement.final_blocks, study.evaluation
    states, space = study.experiences.observations, study.experiences.space
    has_rules = len(improvement.composition) > 0
    guided = final.results[-1] if has_rules else None
    ledger = None if guided is None else split_gain(final.base, guided, states, space)
    objective = study.settings.evaluation.objective
    return Summary(
        weaknesses=group_weaknesses(evaluation, study.experiences),
        deployment=deployment,
        figures=improvement.figures(),
        effects=improvement.effects() if has_rules else {},
        references=tuple(figures(baseline.result, objective) for baseline in study.references.quoted),
        endings=share_endings(final.base, guided, states, space),
        # The split by time was computed when the composition was played: blocks hold no rewards of steps.
        ledger=ledger and replace(ledger, times=improvement.gain_by_time),
    )
