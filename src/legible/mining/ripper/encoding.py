"""Encoding of a matrix of numbers or strings as integer codes for the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.mining.ripper import kernels

CUT_SAMPLE = 200_000
"""Maximum number of rows that determine the cut points of a numeric feature."""


class Encoded(NamedTuple):
    """A matrix as codes.

    The code of a nominal value is its position in ``values``, that of an ordinal value the number of smaller cut points
    in ``values``, so x ≤ values[c] exactly if code ≤ c.
    """

    codes: NDArray[Any]
    values: list[NDArray[Any]]
    ordinal: NDArray[np.bool_]

    @property
    def n_values(self) -> NDArray[np.int64]:
        """Return the number of codes of each feature."""
        return np.array([len(v) for v in self.values], np.int64) + self.ordinal


def encode(X: NDArray[Any], nominal: NDArray[np.bool_], max_bins: int, seed: int) -> Encoded:
    """Return a table as integer codes: the numbers of the values of nominal features, and of intervals of the others.

    `X` is ``[rows, features]``, `nominal` ``bool[features]``. Other features have at most `max_bins` intervals; with
    very many rows, their cut points come from a sample that `seed` decides.
    """
    codes: NDArray[Any] = np.empty(X.shape, np.uint8)
    low, occurs = _encode_small_integers(X, codes)  # by column: its lowest number, and which codes occur
    values: list[NDArray[Any]] = []  # of each feature: the distinct values, or the cut points of the intervals
    for j, is_nominal in enumerate(nominal):
        # A column of few whole numbers is encoded already, as distances from its lowest number.
        distances = np.flatnonzero(occurs[j])
        if distances.size > 0 and (is_nominal or distances.size <= max_bins):
            if distances.size <= distances[-1]:  # some codes do not occur: number the others without gaps
                codes[:, j] = (np.cumsum(occurs[j]) - 1).astype(np.uint8)[codes[:, j]]
            distinct = (low[j] + distances).astype(X.dtype)
            values.append(distinct if is_nominal else _between(distinct))
            continue
        # Any other column.
        its_values, its_codes = _categories(X[:, j]) if is_nominal else _intervals(X[:, j], max_bins, seed)
        if len(its_values) > np.iinfo(codes.dtype).max:
            codes = codes.astype(np.uint16 if len(its_values) < 2**16 else np.uint32)
        codes[:, j] = its_codes
        values.append(its_values)
    return Encoded(codes, values, ~nominal)


def _encode_small_integers(X: NDArray[Any], codes: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Encode, without sorting, the columns of whole numbers in a range of at most 64.

    The code is the distance from the smallest number of the column. Return these smallest numbers, and which of the 64
    codes occur (none in other columns).
    """
    if X.dtype.kind not in "biuf":
        return np.zeros(X.shape[1]), np.zeros((X.shape[1], 64), np.bool_)
    if not X.dtype.isnative or (X.dtype.kind == "f" and X.dtype.itemsize not in (4, 8)):
        X = X.astype(np.float64)
    X = np.require(X, requirements=["C", "W"])
    low, high, whole = kernels.whole_ranges(X)
    exact = whole & (np.maximum(-low, high) < 2**53)
    small = exact & (np.where(exact, high, 64.0) - np.where(exact, low, 0.0) < 64)
    occurs = kernels.subtract_low(X, low, codes)
    return low, (occurs[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(np.bool_) & small[:, None]


def _categories(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values of a column in order, and the code of each row."""
    if column.dtype != object:
        return np.unique(column, return_inverse=True)
    values = sorted(set(column), key=lambda value: (type(value).__name__, value))
    numbers = {value: number for number, value in enumerate(values)}
    found = np.empty(len(values), object)
    found[:] = values
    return found, np.array([numbers[value] for value in column], np.int64)


def _intervals(column: NDArray[Any], max_bins: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return cut points of a column, between all its values or at quantiles, and the interval of each value."""
    numbers = column.astype(np.float64)
    sample = numbers
    if numbers.size > CUT_SAMPLE:
        sample = np.random.default_rng(seed).choice(numbers, CUT_SAMPLE, replace=False)
    ordered = np.sort(sample)
    distinct = ordered[np.append(True, ordered[1:] > ordered[:-1])]
    cuts = _between(distinct)
    if distinct.size > max_bins:
        quantiles = ordered[np.arange(1, max_bins) * (ordered.size - 1) // max_bins]
        places = np.unique(np.searchsorted(distinct, quantiles))
        cuts = cuts[places[places < cuts.size]]
    return cuts, np.searchsorted(cuts, numbers)


def _between(distinct: NDArray[Any]) -> NDArray[np.float64]:
    """Return points that separate adjacent values, whole numbers between whole numbers."""
    distinct = distinct.astype(np.float64)
    lower, upper = distinct[:-1], distinct[1:]
    middle = lower / 2 + upper / 2
    if (distinct == np.floor(distinct)).all():
        middle = np.floor(middle)
    return np.where((lower <= middle) & (middle < upper), middle, lower)
