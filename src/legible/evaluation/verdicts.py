"""Verdicts: the effect of guidance with rule sets on the returns.

- `Sample`: summary of the returns of episodes.
- `Confirmation`: results of a candidate on held-out seeds.
- `Verdict`: results of one rule set; `Evaluation`: all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.errors import LegibleError
from legible.evaluation.blocks import PlayedBlocks
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.rare_losses import RareLosses
from legible.evaluation.recorded import Repetition
from legible.evaluation.statistics import Effect, standard_error
from legible.evaluation.units import Treatment, UnitResult
from legible.features import FeatureSpace
from legible.formatting import counted, data_frame, number, with_error
from legible.rules import Rule, RuleSet
from legible.settings import EvaluationSettings


@dataclass(frozen=True)
class Sample:
    """Summary of the returns of episodes.

    `fired` is the share of steps in which a rule triggered, `changed` the override rate. `success` is the share of
    successful episodes, NaN where the environment does not report it; `cost` the mean cost of an episode, if a cost is
    measured. `failed` episodes failed; all other numbers describe the rest.
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
        """Summarise episodes."""
        result, failed = episodes.played, int(episodes.failed.sum())
        steps = max(1, int(result.lengths.sum()))
        return cls(
            episodes=len(episodes),
            mean=_mean(result.returns),
            error=float("nan") if failed and len(result) < 2 else standard_error(result.returns),
            length=_mean(result.lengths),
            success=_mean(result.success[~np.isnan(result.success)]),
            cost=_mean(result.costs),
            fired=float(result.fired.sum() / steps),
            changed=float(result.changed.sum() / steps),
            failed=failed,
        )


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else float("nan")


@dataclass(frozen=True)
class Confirmation:
    """Results of a candidate on held-out seeds."""

    effect: Effect  # guided minus unguided, on the same seeds
    q: float  # Benjamini-Hochberg over all candidates
    # The mined rule alone minus unguided; None where the rule set is not confirmed or has no mined rule behind it.
    of_rule: Effect | None
    # The rule set minus the mined rule alone: the gain of a policy that generalised its own rule.
    of_generalisation: Effect | None
    # Numbers of failed episodes with the rule set and without; in the effects they count as the worst case.
    failed: int = 0
    failed_unguided: int = 0
    is_too_rare: bool = False  # whether guidance changed too few episodes for a test; then it is never confirmed
    constraints: tuple[ConstraintCheck, ...] = ()  # checks of the constraints
    rare_losses: RareLosses | None = None  # what losses too rare for the sample would do to the effect

    def is_passed(self, alpha: float) -> bool:
        """Return whether the effect is confirmed at a level and every constraint is kept."""
        return self.q < alpha and all(check.is_kept for check in self.constraints)


@dataclass(frozen=True)
class Verdict:
    """Effect of guidance with one rule set (or another treatment) on the returns.

    Parameters
    ----------
    treatment
        The rule set.
    sample
        Its episodes in the race, or in screening.
    difference
        Mean return minus the mean return of the unguided policy, with the worst case of failed episodes. Too optimistic
        for rule sets that were selected by it; report the effect of the confirmation.
    p, q
        One-sided p-value of a greater mean (race: t-test on the episodes that guidance changed, for choosing only;
        paper: Welch's test), and Benjamini-Hochberg over all rule sets.
    p_harm, q_harm
        The same for a smaller mean (race: with one invented gain as large as the largest seen).
    is_weakness
        Whether it looks like a weakness: it passed the race (`legible.evaluation.racing.is_dropped`), or, in the
        paper's method, p is below alpha.
    is_harmful
        Whether q_harm is below alpha.
    confirmation
        Results on held-out seeds; None if the rule set was no candidate.
    is_confirmed
        Whether the q of the confirmation is below alpha and every constraint is kept.
    found_by
        Names of the sources of the rule set; "" where it was given.
    equal_sources
        Mined rules behind other rule sets that equal this one and were tested with it.
    changed_episodes
        Number of episodes of the sample that guidance changed; None where that was not counted (paper).
    detectable
        Smallest effect that the race would have shown with a power of 80 %. None where nothing was changed, and in the
        paper's method.
    steps
        Environment steps played with it, including the confirmation and its mined rule alone.
    is_set_aside
        Whether it passed the race but went to no confirmation: it is too rare for the seeds that it needs, or others
        of its source did better, or the same (see `legible.evaluation.candidates`).
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
        """Names of its sources."""
        return tuple(self.found_by.split(", ")) if self.found_by else ()

    @property
    def source(self) -> str:
        """Name of its first source."""
        return self.found_by.partition(", ")[0]

    @property
    def rule_set(self) -> RuleSet:
        """The rule set; raises an error for other treatments."""
        if not isinstance(self.treatment, RuleSet):
            raise LegibleError("this verdict belongs to a random test, which has no rules.")
        return self.treatment


@dataclass(frozen=True)
class Continuation:
    """One continuation of an evaluation: rule sets tested, seeds of each, level of the tests, rule sets confirmed."""

    tested: int
    seeds: int
    level: float
    confirmed: int

    def sentence(self) -> str:
        """Return the numbers of tested and confirmed rule sets in a sentence."""
        found = f"{self.confirmed} of them confirmed" if self.confirmed else "none of them confirmed"
        tested = f"{counted(self.tested, 'undecided rule set')} tested again on {number(self.seeds)} new seeds"
        return f"Continued: {tested} (level {number(self.level)}), {found}."


@dataclass(frozen=True, repr=False)
class Evaluation(Displayed):
    """Verdicts on all rule sets, in their order, and the unguided policy that they are compared with.

    `confirmation_blocks` are the episodes of the confirmation: the unguided policy, every candidate, and the mined rule
    alone behind candidates that have one, all on the same seeds (after a race each on as many of the first seeds as it
    needed). `unguided_steps` are the environment steps of the unguided policy. `repetition` is the check of a race
    whether the same seed gives the same episode. `worst_loss` is the worst paired loss of any rule set, or the worst
    one that the user says to be possible. `continuations` are later tests of what was undecided
    (`legible.evaluation.continuation`).
    """

    base: Sample
    verdicts: tuple[Verdict, ...]
    settings: EvaluationSettings
    confirmation_blocks: PlayedBlocks | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=())
    unguided_steps: int = 0
    repetition: Repetition | None = field(default=None, compare=False, repr=False)
    worst_loss: float = 0.0
    continuations: tuple[Continuation, ...] = ()

    @property
    def round(self) -> int:
        """Number of the last continuation that confirmed something; 0 without one. Later steps play its seeds."""
        return max((k for k, one in enumerate(self.continuations, 1) if one.confirmed), default=0)

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {
            "rule sets tested": len(self.verdicts),
            "confirmed": len(self.confirmed),
            "unguided mean return": with_error(self.base.mean, self.base.error),
        }

    @property
    def steps(self) -> int:
        """Total number of environment steps."""
        return self.unguided_steps + sum(verdict.steps for verdict in self.verdicts)

    @property
    def weaknesses(self) -> tuple[Verdict, ...]:
        """The rule sets that look like weaknesses."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_weakness)

    @property
    def confirmed(self) -> tuple[Verdict, ...]:
        """The weaknesses that held-out seeds confirm, the largest effect in the race first.

        The race has other seeds than the effects that are quoted, so the first one is not overstated by this order.
        """
        return tuple(sorted((v for v in self.verdicts if v.is_confirmed), key=lambda v: -v.difference))

    @property
    def unless_rare_losses(self) -> tuple[Verdict, ...]:
        """The rule sets that gain unless rare losses cancel it: their sample cannot exclude that."""
        undecided = [v for v in self.weaknesses if not v.is_confirmed]
        rare_losses = [v.confirmation.rare_losses if v.confirmation is not None else None for v in undecided]
        return tuple(v for v, rare in zip(undecided, rare_losses, strict=True) if rare and rare.is_gain_otherwise)

    @property
    def harmful(self) -> tuple[Verdict, ...]:
        """The rule sets that do harm, after correction for multiple tests."""
        return tuple(verdict for verdict in self.verdicts if verdict.is_harmful)

    @property
    def failed(self) -> tuple[int, int]:
        """The numbers of guided and of unguided episodes that failed."""
        guided, unguided = self.confirmation_blocks.failed if self.confirmation_blocks is not None else (0, 0)
        return guided + sum(verdict.sample.failed for verdict in self.verdicts), unguided + self.base.failed

    def confirmation_pair(self, verdict: Verdict) -> tuple[UnitResult, UnitResult] | None:
        """Return the unguided and guided episodes of a verdict on held-out seeds; None where they were not played."""
        blocks = self.confirmation_blocks
        if blocks is None or verdict.treatment not in blocks.setup.treatments:
            return None
        return blocks.pair(blocks.setup.treatments.index(verdict.treatment))

    def relevance(self, verdict: Verdict) -> Literal["relevant", "negligible", "undecided", ""]:
        """Return how the effect compares with the smallest effect of interest on held-out seeds; "" if not played.

        "relevant": a smaller effect is rejected, corrected for all candidates; "negligible": the interval lies below.
        """
        confirmation = verdict.confirmation
        if confirmation is None:
            return ""
        if verdict.is_confirmed:
            return "relevant"
        is_small = not confirmation.is_too_rare and confirmation.effect.high < self.settings.smallest_effect
        return "negligible" if is_small else "undecided"

    def share(self, kind: Literal["weakness", "significant", "confirmed"] = "weakness") -> float:
        """Return the share of rule sets with a weakness: by the plain test, after correction, or confirmed."""
        if not self.verdicts:
            return float("nan")
        counts = {
            "weakness": sum(v.is_weakness for v in self.verdicts),
            "significant": sum(v.q < self.settings.alpha for v in self.verdicts),
            "confirmed": sum(v.is_confirmed for v in self.verdicts),
        }
        return counts[kind] / len(self.verdicts)

    def to_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """Return the verdicts as plain rows, for JSON or a data frame."""
        return [
            _make_row(verdict, space) | {"failed_unguided": self.base.failed, "relevance": self.relevance(verdict)}
            for verdict in self.verdicts
        ]

    def to_frame(self, space: FeatureSpace) -> Any:
        """Return the verdicts as a data frame, one row each."""
        return data_frame(self.to_rows(space))


def _make_row(verdict: Verdict, space: FeatureSpace) -> dict[str, Any]:
    """Return a verdict as a dictionary for JSON or a data frame; `space` has the names of the features.

    Figures of the first test are always there. Those of the confirmation, on held-out seeds, are added if there was
    one.
    """
    rule_set = verdict.treatment if isinstance(verdict.treatment, RuleSet) else None
    row: dict[str, Any] = {
        "rule": rule_set.short_text(space) if rule_set is not None else None,
        "rules": len(rule_set) if rule_set is not None else 0,
        "found_by": verdict.found_by,
        "episodes": verdict.sample.episodes,
        "mean": verdict.sample.mean,
        "error": verdict.sample.error,
        # Guided minus unguided mean return in the first test, its p-value, and p-values corrected for all tests.
        "difference": verdict.difference,
        "p": verdict.p,
        "q": verdict.q,
        "q_harm": verdict.q_harm,
        "success": verdict.sample.success,
        "cost": verdict.sample.cost,
        # Shares of the steps in which the rules triggered, and in which they changed the action.
        "fired": verdict.sample.fired,
        "changed": verdict.sample.changed,
        "steps": verdict.steps,  # environment steps that were played for this rule set
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
            # What held-out seeds could have shown replaces what the race could have shown.
            row |= {"detectable": effect.detectable, "changed_on_fresh_seeds": effect.changed, "seeds": effect.seeds}
        row["too_rare"] = verdict.confirmation.is_too_rare
        if verdict.confirmation.rare_losses is not None:
            # How large a rare loss could be, how frequent it had to be to cancel the gain, and what is excluded.
            rare = verdict.confirmation.rare_losses
            row |= {"worst_loss": rare.size, "break_even_rate": rare.break_even, "excluded_rate": rare.excluded}
            row["unless_rare_losses"] = rare.is_gain_otherwise and not verdict.is_confirmed
        if verdict.confirmation.constraints:
            row["constraints"] = {check.constraint: check.is_kept for check in verdict.confirmation.constraints}
        row["failed_on_fresh_seeds"] = verdict.confirmation.failed
        row["failed_unguided_on_fresh_seeds"] = verdict.confirmation.failed_unguided
    return row
