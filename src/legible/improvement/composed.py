"""What comes of composing rule sets, before it is measured on the seeds of the final figure.

- `CompositionStep`: one rule set that was tried.
- `FrontPoint`: a composition that no other one beats in both gain and changed actions.
- `CompositionCheck`: what seeds that chose nothing say of the composition.
- `Composed`: all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from legible.evaluation import Sample
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.rules import RuleSet


def share_changed(episodes: UnitResult) -> float:
    """The share of the steps in which guidance changed the action."""
    return float(episodes.changed.sum() / max(1, episodes.lengths.sum()))


@dataclass(frozen=True)
class CompositionStep:
    """One rule set that was tried.

    Parameters
    ----------
    rule_set
        It; of a removal, the rules that were left out.
    mean, error
        The mean return with it (of a removal, without it), on the seeds of the composition.
    accepted
        Whether the composition became so.
    effect
        What it adds to the composition that there was, by the objective (of a removal, what leaving it out adds); None
        where that was not tested.
    changed
        The share of the steps in which the composition that was tried changes the action.
    is_removal
        Whether rules were left out.
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
    """A composition that no other one of those that were looked at beats in both gain and changed actions.

    Parameters
    ----------
    composition
        Its rules.
    effect
        Guided minus base by the objective, on the seeds of the check, on which none of them was chosen.
    changed
        The share of the steps there in which it changes the action.
    is_chosen
        Whether it is the composition.
    """

    composition: RuleSet
    effect: Effect
    changed: float
    is_chosen: bool = False


@dataclass(frozen=True)
class CompositionCheck:
    """What seeds that chose nothing say of the composition.

    Parameters
    ----------
    composition
        The rules that were checked.
    effect
        Guided minus base by the objective.
    changed
        The share of the steps in which the rules change the action.
    is_too_rare
        Whether they change too few episodes to tell.
    constraints
        Whether each of the constraints is shown to be kept.
    is_passed
        Whether the gain is beyond chance and every constraint is kept; without that there is no composition.
    """

    composition: RuleSet
    effect: Effect
    changed: float
    is_too_rare: bool
    constraints: tuple[ConstraintCheck, ...]
    is_passed: bool


@dataclass(frozen=True)
class Composed:
    """A composition and how it came about; see `legible.improvement.Improvement`."""

    rule_sets: tuple[RuleSet, ...]
    composition: RuleSet
    steps: tuple[CompositionStep, ...]
    chosen: Sample
    front: tuple[FrontPoint, ...] = ()
    check: CompositionCheck | None = None
    environment_steps: int = 0
