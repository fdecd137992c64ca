"""What follows from a finished study: weaknesses, the conclusion, deployment, and what to try next.

Every count and every sentence of terminal, report and JSON comes from these. `leaves_rules_out` says how weaknesses are
explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.environments.domains import success_words
from legible.explanation import (
    Conclusion,
    Deployment,
    Outlook,
    conclude,
    is_repair,
    look_ahead,
    weigh_deployment,
)
from legible.play import STAGES, Known

if TYPE_CHECKING:
    from legible.study.study import Study

MOST_EXPLAINED = 3


def leaves_rules_out(study: Study) -> bool:
    """Whether explanations play rule sets without each of their rules: unless that takes longer than evaluating.

    Rule sets of environments with many exchangeable things, such as vehicles, are large.
    """
    evaluation = study.evaluation
    rules = sum(len(group.front.rule_set) for group in study.weaknesses[:MOST_EXPLAINED])
    known = Known(len(evaluation.verdicts), len(evaluation.weaknesses))
    most = sum(STAGES[name].episodes(study.settings, known) for name in ("screening", "racing"))
    return rules * (evaluation.settings.confirmation_episodes or evaluation.settings.episodes) <= most


def conclude_study(study: Study) -> Conclusion:
    """Return the whole study in a few sentences; composition and references must be known."""
    solved = study.environment.solved_from
    return conclude(study.evaluation, study.improvement, study.references, study.weaknesses, solved)


def weigh_study(study: Study) -> Deployment:
    """Return what a person wants to know before the guided policy is used."""
    return weigh_deployment(
        study.improvement,
        environment=study.environment.name,
        play=study.settings.play,
        success=success_words(study.environment),
        solved=study.environment.solved_from,
    )


def look_ahead_of(study: Study) -> Outlook | None:
    """Return what could have been seen where nothing is confirmed, and what to try next; None where guidance helps."""
    if is_repair(study.improvement, study.references):
        return None
    best = study.references.best_plain
    return look_ahead(
        study.evaluation,
        study.settings,
        has_relations=bool(study.relations),
        has_mistakes=study.has("mistakes"),
        folder=str(study.folder),
        is_bad=study.conclusion.is_bad,
        better=best.words if best is not None and best.beats_policy else "",
    )
