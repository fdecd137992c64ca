"""Steps of a recorded episode in which guidance changes the action (`interventions`), or conditions begin to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.units import UNGUIDED, Setup
from legible.features import choices_of
from legible.play import Recording, choice_space
from legible.rules import CompiledRules, Condition, Rule, RuleSet


@dataclass(frozen=True)
class Mark:
    """A step in which guidance changes the action.

    Parameters
    ----------
    step
        Number of the step.
    alone, guided
        The unguided and the guided action: the number of the action, or the values of all its parts.
    groups
        Numbers of the action groups that differ.
    by_chance
        Whether the unguided action is a random one, not the preferred one.
    spared
        Whether no rule demands the guided or forbids the unguided action; the rule only prevents a random action.
    rules
        Numbers of the rules that decide, or of all that hold if none does.
    """

    step: int
    alone: Any
    guided: Any
    groups: NDArray[np.intp]
    by_chance: bool
    spared: bool
    rules: tuple[int, ...]


def interventions(setup: Setup, treatment: int, recording: Recording) -> list[Mark]:
    """Return the steps of an episode, guided or unguided, in which guidance changes the action.

    Both policies choose in every state, each with its random numbers of that step.
    """
    rules = setup.treatments[treatment]
    assert isinstance(rules, RuleSet)
    n = len(recording.actions)
    matched = CompiledRules.compile([rules]).matches(recording.observations)  # bool[n, rules]
    # The actions in all states, unguided (row 0 of the chooser) and guided (row 1), and the scores of all choices.
    chooser = setup.chooser(np.array([UNGUIDED, treatment], np.int64), [recording.seed] * 2)
    steps = np.arange(n)
    (alone, scores), (guided, _) = (chooser(recording.observations, np.full(n, row), steps) for row in range(2))
    # The choices of each action group (part of an action) that they stand for, int64[n, groups].
    space = choice_space(setup.policy)
    if space is not None:
        action_groups = space.groups
        alone_choices, guided_choices = (choices_of(action_groups, actions) for actions in (alone, guided))
        best = [group.first + scores[:, group.choices].argmax(axis=1) for group in action_groups]
        preferred = np.stack(best, axis=1)
    else:
        alone_choices, guided_choices, preferred = alone[:, None], guided[:, None], recording.wanted[:, None]
    marks = []
    for step in np.flatnonzero(matched.any(axis=1) & (alone_choices != guided_choices).any(axis=1)).tolist():
        groups = np.flatnonzero(alone_choices[step] != guided_choices[step])
        triggered = np.flatnonzero(matched[step]).tolist()
        # Rules explain the change if they forbid ("-") the unguided choice or demand ("+") the guided one.
        heads = {("-", choice) for choice in alone_choices[step, groups]}
        heads |= {("+", choice) for choice in guided_choices[step, groups]}
        deciding = [i for i in triggered if (rules.rules[i].polarity, rules.rules[i].action) in heads]
        by_chance = bool((alone_choices[step, groups] != preferred[step, groups]).any())
        marks.append(
            Mark(
                step,
                alone=alone[step],
                guided=guided[step],
                groups=groups,
                by_chance=by_chance,
                spared=not deciding,
                rules=tuple(deciding or triggered),
            )
        )
    return marks


def condition_changes(conditions: Sequence[Condition], recording: Recording) -> list[int]:
    """Return the steps at which a conjunction of conditions starts to hold, stops to hold, starts again, and so on.

    >>> seen = np.array([[0.0], [2.0], [2.0], [0.0]], np.float32)
    >>> condition_changes([Condition(0, 1.0, 3.0)], Recording(0, seen, seen, seen, np.zeros(4)))
    [1, 3]
    """
    holds = Rule("+", 0, tuple(conditions)).matches(recording.observations)
    steps: list[int] = np.flatnonzero(np.diff(holds, prepend=False)).tolist()
    return steps
