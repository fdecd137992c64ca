"""Whole states of episodes in a native batch as rows of bytes, so that they can be kept in great numbers.

- `pack_states`: the states of some rows of slots; `unpack_states`: brings rows of slots into them.

What a state shows is left out where it is kept elsewhere: as the observation of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.play.slots import BatchSlots, Observations

PackedStates = NDArray[np.uint8]
"""A row of bytes a state; without columns where nothing was kept."""
LARGEST_STATE = 1024
"""Bytes of the largest states that are kept."""


def pack_states(slots: Any, rows: NDArray[np.intp]) -> PackedStates:
    """Copy the states of some rows; without columns where slots cannot copy them, or where they are too large."""
    nothing = np.empty((len(rows), 0), np.uint8)
    if not isinstance(slots, BatchSlots) or not slots.can_copy:
        return nothing
    saved = slots.save(rows)
    # By convention the last of them is what the episodes show.
    if not np.array_equal(saved[-1], slots.observations[rows]):
        return nothing
    packed = [np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8) for array in saved[:-1]]
    return np.concatenate(packed, axis=1) if sum(part.shape[1] for part in packed) <= LARGEST_STATE else nothing


def unpack_states(slots: BatchSlots, rows: NDArray[np.intp], packed: PackedStates, shown: Observations) -> None:
    """Bring rows into states, of which one is known by its bytes and by what it shows."""
    arrays, first = [], 0
    for like in slots.save(rows[:1])[:-1]:
        size = like.nbytes
        part = np.ascontiguousarray(packed[:, first : first + size])
        arrays.append(part.view(like.dtype).reshape(len(rows), *like.shape[1:]))
        first += size
    slots.restore(rows, (*arrays, shown))
