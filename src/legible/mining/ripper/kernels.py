"""Compiled kernels of RIPPER: sets of rows are bitsets, counted by population count.

A set of rows is a vector of 64-bit words, one bit per row, in the order of `BitTable.row_of_slot`: positives, padding
to a whole word, negatives. No word holds both classes, so counting the rows that meet a test counts them by class.

A feature with V values has V - 1 *tests*, x = v or x ≤ v for v = 0 … V - 2; the last value and x > v cover the rest.
`BitTable.bits` holds the answers word by word, all tests of 64 rows together: one sweep over the non-empty words counts
every test. Sparse words are merged as a rule grows, so small sets of rows are cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

EQUAL, AT_MOST, ABOVE = 0, 1, 2
"""Operators of a condition on the code x of a feature: x = v, x ≤ v, x > v."""

BITSET_VALUES = 64
"""Features with more values are counted row by row: bits for all their tests would take too much memory."""

_THIN, _ROTATIONS = 4, 16
"""Words with fewer rows on average are merged; number of rotations to try for a fit."""

Rows = NDArray[np.uint64]
"""A set of rows, one bit for each."""

Conditions = NDArray[np.int64]
"""A conjunction, one row (feature, operator, value) per condition."""


class BitTable(NamedTuple):
    """The rows to learn from."""

    codes: NDArray[Any]  # the value of every feature, 0 … values - 1, in the original order of rows
    row_of_slot: NDArray[np.int64]  # the row of each bit of a set; -1 for padding
    positive_words: int  # number of words with positives; the others hold negatives
    n_values: NDArray[np.int64]  # number of values of each feature
    ordinal: NDArray[np.bool_]  # whether conditions on the feature are thresholds (x ≤ v, x > v) instead of equalities
    # The number of the first test of each feature. Tests with bits come before those without.
    first_test: NDArray[np.int64]
    n_tests: int  # number of tests
    bits: NDArray[np.uint64]  # the rows that meet each test


def build_table(
    codes: NDArray[Any], positive: NDArray[np.bool_], n_values: NDArray[np.int64], ordinal: NDArray[np.bool_]
) -> BitTable:
    """Order the rows and answer all tests. A code that is not below ``n_values`` raises IndexError."""
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    positive_words, negative_words = (-(-rows.size // 64) for rows in classes)
    row_of_slot = np.full(64 * (positive_words + negative_words), -1)
    row_of_slot[: classes[0].size] = classes[0]
    row_of_slot[64 * positive_words :][: classes[1].size] = classes[1]

    n_tests = n_values - 1
    order = np.argsort(n_values > BITSET_VALUES, kind="stable")
    first_test = np.empty_like(n_values)
    first_test[order] = np.cumsum(n_tests[order]) - n_tests[order]
    bits = np.empty((row_of_slot.size // 64, n_tests[n_values <= BITSET_VALUES].sum()), np.uint64)
    table = BitTable(codes, row_of_slot, positive_words, n_values, ordinal, first_test, int(n_tests.sum()), bits)
    wrong = _fill_bits(table)
    if wrong >= 0:
        raise IndexError(f"feature {wrong} has a code that is not below its number of values, {n_values[wrong]}")
    return table


def all_rows(table: BitTable) -> Rows:
    """Return the set of all rows."""
    return np.packbits(table.row_of_slot >= 0, bitorder="little").view(np.uint64)


def row_numbers(table: BitTable, rows: Rows) -> NDArray[np.int64]:
    """Return the numbers of the rows in a set: first the positives, then the negatives."""
    return table.row_of_slot[np.unpackbits(rows.view(np.uint8), bitorder="little").view(np.bool_)]


def _popcount(_typing_context: Any, _word: Any) -> Any:
    """Count the set bits of a word: LLVM's ctpop, usually one instruction."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _lowest_bit(_typing_context: Any, _word: Any) -> Any:
    """Return the index of the lowest set bit of a non-zero word: LLVM's cttz."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


popcount: Any = intrinsic(_popcount)
lowest_bit: Any = intrinsic(_lowest_bit)


@njit(cache=True)
def _fill_bits(table: BitTable) -> int:
    """Fill ``table.bits`` in place; return a feature that has a code outside its range, or -1 if all is well.

    A test is "x = v" or "x ≤ v" for a feature x and a value v. Bit b of ``bits[w, t]`` says whether the row in slot
    64 w + b passes test t. 64 rows at a time are transposed, so that the tests become comparisons of vectors.

    Parameters
    ----------
    table
        The table: the codes of the values ``[rows, features]``, the row in each slot (a bit position; −1 for padding),
        and for each feature its number of values and the number of its first test.
    """
    codes, bits, n_values = table.codes, table.bits, table.n_values
    codes_of_word = np.zeros((n_values.size, 64), codes.dtype)
    for word in range(bits.shape[0]):
        # Copy the codes of 64 slots, one row per feature. Slots without a row (−1) are padding.
        for bit in range(64):
            row = table.row_of_slot[64 * word + bit]
            if row >= 0:
                for feature in range(n_values.size):
                    code = codes[row, feature]
                    if code >= n_values[feature]:
                        return feature
                    codes_of_word[feature, bit] = code
        # Only features with few values have bits; the others are counted row by row.
        for feature in range(n_values.size):
            if n_values[feature] <= BITSET_VALUES:
                answers = bits[word, table.first_test[feature] : table.first_test[feature] + n_values[feature] - 1]
                _answer_tests(codes_of_word[feature], table.ordinal[feature], answers)
    return -1


@njit(cache=True)
def _answer_tests(column: NDArray[Any], ordinal: bool, answers: NDArray[np.uint64]) -> None:
    for v in range(answers.size):
        word = np.uint64(0)
        for b in range(64):
            met = column[b] <= v if ordinal else column[b] == v
            word |= np.uint64(met) << np.uint64(b)
        answers[v] = word


@njit(cache=True)
def count(rows: Rows, positive_words: int) -> tuple[int, int]:
    """Return the numbers of positives and negatives in a set of rows."""
    positives, negatives = 0, 0
    for w in range(positive_words):
        positives += popcount(rows[w])
    for w in range(positive_words, rows.size):
        negatives += popcount(rows[w])
    return positives, negatives


@njit(cache=True)
def _met(answers: NDArray[np.uint64], start: int, stop: int, flip: np.uint64) -> np.uint64:
    """Return the rows of a word that meet one of the tests start … stop - 1 or, with all bits flipped, none."""
    met = np.uint64(0)
    for test in range(start, stop):
        met |= answers[test]
    return met ^ flip


@njit(cache=True)
def _restrict_and_count(
    bits: NDArray[np.uint64],
    rows: Rows,
    positive_words: int,
    start: int,
    stop: int,
    flip: np.uint64,
    counts: NDArray[np.uint32],
) -> None:
    """Remove the rows that do not meet a condition from a set, in place, and count how many others meet each test.

    One sweep for both matters if the bits do not fit the cache.

    Parameters
    ----------
    bits
        ``uint64[words, tests]``: the rows that pass each test, 64 per word.
    rows
        ``uint64[words]``: the set of rows, one bit per row; changed in place.
    positive_words
        The number of words that hold positive rows; they come first.
    start, stop, flip
        The condition: at least one test from `start` to `stop` is passed; with ``flip`` all ones, none is.
    counts
        ``uint32[2, tests]``: gets the numbers of negative (0) and positive (1) rows that pass each test.
    """
    counts[:] = 0
    for word_number in range(rows.size):
        if rows[word_number]:
            answers, class_counts = bits[word_number], counts[1 if word_number < positive_words else 0]
            kept_rows = rows[word_number] & _met(answers, start, stop, flip)
            rows[word_number] = kept_rows
            if kept_rows:
                for test in range(bits.shape[1]):
                    class_counts[test] += np.uint32(popcount(answers[test] & kept_rows))


@njit(cache=True)
def _compact(
    bits: NDArray[np.uint64], rows: Rows, positive_words: int, start: int, stop: int, flip: np.uint64
) -> tuple[NDArray[np.uint64], Rows, int]:
    """Return the rows that meet a condition, packed into as few words of 64 rows as possible.

    Words are merged if a rotation of one avoids collisions of their bits. Rows change places by this, which does not
    matter, because they are only counted.

    Parameters
    ----------
    bits
        ``uint64[words, tests]``: the rows that pass each test, 64 per word.
    rows
        ``uint64[words]``: the set of rows, one bit per row.
    positive_words
        The number of words that hold positive rows; they come first.
    start, stop, flip
        The condition: at least one test from `start` to `stop` is passed; with ``flip`` all ones, none is.

    Returns
    -------
    bits, rows, positive_words
        The same for the packed rows.
    """
    n_bits = bits.shape[1]
    new_bits = np.zeros((64, n_bits), np.uint64)
    new_rows = np.zeros(64, np.uint64)
    new_positive_words = 0
    current = 0
    for word_number in range(rows.size):
        if word_number == positive_words:  # the classes must not share a word
            if new_rows[current]:
                current += 1
            new_positive_words = current
        word = rows[word_number]
        if word:
            word &= _met(bits[word_number], start, stop, flip)
        if word == 0:
            continue
        # Find a rotation that fits into the current new word; begin another one if there is none.
        rotation = 0
        while rotation < _ROTATIONS and new_rows[current] & _rotated(word, rotation):
            rotation += 1
        if rotation == _ROTATIONS:
            rotation = 0
            current += 1
        if current + 1 >= new_rows.size:  # one to spare: where the class changes, the next word is taken unchecked
            new_bits = np.concatenate((new_bits, np.zeros_like(new_bits)))
            new_rows = np.concatenate((new_rows, np.zeros_like(new_rows)))
        new_rows[current] |= _rotated(word, rotation)
        answers, new_answers = bits[word_number], new_bits[current]
        for test in range(n_bits):
            new_answers[test] |= _rotated(answers[test] & word, rotation)
    if positive_words == rows.size:  # no negative rows, so the loop did not set it
        new_positive_words = current + 1
    return new_bits[: current + 1], new_rows[: current + 1], new_positive_words


@njit(cache=True)
def _rotated(word: np.uint64, rotation: int) -> np.uint64:
    """Return a word rotated by ``rotation`` bits."""
    return (word << np.uint64(rotation)) | (word >> (np.uint64(64 - rotation) & np.uint64(63)))


@njit(cache=True)
def _count_by_row(table: BitTable, rows: Rows, counts: NDArray[np.uint32]) -> None:
    """Count the tests without bits from the codes."""
    codes, row_of_slot, first_test, n_values = table.codes, table.row_of_slot, table.first_test, table.n_values
    features = np.flatnonzero(n_values > BITSET_VALUES)
    for w in range(rows.size):
        left, tally = rows[w], counts[1 if w < table.positive_words else 0]
        while left:
            row = row_of_slot[64 * w + lowest_bit(left)]
            left &= left - np.uint64(1)
            for f in features:
                code = np.int64(codes[row, f])
                if code < n_values[f] - 1:
                    tally[first_test[f] + code] += np.uint32(1)
    for f in features:
        if table.ordinal[f]:
            for test in range(first_test[f] + 1, first_test[f] + n_values[f] - 1):
                counts[0, test] += counts[0, test - 1]
                counts[1, test] += counts[1, test - 1]


@njit(cache=True)
def foil_gain(p: int, n: int, P: int, N: int) -> float:
    """Return FOIL's gain p·(log₂ p/(p+n) − log₂ P/(P+N)) from P positives and N negatives to p and n."""
    return p * (np.log2(p / (p + n)) - np.log2(P / (P + N)))


@njit(cache=True)
def best_condition(
    table: BitTable, counts: NDArray[Any], importances: NDArray[np.float64], P: int, N: int
) -> tuple[int, int, int, int, int]:
    """Return the condition with the largest product of FOIL's gain and importance.

    Ties are decided by the gain, then by the order of features and values.

    Parameters
    ----------
    table
        The rows and tests. Feature f has one test for each value v but the last, from number ``first_test[f]`` on:
        "f ≤ v" if the feature is ordinal, "f = v" if it is nominal. The last value of a nominal feature has the rows
        that no other value has.
    counts
        ``[2, tests]``: the numbers of negative (0) and positive (1) rows that pass each test.
    importances
        ``float64[features]``.
    P, N
        The numbers of positive and negative rows that the rule covers so far.

    Returns
    -------
    feature, operator, value, p, n
        The condition, and the numbers of positives and negatives that it leaves. The feature is -1 if no condition has
        a gain above 0.
    """
    best = (-1, EQUAL, 0, P, N)
    best_product, best_gain = 0.0, 0.0
    for feature in range(table.n_values.size):
        first, last, ordinal = table.first_test[feature], table.n_values[feature] - 1, table.ordinal[feature]
        p_left, n_left = P, N
        for value in range(last if ordinal else last + 1):
            # How many rows the condition leaves. For the last nominal value: all that the others have not taken.
            operator, p, n = EQUAL, p_left, n_left
            if value < last:
                p, n = counts[1, first + value], counts[0, first + value]
            if ordinal:
                operator = AT_MOST
                if p * N < n * P:  # the other side of the threshold gains
                    operator, p, n = ABOVE, P - p, N - n
            else:
                p_left -= p
                n_left -= n
            if p * N <= n * P:  # the share of positives does not rise: no gain
                continue
            gain = foil_gain(p, n, P, N)
            product = gain * importances[feature]
            if best[0] < 0 or product > best_product or (product == best_product and gain > best_gain):
                best, best_product, best_gain = (feature, operator, value, p, n), product, gain
    return best


@njit(cache=True)
def _tests_of(table: BitTable, feature: int, operator: int, value: int) -> tuple[int, int, np.uint64]:
    """Return the tests start … stop - 1 of which a row must meet one (or none, if flipped) to meet a condition."""
    first, last = table.first_test[feature], table.n_values[feature] - 1
    if operator == EQUAL and value == last:  # the rest of the other values
        return first, first + last, ~np.uint64(0)
    return first + value, first + value + 1, ~np.uint64(0) if operator == ABOVE else np.uint64(0)


@njit(cache=True)
def restrict(table: BitTable, rows: Rows, feature: int, operator: int, value: int) -> None:
    """Remove the rows that do not meet a condition, in place."""
    if table.n_values[feature] > BITSET_VALUES:
        _restrict_by_row(table, rows, feature, operator, value)
        return
    bits = table.bits
    start, stop, flip = _tests_of(table, feature, operator, value)
    for w in range(rows.size):
        if rows[w]:
            met = np.uint64(0)
            for test in range(start, stop):
                met |= bits[w, test]
            rows[w] &= met ^ flip


@njit(cache=True)
def _restrict_by_row(table: BitTable, rows: Rows, feature: int, operator: int, value: int) -> None:
    """Do the same as `restrict` for a feature without bits."""
    codes, row_of_slot = table.codes, table.row_of_slot
    low = 0 if operator == AT_MOST else value + 1 if operator == ABOVE else value
    high = table.n_values[feature] if operator == ABOVE else value
    for w in range(rows.size):
        left, met = rows[w], np.uint64(0)
        while left:
            slot = lowest_bit(left)
            left &= left - np.uint64(1)
            code = np.int64(codes[row_of_slot[64 * w + slot], feature])
            met |= np.uint64((low <= code) & (code <= high)) << np.uint64(slot)
        rows[w] = met


@njit(cache=True)
def prefixes(
    table: BitTable, rows: Rows, conditions: Conditions, judged: Rows
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the rows that the first 1, 2, … conditions cover, and their judged positives and negatives."""
    covered = np.empty((conditions.shape[0], rows.size), np.uint64)
    counts = np.empty((conditions.shape[0], 2), np.int64)
    for i in range(conditions.shape[0]):
        covered[i] = rows if i == 0 else covered[i - 1]
        restrict(table, covered[i], conditions[i, 0], conditions[i, 1], conditions[i, 2])
        counts[i, 0], counts[i, 1] = count(covered[i] & judged, table.positive_words)
    return covered, counts


@njit(cache=True)
def grow(table: BitTable, rows: Rows, importances: NDArray[np.float64]) -> Conditions:
    """Return the conditions of a rule for the positive rows of a set, in the order in which they were added.

    The best condition is added until the rule covers no negative row, or until no condition improves it.

    Parameters
    ----------
    table
        The rows and tests.
    rows
        ``uint64[words]``: the set of rows to grow the rule on, one bit per row; not changed.
    importances
        ``float64[features]``: weights of the features in the choice of a condition.

    Returns
    -------
    Conditions
        ``int64[conditions, 3]``: feature, operator and value of each.
    """
    counts = np.empty((2, table.n_tests), np.uint32)
    conditions = np.empty((2 * table.n_tests + 1, 3), np.int64)
    bits, covered, positive_words = table.bits, rows.copy(), table.positive_words
    all_have_bits = bits.shape[1] == table.n_tests  # features with many values have none
    length = 0  # number of conditions
    start, stop, flip = 0, 0, ~np.uint64(0)  # no condition yet: an empty range of tests, negated, holds for all rows
    P, N = count(covered, positive_words)
    while P > 0 and N > 0:
        # Few rows are left per word: pack them, which also applies the last condition. Only where all features have
        # bits, because packing moves rows, and other features are looked up by the place of a row.
        if all_have_bits and (P + N) / covered.size < _THIN:
            bits, covered, positive_words = _compact(bits, covered, positive_words, start, stop, flip)
            start, stop, flip = 0, 0, ~np.uint64(0)
        # Apply the last condition, and count what each further condition would leave.
        _restrict_and_count(bits, covered, positive_words, start, stop, flip, counts)
        if not all_have_bits:
            _count_by_row(table, covered, counts)
        feature, operator, value, P, N = best_condition(table, counts, importances, P, N)
        if feature < 0:
            break
        conditions[length, 0], conditions[length, 1], conditions[length, 2] = feature, operator, value
        length += 1
        # The tests that stand for the condition; a feature without bits is applied row by row at once.
        start, stop, flip = _tests_of(table, feature, operator, value)
        if start >= bits.shape[1]:
            _restrict_by_row(table, covered, feature, operator, value)
            start, stop, flip = 0, 0, ~np.uint64(0)
    return conditions[:length].copy()


@njit(cache=True)
def _next_word(state: NDArray[np.uint64]) -> np.uint64:
    """Return 64 random bits by SplitMix64 and advance the state."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True)
def _draw(rows: Rows, drawn: Rows, size: int, state: NDArray[np.uint64]) -> None:
    """Draw `size` rows of a set at random into `drawn`; every subset of that size is equally likely.

    First every row is drawn with about the right chance, 64 at once. Then uniformly chosen rows change sides until the
    size is right. Both steps treat all rows equally.

    Parameters
    ----------
    rows
        ``uint64[words]``: the set of rows, one bit per row.
    drawn
        ``uint64[words]``: gets the drawn rows.
    size
        The number of rows to draw, at most those in the set.
    state
        ``uint64[1]``: the state of the random generator; changed in place.
    """
    # The chance of each row in 256ths.
    available = count(rows, 0)[1]
    chance = np.uint64(255.0 * size / max(1, available))
    for word_number in range(rows.size):
        word = np.uint64(0)
        # A random word has ones with chance 1/2. For each binary digit of the wanted chance, from the last to the
        # first, "or" with a new random word turns a chance c into (1 + c) / 2, "and" into c / 2.
        for digit in range(8):
            noise = _next_word(state)
            word = word | noise if (chance >> np.uint64(digit)) & np.uint64(1) else word & noise
        drawn[word_number] = rows[word_number] & word
    surplus = count(drawn, 0)[1] - size
    while surplus != 0:
        slot = _next_word(state) % np.uint64(64 * rows.size)
        slot_word, bit = slot >> np.uint64(6), np.uint64(1) << (slot & np.uint64(63))
        if surplus > 0 and drawn[slot_word] & bit:
            drawn[slot_word] ^= bit
            surplus -= 1
        elif surplus < 0 and rows[slot_word] & ~drawn[slot_word] & bit:
            drawn[slot_word] |= bit
            surplus += 1


@njit(cache=True)
def split(rows: Rows, positive_words: int, prune_fraction: float, state: NDArray[np.uint64]) -> Rows:
    """Draw the rows to grow on; both classes leave the same fraction for pruning."""
    growing = np.empty_like(rows)
    positives, negatives = count(rows, positive_words)
    _draw(rows[:positive_words], growing[:positive_words], positives - round(positives * prune_fraction), state)
    _draw(rows[positive_words:], growing[positive_words:], negatives - round(negatives * prune_fraction), state)
    return growing


@njit(cache=True)
def keep_words(rows: Rows, share: float, state: NDArray[np.uint64]) -> None:
    """Keep, in place, about this share (below 1) of the words, chosen at random, and empty the others."""
    bound = np.uint64(share * 2.0**64)
    for w in range(rows.size):
        if _next_word(state) >= bound:
            rows[w] = np.uint64(0)


@njit(cache=True)
def whole_ranges(X: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the smallest and largest value of every column, and whether it holds only whole numbers."""
    low, high = X[0].astype(np.float64), X[0].astype(np.float64)
    whole = np.ones(X.shape[1], np.bool_)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            value = np.float64(X[i, j])
            low[j] = min(low[j], value)
            high[j] = max(high[j], value)
            whole[j] &= value == np.floor(value)
    return low, high, whole


@njit(cache=True)
def subtract_low(X: NDArray[Any], low: NDArray[np.float64], codes: NDArray[Any]) -> NDArray[np.uint64]:
    """Write value - low into ``codes``; return which codes occur in each column, as the bits of a word.

    Codes above 63 are written as 63. Without branches, the loop is vectorised.
    """
    occurs = np.zeros(X.shape[1], np.uint64)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            code = np.uint64(min(np.float64(X[i, j]) - low[j], 63.0))
            codes[i, j] = code
            occurs[j] |= np.uint64(1) << code
    return occurs
