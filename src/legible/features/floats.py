"""Neighbours of float32 numbers, with which half-open intervals are made exact.

- `below`, `above`: the next number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def below(value: ArrayLike) -> NDArray[np.float32]:
    """Return the next float32 below: ``below(v) < x <= v`` is the interval that holds v alone."""
    return np.nextafter(np.asarray(value, np.float32), np.float32(-np.inf))


def above(value: ArrayLike) -> NDArray[np.float32]:
    """Return the next float32 above; the inverse of `below`."""
    return np.nextafter(np.asarray(value, np.float32), np.float32(np.inf))
