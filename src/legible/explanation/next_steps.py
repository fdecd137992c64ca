"""What a study without a repair still says, and what to do next.

- `Outlook`: what effect could have been seen, and what to try; `look_ahead` makes it.
- `detectable_effect`: how large an effect must be to be probably seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from legible.evaluation import Evaluation
from legible.explanation.objective_words import ObjectiveWords
from legible.formatting import percent
from legible.settings import EvaluationSettings, StudySettings

MOST_BESIDE_TRAINING = 2
"""What else is advised where a policy should be trained further first."""


@dataclass(frozen=True)
class Outlook:
    """What a study without a repair still says.

    Parameters
    ----------
    seen
        What could have been seen, a sentence each.
    steps
        What to try next, a sentence each.
    """

    seen: tuple[str, ...]
    steps: tuple[str, ...]


def detectable_effect(evaluation: Evaluation, share: float = 0.5) -> float | None:
    """Return the effect that would probably have been seen for this share of the rule sets; None if nobody knows.

    Parameters
    ----------
    evaluation
        The verdicts.
    share
        Of the rule sets that changed anything.
    """
    sizes = [
        v.confirmation.effect.detectable
        if v.confirmation is not None and v.confirmation.effect.detectable is not None
        else v.detectable
        for v in evaluation.verdicts
    ]
    known = [size for size in sizes if size is not None and np.isfinite(size)]
    return float(np.quantile(known, share)) if known else None


def look_ahead(
    evaluation: Evaluation,
    settings: StudySettings,
    *,
    has_relations: bool,
    has_mistakes: bool,
    folder: str = "DIR",
    is_bad: bool = False,
    better: str = "",
) -> Outlook:
    """Say what effect could have been seen where nothing is confirmed, and what to try next.

    Parameters
    ----------
    evaluation
        The verdicts.
    settings
        Of the study.
    has_relations
        Whether rules could be carried over to related situations.
    has_mistakes
        Whether single decisions have been looked at.
    folder
        Of the study, for commands.
    is_bad
        Whether the policy is bad in absolute terms, or no better than a plain way to act.
    better
        The plain way to act that is better, if there is one.
    """
    train = ["Train it further: it lacks more than rules can mend."] if is_bad else []
    if better:
        train.append(f"Ask whether returns are what you want: {better} has more of them than the policy.")
    if evaluation.confirmed:
        more = (
            "Play more (--improvement.episodes): weaknesses are confirmed, but no composition mends them for certain."
        )
        return Outlook((), tuple(train or [more]))
    steps = _steps(
        settings,
        has_relations,
        has_mistakes,
        folder,
        is_constant=detectable_effect(evaluation, 0.9) == 0.0,
        knows_success=bool(np.isfinite(evaluation.base.success)),
    )
    # What lacks more than rules can mend is not sent after many of them.
    return Outlook(tuple(_seen(evaluation)), (*train, *list(steps)[: MOST_BESIDE_TRAINING if train else None]))


def _seen(evaluation: Evaluation) -> Iterator[str]:
    tested = len(evaluation.verdicts)
    if not tested:
        yield "No rule set could be tested, so nothing is known about weaknesses."
        return
    told = ObjectiveWords(evaluation.settings.objective)
    half, most = detectable_effect(evaluation, 0.5), detectable_effect(evaluation, 0.9)
    if most == 0.0:
        yield (
            "Every episode returns the same, guided or not. If that is the most that an episode can return, there is "
            "nothing to mend."
        )
    elif half is not None and most is not None:
        yield (
            f"For half of the {tested} rule sets a change of {told.amount(half)} in the {told.words} would probably "
            f"have been seen, for nine in ten one of {told.amount(most)}; smaller ones can have been missed."
        )
    idle = sum(v.changed_episodes == 0 for v in evaluation.verdicts)
    if idle:
        yield (
            f"{percent(idle / tested)} of the rule sets changed no episode at all: the policy already does as they say."
        )


def _steps(
    settings: StudySettings,
    has_relations: bool,
    has_mistakes: bool,
    folder: str,
    *,
    is_constant: bool,
    knows_success: bool,
) -> Iterator[str]:
    if is_constant:
        yield (
            "Make it harder: longer episodes or other starts, as far as the environment can (--arg), or random actions "
            "on the way (--play.epsilon 0.05)."
        )
    elif settings.evaluation.race_seeds < EvaluationSettings().race_seeds and settings.evaluation.method == "racing":
        yield "Play more: this study played less than one does by default; more episodes show smaller effects."
    else:
        yield "Play more: --evaluation.race-seeds and --evaluation.confirmation-seeds find smaller effects."
    if "searched" not in settings.sources:
        yield f"Search: --sources {settings.sources},searched also looks for rules that the policy does not show."
    elif not is_constant:
        yield "Search longer: --search.budget."
    if has_relations:
        yield "Add relations of your own (--relations FILE): more rules are carried over to more situations."
    else:
        yield "Write relations (--relations FILE): they carry rules over to situations in which the policy breaks them."
    if not has_mistakes:
        yield f"Look at single decisions: legible mistakes {folder}."
    if settings.evaluation.objective == "mean" and not is_constant:
        others = "worst-tenth, median or success" if knows_success else "worst-tenth or median"
        yield f"Ask for something else than the mean: --objective {others}."
    yield "Test a suspicion of your own: --rule RULE."
