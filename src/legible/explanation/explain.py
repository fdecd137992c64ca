"""Explains the weaknesses that an evaluation found.

- `top_weaknesses`: which weaknesses are worth explaining.
- `explain_weakness`: one of them, with whatever is at hand; `explain_weaknesses`: all of them, with what is played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from legible.evaluation import Evaluation, Runner, Verdict
from legible.evaluation.units import Setup, run_units
from legible.explanation.contributions import Contribution, leave_one_out
from legible.explanation.knowledge import knowledge_of
from legible.explanation.weakness import WeaknessExplanation, stronger_rules
from legible.features import FeatureSpace
from legible.mining import MinedRule, Mining
from legible.play import Experiences, stage_seeds
from legible.rules import Rule, RuleSet, representative_rule


def explain_weakness(
    verdict: Verdict,
    space: FeatureSpace,
    *,
    experiences: Experiences | None = None,
    mined: Iterable[Rule | MinedRule] = (),
    contributions: Sequence[Contribution] = (),
    min_kept: float = 0.9,
    alpha: float = 0.05,
) -> WeaknessExplanation:
    """Put one weakness into words, with whatever is at hand.

    Parameters
    ----------
    verdict
        The weakness.
    space
        Names of features and actions.
    experiences
        What the unguided policy did; tells which rules it knows.
    mined
        All mined rules; among them stronger versions are looked for.
    contributions
        What `leave_one_out` found for this rule set.
    min_kept
        See `knowledge_of`.
    alpha
        Level of the tests.
    """
    rule_set = verdict.rule_set
    return WeaknessExplanation(
        verdict=verdict,
        space=space,
        knowledge=() if experiences is None else knowledge_of(rule_set, experiences, min_kept=min_kept),
        contributions=tuple(contributions),
        stronger=stronger_rules(rule_set, mined),
        alpha=alpha,
    )


def top_weaknesses(evaluation: Evaluation, most: int = 3) -> tuple[Verdict, ...]:
    """Return the weaknesses to explain first: confirmed ones by their effect, then suspected ones by their p-value.

    Of rule sets that say the same, one in more situations than the other, only the first is there. Suspected ones that
    fresh seeds speak against are left out.
    """
    suspected = sorted((v for v in evaluation.weaknesses if not v.is_confirmed), key=lambda v: v.p)
    chosen: list[Verdict] = []
    for verdict in (*evaluation.confirmed, *suspected):
        doubtful = verdict.confirmation is not None and verdict.confirmation.effect.mean <= 0.0
        if not doubtful and not any(_say_the_same(verdict.rule_set, other.rule_set) for other in chosen):
            chosen.append(verdict)
    return tuple(chosen[:most])


def _say_the_same(one: RuleSet, two: RuleSet) -> bool:
    """Whether a rule of one set is a rule of the other, perhaps with further conditions."""
    first = representative_rule(one)
    return any(first.contains(rule) or rule.contains(first) for rule in two.rules)


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
    on_episodes: Callable[[int], None] | None = None,
) -> tuple[WeaknessExplanation, ...]:
    """Explain the top weaknesses of a policy.

    Parameters
    ----------
    setup
        As for the evaluation; its treatments are not used.
    evaluation
        The verdicts.
    mining, experiences
        What the rules were mined from.
    seed
        Of the study.
    most
        How many weaknesses to explain at most.
    leave_out
        Whether to play every rule set without each of its rules, on seeds that chose nothing.
    min_kept
        See `knowledge_of`.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    settings = evaluation.settings
    seeds = stage_seeds(seed, "explanation", 0, settings.confirmation_episodes or settings.episodes)
    explained = []
    for verdict in top_weaknesses(evaluation, most):
        played: Sequence[Contribution] = ()
        if leave_out and len(verdict.rule_set) > 1:
            played = leave_one_out(setup, verdict.rule_set, seeds, run=run, on_episodes=on_episodes)
        explained.append(
            explain_weakness(
                verdict,
                mining.space,
                experiences=experiences,
                mined=mining.rules,
                contributions=played,
                min_kept=min_kept,
                alpha=settings.alpha,
            )
        )
    return tuple(explained)
