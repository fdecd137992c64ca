"""LIME's weighted ridge regression on 0/1 indicators, from packed bits.

- `kernel_weights`: weights of observations by the number of changed features.
- `normal_equations`: the weighted sums of the linear models of one state.
- `solve`: the weights and intercepts of these models.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from legible.imports import njit
from legible.mining.importance import ImportanceError


def kernel_weights(features: int, width: float | None) -> NDArray[np.float64]:
    """Return the weights of observations with 0, 1, 2 … all features outside their intervals."""
    if width is None:
        width = 0.75 * np.sqrt(features)
    if not (width > 0 and np.isfinite(width)):
        raise ImportanceError(f"kernel_width must be a positive number, got {width}.")
    return np.exp(-0.5 * np.arange(features + 1) / width**2)


@njit(cache=True)
def _ones(word: np.uint64) -> np.uint64:
    """Count the set bits; the compiler turns this pattern into one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True)
def _sort_by_changes(
    pool: NDArray[np.uint16], state: NDArray[np.uint16]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of changed features of every row, and the first word of the rows with each number."""
    rows, features = pool.shape
    changes = np.empty(rows, np.int64)
    count = np.zeros(features + 1, np.int64)
    for row in range(rows):
        changed = 0  # features in another interval than in the state
        for i in range(features):
            changed += pool[row, i] != state[i]
        changes[row] = changed
        count[changed] += 1
    first = np.zeros(features + 2, np.int64)
    for changed in range(features + 1):
        first[changed + 1] = first[changed] + (count[changed] + 63) // 64
    return changes, first


@njit(cache=True)
def normal_equations(
    pool: NDArray[np.uint16],
    targets: NDArray[np.float64],
    state: NDArray[np.uint16],
    state_targets: NDArray[np.float64],
    kernel: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums from which `solve` computes the linear models of one state: XᵀWX and YᵀWX.

    X has a row for each drawn observation and a column for each feature: 1 if the feature is in the same interval as in
    the state, else 0. Its last column is the constant 1. W holds the weights of the rows, Y the targets minus those of
    the state, so that the row of the state itself (all ones, weight 1) adds nothing to the second sum.

    Parameters
    ----------
    pool
        ``uint16[rows, features]``: the interval numbers of the drawn observations.
    targets
        ``float64[rows, actions]``: the policy's preferences there.
    state
        ``uint16[features]``: the interval numbers of the state.
    state_targets
        ``float64[actions]``: the policy's preferences in the state.
    kernel
        ``float64[features + 1]``: the weight of a row by its number of features that differ from the state.

    Returns
    -------
    gram, moments
        XᵀWX, of which only the lower half is filled, ``float64[features + 1, features + 1]``; and YᵀWX,
        ``float64[actions, features + 1]``.
    """
    # Rows with the same number of changes have the same weight. They are packed next to each other, 64 rows per word, a
    # word for each column of X: then XᵀWX needs only bit counts.
    rows, features = pool.shape
    changes, first_word = _sort_by_changes(pool, state)
    words = np.zeros((first_word[-1], features + 1), np.uint64)
    moments = np.zeros((targets.shape[1], features + 1))
    # One row of X, then by number of changes the place of the next such row.
    is_same_feature = np.ones(features + 1)
    next_bit = first_word * 64
    for row in range(rows):
        changed = changes[row]
        bit, packed = np.uint64(next_bit[changed] & 63), words[next_bit[changed] >> 6]
        next_bit[changed] += 1
        for i in range(features):
            equal = pool[row, i] == state[i]
            packed[i] |= np.uint64(equal) << bit
            is_same_feature[i] = equal
        packed[features] |= np.uint64(1) << bit

        # YᵀWX, row by row.
        for action in range(targets.shape[1]):
            value = kernel[changed] * (targets[row, action] - state_targets[action])
            moment = moments[action]
            for i in range(features + 1):
                moment[i] += value * is_same_feature[i]
    return _gram(words, first_word, kernel), moments


@njit(cache=True)
def _gram(words: NDArray[np.uint64], first: NDArray[np.int64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return XᵀWX from packed columns of X, lower half, starting with the row of the state."""
    columns = words.shape[1]
    gram = np.ones((columns, columns))
    for changed in range(columns):
        weight = kernel[changed]
        for k in range(first[changed], first[changed + 1]):
            packed = words[k]
            for i in range(columns):
                word, sums = packed[i], gram[i]
                for j in range(i + 1):
                    sums[j] += weight * np.float64(np.int64(_ones(word & packed[j])))
    return gram


def solve(
    gram: NDArray[np.float64], moments: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weights ``[actions, features]`` and intercepts of ridge regressions with an unpenalised intercept.

    For `gram` and `moments` see `normal_equations`. Centred inputs and targets need no intercept.
    """
    total_weight, sums = gram[-1, -1], gram[-1, :-1]
    means, target_means = sums / total_weight, moments[:, -1] / total_weight
    matrix = gram[:-1, :-1] - np.outer(means, sums)
    right = moments[:, :-1] - np.outer(target_means, sums)
    # A constant indicator has no weight; rounding errors in its column must not become one.
    is_constant = sums == total_weight
    matrix[is_constant] = 0.0
    matrix[:, is_constant] = 0.0
    right[:, is_constant] = 0.0
    matrix[np.diag_indices_from(matrix)] += ridge
    _, solution, failed = dposv(matrix, right.T, lower=1)
    if failed:
        raise ImportanceError(f"the linear model has no stable solution with the penalty {ridge}.")
    weights = solution.T
    return weights, target_means - weights @ means
