"""Verdicts: what guidance with a rule set did to the returns.

- `Sample`: returns of some episodes, summed up.
- `Confirmation`: what fresh seeds say of a candidate.
- `Verdict`: what is said of one rule set; `Evaluation`: the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation.blocks import PlayedBlocks
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.recorded import Repetition
from legible.evaluation.statistics import Effect, standard_error
from legible.evaluation.units import Treatment, UnitResult
from legible.features import FeatureSpace
from legible.formatting import data_frame
from legible.rules import Rule, RuleSet
from legible.settings import EvaluationSettings


@dataclass(frozen=True)
class Sample:
    """Returns of some episodes, summed up.

    `fired` and `changed` are shares of steps in which a rule triggered and in which guidance changed the action;
    `success` is the share of episodes that succeeded, NaN where the environment does not tell; `cost` the mean cost of
    an episode, where one was asked for. `failed` of the episodes failed; all other numbers are of the rest.
    """

    episodes: int
    mean: float
    error: float
    length: float
    success: float
    cost: float
    fired: float
    changed: float
    failed: int = 0

    @classmethod
    def of(cls, episodes: UnitResult) -> Sample:
        """Sum up."""
        result, failed = episodes.played, int(episodes.failed.sum())
        steps = max(1, int(result.lengths.sum()))
        told = result.success[~np.isnan(result.success)]
        return cls(
            episodes=len(episodes),
            mean=_mean(result.returns),
            error=float("nan") if failed and len(result) < 2 else standard_error(result.returns),
            length=_mean(result.lengths),
            success=_mean(told),
            cost=_mean(result.costs),
            fired=float(result.fired.sum() / steps),
            changed=float(result.changed.sum() / steps),
            failed=failed,
        )


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else float("nan")


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
    failed, failed_unguided
        How many episodes failed with the rule set and without; in the effects they count at their worst.
    is_too_rare
        Whether guidance changed too few episodes to tell: whatever the effect, it is not confirmed.
    constraints
        Whether each of the constraints is shown to be kept.
    """

    effect: Effect
    q: float
    of_rule: Effect | None
    of_generalisation: Effect | None
    failed: int = 0
    failed_unguided: int = 0
    is_too_rare: bool = False
    constraints: tuple[ConstraintCheck, ...] = ()

    def is_passed(self, alpha: float) -> bool:
        """Whether the effect is confirmed at a level, and every constraint is kept."""
        return self.q < alpha and all(check.is_kept for check in self.constraints)


@dataclass(frozen=True)
class Verdict:
    """What guidance with one rule set (or another treatment) did to the returns.

    Parameters
    ----------
    treatment
        The rule set.
    sample
        Its episodes in the race, or in screening.
    difference
        Mean return minus that of the unguided policy there, failed episodes at their worst. Too good on average for
        those that were picked because of it; quote the confirmation's effect.
    p, q
        One-sided p-value for a greater mean (race: t-test on the episodes that guidance changed, good for choosing
        and no more; paper: Welch's test), and Benjamini-Hochberg over all rule sets.
    p_harm, q_harm
        The same for a smaller mean (race: with one invented gain as large as the largest seen).
    is_weakness
        Whether it looks like a weakness: it passed the race (`legible.evaluation.racing.is_dropped`), or, the paper's
        verdict, p is below alpha.
    is_harmful
        q_harm below alpha.
    confirmation
        What fresh seeds say; None when the rule set was no candidate.
    is_confirmed
        Whether the confirmation's q is below alpha, and every constraint is kept.
    found_by
        The source of hypotheses that the rule set came from, or all of them; "" where it was given.
    equal_sources
        The mined rules behind other rule sets that are equal to this one: they were tested once.
    changed_episodes
        How many of the sample's episodes guidance changed; None where that was not counted (paper).
    detectable
        The smallest effect that the race would have shown with a power of 80 %; that of the confirmation is its
        effect's. None where nothing was changed, and in the paper's method.
    steps
        Environment steps that were played with it, those of the confirmation and of its mined rule alone included.
    is_set_aside
        Whether it passed the race but is not confirmed: it is too rare for the fresh seeds that it needs, or others of
        its source did better, or the same (see `legible.evaluation.candidates`).
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
    found_by: str = ""
    equal_sources: tuple[Rule, ...] = ()
    changed_episodes: int | None = None
    detectable: float | None = None
    steps: int = 0
    is_set_aside: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that named it."""
        return tuple(self.found_by.split(", ")) if self.found_by else ()

    @property
    def source(self) -> str:
        """The first of the sources that named it."""
        return self.found_by.partition(", ")[0]

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

    `confirmation_blocks` are the episodes of the confirmation, if there was one: the unguided policy, every candidate,
    and the mined rule alone behind each of them that has one, all on the same seeds (after a race each on the first of
    them, as many as it took). `unguided_steps` are the environment steps of the unguided policy. `repetition` says
    whether the same seed gives the same episode, where a race found out.
    """

    base: Sample
    verdicts: tuple[Verdict, ...]
    settings: EvaluationSettings
    confirmation_blocks: PlayedBlocks | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=())
    unguided_steps: int = 0
    repetition: Repetition | None = field(default=None, compare=False, repr=False)

    @property
    def steps(self) -> int:
        """Environment steps that were played in all."""
        return self.unguided_steps + sum(verdict.steps for verdict in self.verdicts)

    def steps_by_source(self) -> dict[str, int]:
        """Environment steps by the source that named the rule sets; those of the unguided policy serve all of them."""
        steps: dict[str, int] = {}
        for verdict in self.verdicts:
            steps[verdict.found_by] = steps.get(verdict.found_by, 0) + verdict.steps
        return steps

    @property
    def weaknesses(self) -> tuple[Verdict, ...]:
        """The rule sets that reveal a weakness by the paper's test."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_weakness)

    @property
    def confirmed(self) -> tuple[Verdict, ...]:
        """The weaknesses that fresh seeds confirm, the largest effect first."""
        found = [verdict for verdict in self.verdicts if verdict.is_confirmed]
        effects = {id(v): v.difference if v.confirmation is None else v.confirmation.effect.mean for v in found}
        return tuple(sorted(found, key=lambda v: -effects[id(v)]))

    @property
    def harmful(self) -> tuple[Verdict, ...]:
        """The rule sets that do harm, after the correction for many tests."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_harmful)

    @property
    def failed(self) -> tuple[int, int]:
        """How many episodes failed in all: guided, and unguided."""
        guided, unguided = self.confirmation_blocks.failed if self.confirmation_blocks is not None else (0, 0)
        return guided + sum(verdict.sample.failed for verdict in self.verdicts), unguided + self.base.failed

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
        return [_row(verdict, space) | {"failed_unguided": self.base.failed} for verdict in self.verdicts]

    def to_pandas(self, space: FeatureSpace) -> Any:
        """Return the verdicts as a data frame, a row each."""
        return data_frame(self.to_rows(space))


def _row(verdict: Verdict, space: FeatureSpace) -> dict[str, Any]:
    rule_set = verdict.treatment if isinstance(verdict.treatment, RuleSet) else None
    row: dict[str, Any] = {
        "rule": rule_set.short_text(space) if rule_set is not None else None,
        "rules": len(rule_set) if rule_set is not None else 0,
        "found_by": verdict.found_by,
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
        "steps": verdict.steps,
        "failed": verdict.sample.failed,
        "weakness": verdict.is_weakness,
        "harmful": verdict.is_harmful,
        "confirmed": verdict.is_confirmed,
    }
    if verdict.changed_episodes is not None:
        row |= {"changed_episodes": verdict.changed_episodes, "detectable": verdict.detectable}
    if verdict.confirmation is not None:
        effect = verdict.confirmation.effect
        row |= {"effect": effect.mean, "low": effect.low, "high": effect.high, "q_confirmed": verdict.confirmation.q}
        if effect.detectable is not None:
            row |= {"detectable": effect.detectable, "changed_on_fresh_seeds": effect.changed, "seeds": effect.seeds}
        row["too_rare"] = verdict.confirmation.is_too_rare
        if verdict.confirmation.constraints:
            row["constraints"] = {check.constraint: check.is_kept for check in verdict.confirmation.constraints}
        row["failed_on_fresh_seeds"] = verdict.confirmation.failed
        row["failed_unguided_on_fresh_seeds"] = verdict.confirmation.failed_unguided
    return row
