"""The changes that rule sets would make in recorded states, without playing.

- `RecordedStates`: recorded states with the policy's scores.
- `Responses`: for every rule set, the states in which it would change the choice; `respond` computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.guidance.kernel import guide_groups, mark_by_bits
from legible.imports import njit
from legible.play import Experiences, Scores
from legible.rules import CompiledRules, RuleSet
from legible.rules.condition_bits import ConditionBits, holds_in, trigger_bits
from legible.streams import GOLDEN, mix


@dataclass(frozen=True)
class RecordedStates:
    """States, the policy's scores of the choices in them, and where the choices of each group begin."""

    observations: NDArray[np.float32]
    scores: NDArray[np.float32]
    starts: NDArray[np.int64]

    @classmethod
    def drawn(cls, experiences: Experiences, count: int, rng: np.random.Generator) -> RecordedStates:
        """Draw states from experiences, each at most once.

        A state that an episode visits several times counts once: a policy that is stuck is in few states most of the
        time, and a rule that frees it leaves them.
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
        return cls(experiences.observations[rows], experiences.scores[rows], experiences.space.group_starts)

    def __len__(self) -> int:
        return len(self.observations)


@dataclass(frozen=True)
class Responses:
    """The changes that rule sets would make.

    Parameters
    ----------
    changed
        ``bool[rule sets, states]``: whether another choice would be made.
    digests
        Equal for rule sets that would make the same choices in all states.
    losses
        Difference between the scores of old and new choices, averaged over the changed states; NaN if there are none.
    """

    changed: NDArray[np.bool_]
    digests: NDArray[np.uint64]
    losses: NDArray[np.float64]


def respond(rule_sets: Sequence[RuleSet], states: RecordedStates, *, negative_first: bool = False) -> Responses:
    """Return the changes that rule sets would make in recorded states."""
    changed = np.zeros((len(rule_sets), len(states)), np.bool_)
    digests, losses = np.empty(len(rule_sets), np.uint64), np.empty(len(rule_sets))
    rules = CompiledRules.compile(rule_sets)
    scores = np.ascontiguousarray(states.scores)
    known = ConditionBits.of(rules, states.observations)
    _respond(rules, known, scores, states.starts, negative_first, changed, digests, losses)
    return Responses(changed, digests, losses)


@njit(cache=True, nogil=True)
def _respond(
    rules: CompiledRules,
    known: ConditionBits,
    scores: Scores,
    starts: NDArray[np.int64],
    negative_first: bool,
    changed: NDArray[np.bool_],
    digests: NDArray[np.uint64],
    losses: NDArray[np.float64],
) -> None:
    """Fill, for each rule set, the states that it changes, a digest of the new choices, and the mean loss of scores."""
    guided = np.empty(scores.shape[1], scores.dtype)
    marks = np.empty((2, scores.shape[1]), np.bool_)
    of_rules = np.empty((known.most_rules, known.words.shape[1]), np.uint64)
    active = np.empty(known.words.shape[1], np.uint64)
    for s in range(changed.shape[0]):
        digest, loss, count = mix(GOLDEN), 0.0, 0
        trigger_bits(rules, known, s, of_rules, active)
        for i in range(scores.shape[0]):
            if not holds_in(active, i):
                continue
            guided[:] = scores[i]
            mark_by_bits(rules, s, of_rules, i, marks)
            guide_groups(marks, negative_first, guided, starts)
            for g in range(starts.size - 1):
                first, last = starts[g], starts[g + 1]
                wanted = first + np.argmax(scores[i, first:last])
                chosen = first + np.argmax(guided[first:last])
                if chosen != wanted or guided[chosen] == -np.inf:
                    changed[s, i] = True
                    # If everything is blocked, any choice may be made; this counts as a change.
                    number = np.uint64(i) * np.uint64(65536) + np.uint64(chosen)
                    digest = mix(digest ^ mix(number))
                    loss += np.float64(scores[i, wanted]) - np.float64(scores[i, chosen])
                    count += 1
        digests[s] = digest
        losses[s] = loss / count if count > 0 else np.nan
