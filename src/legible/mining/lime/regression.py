"""LIME's weighted ridge regression on 0/1 indicators, from packed bits.

- `kernel_weights`: how much an observation counts by the number of features that changed.
- `normal_equations`: the weighted sums behind the linear models of one state.
- `solve`: the weights and intercepts of these models.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from legible.mining.lime.errors import LimeError


def kernel_weights(features: int, width: float | None) -> NDArray[np.float64]:
    """How much an observation counts when 0, 1, 2 … all of its features left their intervals."""
    if width is None:
        width = 0.75 * np.sqrt(features)
    if not (width > 0 and np.isfinite(width)):
        raise LimeError(f"kernel_width must be a positive number, got {width}.")
    return np.exp(-0.5 * np.arange(features + 1) / width**2)


@njit(cache=True)
def _ones(word: np.uint64) -> np.uint64:
    """Count the bits that are set; the compiler knows this pattern and uses the machine's own instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True)
def _sort_by_changes(
    pool: NDArray[np.uint16], state: NDArray[np.uint16]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every row the number of features that changed, and for every such number the first word of its rows."""
    rows, features = pool.shape
    changes = np.empty(rows, np.int64)
    count = np.zeros(features + 1, np.int64)
    for row in range(rows):
        changed = 0
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
    own: NDArray[np.float64],
    kernel: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted sums behind the linear models of one state: XᵀWX (lower half) and (Y − own)ᵀWX.

    The last column of X is the constant 1. Targets are taken relative to those of the state itself: the intercept
    absorbs the difference, and the state's own row (all ones, weight 1) adds nothing to the second sum.
    """
    rows, features = pool.shape
    changes, first = _sort_by_changes(pool, state)
    words = np.zeros((first[-1], features + 1), np.uint64)
    moments = np.zeros((targets.shape[1], features + 1))
    same = np.ones(features + 1)
    place = first * 64
    for row in range(rows):
        changed = changes[row]
        bit, packed = np.uint64(place[changed] & 63), words[place[changed] >> 6]
        place[changed] += 1
        for i in range(features):
            equal = pool[row, i] == state[i]
            packed[i] |= np.uint64(equal) << bit
            same[i] = equal
        packed[features] |= np.uint64(1) << bit
        for action in range(targets.shape[1]):
            value = kernel[changed] * (targets[row, action] - own[action])
            moment = moments[action]
            for i in range(features + 1):
                moment[i] += value * same[i]
    return _gram(words, first, kernel), moments


@njit(cache=True)
def _gram(words: NDArray[np.uint64], first: NDArray[np.int64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """XᵀWX from packed columns of X, lower half; it begins with the state's own row."""
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
    """Weights ``[actions, features]`` and intercepts of the ridge regressions with an unpenalised intercept."""
    total, sums = gram[-1, -1], gram[-1, :-1]
    means, target_means = sums / total, moments[:, -1] / total
    matrix = gram[:-1, :-1] - np.outer(means, sums)
    right = moments[:, :-1] - np.outer(target_means, sums)
    # An indicator that never changes has nothing to tell; what rounding leaves of its column must not become a weight.
    constant = sums == total
    matrix[constant] = 0.0
    matrix[:, constant] = 0.0
    right[:, constant] = 0.0
    matrix[np.diag_indices_from(matrix)] += ridge
    _, solution, failed = dposv(matrix, right.T, lower=1)
    if failed:
        raise LimeError(f"the linear model has no stable solution; ridge = {ridge} is too small, try 1.")
    weights = solution.T
    return weights, target_means - weights @ means
