"""Room in which the kernels work: `Scratch`, made by `new_scratch`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible_envs.highway.roads import MAX_OBSTACLES

HORIZON = 11  # how many positions ahead are foreseen where the rules of the road are enforced


class Scratch(NamedTuple):
    """Room to work in; holds nothing from one step to the next. `others` are all vehicles and obstacles."""

    order: NDArray[np.int32]  # [capacity] columns by x
    rank: NDArray[np.int32]  # [capacity] where each column is in `order`
    partners: NDArray[np.int64]  # [others] with whom one vehicle may collide
    foreseen: NDArray[np.float64]  # [capacity, horizon, 4] where each will be: x, y, lane, longitudinal
    bounds: NDArray[np.float64]  # [capacity, 4] the box around those positions
    seen: NDArray[np.int64]  # [others] vehicles in the observation
    distances: NDArray[np.float64]  # [others] how far off those are
    records: NDArray[np.float64]  # [2, 16] values of ego and of another


@njit(cache=True, nogil=True)
def new_scratch(capacity: int) -> Scratch:
    """Allocate the arrays for an episode with `capacity` vehicles."""
    others = capacity + MAX_OBSTACLES
    return Scratch(
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(others, np.int64),
        np.zeros((capacity, HORIZON, 4)),
        np.zeros((capacity, 4)),
        np.zeros(others, np.int64),
        np.zeros(others),
        np.zeros((2, 16)),
    )
