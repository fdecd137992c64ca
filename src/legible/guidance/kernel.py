"""Algorithm 1 of the paper, compiled: rules block and enforce actions by setting scores to −∞.

- `guide_row`: one state, line by line as in the paper.
- `choose_guided`: actions of many states, each guided by a rule set of its own.
- `guide_scores`: scores of many states, all guided by the same rule set.
- `check_precedence`: whether a word says which rules win where they conflict.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.play import Scores, choose_row
from legible.rules import CompiledRules, triggers


def check_precedence(precedence: str) -> None:
    """Refuse anything but the two words that say which rules win where they conflict."""
    if precedence not in {"positive", "negative"}:
        raise LegibleError(f"precedence must be 'positive' or 'negative', got {precedence!r}.")


@njit(cache=True)
def guide_row(
    rules: CompiledRules,
    rule_set: int,
    observation: NDArray[np.float32],
    negative_first: bool,
    scores: Scores,
    marks: NDArray[np.bool_],
) -> bool:
    """Apply a rule set to one row of scores, in place; returns whether any of its rules triggered.

    Lines 5 to 11 of Algorithm 1: if the positive rules that trigger name exactly one action, all others are blocked
    (score −∞); else the actions of the negative rules that trigger are. `marks` is room for ``bool[2, actions]``.
    """
    marks[:] = False
    blocked, enforced = marks[0], marks[1]
    fired = False
    for r in range(rules.set_starts[rule_set], rules.set_starts[rule_set + 1]):
        if triggers(rules, r, observation):
            fired = True
            marks[1 if rules.positive[r] else 0, rules.action[r]] = True
    if fired:
        if negative_first:
            enforced &= ~blocked
        if enforced.sum() == 1:
            chosen = np.argmax(enforced)
            own = scores[chosen]
            scores[:] = -np.inf
            scores[chosen] = own if own > -np.inf else 0.0
        else:
            for a in range(scores.size):
                if blocked[a]:
                    scores[a] = -np.inf
    return fired


@njit(cache=True, nogil=True)
def choose_guided(
    rules: CompiledRules,
    rule_sets: NDArray[np.int64],
    observations: NDArray[np.float32],
    scores: Scores,
    negative_first: bool,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    epsilon: float,
    guided_epsilon: float,
    sample: bool,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Guide every row with its own rule set (−1: none); returns actions, which rows fired, and which were changed."""
    n, n_actions = scores.shape
    actions = np.empty(n, np.int64)
    fired = np.zeros(n, np.bool_)
    changed = np.zeros(n, np.bool_)
    marks = np.empty((2, n_actions), np.bool_)
    guided = np.empty(n_actions, scores.dtype)
    for i in range(n):
        actions[i] = choose_row(scores[i], keys[i], steps[i], epsilon, sample)
        if rule_sets[i] >= 0:
            guided[:] = scores[i]
            fired[i] = guide_row(rules, rule_sets[i], observations[i], negative_first, guided, marks)
        if fired[i]:
            wanted = actions[i]
            actions[i] = choose_row(guided, keys[i], steps[i], guided_epsilon, sample)
            changed[i] = actions[i] != wanted
    return actions, fired, changed


@njit(cache=True, nogil=True)
def guide_scores(rules: CompiledRules, observations: NDArray[np.float32], negative_first: bool, scores: Scores) -> None:
    """Apply the first rule set to all rows of scores, in place."""
    marks = np.empty((2, scores.shape[1]), np.bool_)
    for i in range(scores.shape[0]):
        guide_row(rules, 0, observations[i], negative_first, scores[i], marks)
