"""Groups of rule sets that reveal the same weakness, because they change the same states.

- `WeaknessGroup`: the strongest rule set of a weakness, and the others; `group_weaknesses` finds them.
- `changed_states`: the states that a rule set changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Evaluation, Verdict
from legible.evaluation.candidates import overlap
from legible.play import Experiences
from legible.rules import CompiledRules, RuleSet, representative_rule


@dataclass(frozen=True)
class WeaknessGroup:
    """One weakness: its strongest rule set, and others that change the same states.

    Parameters
    ----------
    front
        The confirmed rule set with the largest effect in the race or, if none is confirmed, the smallest p-value.
    others
        The rest, in the same order.
    """

    front: Verdict
    others: tuple[Verdict, ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return all verdicts, the strongest first."""
        return (self.front, *self.others)

    @property
    def is_confirmed(self) -> bool:
        """Return whether held-out seeds confirm it."""
        return self.front.is_confirmed


def group_weaknesses(evaluation: Evaluation, experiences: Experiences | None = None) -> tuple[WeaknessGroup, ...]:
    """Return the weaknesses, confirmed ones by their effect in the race, then suspected ones by p-value.

    Rule sets that change the same states (or of which one contains the other) form one weakness. Left out are suspected
    rule sets with no gain on held-out seeds, and those that change the same states as a confirmed one.

    Parameters
    ----------
    evaluation
        The verdicts.
    experiences
        Recorded steps of the unguided policy. Without them only rule sets that contain each other are one weakness.
    """
    suspected = sorted((v for v in evaluation.weaknesses if not v.is_confirmed), key=lambda v: v.p)
    verdicts = [
        *evaluation.confirmed,
        # An effect that could not be measured is NaN, and stays.
        *(v for v in suspected if v.confirmation is None or not v.confirmation.effect.mean <= 0.0),
    ]
    states = None if experiences is None else [changed_states(v.rule_set, experiences) for v in verdicts]

    def is_same(front: int, other: int) -> bool:
        first = representative_rule(verdicts[front].rule_set)
        if any(first.contains(rule) or rule.contains(first) for rule in verdicts[other].rule_set.rules):
            return True
        return states is not None and overlap(states[front], states[other]) >= evaluation.settings.same_weakness

    groups: list[list[int]] = []  # indexes of verdicts, the strongest of each weakness first
    for i, verdict in enumerate(verdicts):
        home = next((group for group in groups if is_same(group[0], i)), None)
        if home is None:
            groups.append([i])
        elif verdict.is_confirmed or not verdicts[home[0]].is_confirmed:
            home.append(i)
        # Else it is left out: an unconfirmed rule set is no evidence for a confirmed weakness.
    return tuple(WeaknessGroup(verdicts[first], tuple(verdicts[i] for i in others)) for first, *others in groups)


def changed_states(rule_set: RuleSet, experiences: Experiences) -> NDArray[np.bool_]:
    """Mark the recorded states in which a rule of the set contradicts the action of the policy.

    Parameters
    ----------
    rule_set
        The rules.
    experiences
        Recorded steps of the unguided policy.
    """
    if not rule_set.rules:
        return np.zeros(len(experiences), np.bool_)
    matched = CompiledRules.compile([rule_set.rules]).matches(experiences.observations)
    changed = np.zeros(len(experiences), np.bool_)
    for column, rule in zip(matched.T, rule_set.rules, strict=True):
        taken = experiences.taken(rule.action)
        changed |= column & (~taken if rule.polarity == "+" else taken)
    return changed
