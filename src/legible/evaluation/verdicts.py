"""Step 3 of the paper: guide a policy with every rule set, compare returns, and say where the policy is weak.

- *Screening*: the unguided policy and every rule set play episodes with seeds of their own; Welch's test, one-sided,
  is the paper's verdict, and Benjamini-Hochberg corrects for testing many.
- *Confirmation*: each candidate plays a fresh block of seeds, the unguided policy the same one. The paired differences
  give the effect that is quoted, with its confidence interval.
- *Cause*: on the same seeds the mined rule alone. What its generalisation gains beyond that is a failure to generalise.

`evaluate` does it all; `Verdict` is what it says of one rule set, `Evaluation` the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from legible.errors import LegibleError
from legible.evaluation.statistics import Effect, benjamini_hochberg, paired, standard_error, welch
from legible.evaluation.units import UNGUIDED, Setup, Treatment, UnitResult, cut_into_units, run_units
from legible.features import FeatureSpace
from legible.formatting import data_frame
from legible.play import episode_seeds
from legible.rules import RuleSet
from legible.settings import EvaluationSettings

Runner = Callable[..., UnitResult]
"""`legible.evaluation.units.run_units`, or that with engine and store already chosen."""

# Every stage of a study has room for this many episodes; blocks of different stages never share a seed.
STAGE_EPISODES = 2**24
Stage = Literal["experiences", "screening", "confirmation", "composition", "final", "random tests", "random rules"]
_STAGES: tuple[Stage, ...] = (
    "experiences",
    "screening",
    "confirmation",
    "composition",
    "final",
    "random tests",
    "random rules",
)


def stage_seeds(seed: int, stage: Stage, first: int, count: int) -> list[int]:
    """Return seeds for some episodes of a stage."""
    if first + count > STAGE_EPISODES:
        raise LegibleError(f"{stage}: {first + count} episodes are more than a stage holds ({STAGE_EPISODES}).")
    return episode_seeds(seed, _STAGES.index(stage) * STAGE_EPISODES + first, count)


@dataclass(frozen=True)
class Sample:
    """Returns of some episodes, summed up.

    `fired` and `changed` are shares of steps in which a rule triggered and in which guidance changed the action;
    `success` is the share of episodes that succeeded, NaN where the environment does not tell; `cost` the mean cost of
    an episode, where one was asked for.
    """

    episodes: int
    mean: float
    error: float
    length: float
    success: float
    cost: float
    fired: float
    changed: float

    @classmethod
    def of(cls, result: UnitResult) -> Sample:
        """Sum up."""
        steps = max(1, int(result.lengths.sum()))
        told = result.success[~np.isnan(result.success)]
        return cls(
            episodes=len(result),
            mean=float(result.returns.mean()),
            error=standard_error(result.returns),
            length=float(result.lengths.mean()),
            success=float(told.mean()) if told.size else float("nan"),
            cost=float(result.costs.mean()),
            fired=float(result.fired.sum() / steps),
            changed=float(result.changed.sum() / steps),
        )


@dataclass(frozen=True)
class Confirmation:
    """What fresh seeds say of a candidate.

    Parameters
    ----------
    effect
        Guided minus unguided, on the same seeds.
    q
        Benjamini-Hochberg over all candidates.
    of_rule
        The mined rule alone minus unguided; None where the rule set has no mined rule behind it.
    of_generalisation
        The rule set minus the mined rule alone: what a policy that generalised its own rule would gain.
    """

    effect: Effect
    q: float
    of_rule: Effect | None
    of_generalisation: Effect | None


@dataclass(frozen=True)
class Verdict:
    """What guidance with one rule set (or another treatment) did to the returns.

    Parameters
    ----------
    treatment
        The rule set.
    sample
        Its episodes in screening.
    difference
        Mean return minus that of the unguided policy, in screening. Too good on average for those that were picked
        because of it; quote the confirmation's effect.
    p, q
        Welch's one-sided p-value for a greater mean, and Benjamini-Hochberg over all rule sets.
    p_harm, q_harm
        The same for a smaller mean.
    is_weakness
        The paper's verdict: p below alpha.
    is_harmful
        q_harm below alpha.
    confirmation
        What fresh seeds say; None when the rule set was no candidate.
    is_confirmed
        Whether the confirmation's q is below alpha.
    """

    treatment: RuleSet | Treatment
    sample: Sample
    difference: float
    p: float
    q: float
    p_harm: float
    q_harm: float
    is_weakness: bool
    is_harmful: bool
    confirmation: Confirmation | None = None
    is_confirmed: bool = False

    @property
    def rule_set(self) -> RuleSet:
        """The rule set; for other treatments there is none."""
        if not isinstance(self.treatment, RuleSet):
            raise LegibleError("this verdict is about a random test, which has no rules.")
        return self.treatment

    def is_significant(self, alpha: float) -> bool:
        """Whether it stays a weakness after the correction for many tests."""
        return self.q < alpha


@dataclass(frozen=True)
class Evaluation:
    """Verdicts on all rule sets, in their order, and the unguided policy that they are compared with.

    `confirmation_base` is the unguided policy on the confirmation's seeds, if there was a confirmation.
    """

    base: Sample
    verdicts: tuple[Verdict, ...]
    settings: EvaluationSettings
    confirmation_base: Sample | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def weaknesses(self) -> tuple[Verdict, ...]:
        """The rule sets that reveal a weakness by the paper's test."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_weakness)

    @property
    def confirmed(self) -> tuple[Verdict, ...]:
        """The weaknesses that fresh seeds confirm, the largest effect first."""
        found = [verdict for verdict in self.verdicts if verdict.is_confirmed]
        return tuple(sorted(found, key=lambda v: -_effect(v)))

    @property
    def harmful(self) -> tuple[Verdict, ...]:
        """The rule sets that do harm, after the correction for many tests."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_harmful)

    def share(self, kind: Literal["weakness", "significant", "confirmed"] = "weakness") -> float:
        """Share of the evaluations that found a weakness: by the plain test, after correction, or confirmed."""
        if not self.verdicts:
            return float("nan")
        counts = {
            "weakness": sum(v.is_weakness for v in self.verdicts),
            "significant": sum(v.is_significant(self.settings.alpha) for v in self.verdicts),
            "confirmed": sum(v.is_confirmed for v in self.verdicts),
        }
        return counts[kind] / len(self.verdicts)

    def to_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """Verdicts as plain rows, for JSON or a data frame."""
        return [_row(verdict, space) for verdict in self.verdicts]

    def to_pandas(self, space: FeatureSpace) -> Any:
        """Return the verdicts as a data frame, a row each."""
        return data_frame(self.to_rows(space))


def _effect(verdict: Verdict) -> float:
    return verdict.confirmation.effect.mean if verdict.confirmation is not None else verdict.difference


def _row(verdict: Verdict, space: FeatureSpace) -> dict[str, Any]:
    rule_set = verdict.treatment if isinstance(verdict.treatment, RuleSet) else None
    source = rule_set.source if rule_set is not None else None
    row: dict[str, Any] = {
        "rule": source.text(space) if source is not None else None,
        "rules": len(rule_set) if rule_set is not None else 0,
        "episodes": verdict.sample.episodes,
        "mean": verdict.sample.mean,
        "error": verdict.sample.error,
        "difference": verdict.difference,
        "p": verdict.p,
        "q": verdict.q,
        "q_harm": verdict.q_harm,
        "success": verdict.sample.success,
        "cost": verdict.sample.cost,
        "fired": verdict.sample.fired,
        "changed": verdict.sample.changed,
        "weakness": verdict.is_weakness,
        "harmful": verdict.is_harmful,
        "confirmed": verdict.is_confirmed,
    }
    if verdict.confirmation is not None:
        effect = verdict.confirmation.effect
        row |= {"effect": effect.mean, "low": effect.low, "high": effect.high, "q_confirmed": verdict.confirmation.q}
    return row


def evaluate(
    setup: Setup,
    *,
    seed: int,
    settings: EvaluationSettings | None = None,
    stage: Stage = "screening",
    confirm: bool = True,
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
) -> Evaluation:
    """Guide the policy with every treatment of the setup and compare it with the unguided policy.

    Parameters
    ----------
    setup
        Policy, environment, rule sets, and how episodes are played.
    seed
        Of the study; decides the seeds of all episodes.
    settings
        Numbers of episodes and the level of the tests.
    stage
        Which block of seeds screening uses.
    confirm
        Whether candidates are confirmed on fresh seeds.
    run
        How units are run: see `legible.evaluation.units.run_units`.
    on_episodes
        Called with the number of episodes that became known.
    """
    settings = settings or EvaluationSettings()
    screened = _screen(setup, seed, settings, stage, run, on_episodes)
    base, others = screened[0], screened[1:]
    verdicts = _first_verdicts(setup.treatments, base, others, settings.alpha)
    candidates = [i for i, verdict in enumerate(verdicts) if verdict.is_weakness]
    confirmation_base = None
    if confirm and candidates and settings.confirmation_episodes:
        confirmation_base = _confirm(setup, seed, settings, verdicts, candidates, run, on_episodes)
    return Evaluation(Sample.of(base), tuple(verdicts), settings, confirmation_base, notes_on(setup))


def notes_on(setup: Setup) -> tuple[str, ...]:
    """What a reader of the verdicts should know about the policy."""
    if setup.policy.kind == "log-probabilities":
        return (
            "This policy gives probabilities (PPO, A2C). Guidance masks actions and renormalises them; the paper found "
            "that it does not work well for such policies, where we found that it can: trust the fresh seeds.",
        )
    return ()


def play_all(
    setup: Setup,
    plan: Sequence[tuple[int, Sequence[int]]],
    run: Runner,
    on_episodes: Callable[[int], None] | None = None,
) -> list[UnitResult]:
    """Play blocks of episodes, each a treatment and its seeds, and return what came of each block."""
    treatments = [treatment for treatment, seeds in plan for _ in seeds]
    every_seed = [seed for _, seeds in plan for seed in seeds]
    units = cut_into_units(treatments, every_seed, setup.play.unit_episodes)
    result = run(setup, units, on_episodes=on_episodes)
    ends = np.cumsum([len(seeds) for _, seeds in plan])
    starts = ends - [len(seeds) for _, seeds in plan]
    return [result[start:end] for start, end in zip(starts, ends, strict=True)]


def _screen(
    setup: Setup,
    seed: int,
    settings: EvaluationSettings,
    stage: Stage,
    run: Runner,
    on_episodes: Callable[[int], None] | None,
) -> list[UnitResult]:
    """Play the unguided policy, then every treatment, all on seeds of their own."""
    n = settings.episodes
    blocks = range(len(setup.treatments) + 1)
    plan = [(block - 1, stage_seeds(seed, stage, block * n, n)) for block in blocks]
    return play_all(setup, plan, run, on_episodes)


def _first_verdicts(
    treatments: Sequence[RuleSet | Treatment], base: UnitResult, others: Sequence[UnitResult], alpha: float
) -> list[Verdict]:
    p = [welch(other.returns, base.returns) for other in others]
    p_harm = [welch(base.returns, other.returns) for other in others]
    q, q_harm = benjamini_hochberg(p), benjamini_hochberg(p_harm)
    mean = float(base.returns.mean())
    return [
        Verdict(
            treatment=treatment,
            sample=Sample.of(other),
            difference=float(other.returns.mean()) - mean,
            p=p[i],
            q=float(q[i]),
            p_harm=p_harm[i],
            q_harm=float(q_harm[i]),
            is_weakness=p[i] < alpha,
            is_harmful=bool(q_harm[i] < alpha),
        )
        for i, (treatment, other) in enumerate(zip(treatments, others, strict=True))
    ]


def _confirm(
    setup: Setup,
    seed: int,
    settings: EvaluationSettings,
    verdicts: list[Verdict],
    candidates: list[int],
    run: Runner,
    on_episodes: Callable[[int], None] | None,
) -> Sample:
    """Put confirmations into the verdicts of the candidates; returns the unguided policy on the same seeds."""
    treatments = [verdicts[i].treatment for i in candidates]
    sources = [t.source if isinstance(t, RuleSet) else None for t in treatments]
    alone = [RuleSet((source,), source) for source in sources if source is not None]
    fresh = Setup(setup.policy, setup.environment, (*treatments, *alone), setup.play)
    seeds = stage_seeds(seed, "confirmation", 0, settings.confirmation_episodes)
    blocks = play_all(fresh, [(i, seeds) for i in range(UNGUIDED, len(fresh.treatments))], run, on_episodes)
    base, guided, lone = blocks[0], blocks[1 : len(treatments) + 1], iter(blocks[len(treatments) + 1 :])
    effects = [paired(block.returns, base.returns) for block in guided]
    q = benjamini_hochberg([effect.p for effect in effects])
    for k, i in enumerate(candidates):
        rule = next(lone) if sources[k] is not None else None
        confirmation = Confirmation(
            effect=effects[k],
            q=float(q[k]),
            of_rule=None if rule is None else paired(rule.returns, base.returns),
            of_generalisation=None if rule is None else paired(guided[k].returns, rule.returns),
        )
        verdicts[i] = replace(verdicts[i], confirmation=confirmation, is_confirmed=confirmation.q < settings.alpha)
    return Sample.of(base)
