"""Algorithm 2 of the paper: compose the rule sets that reveal weaknesses into a guided policy that is better.

Screening, composition and the final figure use disjoint blocks of seeds: what is picked because it did well on some
seeds is never quoted from the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from legible.evaluation import Evaluation, Runner, Sample, Verdict, play_all, stage_seeds
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, run_units
from legible.features import FeatureSpace
from legible.formatting import data_frame
from legible.rules import Rule, RuleSet
from legible.settings import ImprovementSettings


@dataclass(frozen=True)
class Step:
    """One turn of Algorithm 2's loop: the rule set that was tried, the mean return with it, and whether it stayed."""

    rule_set: RuleSet
    mean: float
    error: float
    accepted: bool


@dataclass(frozen=True)
class Improvement:
    """A composition of rule sets and what it is worth.

    Parameters
    ----------
    rule_sets
        The rule sets that were accepted, in the order of their acceptance.
    composition
        Their union: the rules of the guided policy.
    steps
        How it came about.
    chosen
        The composition on the seeds on which it was chosen: the paper's figure, too good because it was picked for it.
    base, guided
        Both policies on the fresh seeds of the final figure; the same sample when the composition is empty.
    effect
        Guided minus base there, paired.
    """

    rule_sets: tuple[RuleSet, ...]
    composition: RuleSet
    steps: tuple[Step, ...]
    chosen: Sample
    base: Sample
    guided: Sample
    effect: Effect
    settings: ImprovementSettings

    def to_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """The steps of the composition as plain rows, for JSON or a data frame."""
        return [
            {
                "rule": (step.rule_set.source or step.rule_set.rules[0]).text(space),
                "rules": len(step.rule_set),
                "mean": step.mean,
                "error": step.error,
                "accepted": step.accepted,
            }
            for step in self.steps
        ]

    def to_pandas(self, space: FeatureSpace) -> Any:
        """Return the steps of the composition as a data frame, a row each."""
        return data_frame(self.to_rows(space), ("rule", "rules", "mean", "error", "accepted"))


def improve(
    setup: Setup,
    evaluation: Evaluation,
    *,
    seed: int,
    settings: ImprovementSettings | None = None,
    veto: Collection[Rule] = (),
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
) -> Improvement:
    """Compose rule sets greedily, then measure the result on fresh seeds.

    Parameters
    ----------
    setup
        As for the evaluation; its treatments are not used.
    evaluation
        Which rule sets reveal weaknesses.
    seed
        Of the study.
    settings
        Numbers of episodes, and which candidates in which order.
    veto
        Rules that must not be in the composition: a rule set that contains one, or was generalised from one, is not
        tried.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    settings = settings or ImprovementSettings()
    seeds = stage_seeds(seed, "composition", 0, settings.episodes)

    def play(rules: RuleSet | None) -> Sample:
        treatments = () if rules is None else (rules,)
        this = replace(setup, treatments=treatments)
        return Sample.of(play_all(this, [(len(treatments) - 1, seeds)], run, on_episodes)[0])

    best = play(None)
    composition, accepted, steps = RuleSet(()), [], []
    for verdict in _candidates(evaluation, settings, veto):
        trial = composition | verdict.rule_set
        tried = play(trial)
        if tried.mean > best.mean:
            best, composition = tried, trial
            accepted.append(verdict.rule_set)
        steps.append(Step(verdict.rule_set, tried.mean, tried.error, composition is trial))
    base, guided = play_final(setup, composition, seed=seed, settings=settings, run=run, on_episodes=on_episodes)
    return Improvement(
        rule_sets=tuple(accepted),
        composition=composition,
        steps=tuple(steps),
        chosen=best,
        base=Sample.of(base),
        guided=Sample.of(guided),
        effect=paired(guided.returns, base.returns),
        settings=settings,
    )


def _candidates(evaluation: Evaluation, settings: ImprovementSettings, veto: Collection[Rule]) -> list[Verdict]:
    """The rule sets to try, in order."""
    found = evaluation.weaknesses if settings.candidates == "weaknesses" else evaluation.confirmed
    mined_order = [verdict for verdict in evaluation.verdicts if verdict in found]
    allowed = [v for v in mined_order if not (set(v.rule_set.rules) | {v.rule_set.source}) & set(veto)]
    by_effect = sorted(allowed, key=lambda v: -v.difference)
    if settings.most_candidates:
        chosen = by_effect[: settings.most_candidates]
        allowed, by_effect = [v for v in allowed if v in chosen], chosen
    if settings.order == "effect":
        return by_effect
    if settings.order == "negative-first":
        return sorted(allowed, key=lambda v: v.rule_set.rules[0].polarity == "+")
    return allowed


def play_final(
    setup: Setup,
    composition: RuleSet,
    *,
    seed: int,
    settings: ImprovementSettings,
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
) -> tuple[UnitResult, UnitResult]:
    """Play base and composition on the same fresh seeds, those of the final figure.

    The units are the same whenever it is called, so a study that has them in its store plays nothing again.
    """
    seeds = stage_seeds(seed, "final", 0, settings.final_episodes)
    this = replace(setup, treatments=(composition,) if len(composition) else ())
    blocks = play_all(this, [(i, seeds) for i in range(UNGUIDED, len(this.treatments))], run, on_episodes)
    return blocks[0], blocks[-1]
