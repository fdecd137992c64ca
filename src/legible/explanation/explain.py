"""Explanations of the weaknesses that an evaluation found.

- `explain_weakness`: explains one of them from recorded data; `explain_weaknesses`: plays and explains the strongest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legible.evaluation import Evaluation, Runner, Verdict
from legible.evaluation.units import Setup, run_units
from legible.explanation.contributions import Contribution, leave_one_out
from legible.explanation.grouping import WeaknessGroup, group_weaknesses
from legible.explanation.knowledge import knowledge_of
from legible.explanation.weakness import WeaknessExplanation, stronger_rules
from legible.features import FeatureSpace
from legible.mining import MinedRule, Mining
from legible.play import Experiences, stage_seeds
from legible.rules import Rule


def explain_weakness(
    weakness: WeaknessGroup | Verdict,
    space: FeatureSpace,
    *,
    experiences: Experiences | None = None,
    mined: Iterable[Rule | MinedRule] = (),
    contributions: Sequence[Contribution] = (),
    min_kept: float = 0.9,
    alpha: float = 0.05,
    objective: str = "mean",
) -> WeaknessExplanation:
    """Explain one weakness from the data that are given.

    Parameters
    ----------
    weakness
        The weakness, or the verdict on one rule set.
    space
        Names of features and actions.
    experiences
        Recorded steps of the unguided policy, to measure which rules it follows.
    mined
        All mined rules, to find the stronger ones: those that say the same under more conditions (`stronger_rules`).
    contributions
        Result of `leave_one_out` for this rule set.
    min_kept
        See `knowledge_of`.
    alpha
        Significance level.
    objective
        The objective that guidance should improve.
    """
    group = weakness if isinstance(weakness, WeaknessGroup) else WeaknessGroup(weakness)
    rule_set = group.front.rule_set
    return WeaknessExplanation(
        verdict=group.front,
        space=space,
        knowledge=() if experiences is None else knowledge_of(rule_set, experiences, min_kept=min_kept),
        contributions=tuple(contributions),
        stronger=stronger_rules(rule_set, mined),
        alpha=alpha,
        objective=objective,
        others=group.others,
    )


def explain_weaknesses(
    setup: Setup,
    evaluation: Evaluation,
    mining: Mining,
    experiences: Experiences,
    *,
    seed: int,
    most: int = 3,
    leave_out: bool = True,
    min_kept: float = 0.9,
    run: Runner = run_units,
) -> tuple[WeaknessExplanation, ...]:
    """Explain the strongest weaknesses of a policy.

    Parameters
    ----------
    setup
        Setup of the evaluation; its treatments are ignored.
    evaluation
        The verdicts.
    mining, experiences
        The mined rules, and the experiences that they were mined from.
    seed
        Seed of the study.
    most
        Maximum number of weaknesses to explain.
    leave_out
        Whether to play every rule set without each of its rules, on held-out seeds.
    min_kept
        See `knowledge_of`.
    run
        As in `legible.evaluation.evaluate`.
    """
    settings = evaluation.settings
    # No confirmation (0 episodes) is no reason to play none here.
    seeds = stage_seeds(seed, "explanation", 0, settings.confirmation_episodes or settings.episodes)
    explained = []
    groups = group_weaknesses(evaluation, experiences)
    for group in groups[:most]:
        played: Sequence[Contribution] = ()
        # The contribution of an only rule is the effect of its set, which is known.
        if leave_out and len(group.front.rule_set) > 1:
            played = leave_one_out(setup, group.front.rule_set, seeds, run=run)
        explained.append(
            explain_weakness(
                group,
                mining.space,
                experiences=experiences,
                mined=mining.rules,
                contributions=played,
                min_kept=min_kept,
                alpha=settings.alpha,
                objective=settings.objective,
            )
        )
    return tuple(explained)
