"""States from which the episodes of a unit continue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from legible.play import BatchSlots, Observations, Slots, StepRecord, make_branching
from legible.play.branching.packed import PackedStates, unpack_states


@dataclass(frozen=True)
class UnitStarts:
    """States of episodes that equal recorded ones up to some step."""

    steps: NDArray[np.int64]  # number of known steps of every episode
    # Sums of rewards and costs of these steps, and the numbers in which a treatment triggered and changed the action.
    returns: NDArray[np.float64]
    costs: NDArray[np.float64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]
    # States after these steps (`legible.play.branching.packed`), and the observations there.
    states: PackedStates
    observations: Observations

    def __getitem__(self, chosen: Any) -> UnitStarts:
        return UnitStarts(*(getattr(self, f.name)[chosen] for f in fields(self)))


@dataclass(frozen=True)
class KnownPart:
    """Number of first steps of every episode that equal recorded ones, and the sum of their rewards."""

    steps: NDArray[np.int64]
    returns: NDArray[np.float64]

    def __getitem__(self, chosen: Any) -> KnownPart:
        return KnownPart(self.steps[chosen], self.returns[chosen])


class KnownPartCheck:
    """Adds up the rewards of the known parts of episodes while they are played again."""

    def __init__(self, known: KnownPart) -> None:
        self._known = known
        self._steps, self._returns = np.zeros(len(known.steps), np.int64), np.zeros(len(known.steps))

    def __call__(self, step: StepRecord) -> None:
        """Add a step."""
        played = np.flatnonzero(step.episodes >= 0)
        early = played[step.steps[played] < self._known.steps[step.episodes[played]]]
        self._steps[step.episodes[early]] += 1
        self._returns[step.episodes[early]] += step.rewards[early]

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Which episodes are not what was recorded."""
        return (self._steps != self._known.steps) | (self._returns != self._known.returns)


class StartedSlots:
    """Slots that continue episodes from given states."""

    def __init__(self, slots: Slots, starts: UnitStarts) -> None:
        self._slots, self._starts = slots, starts
        self.steps, self.returns, self.costs = starts.steps, starts.returns, starts.costs

    def start(
        self,
        rows: NDArray[np.intp],
        episodes: NDArray[np.int64],
        seeds: Sequence[int],
        choose: Any,  # noqa: ARG002 (policies of studies have no memory)
    ) -> None:
        """Bring rows to the start states of episodes."""
        is_continued = self.steps[episodes] > 0
        if not is_continued.all():
            self._slots.start(rows[~is_continued], [seeds[i] for i in np.flatnonzero(~is_continued).tolist()])
        if is_continued.any():
            starts = self._starts[episodes[is_continued]]
            states = unpack_states(cast("BatchSlots", self._slots), starts.states, starts.observations)
            make_branching(self._slots, "rows").start(rows[is_continued], states)
