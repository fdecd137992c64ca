"""Interventions: what guidance did in one state, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace
from legible.formatting import number
from legible.rules import Rule


@dataclass(frozen=True)
class Intervention:
    """The effect of guidance on one group of choices in one state.

    Parameters
    ----------
    action, wanted
        The action taken, and the action of the unguided policy.
    enforced
        The action that positive rules enforce, or None.
    blocked
        The actions that negative rules block.
    triggered
        The rules that triggered.
    space
        Names of features and actions.
    overruled
        Whether the action mask overrules rules: they enforce a masked action, or block all others.
    """

    action: int
    wanted: int
    enforced: int | None
    blocked: tuple[int, ...]
    triggered: tuple[Rule, ...]
    space: FeatureSpace
    overruled: bool = False

    @property
    def changed(self) -> bool:
        """Return whether guidance changed the action."""
        return self.action != self.wanted

    def __str__(self) -> str:
        names = self.space.action_names
        if not self.triggered:
            return f"{names[self.action]}: the policy's own choice, no rule triggered."
        if self.overruled and self.enforced is None and not self.blocked:
            did = "the action mask overrules the rules"
        elif self.enforced is not None:
            did = f"rules enforce {names[self.enforced]}"
        elif self.blocked:
            did = "rules block " + ", ".join(names[a] for a in self.blocked)
        else:
            did = "positive rules contradict each other, so none is enforced"
        wish = f"the policy wanted {names[self.wanted]}" if self.changed else "as the policy wanted"
        why = "; ".join(rule.text(self.space) for rule in self.triggered)
        return f"{names[self.action]}: {did} ({wish}). Triggered: {why}"


@dataclass(frozen=True, eq=False)
class JointIntervention:
    """The effect of guidance on an action with several parts or continuous values in one state.

    Parameters
    ----------
    action, wanted
        The action taken, and the action of the unguided policy, in the format of the environment.
    parts
        The intervention in every group of choices.
    """

    action: NDArray[Any]
    wanted: NDArray[Any]
    parts: tuple[Intervention, ...]

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.parts[0].space

    @property
    def changed(self) -> bool:
        """Return whether guidance changed the action."""
        return any(part.changed for part in self.parts)

    @property
    def triggered(self) -> tuple[Rule, ...]:
        """The rules that triggered."""
        return tuple(rule for part in self.parts for rule in part.triggered)

    def __str__(self) -> str:
        numbers = zip(self.parts, np.ravel(self.wanted).tolist(), np.ravel(self.action).tolist(), strict=True)
        return " ".join(
            f"{part} ({number(wanted)} became {number(done)}.)" if part.changed else str(part)
            for part, wanted, done in numbers
        )


def intervene(
    action: int,
    wanted: int,
    triggered: tuple[Rule, ...],
    space: FeatureSpace,
    *,
    negative_first: bool,
    allowed: Collection[int] | None = None,
) -> Intervention:
    """Return a record of what rules did to one action, or to one part of an action, in one state.

    Parameters
    ----------
    action
        The number of the choice that is taken, guided by the rules.
    wanted
        The number of the choice of the unguided policy.
    triggered
        The rules about this part of the action whose conditions hold.
    space
        The names of features and actions.
    negative_first
        Whether negative rules ("avoid") win a conflict with positive ones ("take").
    allowed
        The choices that the action mask allows; None without a mask.
    """
    group = space.groups[space.group_of(wanted)]
    allowed = range(group.first, group.first + group.count) if allowed is None else allowed
    enforced_choices = {rule.action for rule in triggered if rule.polarity == "+"}
    blocked = {rule.action for rule in triggered if rule.polarity == "-"}

    # As in Algorithm 1: exactly one positive rule's choice is enforced; contradicting ones enforce nothing. The action
    # mask overrules rules that enforce a masked choice, or that block every allowed one.
    if negative_first:
        enforced_choices -= blocked
    overruled = not enforced_choices <= set(allowed)
    enforced_choices &= set(allowed)
    enforced = enforced_choices.pop() if len(enforced_choices) == 1 else None
    if enforced is None and len(allowed) < group.count and blocked and blocked >= set(allowed):
        overruled, blocked = True, set()
    return Intervention(action, wanted, enforced, tuple(sorted(blocked)), triggered, space, overruled)
