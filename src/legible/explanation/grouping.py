"""Which rule sets reveal one and the same weakness.

Rule sets that change the same states have one cause, however differently they are written. A person is told of it once.

- `WeaknessGroup`: the strongest rule set of a weakness, and the others; `group_weaknesses` finds them.
- `overlap`: whether two rule sets change the same states; `changed_states`: those in which a rule set speaks
  against what the policy did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Evaluation, Verdict
from legible.play import Experiences
from legible.rules import CompiledRules, RuleSet, representative_rule

# The share of the states that the smaller of two rule sets changes and the other one, too, from which on both are said
# to change the same; what chance alone would give is taken off.
SAME_STATES = 0.7
# Fewer states than this tell nothing about what two rule sets have in common.
MIN_CHANGED = 10


@dataclass(frozen=True)
class WeaknessGroup:
    """One weakness: the rule set that shows it best, and others that change the same states.

    Parameters
    ----------
    front
        The strongest: with the largest confirmed effect, or, where none is confirmed, with the smallest p-value.
    others
        The rest, in the same order.
    """

    front: Verdict
    others: tuple[Verdict, ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """All of them, the strongest first."""
        return (self.front, *self.others)

    @property
    def is_confirmed(self) -> bool:
        """Whether fresh seeds confirm it."""
        return self.front.is_confirmed


def group_weaknesses(evaluation: Evaluation, experiences: Experiences | None = None) -> tuple[WeaknessGroup, ...]:
    """Return the weaknesses to tell of, the strongest first: confirmed ones by their effect, then suspected ones by p.

    Suspected ones that fresh seeds speak against are left out.

    Parameters
    ----------
    evaluation
        The verdicts.
    experiences
        What the policy, unguided, saw and did. Without them only rule sets that say the same are one weakness.
    """
    suspected = sorted((v for v in evaluation.weaknesses if not v.is_confirmed), key=lambda v: v.p)
    told = [v for v in (*evaluation.confirmed, *suspected) if not _is_refuted(v)]
    states = None if experiences is None else [changed_states(v.rule_set, experiences) for v in told]
    groups: list[list[int]] = []
    for i, verdict in enumerate(told):
        home = next((group for group in groups if _is_same(told, states, group[0], i)), None)
        if home is None:
            groups.append([i])
        elif verdict.is_confirmed or not told[home[0]].is_confirmed:
            home.append(i)  # what fresh seeds did not confirm does not count among what shows a confirmed weakness
    return tuple(WeaknessGroup(told[first], tuple(told[i] for i in others)) for first, *others in groups)


def _is_refuted(verdict: Verdict) -> bool:
    return verdict.confirmation is not None and not verdict.is_confirmed and verdict.confirmation.effect.mean <= 0.0


def _is_same(told: Sequence[Verdict], states: Sequence[NDArray[np.bool_]] | None, front: int, other: int) -> bool:
    first = representative_rule(told[front].rule_set)
    if any(first.contains(rule) or rule.contains(first) for rule in told[other].rule_set.rules):
        return True
    if states is None:
        return False
    return overlap(states[front], states[other]) >= SAME_STATES


def overlap(one: NDArray[np.bool_], two: NDArray[np.bool_]) -> float:
    """Return how much of the smaller of two sets of states lies in the larger: 1 all of it, 0 as much as by chance.

    >>> few, many = np.arange(100) < 10, np.arange(100) < 50
    >>> overlap(few, many), overlap(few, ~many), overlap(few, np.arange(100) % 2 == 0)
    (1.0, -1.0, 0.0)
    """
    small, large = sorted((one, two), key=lambda states: int(states.sum()))
    if int(small.sum()) < MIN_CHANGED or large.all():
        return 0.0
    inside, by_chance = float(large[small].mean()), float(large.mean())
    return (inside - by_chance) / (1.0 - by_chance)


def changed_states(rule_set: RuleSet, experiences: Experiences) -> NDArray[np.bool_]:
    """Mark the recorded states in which a rule of the set asks for something else than the policy did.

    Parameters
    ----------
    rule_set
        The rules.
    experiences
        What the policy, unguided, saw and did.
    """
    if not rule_set.rules:
        return np.zeros(len(experiences), np.bool_)
    matched = CompiledRules.compile([rule_set.rules]).matches(experiences.observations)
    changed = np.zeros(len(experiences), np.bool_)
    for column, rule in zip(matched.T, rule_set.rules, strict=True):
        taken = experiences.taken(rule.action)
        changed |= column & (~taken if rule.polarity == "+" else taken)
    return changed
