"""Where the episodes of a unit start, if that is not their beginning.

- `UnitStarts`: for every episode what is known of it; `StartedSlots`: brings slots there, for `legible.play`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from legible.play import BatchSlots, Observations, Slots
from legible.play.packed_states import PackedStates, unpack_states


@dataclass(frozen=True)
class UnitStarts:
    """Where episodes of a unit start that are known up to some step, because they are recorded ones until then.

    Parameters
    ----------
    steps
        For every episode the steps that are known.
    returns, costs, fired, changed
        What they earned and cost, in how many of them a treatment stepped in, and in how many that changed the action.
    states, observations
        The states after them (`legible.play.packed_states`), and what was seen there.
    """

    steps: NDArray[np.int64]
    returns: NDArray[np.float64]
    costs: NDArray[np.float64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]
    states: PackedStates
    observations: Observations

    def __getitem__(self, chosen: Any) -> UnitStarts:
        return UnitStarts(*(getattr(self, f.name)[chosen] for f in fields(self)))


class StartedSlots:
    """Brings slots to where the episodes of a unit start."""

    def __init__(self, slots: Slots, starts: UnitStarts) -> None:
        self._slots, self._starts = slots, starts
        self.steps, self.returns, self.costs = starts.steps, starts.returns, starts.costs

    def start(
        self,
        rows: NDArray[np.intp],
        episodes: NDArray[np.int64],
        seeds: Sequence[int],
        choose: Any,  # noqa: ARG002 (policies of studies remember nothing)
    ) -> None:
        """Bring rows to where the episodes with these numbers and seeds start."""
        later = self.steps[episodes] > 0
        if not later.all():
            self._slots.start(rows[~later], [seeds[i] for i in np.flatnonzero(~later).tolist()])
        if later.any():
            some = self._starts[episodes[later]]
            unpack_states(cast("BatchSlots", self._slots), rows[later], some.states, some.observations)
