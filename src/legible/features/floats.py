"""Neighbours of float32 numbers, for exact half-open intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def below(value: ArrayLike) -> NDArray[np.float32]:
    """Return the next smaller float32; the interval ``below(v) < x <= v`` holds only v."""
    return np.nextafter(np.asarray(value, np.float32), np.float32(-np.inf))


def above(value: ArrayLike) -> NDArray[np.float32]:
    """Return the next larger float32; the inverse of `below`."""
    return np.nextafter(np.asarray(value, np.float32), np.float32(np.inf))
