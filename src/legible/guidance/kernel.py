"""Algorithm 1 of the paper, compiled: rules block and enforce actions by setting scores to −∞.

- `block_choices`: guides one group of choices in one state, line by line as in the paper.
- `guide_row`: guides all groups in one state; `guide_groups`: the same for known marks.
- `choose_guided`: guides many states, each with its own rule set.
- `mark_by_bits`: marks what rules block and enforce, from precomputed trigger bits.
- `first_guided_changes`: finds the first step in which rule sets would make another choice.
- `guide_scores`: guides the scores of many states with one rule set.
- `check_precedence`: checks the name of a precedence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.imports import njit
from legible.play import Scores, choose_row
from legible.policies.protocol import MASKED
from legible.rules import CompiledRules, triggers
from legible.rules.condition_bits import Bits, ConditionBits, holds_in, trigger_bits
from legible.streams import group_key


def check_precedence(precedence: str) -> None:
    """Raise unless a precedence is "positive" or "negative"."""
    if precedence not in {"positive", "negative"}:
        raise LegibleError(f"precedence must be 'positive' or 'negative', got {precedence!r}.")


@njit(cache=True)
def _mark(rules: CompiledRules, rule_set: int, observation: NDArray[np.float32], marks: NDArray[np.bool_]) -> bool:
    """Mark in ``bool[2, choices]`` what the rules that trigger block and enforce; return whether any triggers."""
    marks[:] = False
    fired = False
    for r in range(rules.set_starts[rule_set], rules.set_starts[rule_set + 1]):
        if triggers(rules, r, observation):
            fired = True
            marks[1 if rules.positive[r] else 0, rules.action[r]] = True
    return fired


@njit(cache=True)
def _is_marked(marks: NDArray[np.bool_], first: int, last: int) -> bool:
    """Return whether a rule that triggers is about these choices."""
    for a in range(first, last):  # noqa: SIM110 (compiled)
        if marks[0, a] or marks[1, a]:
            return True
    return False


@njit(cache=True)
def block_choices(
    blocked: NDArray[np.bool_], enforced: NDArray[np.bool_], negative_first: bool, scores: Scores
) -> bool:
    """Apply lines 5 to 11 of Algorithm 1 to one group of choices; return whether the action mask overrules them.

    If the positive rules that trigger name exactly one choice, all others are blocked (score −∞); otherwise the choices
    of the negative rules that trigger. Masked choices keep their score: rules that enforce one of them, or that block
    all others, are overruled.
    """
    if negative_first:
        enforced &= ~blocked
    masked, free, overruled = False, 0, False
    for a in range(scores.size):
        if scores[a] == MASKED:
            masked = True
            overruled |= enforced[a]
            enforced[a] = False
        elif not blocked[a]:
            free += 1
    if enforced.sum() == 1:
        chosen = np.argmax(enforced)
        for a in range(scores.size):
            if a == chosen:
                scores[a] = scores[a] if scores[a] > -np.inf else 0.0
            elif scores[a] != MASKED:
                scores[a] = -np.inf
    elif masked and free == 0:
        return True
    else:
        for a in range(scores.size):
            if blocked[a] and scores[a] != MASKED:
                scores[a] = -np.inf
    return overruled


@njit(cache=True)
def guide_groups(marks: NDArray[np.bool_], negative_first: bool, scores: Scores, starts: NDArray[np.int64]) -> bool:
    """Apply the marks ``bool[2, choices]`` to one row of scores, group by group, in place.

    Returns whether the action mask overrules the rules in a group.
    """
    overruled = False
    for g in range(starts.size - 1):
        first, last = starts[g], starts[g + 1]
        overruled |= block_choices(marks[0, first:last], marks[1, first:last], negative_first, scores[first:last])
    return overruled


@njit(cache=True)
def guide_row(
    rules: CompiledRules,
    rule_set: int,
    observation: NDArray[np.float32],
    negative_first: bool,
    scores: Scores,
    starts: NDArray[np.int64],
    marks: NDArray[np.bool_],
) -> bool:
    """Apply a rule set to one row of scores, in place; return whether the action mask overrules it.

    Group g has the choices ``starts[g] … starts[g + 1] - 1``; `marks` is a buffer ``bool[2, choices]``.
    """
    return _mark(rules, rule_set, observation, marks) and guide_groups(marks, negative_first, scores, starts)


@njit(cache=True, nogil=True)
def choose_guided(
    rules: CompiledRules,
    rule_sets: NDArray[np.int64],
    observations: NDArray[np.float32],
    scores: Scores,
    starts: NDArray[np.int64],
    negative_first: bool,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    epsilon: float,
    guided_epsilon: float,
    sample: bool,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Guide every row with its own rule set (−1: none).

    Group g has the choices ``starts[g] … starts[g + 1] - 1``. Returns the choices ``int64[n, groups]``, and the rows in
    which a rule triggered, that were changed, and in which the action mask overruled rules. A group without a triggered
    rule follows the policy.
    """
    n, n_groups = scores.shape[0], starts.size - 1
    choices = np.empty((n, n_groups), np.int64)
    fired = np.zeros(n, np.bool_)
    changed = np.zeros(n, np.bool_)
    overruled = np.zeros(n, np.bool_)
    marks = np.empty((2, scores.shape[1]), np.bool_)
    guided = np.empty(scores.shape[1], scores.dtype)
    for i in range(n):
        if rule_sets[i] >= 0:
            fired[i] = _mark(rules, rule_sets[i], observations[i], marks)
        for g in range(n_groups):
            first, last = starts[g], starts[g + 1]
            key = group_key(keys[i], g)
            own_scores = scores[i, first:last]
            wanted = choose_row(own_scores, key, steps[i], epsilon, sample)
            chosen = wanted
            if fired[i] and (n_groups == 1 or _is_marked(marks, first, last)):
                guided_scores = guided[first:last]
                guided_scores[:] = own_scores
                overruled[i] |= block_choices(marks[0, first:last], marks[1, first:last], negative_first, guided_scores)
                chosen = choose_row(guided_scores, key, steps[i], guided_epsilon, sample)
                changed[i] |= chosen != wanted
            choices[i, g] = first + chosen
    return choices, fired, changed, overruled


@njit(cache=True)
def mark_by_bits(rules: CompiledRules, rule_set: int, of_rules: Bits, row: int, marks: NDArray[np.bool_]) -> bool:
    """Mark what the rules that trigger in a row block and enforce, from their bits (`trigger_bits`)."""
    marks[:] = False
    fired = False
    first = rules.set_starts[rule_set]
    for r in range(first, rules.set_starts[rule_set + 1]):
        if holds_in(of_rules[r - first], row):
            fired = True
            marks[1 if rules.positive[r] else 0, rules.action[r]] = True
    return fired


@njit(cache=True, nogil=True)
def first_guided_changes(
    rules: CompiledRules,
    known: ConditionBits,
    scores: Scores,
    starts: NDArray[np.int64],
    negative_first: bool,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    guided_epsilon: float,
    sample: bool,
    own: NDArray[np.int64],
    taken: NDArray[np.int64],
    strays: Bits,
    episodes: NDArray[np.int64],
    first: NDArray[np.int64],
    fired: NDArray[np.int64],
    changed: NDArray[np.int64],
) -> None:
    """Find the first step in which rule sets would make another choice than in recorded episodes.

    Episode e has the rows ``episodes[e] … episodes[e + 1] - 1``; `own` are the choices ``int64[n, groups]`` of the
    unguided policy, `taken` the recorded ones, and `strays` the rows in which these differ. For every rule set and
    episode, `first` is set to the first step that differs (unchanged if there is none), and `fired` and `changed` to
    the numbers of steps before it in which a rule triggered, and in which that changed the unguided policy's choice.
    The choices equal the result of `choose_guided`.
    """
    n_groups = starts.size - 1
    marks = np.empty((2, scores.shape[1]), np.bool_)
    guided = np.empty(scores.shape[1], scores.dtype)
    of_rules = np.empty((known.most_rules, strays.size), np.uint64)
    active = np.empty(strays.size, np.uint64)
    for s in range(first.shape[0]):
        trigger_bits(rules, known, s, of_rules, active)
        active |= strays
        for e in range(first.shape[1]):
            i = episodes[e]
            while i < episodes[e + 1]:
                rest = active[i >> 6] >> np.uint64(i & 63)
                if rest & np.uint64(1) == np.uint64(0):
                    i = ((i >> 6) + 1) << 6 if rest == np.uint64(0) else i + 1
                    continue
                triggered = mark_by_bits(rules, s, of_rules, i, marks)
                changes, differs = False, False
                for g in range(n_groups):
                    low, high = starts[g], starts[g + 1]
                    chosen = own[i, g]
                    if triggered and (n_groups == 1 or _is_marked(marks, low, high)):
                        left = guided[low:high]
                        left[:] = scores[i, low:high]
                        block_choices(marks[0, low:high], marks[1, low:high], negative_first, left)
                        chosen = low + choose_row(left, group_key(keys[i], g), steps[i], guided_epsilon, sample)
                    changes |= chosen != own[i, g]
                    differs |= chosen != taken[i, g]
                if differs:
                    first[s, e] = i - episodes[e]
                    break
                fired[s, e] += triggered
                changed[s, e] += changes
                i += 1


@njit(cache=True, nogil=True)
def guide_scores(
    rules: CompiledRules,
    observations: NDArray[np.float32],
    negative_first: bool,
    scores: Scores,
    starts: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Apply the first rule set to all rows of scores, in place; return the rows in which the mask overrules it."""
    marks = np.empty((2, scores.shape[1]), np.bool_)
    overruled = np.zeros(scores.shape[0], np.bool_)
    for i in range(scores.shape[0]):
        overruled[i] = guide_row(rules, 0, observations[i], negative_first, scores[i], starts, marks)
    return overruled
