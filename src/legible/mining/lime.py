"""Tabular LIME for policies, many states at once: what speaks for an action and what against it.

- `weigh`: the local linear models of a policy's choice around many states.
- `Importance`: their weights, and the sums imp(⊗, a, f) that guide the mining of rules.

LIME explains a state by drawing observations at random, asking the policy about them, and fitting a weighted linear
model to the answers. Its inputs are 0/1 indicators: "the feature lies in the same interval as in the explained state".
Four facts make this fast without changing what is estimated:

- When every feature is cut into intervals, the drawn observations do not depend on the explained state. One pool of
  them, and one pass of the policy, can serve many states.
- Features are drawn independently of each other. So the values can be drawn once, and are then only combined anew.
- A drawn observation counts by the *number* of features that left their interval, so it has one of ``features + 1``
  weights. Sorted by this number and packed 64 to a machine word, observations are counted by AND and popcount, and the
  Gram matrix is a short sum of exact counts times weights.
- The normal equations of all actions share their matrix, so one Cholesky factor solves them all.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv
from scipy.special import ndtr, ndtri

from legible.errors import LegibleError
from legible.features import Feature, FeatureSpace, Intervals, Observations, above, below
from legible.files import write_whole
from legible.rules import Polarity

# Cards of a deck, and so the most observations that the policy is asked about at once.
_DECK = 8192


class LimeError(LegibleError):
    """Something that LIME cannot weigh: data, settings or scores."""


class _Scorer(Protocol):
    """Anything that scores actions; all that LIME asks of a policy."""

    def scores(self, observations: Observations, /) -> Any: ...


_ScoreFunction = Callable[[Observations], Any]


@dataclass(frozen=True, eq=False)
class Importance:
    """What LIME found: the weight of every feature for every action in every weighed state.

    Parameters
    ----------
    weights
        ``float64[states, actions, features]``. A positive weight says that the value which the feature has in this
        state speaks for taking the action there, a negative one that it speaks against it.
    intercepts
        ``float64[states, actions]``, the constant terms of the linear models.

    >>> weights = np.array([[[0.5, -0.2]], [[0.1, -0.3]]])
    >>> importance = Importance(weights, np.zeros((2, 1)))
    >>> importance.of("+", 0).tolist(), importance.of("-", 0).tolist()
    ([0.6, 0.0], [0.0, 0.5])
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("weights", "intercepts"):
            array = np.array(getattr(self, name), np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.weights.ndim != 3 or self.intercepts.shape != self.weights.shape[:2]:
            raise LimeError(
                "weights of shape (states, actions, features) and intercepts of shape (states, actions) are "
                f"expected, got {self.weights.shape} and {self.intercepts.shape}."
            )

    @cached_property
    def positive(self) -> NDArray[np.float64]:
        """imp(+, a, f) as ``float64[actions, features]``: the sum of the positive weights over all states."""
        return np.maximum(self.weights, 0.0).sum(axis=0)

    @cached_property
    def negative(self) -> NDArray[np.float64]:
        """imp(−, a, f) as ``float64[actions, features]``: the sum of the negative weights' magnitudes."""
        return np.maximum(-self.weights, 0.0).sum(axis=0)

    def of(self, polarity: Polarity, action: int) -> NDArray[np.float64]:
        """Importance of every feature to take ("+") or to avoid ("-") an action.

        All zeros when nothing speaks for (or against) the action; rule mining then has no preference among features.
        """
        if polarity not in {"+", "-"}:
            raise LimeError(f"polarity must be '+' or '-', got {polarity!r}.")
        actions = self.weights.shape[1]
        if not 0 <= action < actions:
            raise LimeError(f"there is no action {action}: {actions} actions were weighed, 0 to {actions - 1}.")
        return (self.positive if polarity == "+" else self.negative)[action]

    def ranking(self, polarity: Polarity, action: int) -> NDArray[np.intp]:
        """Feature numbers from the most to the least important; equal ones in the order of the vector."""
        return np.argsort(-self.of(polarity, action), kind="stable")

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file, whole or not at all; `load` reads it back to the same bits."""
        write_whole(
            Path(path),
            lambda file: np.savez_compressed(file, weights=self.weights, intercepts=self.intercepts),
        )

    @classmethod
    def load(cls, path: str | Path) -> Importance:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as data:
                return cls(data["weights"], data["intercepts"])
        except OSError as error:
            raise LimeError(f"{path}: cannot be read ({error.strerror or 'not an .npz file'}).") from error
        except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise LimeError(f"{path}: holds no importances; expected a file that Importance.save wrote.") from error


def weigh(
    policy: _Scorer | _ScoreFunction,
    background: ArrayLike,
    states: ArrayLike,
    intervals: Intervals,
    space: FeatureSpace,
    *,
    samples: int = 5000,
    pools: int = 100,
    kernel_width: float | None = None,
    ridge: float = 1.0,
    seed: int | np.random.Generator,
) -> Importance:
    """Weigh every feature for every action around the given states, as tabular LIME does.

    What is explained is the softmax of the scores: the choice between actions. The scores themselves would also tell
    how good the state is, which is no reason to prefer an action.

    Parameters
    ----------
    policy
        An object with ``scores(observations)``, or such a function: ``float32[n, features]`` in, ``[n, actions]`` out,
        higher is better.
    background
        Observations that the policy has met, ``[n, features]``. Features are drawn independently of each other: the
        interval as often as it occurs here; inside it from a normal distribution with the mean and the deviation of
        the values found there, cut off at the interval's ends. Where an interval is open, or ends at a sentinel, the
        extreme of its values takes the place of the end. A categorical feature takes the values that occur.
    states
        The states to explain, ``[m, features]``. A value that lies in no interval is compared like one never met.
    intervals, space
        The intervals of every feature, and the kinds of the features.
    samples
        Observations that stand behind the model of one state, the state itself among them.
    pools
        How many pools of observations to draw; state ``i`` is served by pool ``i % pools``. The policy is asked about
        ``pools · samples`` observations in all. States of one pool share their sampling error, which then averages
        out less in the sums over states. With as many pools as states (or more), every state has observations of
        its own, as in the lime package; fewer pools save time where the policy is slow.
    kernel_width
        Width w of the kernel ``sqrt(exp(−changed / w²))``, by default ``0.75 · sqrt(features)``.
    ridge
        Penalty on the squared weights; the intercept goes free.
    seed
        A number or a generator. One seed gives one result, to the bit.

    Returns
    -------
    Importance
        All zero for a policy that does not look at its observations.
    """
    _check_settings(samples, pools, ridge)
    kernel = _kernel(len(space), kernel_width)
    known, asked = _check_data(background, states, intervals, space)
    rng = np.random.default_rng(seed)
    decks = _Decks.shuffle(known, intervals, space, rng)
    codes = intervals.encode(asked)
    own = _choices(policy, asked, len(space.actions) or None, lambda row: f"state {row}")
    weights, intercepts = np.empty((*own.shape, len(space))), np.empty(own.shape)
    pools = min(pools, len(asked))
    for first in range(pools):
        pool, targets = _ask_about_pool(policy, decks, samples - 1, own.shape[1], rng)
        for state in range(first, len(asked), pools):
            gram, moments = _normal_equations(pool, targets, codes[state], own[state], kernel)
            weights[state], shift = _solve(gram, moments, ridge)
            intercepts[state] = own[state] + shift
    return Importance(weights, intercepts)


def _check_settings(samples: int, pools: int, ridge: float) -> None:
    if samples < 2:
        raise LimeError(f"samples must be at least 2 (the state itself and one more), got {samples}.")
    if pools < 1:
        raise LimeError(f"pools must be at least 1, got {pools}.")
    if not (ridge > 0 and np.isfinite(ridge)):
        raise LimeError(f"ridge must be a positive number, got {ridge}; the usual one is 1.")


def _kernel(features: int, width: float | None) -> NDArray[np.float64]:
    """How much an observation counts when 0, 1, 2 … all of its features left their intervals."""
    if width is None:
        width = 0.75 * np.sqrt(features)
    if not (width > 0 and np.isfinite(width)):
        raise LimeError(f"kernel_width must be a positive number, got {width}.")
    return np.exp(-0.5 * np.arange(features + 1) / width**2)


def _check_data(
    background: ArrayLike, states: ArrayLike, intervals: Intervals, space: FeatureSpace
) -> tuple[Observations, Observations]:
    if len(intervals) != len(space):
        raise LimeError(f"there are intervals for {len(intervals)} features, but the space has {len(space)}.")
    checked = []
    for what, given in (("background", background), ("states", states)):
        try:
            array = space.check(given)
        except LegibleError as error:
            raise LimeError(f"{what}: {error}") from error
        if len(array) == 0:
            raise LimeError(f"{what}: there are no observations.")
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            raise LimeError(
                f"{what}: row {row} has {array[row, column]} for feature {space[column].name!r}; every value must be "
                "a finite number. Leave such rows out, or give the missing value a number of its own (a sentinel)."
            )
        checked.append(np.ascontiguousarray(array))
    return checked[0], checked[1]


def _choices(
    policy: _Scorer | _ScoreFunction, observations: Observations, actions: int | None, name: Callable[[int], str]
) -> NDArray[np.float64]:
    """Softmax of the policy's scores in float64; ``name`` says which observation a row is."""
    score: _ScoreFunction = policy.scores if hasattr(policy, "scores") else policy
    given = score(observations)
    try:
        scores = np.asarray(given, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LimeError(f"the policy's scores cannot be read as numbers: {error}") from error
    expected = f"({len(observations)}, {'actions' if actions is None else actions})"
    if scores.ndim != 2 or len(scores) != len(observations) or scores.shape[1] != (actions or scores.shape[1]):
        raise LimeError(f"the policy gave scores of shape {scores.shape}, expected {expected}.")
    by_action = scores.T.copy()
    best = by_action.max(axis=0, initial=-np.inf)
    # −inf is fair for an action that is never taken, but no softmax survives NaN, +inf or −inf throughout.
    unfit = ~np.isfinite(best)
    if unfit.any():
        row = int(np.argmax(unfit))
        raise LimeError(
            f"the policy gave the scores {scores[row].tolist()} for {name(row)}; numbers are needed to compare actions."
        )
    odds = np.exp(by_action - best)
    return np.ascontiguousarray((odds / odds.sum(axis=0)).T)


def _ask_about_pool(
    policy: _Scorer | _ScoreFunction, decks: _Decks, rows: int, actions: int, rng: np.random.Generator
) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """Draw a pool of observations: their codes, and the probabilities of the policy's actions there."""
    codes = np.empty((rows, len(decks.values)), np.uint16)
    targets = np.empty((rows, actions))
    for first in range(0, rows, _DECK):
        part = slice(first, min(first + _DECK, rows))
        values, codes[part] = decks.deal(part.stop - first, rng)

        def name(row: int, drawn: Observations = values) -> str:
            return f"the drawn observation {drawn[row].tolist()}"

        targets[part] = _choices(policy, values, actions, name)
    return codes, targets


@dataclass(frozen=True, eq=False)
class _Decks:
    """For every feature a shuffled deck of values, ``[feature, card]``, distributed as in the background.

    An observation is made of the cards in the same place of all decks. Before a pool is dealt every deck is cut anew:
    the features of a pool are independent, and two pools hardly ever combine the same cards. That costs a copy, where
    drawing anew would take longer than a small policy does.
    """

    values: NDArray[np.float32]
    codes: NDArray[np.uint16]

    @classmethod
    def shuffle(
        cls, background: Observations, intervals: Intervals, space: FeatureSpace, rng: np.random.Generator
    ) -> _Decks:
        """Measure every feature in the background and make its deck."""
        codes = intervals.encode(background)
        outside = codes >= intervals.sizes
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise LimeError(
                f"background: {space[column].name} = {background[row, column]:g} in row {row} lies in none of the "
                "feature's intervals; make the intervals from the same observations."
            )
        decks = cls(np.empty((len(space), _DECK), np.float32), np.empty((len(space), _DECK), np.uint16))
        for i, feature in enumerate(space.features):
            column, code = background[:, i].copy(), codes[:, i].copy()
            cells = _cells(feature, column, code, intervals.lows[i], intervals.highs[i])
            decks.values[i], decks.codes[i] = _deck(cells, rng)
        return decks

    def deal(self, rows: int, rng: np.random.Generator) -> tuple[Observations, NDArray[np.uint16]]:
        """Cut every deck and deal observations with their codes, ``[row, feature]``; at most as many as cards."""
        return _deal(self.values, self.codes, rng.integers(_DECK, size=len(self.values)), rows)


# A cell is an interval of a numeric feature, or a value of a categorical one, that occurs in the background. Its values
# are distributed as a normal variable with this mean and deviation that lies between low and high.
_CELL = np.dtype(
    [("code", np.uint16), ("count", np.int64), *((name, np.float64) for name in ("mean", "deviation", "low", "high"))]
)


def _cells(
    feature: Feature,
    column: NDArray[np.float32],
    codes: NDArray[np.uint16],
    lows: NDArray[np.float32],
    highs: NDArray[np.float32],
) -> NDArray[np.void]:
    """Measure the cells of one feature; those that never occur are left out."""
    count, total, least, most = _extremes(column, codes, len(lows))
    lone = least == most
    if feature.kind == "categorical" and not lone[count > 0].all():
        return _value_cells(column, codes)
    # Where an interval is open, or ends at a sentinel, its values tell how far it reaches.
    no_low = lone | np.isin(lows, np.array([-np.inf, *feature.sentinels], np.float32))
    no_high = lone | np.isin(highs, np.array([np.inf, *below(np.array(feature.sentinels))], np.float32))
    cells = np.zeros(len(lows), _CELL)
    cells["code"], cells["count"] = np.arange(len(lows)), count
    cells["mean"] = np.where(lone, least, total / np.maximum(count, 1))
    if not lone[count > 0].all():
        cells["deviation"] = np.sqrt(_squares(column, codes, cells["mean"].copy()) / np.maximum(count, 1))
    cells["low"], cells["high"] = np.where(no_low, least, above(lows)), np.where(no_high, most, highs)
    return cells[count > 0]


def _value_cells(column: NDArray[np.float32], codes: NDArray[np.uint16]) -> NDArray[np.void]:
    """One cell for each value of a categorical feature, where some interval holds several of them."""
    values, first, count = np.unique(column, return_index=True, return_counts=True)
    cells = np.zeros(len(values), _CELL)
    cells["code"], cells["count"] = codes[first], count
    cells["mean"] = cells["low"] = cells["high"] = values
    return cells


def _deck(cells: NDArray[np.void], rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Draw one value, and its code, from each of `_DECK` equally likely slices of a distribution, and shuffle them."""
    number = (np.arange(_DECK) + rng.random(_DECK)) / _DECK
    order = rng.permutation(_DECK)
    end = np.cumsum(cells["count"]) / cells["count"].sum()
    first = np.searchsorted(number, end[:-1])
    cell = np.repeat(np.arange(len(cells)), np.diff(first, prepend=0, append=_DECK))
    codes = cells["code"][cell[order]]
    if not cells["deviation"].any():
        return cells["mean"].astype(np.float32)[cell[order]], codes
    # How far a number fell into its cell is uniform again, so it can choose the value there.
    begin = np.concatenate([[0.0], end[:-1]])
    into = (number - begin[cell]) / (end - begin)[cell]
    # A lone value has no deviation; any other number than 0 keeps the division silent.
    scale = np.where(cells["deviation"] > 0, cells["deviation"], 1.0)
    p_low, p_high = (ndtr((cells[side] - cells["mean"]) / scale) for side in ("low", "high"))
    drawn = cells["mean"][cell] + cells["deviation"][cell] * ndtri(p_low[cell] + into * (p_high - p_low)[cell])
    return np.clip(drawn, cells["low"][cell], cells["high"][cell]).astype(np.float32)[order], codes


@njit(cache=True)
def _extremes(
    column: NDArray[np.float32], codes: NDArray[np.uint16], bins: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Count, sum, smallest and largest value of every bin."""
    count, total = np.zeros(bins, np.int64), np.zeros(bins)
    least, most = np.full(bins, np.inf), np.full(bins, -np.inf)
    for row in range(len(column)):
        code, value = codes[row], np.float64(column[row])
        count[code] += 1
        total[code] += value
        least[code] = min(least[code], value)
        most[code] = max(most[code], value)
    return count, total, least, most


@njit(cache=True)
def _squares(column: NDArray[np.float32], codes: NDArray[np.uint16], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of squared distances from the mean, for every bin."""
    squares = np.zeros(len(mean))
    for row in range(len(column)):
        squares[codes[row]] += (np.float64(column[row]) - mean[codes[row]]) ** 2
    return squares


@njit(cache=True)
def _deal(
    values: NDArray[np.float32], codes: NDArray[np.uint16], cuts: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Read every deck ``[feature, card]`` from its cut on, around the end, into ``[row, feature]``."""
    features, cards = len(values), _DECK  # a constant power of two: % becomes a mask
    dealt, dealt_codes = np.empty((rows, features), np.float32), np.empty((rows, features), np.uint16)
    for first in range(0, rows, 64):  # few enough rows to stay in the cache while one feature after the other is dealt
        for i in range(features):
            for row in range(first, min(first + 64, rows)):
                card = (cuts[i] + row) % cards
                dealt[row, i] = values[i, card]
                dealt_codes[row, i] = codes[i, card]
    return dealt, dealt_codes


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
def _normal_equations(
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


def _solve(
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
