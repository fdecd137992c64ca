"""The changes that rule sets would make in recorded states, without playing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.guidance.kernel import guide_groups, mark_by_bits
from legible.imports import njit
from legible.play import Experiences, Scores
from legible.play.choosing import draw_choice
from legible.rules import CompiledRules, RuleSet
from legible.rules.condition_bits import ConditionBits, holds_in, trigger_bits
from legible.streams import GOLDEN, mix


@dataclass(frozen=True)
class RecordedStates:
    """States, the policy's scores of the choices in them, and where the choices of each group begin.

    A policy that samples its choices has a random number for each state and group, ``draws``; others have none.
    """

    observations: NDArray[np.float32]
    scores: NDArray[np.float32]
    starts: NDArray[np.int64]
    draws: NDArray[np.float64] | None = None

    @classmethod
    def drawn(
        cls, experiences: Experiences, count: int, rng: np.random.Generator, *, sample: bool = False
    ) -> RecordedStates:
        """Draw states from experiences, each at most once.

        A state that an episode visits several times counts once: a policy that is stuck is in few states most of the
        time, and a rule that frees it leaves them. With `sample`, the policy draws its choices from its scores.
        """
        # Rows that their episode visits for the first time, by hashes of the observations (without negative zeros).
        bits = (np.ascontiguousarray(experiences.observations) + np.float32(0.0)).view(np.uint32)
        factors = np.random.default_rng(0).integers(1, 2**63, bits.shape[1] + 1, np.uint64) | np.uint64(1)
        digests = experiences.episode_ids.astype(np.uint64) * factors[-1]
        for column, factor in zip(bits.T, factors[:-1], strict=True):
            digests += column * factor
        rows = np.sort(np.unique(digests, return_index=True)[1])
        if len(rows) > count:
            rows = np.sort(rng.choice(rows, count, replace=False))
        starts = experiences.space.group_starts
        draws = rng.random((len(rows), len(starts) - 1)) if sample else None
        return cls(experiences.observations[rows], experiences.scores[rows], starts, draws)

    def __len__(self) -> int:
        return len(self.observations)


@dataclass(frozen=True)
class Responses:
    """The changes that rule sets would make."""

    changed: NDArray[np.bool_]  # ``bool[rule sets, states]``: whether another choice would be made
    digests: NDArray[np.uint64]  # equal for rule sets that would make the same choices in all states
    # Difference between the scores of old and new choices, averaged over the changed states; NaN if there are none.
    losses: NDArray[np.float64]


def respond(rule_sets: Sequence[RuleSet], states: RecordedStates, *, negative_first: bool = False) -> Responses:
    """Return the changes that rule sets would make in recorded states."""
    changed = np.zeros((len(rule_sets), len(states)), np.bool_)
    digests, losses = np.empty(len(rule_sets), np.uint64), np.empty(len(rule_sets))
    rules = CompiledRules.compile(rule_sets)
    scores = np.ascontiguousarray(states.scores)
    known = ConditionBits.of(rules, states.observations)
    draws = np.empty((0, 0)) if states.draws is None else states.draws
    _respond(rules, known, scores, states.starts, draws, negative_first, changed, digests, losses)
    return Responses(changed, digests, losses)


@njit(cache=True, nogil=True)
def _respond(
    rules: CompiledRules,
    known: ConditionBits,
    scores: Scores,
    starts: NDArray[np.int64],
    draws: NDArray[np.float64],
    negative_first: bool,
    changed: NDArray[np.bool_],
    digests: NDArray[np.uint64],
    losses: NDArray[np.float64],
) -> None:
    """Compute what every rule set would change in recorded states; the results are written into the last three arrays.

    Parameters
    ----------
    known
        For every condition of the rules a bit per state: whether it holds there.
    scores
        The policy's scores of the choices in every state, ``float32[states, choices]``.
    starts
        First choice of every group of choices, and the number of choices. A discrete action has one group; an action of
        several parts has one per part.
    draws
        Random numbers of a policy that samples its choices, ``float64[states, groups]``; no rows if it takes the best.
    negative_first
        Whether rules that block a choice take precedence over rules that enforce it.
    changed
        Output, ``bool[rule sets, states]``: where the choice changes.
    digests
        Output, ``uint64[rule sets]``: a hash of the changed states and new choices; equal for equal behaviour.
    losses
        Output, ``float64[rule sets]``: how much lower, on average, the policy scores the new choices; NaN if none
        changes.
    """
    # Work space: the guided scores of one state; which choices are enforced and blocked there; and as bits of states,
    # where each rule of a set triggers and where any of them does.
    guided_scores = np.empty(scores.shape[1], scores.dtype)
    marks = np.empty((2, scores.shape[1]), np.bool_)
    rule_bits = np.empty((known.most_rules, known.words.shape[1]), np.uint64)
    any_rule_bits = np.empty(known.words.shape[1], np.uint64)
    for rule_set in range(changed.shape[0]):
        digest, loss, count = mix(GOLDEN), 0.0, 0
        trigger_bits(rules, known, rule_set, rule_bits, any_rule_bits)
        for state in range(scores.shape[0]):
            if not holds_in(any_rule_bits, state):
                continue
            guided_scores[:] = scores[state]
            mark_by_bits(rules, rule_set, rule_bits, state, marks)
            guide_groups(marks, negative_first, guided_scores, starts)
            # Compare the choice of every group with and without the rules.
            for group in range(starts.size - 1):
                first, last = starts[group], starts[group + 1]
                wanted, chosen = int(np.argmax(scores[state, first:last])), int(np.argmax(guided_scores[first:last]))
                if draws.size:
                    wanted = draw_choice(scores[state, first:last], wanted, draws[state, group])
                    chosen = draw_choice(guided_scores[first:last], chosen, draws[state, group])
                wanted, chosen = first + wanted, first + chosen
                # If everything is blocked, any choice may be made; this counts as a change.
                if chosen != wanted or guided_scores[chosen] == -np.inf:
                    changed[rule_set, state] = True
                    # One number for both, as there are fewer than 65,536 choices.
                    state_and_choice = np.uint64(state) * np.uint64(65536) + np.uint64(chosen)
                    digest = mix(digest ^ mix(state_and_choice))
                    loss += np.float64(scores[state, wanted]) - np.float64(scores[state, chosen])
                    count += 1
        digests[rule_set] = digest
        losses[rule_set] = loss / count if count > 0 else np.nan
