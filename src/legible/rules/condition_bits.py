"""Where conditions of rules hold, as sets of bits: a whole set of rules over many rows at once.

Rule sets share most of their conditions. Each is compared with every row once; what a rule does with a row is then a
bit of a word.

- `ConditionBits`: in which rows every condition of compiled rules holds.
- `trigger_bits`: in which rows the rules of one set trigger.
- `holds_in`: one row of a set of bits; `pack_rows`: a set of bits from booleans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.rules.rule import CompiledRules

Bits = NDArray[np.uint64]
WORD = 64


class ConditionBits(NamedTuple):
    """In which rows conditions hold.

    Parameters
    ----------
    words
        ``uint64[different conditions, words]``: row i is bit ``i % 64`` of word ``i // 64``.
    number
        For every condition of the compiled rules, its row in `words`.
    rows
        How many rows there are.
    most_rules
        How many rules the largest set has.
    """

    words: Bits
    number: NDArray[np.int64]
    rows: int
    most_rules: int

    @classmethod
    def of(cls, rules: CompiledRules, observations: NDArray[np.float32]) -> ConditionBits:
        """Compare every different condition of rules with all rows."""
        columns = (rules.feature.astype(np.float64), rules.low.astype(np.float64), rules.high.astype(np.float64))
        different, number = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        words = np.zeros((len(different), -(-len(observations) // WORD)), np.uint64)
        _compare(
            np.ascontiguousarray(different[:, 0]).astype(np.int64),
            different[:, 1].astype(np.float32),
            different[:, 2].astype(np.float32),
            observations,
            words,
        )
        return cls(words, number.reshape(-1), len(observations), int(np.diff(rules.set_starts).max(initial=0)))


@njit(cache=True, nogil=True)
def _compare(
    feature: NDArray[np.int64],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    observations: NDArray[np.float32],
    words: Bits,
) -> None:
    column = np.empty(observations.shape[0], np.float32)
    for c in range(feature.size):
        if c == 0 or feature[c] != feature[c - 1]:  # they are in the order of their features
            for i in range(column.size):
                column[i] = observations[i, feature[c]]
        for w in range(words.shape[1]):
            word = np.uint64(0)
            first = w * WORD
            for b in range(min(WORD, column.size - first)):
                x = column[first + b]
                word |= np.uint64(low[c] < x <= high[c]) << np.uint64(b)
            words[c, w] = word


@njit(cache=True)
def trigger_bits(rules: CompiledRules, known: ConditionBits, s: int, of_rules: Bits, of_any: Bits) -> None:
    """Find the rows in which rules of set s trigger: each of them in `of_rules`, and any of them in `of_any`."""
    of_any[:] = np.uint64(0)
    first = rules.set_starts[s]
    for r in range(first, rules.set_starts[s + 1]):
        mine = of_rules[r - first]
        mine[:] = ~np.uint64(0)
        for c in range(rules.starts[r], rules.starts[r + 1]):
            condition = known.words[known.number[c]]
            for w in range(mine.size):
                mine[w] &= condition[w]
        if mine.size and known.rows % WORD:
            mine[-1] &= (np.uint64(1) << np.uint64(known.rows % WORD)) - np.uint64(1)
        for w in range(mine.size):
            of_any[w] |= mine[w]


@njit(cache=True, inline="always")
def holds_in(bits: Bits, row: int) -> bool:
    """Whether a row is in a set of bits."""
    return (bits[row >> 6] >> np.uint64(row & 63)) & np.uint64(1) != np.uint64(0)


def pack_rows(chosen: NDArray[np.bool_]) -> Bits:
    """Return booleans as a set of bits."""
    padded = np.zeros(-(-len(chosen) // WORD) * WORD, np.bool_)
    padded[: len(chosen)] = chosen
    return np.packbits(padded, bitorder="little").view(np.uint64)
