"""Environment states of a native batch as rows of bytes, to store them in large numbers.

- `pack_states`: packs the states of some rows of slots; `unpack_states`: the states for `Branching.start`.

The observation is left out, because the record of the step holds it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.play.branching.ways import States
from legible.play.slots import BatchSlots, Observations

PackedStates = NDArray[np.uint8]
"""One row of bytes per state; no columns if the states could not be packed."""
LARGEST_STATE = 1024
"""Maximum size of a packed state in bytes."""


def pack_states(slots: Any, rows: NDArray[np.intp]) -> PackedStates:
    """Return the packed states of some rows; no columns if the slots cannot copy states or the states are too large."""
    nothing = np.empty((len(rows), 0), np.uint8)
    if not isinstance(slots, BatchSlots) or not slots.can_copy:
        return nothing
    saved = slots.save(rows)
    # By convention the last array holds the observations.
    if not np.array_equal(saved[-1], slots.observations[rows]):
        return nothing
    packed = [np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8) for array in saved[:-1]]
    return np.concatenate(packed, axis=1) if sum(part.shape[1] for part in packed) <= LARGEST_STATE else nothing


def unpack_states(slots: BatchSlots, packed: PackedStates, shown: Observations) -> States:
    """Return the states of slots that were packed, given their observations."""
    arrays, first = [], 0
    for like in slots.save(np.zeros(1, np.intp))[:-1]:
        size = like.nbytes
        part = np.ascontiguousarray(packed[:, first : first + size])
        arrays.append(part.view(like.dtype).reshape(len(packed), *like.shape[1:]))
        first += size
    return States((*arrays, shown))
