"""Algorithm 2 of the paper: compose the rule sets that reveal weaknesses into a guided policy that is better.

Screening, composition and the final figure use disjoint blocks of seeds: what is picked because it did well on some
seeds is never quoted from the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

from legible.errors import LegibleError
from legible.evaluation import Evaluation, Runner, Sample, Verdict, play_all, stage_seeds
from legible.rules import Rule, RuleSet
from legible.statistics import Effect, paired
from legible.units import UNGUIDED, Setup, run_units

Order = Literal["mined", "effect", "negative-first"]
Candidates = Literal["weaknesses", "confirmed"]


@dataclass(frozen=True)
class ImprovementSettings:
    """What decides the composition.

    Parameters
    ----------
    episodes
        Episodes for each step of the composition.
    final_episodes
        Episodes of the figure that is quoted: base and composition on the same fresh seeds.
    candidates
        Which rule sets are tried: "weaknesses" (the paper: Welch's p below alpha) or only "confirmed" ones.
    most_candidates
        Try at most this many, the largest screening differences first; 0 tries all.
    order
        In which order: as "mined" (the paper), by "effect", or "negative-first".
    """

    episodes: int = 500
    final_episodes: int = 1000
    candidates: Candidates = "weaknesses"
    most_candidates: int = 20
    order: Order = "mined"

    def __post_init__(self) -> None:
        for name in ("episodes", "final_episodes"):
            if getattr(self, name) < 2:
                raise LegibleError(f"{name} must be at least 2, got {getattr(self, name)}.")
        if self.most_candidates < 0:
            raise LegibleError(f"most_candidates cannot be negative, got {self.most_candidates}.")
        if self.candidates not in {"weaknesses", "confirmed"}:
            raise LegibleError(f"candidates must be 'weaknesses' or 'confirmed', got {self.candidates!r}.")
        if self.order not in {"mined", "effect", "negative-first"}:
            raise LegibleError(f"order must be 'mined', 'effect' or 'negative-first', got {self.order!r}.")


@dataclass(frozen=True)
class Step:
    """One turn of Algorithm 2's loop: the rule set that was tried, the mean return with it, and whether it stayed."""

    rule_set: RuleSet
    mean: float
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
    base, guided
        Both policies on the fresh seeds of the final figure; the same sample when the composition is empty.
    effect
        Guided minus base there, paired.
    """

    rule_sets: tuple[RuleSet, ...]
    composition: RuleSet
    steps: tuple[Step, ...]
    base: Sample
    guided: Sample
    effect: Effect
    settings: ImprovementSettings


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

    def mean_return(rules: RuleSet | None) -> float:
        treatments = () if rules is None else (rules,)
        this = replace(setup, treatments=treatments)
        return float(play_all(this, [(len(treatments) - 1, seeds)], run, on_episodes)[0].returns.mean())

    best = mean_return(None)
    composition, accepted, steps = RuleSet(()), [], []
    for verdict in _candidates(evaluation, settings, veto):
        trial = composition | verdict.rule_set
        mean = mean_return(trial)
        if mean > best:
            best, composition = mean, trial
            accepted.append(verdict.rule_set)
        steps.append(Step(verdict.rule_set, mean, composition is trial))
    base, guided, effect = _final(setup, composition, seed, settings, run, on_episodes)
    return Improvement(tuple(accepted), composition, tuple(steps), base, guided, effect, settings)


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


def _final(
    setup: Setup,
    composition: RuleSet,
    seed: int,
    settings: ImprovementSettings,
    run: Runner,
    on_episodes: Callable[[int], None] | None,
) -> tuple[Sample, Sample, Effect]:
    """Base and composition on the same fresh seeds."""
    seeds = stage_seeds(seed, "final", 0, settings.final_episodes)
    this = replace(setup, treatments=(composition,) if len(composition) else ())
    blocks = play_all(this, [(i, seeds) for i in range(UNGUIDED, len(this.treatments))], run, on_episodes)
    base, guided = blocks[0], blocks[-1]
    return Sample.of(base), Sample.of(guided), paired(guided.returns, base.returns)
