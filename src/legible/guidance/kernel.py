"""Algorithm 1 of the paper, compiled: rules block and enforce actions by setting scores to −∞.

- `block_choices`: guides one group of choices (one part of an action) in one state, line by line as in the paper.
- `guide_row`: guides all groups in one state; `guide_scores`: the same in many states.
- `choose_guided`: guides many states, each with its own rule set, and makes the choices.
- `first_guided_changes`: finds the first step in which rule sets would make another choice.

In all of them, ``marks`` or ``named_choices`` is ``bool[2, choices]``: which choices the rules that trigger block (row
0) and enforce (row 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.imports import njit, njit_inlined, njit_uncounted
from legible.play import Scores, choose_row
from legible.policies.protocol import MASKED
from legible.rules import CompiledRules, triggers
from legible.rules.condition_bits import Bits, ConditionBits, holds_in, trigger_bits
from legible.streams import group_key


def check_precedence(precedence: str) -> None:
    """Raise unless a precedence is "positive" or "negative"."""
    if precedence not in {"positive", "negative"}:
        raise LegibleError(f"precedence must be 'positive' or 'negative', got {precedence!r}.")


@njit_inlined
def _clear(marks: NDArray[np.bool_]) -> None:
    for a in range(marks.shape[1]):
        marks[0, a] = marks[1, a] = False


@njit_inlined
def _mark(rules: CompiledRules, rule_set: int, observation: NDArray[np.float32], marks: NDArray[np.bool_]) -> bool:
    """Mark in ``bool[2, choices]`` what the rules that trigger block and enforce; return whether any triggers."""
    _clear(marks)
    fired = False
    for r in range(rules.set_starts[rule_set], rules.set_starts[rule_set + 1]):
        if triggers(rules, r, observation):
            fired = True
            marks[1 if rules.positive[r] else 0, rules.action[r]] = True
    return fired


@njit_inlined
def _is_marked(marks: NDArray[np.bool_], first: int, last: int) -> bool:
    """Return whether a rule that triggers is about these choices."""
    for a in range(first, last):  # noqa: SIM110 (compiled)
        if marks[0, a] or marks[1, a]:
            return True
    return False


@njit_inlined
def block_choices(
    blocked: NDArray[np.bool_], enforced: NDArray[np.bool_], negative_first: bool, scores: Scores
) -> bool:
    """Block choices by setting their scores to −∞, in place; return whether the action mask overruled the rules.

    These are lines 5 to 11 of Algorithm 1, for one state and one group of choices (one part of an action). If the
    positive rules that trigger name exactly one choice, all others are blocked; otherwise the choices of the negative
    rules that trigger. Choices that the action mask forbids keep their score `MASKED`: rules that enforce one of them,
    or that block all others, are overruled.

    Parameters
    ----------
    blocked, enforced
        ``bool[choices]``: the choices that negative and positive rules name. `enforced` may be changed.
    negative_first
        Whether negative rules win if both kinds name a choice.
    scores
        ``float[choices]``: the policy's scores; changed in place.
    """
    # What the action mask leaves: masked choices cannot be enforced, the others are free unless rules block them.
    has_masked, n_free, overruled = False, 0, False
    n_enforced, only_choice = 0, 0
    for choice in range(scores.size):
        enforced[choice] &= not (negative_first and blocked[choice])
        if scores[choice] == MASKED:
            has_masked = True
            overruled |= enforced[choice]
            enforced[choice] = False
        elif not blocked[choice]:
            n_free += 1
        if enforced[choice]:
            n_enforced, only_choice = n_enforced + 1, choice

    # One enforced choice: block all others. (The policy may give it the score −∞; then it gets 0.)
    if n_enforced == 1:
        for choice in range(scores.size):
            if choice == only_choice:
                scores[choice] = scores[choice] if scores[choice] > -np.inf else 0.0
            elif scores[choice] != MASKED:
                scores[choice] = -np.inf
    # Nothing would be left: the rules do not apply.
    elif has_masked and n_free == 0:
        return True
    # Otherwise block what negative rules name.
    else:
        for choice in range(scores.size):
            if blocked[choice] and scores[choice] != MASKED:
                scores[choice] = -np.inf
    return overruled


@njit_inlined
def guide_groups(marks: NDArray[np.bool_], negative_first: bool, scores: Scores, starts: NDArray[np.int64]) -> bool:
    """Apply marks to one row of scores, group by group, in place; return whether the action mask overrules rules."""
    overruled = False
    for g in range(starts.size - 1):
        first, last = starts[g], starts[g + 1]
        overruled |= block_choices(marks[0, first:last], marks[1, first:last], negative_first, scores[first:last])
    return overruled


@njit_inlined
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


@njit_uncounted
def _choose_in_rows(
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
    choices: NDArray[np.int64],
    fired: NDArray[np.bool_],
    changed: NDArray[np.bool_],
    overruled: NDArray[np.bool_],
    named_choices: NDArray[np.bool_],
    buffer: Scores,
) -> None:
    """Make the choices of the policy in n states (rows), each guided by its own rule set: the work of `choose_guided`.

    The results are written into `choices`, `fired`, `changed` and `overruled`, which `choose_guided` describes with all
    other parameters. Room to work in: `named_choices` for the choices that rules block (row 0) and enforce (row 1), and
    `buffer` for the scores that they leave.
    """
    n_groups = starts.size - 1
    for row in range(scores.shape[0]):
        if rule_sets[row] >= 0:
            fired[row] = _mark(rules, rule_sets[row], observations[row], named_choices)
        for group in range(n_groups):
            first, last = starts[group], starts[group + 1]
            # First the policy's own choice, then the choice with the scores that rules leave. Both use the same random
            # numbers, so they differ only because of rules. A group that no triggered rule names follows the policy.
            key = group_key(keys[row], group)
            own_scores = scores[row, first:last]
            wanted = choose_row(own_scores, key, steps[row], epsilon, sample)
            chosen = wanted
            if fired[row] and (n_groups == 1 or _is_marked(named_choices, first, last)):
                guided_scores = buffer[first:last]
                for choice in range(last - first):
                    guided_scores[choice] = own_scores[choice]
                overruled[row] |= block_choices(
                    named_choices[0, first:last], named_choices[1, first:last], negative_first, guided_scores
                )
                chosen = choose_row(guided_scores, key, steps[row], guided_epsilon, sample)
                changed[row] |= chosen != wanted
            choices[row, group] = first + chosen


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
    """Return the choices of the policy in n states (rows), each guided by its own rule set: Algorithm 1 of the paper.

    Parameters
    ----------
    rules
        All rule sets, compiled to arrays.
    rule_sets
        ``int64[n]``: the number of the rule set of each row; −1 for none.
    observations
        ``float32[n, features]``.
    scores
        ``float[n, choices]``: the policy's scores of all choices.
    starts
        ``int64[groups + 1]``: group g, one part of an action, has the choices ``starts[g] … starts[g + 1] - 1``.
    negative_first
        Whether negative rules win a conflict with positive ones.
    keys, steps
        ``[n]``: the random key of each row's episode and its step, for exploration and sampling.
    epsilon, guided_epsilon
        Probability of a random choice where no rule triggers, and where one does.
    sample
        Whether to sample from the scores instead of taking the best choice.

    Returns
    -------
    choices, fired, changed, overruled
        ``int64[n, groups]``: the choices; ``bool[n]``: where a rule triggered, where that changed a choice, and where
        the action mask overruled rules.
    """
    n_rows = scores.shape[0]
    choices = np.empty((n_rows, starts.size - 1), np.int64)
    fired, changed, overruled = np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.bool_)
    # Room for the choices that triggered rules name, and for scores to change; reused for every row.
    named_choices = np.empty((2, scores.shape[1]), np.bool_)
    buffer = np.empty(scores.shape[1], scores.dtype)
    _choose_in_rows(
        rules,
        rule_sets,
        observations,
        scores,
        starts,
        negative_first,
        keys,
        steps,
        epsilon,
        guided_epsilon,
        sample,
        choices,
        fired,
        changed,
        overruled,
        named_choices,
        buffer,
    )
    return choices, fired, changed, overruled


@njit_inlined
def mark_by_bits(rules: CompiledRules, rule_set: int, of_rules: Bits, row: int, marks: NDArray[np.bool_]) -> bool:
    """Mark what the rules that trigger in a row block and enforce, from their bits (`trigger_bits`)."""
    _clear(marks)
    fired = False
    first = rules.set_starts[rule_set]
    for r in range(first, rules.set_starts[rule_set + 1]):
        if holds_in(of_rules[r - first], row):
            fired = True
            marks[1 if rules.positive[r] else 0, rules.action[r]] = True
    return fired


@njit_uncounted
def _scan_rows(
    rules: CompiledRules,
    rule_set: int,
    rule_bits: Bits,
    rows_to_check: Bits,
    scores: Scores,
    starts: NDArray[np.int64],
    negative_first: bool,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    guided_epsilon: float,
    sample: bool,
    policy_choices: NDArray[np.int64],
    recorded_choices: NDArray[np.int64],
    episode_starts: NDArray[np.int64],
    first: NDArray[np.int64],
    fired: NDArray[np.int64],
    changed: NDArray[np.int64],
    named_choices: NDArray[np.bool_],
    buffer: Scores,
) -> None:
    """Find the first step of every recorded episode in which one rule set would have made another choice.

    This is the work of `first_guided_changes`, which describes the parameters and the results (`first`, `fired` and
    `changed`). In addition, `rule_bits` are the rows in which each rule of the set triggers, `rows_to_check` those in
    which a choice can differ, both as bits; `named_choices` and `buffer` are room to work in.
    """
    n_groups = starts.size - 1
    for episode in range(first.size):
        row = episode_starts[episode]
        while row < episode_starts[episode + 1]:
            # Skip rows without a bit, a whole word of 64 rows at once if no bit is left in it.
            rest_of_word = rows_to_check[row >> 6] >> np.uint64(row & 63)
            if rest_of_word & np.uint64(1) == np.uint64(0):
                row = ((row >> 6) + 1) << 6 if rest_of_word == np.uint64(0) else row + 1
                continue

            # Guide the row as `choose_guided` does, and compare the choice with the policy's and the recorded one.
            triggered = mark_by_bits(rules, rule_set, rule_bits, row, named_choices)
            changes, differs = False, False
            for group in range(n_groups):
                first_choice, end_choice = starts[group], starts[group + 1]
                chosen = policy_choices[row, group]
                if triggered and (n_groups == 1 or _is_marked(named_choices, first_choice, end_choice)):
                    guided_scores = buffer[first_choice:end_choice]
                    for choice in range(first_choice, end_choice):
                        buffer[choice] = scores[row, choice]
                    block_choices(
                        named_choices[0, first_choice:end_choice],
                        named_choices[1, first_choice:end_choice],
                        negative_first,
                        guided_scores,
                    )
                    chosen = first_choice + choose_row(
                        guided_scores, group_key(keys[row], group), steps[row], guided_epsilon, sample
                    )
                changes |= chosen != policy_choices[row, group]
                differs |= chosen != recorded_choices[row, group]
            if differs:
                first[episode] = row - episode_starts[episode]
                break
            fired[episode] += triggered
            changed[episode] += changes
            row += 1


@njit(cache=True, nogil=True)
def first_guided_changes(
    rules: CompiledRules,
    condition_bits: ConditionBits,
    scores: Scores,
    starts: NDArray[np.int64],
    negative_first: bool,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    guided_epsilon: float,
    sample: bool,
    policy_choices: NDArray[np.int64],
    recorded_choices: NDArray[np.int64],
    differing_rows: Bits,
    episode_starts: NDArray[np.int64],
    first: NDArray[np.int64],
    fired: NDArray[np.int64],
    changed: NDArray[np.int64],
) -> None:
    """Find the first step of recorded episodes in which each rule set would have made another choice.

    The choices are those of `choose_guided`, but rows in which nothing can differ are skipped.

    Parameters
    ----------
    rules
        All rule sets, compiled to arrays.
    condition_bits
        For every condition, the rows in which it holds, as bits.
    scores
        ``float[n, choices]``: the policy's scores in all recorded steps.
    starts
        ``int64[groups + 1]``: group g, one part of an action, has the choices ``starts[g] … starts[g + 1] - 1``.
    negative_first
        Whether negative rules win a conflict with positive ones.
    keys, steps
        ``[n]``: the random key of each row's episode and its step, for exploration and sampling.
    guided_epsilon
        Probability of a random choice where a rule triggers.
    sample
        Whether to sample from the scores instead of taking the best choice.
    policy_choices, recorded_choices
        ``int64[n, groups]``: the choices of the policy without rules, and those in the recorded episodes.
    differing_rows
        The rows in which these two differ, as bits.
    episode_starts
        ``int64[episodes + 1]``: episode e has the rows ``episode_starts[e] … episode_starts[e + 1] - 1``.
    first, fired, changed
        ``int64[rule sets, episodes]``: results, filled in place. The first step that differs (left unchanged if there
        is none), and the numbers of steps before it in which a rule triggered, and in which that changed the policy's
        choice.
    """
    # Room for the choices that triggered rules name, and for scores to change; reused for every row.
    named_choices = np.empty((2, scores.shape[1]), np.bool_)
    buffer = np.empty(scores.shape[1], scores.dtype)
    rule_bits = np.empty((condition_bits.most_rules, differing_rows.size), np.uint64)
    rows_to_check = np.empty(differing_rows.size, np.uint64)
    for rule_set in range(first.shape[0]):
        # Another choice is possible only where a rule triggers or where the recorded choice is not the policy's.
        trigger_bits(rules, condition_bits, rule_set, rule_bits, rows_to_check)
        rows_to_check |= differing_rows
        _scan_rows(
            rules,
            rule_set,
            rule_bits,
            rows_to_check,
            scores,
            starts,
            negative_first,
            keys,
            steps,
            guided_epsilon,
            sample,
            policy_choices,
            recorded_choices,
            episode_starts,
            first[rule_set],
            fired[rule_set],
            changed[rule_set],
            named_choices,
            buffer,
        )


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
