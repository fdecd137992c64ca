"""Results of composing rule sets, before the composition is measured on the final seeds.

- `CompositionStep`: one rule set that was tried.
- `FrontPoint`: a composition that no other one beats in both gain and override rate.
- `CompositionCheck`: the check of the composition on held-out seeds.
- `Composed`: all results.
"""

from __future__ import annotations

from dataclasses import dataclass

from legible.evaluation import Sample
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.rules import RuleSet


def share_changed(episodes: UnitResult) -> float:
    """Return the override rate: the share of steps in which guidance changed the action."""
    return float(episodes.changed.sum() / max(1, episodes.lengths.sum()))


@dataclass(frozen=True)
class CompositionStep:
    """One rule set that was tried.

    Parameters
    ----------
    rule_set
        The rule set; for a removal, the rules that were removed.
    mean, error
        Mean return with it (for a removal, without it) on the seeds of the composition, and its standard error.
    accepted
        Whether the composition was changed in this way.
    effect
        Effect of the step on the objective, compared with the composition before it; None where it was not tested.
    changed
        Override rate of the composition that was tried.
    is_removal
        Whether rules were removed.
    """

    rule_set: RuleSet
    mean: float
    error: float
    accepted: bool
    effect: Effect | None = None
    changed: float = float("nan")
    is_removal: bool = False


@dataclass(frozen=True)
class FrontPoint:
    """A composition that no other one that was tried beats in both gain and override rate.

    Parameters
    ----------
    composition
        Its rules.
    effect
        Guided minus unguided by the objective, on held-out seeds: those of the check, or, for compositions that were
        selected on the seeds of the confirmation, the final ones (the chosen one) or those of the confirmation.
    changed
        Its override rate there.
    is_chosen
        Whether it is the chosen composition.
    """

    composition: RuleSet
    effect: Effect
    changed: float
    is_chosen: bool = False


@dataclass(frozen=True)
class CompositionCheck:
    """Check of the composition on held-out seeds.

    Parameters
    ----------
    composition
        The rules that were checked.
    effect
        Guided minus unguided by the objective.
    changed
        Override rate.
    is_too_rare
        Whether the rules change too few episodes for a test.
    constraints
        Checks of the constraints.
    is_passed
        Whether the gain is significant and every constraint is kept; otherwise the composition is dropped.
    """

    composition: RuleSet
    effect: Effect
    changed: float
    is_too_rare: bool
    constraints: tuple[ConstraintCheck, ...]
    is_passed: bool


@dataclass(frozen=True)
class Composed:
    """A composition and its steps; see `legible.improvement.Improvement`."""

    rule_sets: tuple[RuleSet, ...]
    composition: RuleSet
    steps: tuple[CompositionStep, ...]
    chosen: Sample
    front: tuple[FrontPoint, ...] = ()
    check: CompositionCheck | None = None
    environment_steps: int = 0
