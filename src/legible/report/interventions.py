"""Where guidance makes a difference along a recorded episode, and what the policy does without it.

- `Mark`: one such step; `interventions`: all of an episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legible.evaluation.units import UNGUIDED, Setup
from legible.play import Recording
from legible.rules import CompiledRules, RuleSet


@dataclass(frozen=True)
class Mark:
    """A step at which guidance makes a difference.

    Parameters
    ----------
    step
        Which.
    alone
        What the policy does there without guidance.
    guided
        What it does there with it.
    by_chance
        Whether what it does alone is a random action, not the one that it prefers.
    spared
        Whether no rule asks for the one or forbids the other: a rule triggers, and random actions are not taken there.
    rules
        Numbers of the rules that decide; of all that trigger, where none does.
    """

    step: int
    alone: int
    guided: int
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
    alone, guided = (chooser(recording.observations, np.full(n, row), steps)[0] for row in range(2))
    marks = []
    for step in np.flatnonzero(matched.any(axis=1) & (alone != guided)).tolist():
        one, other = int(alone[step]), int(guided[step])
        triggered = np.flatnonzero(matched[step]).tolist()
        deciding = [
            r for r in triggered if (rules.rules[r].polarity, rules.rules[r].action) in {("+", other), ("-", one)}
        ]
        by_chance = one != recording.wanted[step]
        marks.append(Mark(step, one, other, bool(by_chance), not deciding, tuple(deciding or triggered)))
    return marks
