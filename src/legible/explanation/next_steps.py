"""Sensitivity of a study without a repair, and what to try next.

- `NextSteps`: the effects that could have been detected, and what to try; `suggest_next_steps` makes it.
- `detectable_effect`: the effect that would probably have been detected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from legible.evaluation import Evaluation
from legible.explanation.objective_words import ObjectiveWords
from legible.formatting import percent
from legible.settings import EvaluationSettings, StudySettings

SHARE_DETECTED = 0.9
"""Share of the rule sets ("nine in ten") to which a sentence about detectable effects applies."""
FEWEST_FOR_SHARE = 10
"""Fewest rule sets of which nine in ten is a meaningful share; with fewer, the sentence is about all of them."""
# Further steps to suggest if the policy should first be trained further.
MAX_STEPS_AFTER_TRAINING = 2
TRAIN = "Train the policy further: rules alone cannot repair it."
REPAIRED = (
    "Watch the episodes that lose most, and decide whether the gain is worth it.",
    "Then use the guided policy, or train the network to follow the rules: legible distil DIR --out FILE.",
)
"""Steps after a study whose rules help."""
BETTER_BUT_BAD = (
    "Do not deploy it yet: guided, it is better, but still bad.",
    "Train the policy further and study it again: these rules were tested with the present network only.",
)
"""Steps after a study whose rules help a policy that stays bad."""


@dataclass(frozen=True)
class NextSteps:
    """Sensitivity of a study without a repair, and suggestions.

    Parameters
    ----------
    seen
        Effects that could have been detected, a sentence each.
    steps
        What to try next, a sentence each.
    """

    seen: tuple[str, ...]
    steps: tuple[str, ...]


def detectable_effect(evaluation: Evaluation, share: float = 0.5) -> float | None:
    """Return the effect that would probably have been detected for a share of the rule sets; None if unknown.

    Parameters
    ----------
    evaluation
        The verdicts.
    share
        Share of the rule sets that changed any episode.
    """
    sizes = _detectable_sizes(evaluation)
    return float(np.quantile(sizes, share)) if sizes else None


def _detectable_sizes(evaluation: Evaluation) -> list[float]:
    sizes = [
        v.confirmation.effect.detectable
        if v.confirmation is not None and v.confirmation.effect.detectable is not None
        else v.detectable
        for v in evaluation.verdicts
    ]
    return [size for size in sizes if size is not None and np.isfinite(size)]


def suggest_next_steps(
    evaluation: Evaluation,
    settings: StudySettings,
    *,
    has_relations: bool,
    has_mistakes: bool,
    folder: str = "DIR",
    is_bad: bool = False,
    better: str = "",
) -> NextSteps:
    """Return the effects that could have been detected if nothing is confirmed, and what to try next.

    It is for studies without a repair: those whose composition gives no gain, although weaknesses may be confirmed.

    Parameters
    ----------
    evaluation
        The verdicts.
    settings
        Settings of the study.
    has_relations
        Whether relations make related forms of rules.
    has_mistakes
        Whether the study has searched for mistakes.
    folder
        Folder of the study, for commands.
    is_bad
        Whether the policy is bad in absolute terms, or no better than random play or a constant action.
    better
        Random play or the constant action that is better, if any.
    """
    train = [TRAIN] if is_bad else []
    if better:
        train.append(f"Check the reward: {better} scores higher than the policy.")
    if evaluation.confirmed:
        more = "Play more episodes (--set improvement.episodes=N): together the weaknesses give no gain yet."
        return NextSteps((), tuple(train or [more]))
    # An effect of 0 is detectable if the changed episodes of a rule set all have the same difference.
    has_no_variation = detectable_effect(evaluation, SHARE_DETECTED) == 0.0
    evaluated, default = settings.evaluation, EvaluationSettings()
    steps = []
    if has_no_variation:
        harder = "longer episodes or other start states (--arg), or random actions (--set play.epsilon=0.05)"
        steps.append(f"Make the task harder: {harder}.")
    elif evaluated.method == "racing" and evaluated.race_seeds < default.race_seeds:
        steps.append("Play more episodes to detect smaller effects: this study played fewer than the default.")
    else:
        options = "--set evaluation.race_seeds=N, --set evaluation.confirmation_seeds=N"
        steps.append(f"Play more episodes to detect smaller effects: {options}.")
    if "searched" not in settings.sources:
        steps.append(f"Search for rules that the policy does not follow: --set sources={settings.sources},searched.")
    elif not has_no_variation:
        steps.append("Search longer: --set search.budget=N.")
    relations = "Add relations to test rules in more" if has_relations else "Write relations to test rules in related"
    steps.append(f"{relations} situations: --relations FILE.")
    if not has_mistakes:
        steps.append(f"Look for mistakes, single costly decisions: legible run {folder} --until mistakes.")
    if evaluated.objective == "mean" and not has_no_variation:
        others = "worst-tenth, median or success" if np.isfinite(evaluation.base.success) else "worst-tenth or median"
        steps.append(f"Choose another objective than the mean return: --objective {others}.")
    steps.append("Test a rule of your own: --rule RULE.")
    most = MAX_STEPS_AFTER_TRAINING if train else None
    return NextSteps(tuple(describe_sensitivity(evaluation)), (*train, *steps[:most]))


def describe_sensitivity(evaluation: Evaluation) -> Iterator[str]:
    """Yield sentences about the effects that a test of rule sets would probably have detected."""
    tested, sizes = len(evaluation.verdicts), _detectable_sizes(evaluation)
    if not tested:
        yield "No rule set could be tested, so nothing is known about weaknesses."
        return
    words = ObjectiveWords(evaluation.settings.objective)
    if detectable_effect(evaluation, SHARE_DETECTED) == 0.0:
        yield (
            "Every episode has the same return, guided or not. If that is the highest possible return, there is "
            "nothing to improve."
        )
    elif sizes:
        share, which = 1.0, "A change"
        if len(sizes) >= FEWEST_FOR_SHARE:
            share, which = SHARE_DETECTED, "For nine in ten of these rule sets a change"
        size = words.amount(float(np.quantile(sizes, share)))
        yield f"{which} of {size} in the {words.words} would probably have been detected. Smaller ones may be missed."
    idle = sum(v.changed_episodes == 0 for v in evaluation.verdicts)
    if idle:
        sets = f"{percent(idle / tested)} of the rule sets change" if tested > 1 else "The only rule set changes"
        yield f"{sets} no episode: the policy already follows {'them' if tested > 1 else 'it'}."
