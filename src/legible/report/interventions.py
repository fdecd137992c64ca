"""Where guidance makes a difference along a recorded episode, and what the policy does without it.

- `Mark`: one such step; `interventions`: all of an episode.
- `condition_changes`: when the conditions of rules begin and cease to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.units import UNGUIDED, Setup
from legible.features import choices_of
from legible.play import Recording, Scores
from legible.policies import ChoicePolicy, Policy
from legible.rules import CompiledRules, Condition, RuleSet


@dataclass(frozen=True)
class Mark:
    """A step at which guidance makes a difference.

    Parameters
    ----------
    step
        Which.
    alone
        What the policy does there without guidance: the number of the action, or those of all its parts.
    guided
        What it does there with it.
    groups
        Numbers of the groups of choices in which that differs.
    by_chance
        Whether what it does alone is a random action, not the one that it prefers.
    spared
        Whether no rule asks for the one or forbids the other: a rule triggers, and random actions are not taken there.
    rules
        Numbers of the rules that decide; of all that trigger, where none does.
    """

    step: int
    alone: Any
    guided: Any
    groups: NDArray[np.intp]
    by_chance: bool
    spared: bool
    rules: tuple[int, ...]


def interventions(setup: Setup, treatment: int, recording: Recording) -> list[Mark]:
    """Return the steps of an episode, played with guidance or without, at which guidance makes a difference.

    Both ways of choosing are asked about every state, each with the random numbers that it has at that step.
    """
    rules = setup.treatments[treatment]
    assert isinstance(rules, RuleSet)
    n = len(recording.actions)
    matched = CompiledRules.compile([rules]).matches(recording.observations)
    chooser = setup.chooser(np.array([UNGUIDED, treatment], np.int64), [recording.seed] * 2)
    steps = np.arange(n)
    (alone, scores), (guided, _) = (chooser(recording.observations, np.full(n, row), steps) for row in range(2))
    one, other = (_choices(setup.policy, actions) for actions in (alone, guided))
    preferred = _preferred(setup.policy, recording, scores)
    marks = []
    for step in np.flatnonzero(matched.any(axis=1) & (one != other).any(axis=1)).tolist():
        groups = np.flatnonzero(one[step] != other[step])
        triggered = np.flatnonzero(matched[step]).tolist()
        heads = {("-", choice) for choice in one[step, groups]} | {("+", choice) for choice in other[step, groups]}
        deciding = [r for r in triggered if (rules.rules[r].polarity, rules.rules[r].action) in heads]
        by_chance = bool((one[step, groups] != preferred[step, groups]).any())
        marks.append(
            Mark(step, alone[step], guided[step], groups, by_chance, not deciding, tuple(deciding or triggered))
        )
    return marks


def condition_changes(conditions: Sequence[Condition], recording: Recording) -> list[int]:
    """Return the steps at which conditions, taken together, begin to hold, cease to hold, begin again, and so on.

    >>> seen = np.array([[0.0], [2.0], [2.0], [0.0]], np.float32)
    >>> condition_changes([Condition(0, 1.0, 3.0)], Recording(0, seen, seen, seen, np.zeros(4)))
    [1, 3]
    """
    seen = recording.observations
    holds = np.all([(c.low < seen[:, c.feature]) & (seen[:, c.feature] <= c.high) for c in conditions], axis=0)
    steps: list[int] = np.flatnonzero(np.diff(holds, prepend=False)).tolist()
    return steps


def _choices(policy: Policy, actions: NDArray[Any]) -> NDArray[np.int64]:
    """The choices that actions are, ``int64[n, groups]``."""
    return choices_of(policy.space.groups, actions) if isinstance(policy, ChoicePolicy) else actions[:, None]


def _preferred(policy: Policy, recording: Recording, scores: Scores) -> NDArray[np.int64]:
    """The choices that the policy prefers, ``int64[n, groups]``."""
    if not isinstance(policy, ChoicePolicy):
        return recording.wanted[:, None]
    best = [group.first + scores[:, group.choices].argmax(axis=1) for group in policy.space.groups]
    return np.stack(best, axis=1)
