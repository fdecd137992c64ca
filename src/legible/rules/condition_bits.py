"""Bit sets of the rows in which conditions of rules hold, to match many rules at once.

Rule sets share most of their conditions. Each distinct condition is compared with every row once, and a rule is then
matched with 64 rows per machine word.

- `ConditionBits`: the rows in which each condition of compiled rules holds.
- `trigger_bits`: the rows in which the rules of one set trigger.
- `holds_in`: one row of a bit set. `pack_rows`: a bit set from booleans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.imports import njit
from legible.rules.rule import CompiledRules

Bits = NDArray[np.uint64]
WORD = 64


class ConditionBits(NamedTuple):
    """Rows in which conditions hold."""

    words: Bits  # ``uint64[distinct conditions, words]``: row i is bit ``i % 64`` of word ``i // 64``
    number: NDArray[np.int64]  # index into `words` for every condition of the compiled rules
    rows: int  # number of rows
    most_rules: int  # number of rules in the largest set

    @classmethod
    def of(cls, rules: CompiledRules, observations: NDArray[np.float32]) -> ConditionBits:
        """Compare every distinct condition of rules with all rows."""
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
        if c == 0 or feature[c] != feature[c - 1]:  # conditions are sorted by feature
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
    """Write the rows in which each rule of set s triggers to `of_rules`, and those in which any does to `of_any`."""
    of_any[:] = np.uint64(0)
    first = rules.set_starts[s]
    for r in range(first, rules.set_starts[s + 1]):
        rule_bits = of_rules[r - first]
        rule_bits[:] = ~np.uint64(0)
        for c in range(rules.starts[r], rules.starts[r + 1]):
            condition = known.words[known.number[c]]
            for w in range(rule_bits.size):
                rule_bits[w] &= condition[w]
        if rule_bits.size and known.rows % WORD:
            rule_bits[-1] &= (np.uint64(1) << np.uint64(known.rows % WORD)) - np.uint64(1)
        for w in range(rule_bits.size):
            of_any[w] |= rule_bits[w]


@njit(cache=True, inline="always")
def holds_in(bits: Bits, row: int) -> bool:
    """Return whether a row is in a bit set."""
    return (bits[row >> 6] >> np.uint64(row & 63)) & np.uint64(1) != np.uint64(0)


def pack_rows(chosen: NDArray[np.bool_]) -> Bits:
    """Return booleans as a bit set."""
    padded = np.zeros(-(-len(chosen) // WORD) * WORD, np.bool_)
    padded[: len(chosen)] = chosen
    return np.packbits(padded, bitorder="little").view(np.uint64)
