"""What guidance did in one state, and why.

- `Intervention`: in one group of choices; all there is to tell where an action is a single choice.
- `JointIntervention`: in all groups of an action that is made of several parts, or continuous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace
from legible.formatting import number
from legible.rules import Rule


@dataclass(frozen=True)
class Intervention:
    """What guidance did in one state, in one group of choices.

    Parameters
    ----------
    action
        What is done.
    wanted
        What the policy alone would have done.
    enforced
        The action that positive rules enforce, or None.
    blocked
        The actions that negative rules block.
    triggered
        The rules that triggered.
    space
        Names.
    """

    action: int
    wanted: int
    enforced: int | None
    blocked: tuple[int, ...]
    triggered: tuple[Rule, ...]
    space: FeatureSpace

    @property
    def changed(self) -> bool:
        """Whether guidance changed what is done."""
        return self.action != self.wanted

    def __str__(self) -> str:
        names = self.space.action_names
        if not self.triggered:
            return f"{names[self.action]}: the policy's own choice, no rule triggered."
        if self.enforced is not None:
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
    """What guidance did in one state to an action that is made of several parts, or continuous.

    Parameters
    ----------
    action, wanted
        What is done, and what the policy alone would have done, as the environment takes it.
    parts
        What guidance did in every group of choices.
    """

    action: NDArray[Any]
    wanted: NDArray[Any]
    parts: tuple[Intervention, ...]

    @property
    def space(self) -> FeatureSpace:
        """Names."""
        return self.parts[0].space

    @property
    def changed(self) -> bool:
        """Whether guidance changed what is done."""
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
    action: int, wanted: int, triggered: tuple[Rule, ...], space: FeatureSpace, *, negative_first: bool
) -> Intervention:
    """Say what rules of one group did."""
    positive = {rule.action for rule in triggered if rule.polarity == "+"}
    blocked = {rule.action for rule in triggered if rule.polarity == "-"}
    if negative_first:
        positive -= blocked
    enforced = positive.pop() if len(positive) == 1 else None
    return Intervention(action, wanted, enforced, tuple(sorted(blocked)), triggered, space)
