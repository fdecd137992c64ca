"""Methods of returning to a visited state.

- `Branching`: the base class; `WAYS`: names and descriptions of the methods.
- `make_branching`: makes a branching of some slots.
- `States`: the states of visited points.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.play.acting import ActingChooser
from legible.play.branching.generators import reseed
from legible.play.branching.own_state import OwnState, own_state
from legible.play.branching.points import BranchingError, Future, Point
from legible.play.branching.walking import ENDED, OnStep, Visit, compare, differs, walk
from legible.play.slots import BatchSlots, SingleSlots, Slots, SpaceSlots

Way = Literal["rows", "own state", "copy", "replay"]

WAYS: dict[Way, str] = {
    "rows": "rows of the batch are copied",
    "own state": "the environment's own state is read and set",
    "copy": "the environment is copied as it stands",
    "replay": "the episode's actions are repeated from its start",
}
"""The methods and their descriptions, fastest first."""

Memory = tuple[NDArray[Any], ...]
"""A recurrent state, as ``predict`` returns it: arrays whose second axis is the row of the batch."""


@dataclass
class States:
    """The saved states of points, one row of the arrays each, and the recurrent states of the policy there, if any."""

    arrays: tuple[NDArray[Any], ...]
    memory: Memory | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, chosen: NDArray[np.intp]) -> States:
        """Return some of the states; numbers may repeat."""
        memory = None if self.memory is None else tuple(part[:, chosen] for part in self.memory)
        return States(tuple(array[chosen] for array in self.arrays), memory)


class Branching(ABC):
    """Base class of the methods of returning rows of slots to visited states.

    >>> from legible.play import Point, make_branching, make_slots
    >>> slots = make_slots("legible/PacmanSmall-v0", 4)
    >>> branching = make_branching(slots, "rows")
    >>> states = branching.visit([Point(seed=7, step=2, actions=np.array([1, 1, 3]))])
    >>> branching.start(np.array([0, 3]), states[np.array([0, 0])], future="same")
    >>> bool((slots.observations[0] == slots.observations[3]).all())
    True
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots

    def visit(self, points: Sequence[Point], remembering: ActingChooser | None = None) -> States:
        """Return the saved states of points, in their order. Episodes that run in the slots are lost.

        - `points`: visited states: seed, step, and the actions of the episode until then. If a point has its
          observation, it is compared to the bit (the method "replay" compares later, in `start`).
        - `remembering`: for policies with memory: a chooser that has seen nothing yet. It sees all observations on the
          way, and the policy's memory at each point is kept with the state.
        """
        visited: list[NDArray[np.intp]] = []
        memories: list[Memory] = []

        # `_visit` calls the first function when rows arrive at points, the second one before every step.
        def keep_memory(rows: NDArray[np.intp], reached: NDArray[np.intp]) -> None:
            # The memory before the policy sees the point's observation; None at the start of an episode.
            memory = None if remembering is None else remembering.memory(rows)
            if memory is not None:
                visited.append(reached)
                memories.append(memory)

        def show_step(steps: NDArray[np.int64]) -> None:
            # The actions that the chooser returns are not used, so the numbers of the episodes do not matter.
            if remembering is not None:
                remembering(self.slots.observations, np.zeros(self.slots.n, np.int64), steps)

        # Memories are arrays whose second axis is the row. They were kept in the order in which the points were
        # reached: put them into the order of the points.
        states = self._visit(points, keep_memory, None if remembering is None else show_step)
        if memories:
            in_order_of_points = []
            for pieces in zip(*memories, strict=True):
                in_order_of_visit = np.concatenate(pieces, axis=1)
                by_point = np.zeros(
                    (len(in_order_of_visit), len(points), *in_order_of_visit.shape[2:]), in_order_of_visit.dtype
                )
                by_point[:, np.concatenate(visited)] = in_order_of_visit
                in_order_of_points.append(by_point)
            states.memory = tuple(in_order_of_points)
        return states

    @abstractmethod
    def _visit(self, points: Sequence[Point], keep_memory: Visit, on_step: OnStep | None) -> States: ...

    def start(
        self, rows: NDArray[np.intp], states: States, *, future: Future = "same", seeds: Sequence[int] | None = None
    ) -> None:
        """Continue in some rows of the slots from saved states; other rows are not affected.

        - `rows`: the numbers of the rows.
        - `states`: one state per row, from `visit`.
        - `future`: "same": the random numbers of the recorded episode. "new": random numbers from `seeds`.
        - `seeds`: for new futures, a seed per row.
        """
        if (future == "new") != (seeds is not None):
            raise BranchingError("new futures need one seed per row; the same future takes no seeds.")
        if len(states) != len(rows) or (seeds is not None and len(seeds) != len(rows)):
            raise BranchingError(
                f"one state and one seed per row are expected: {len(rows)} rows, {len(states)} states."
            )
        self._start(rows, states, seeds)

    @abstractmethod
    def _start(self, rows: NDArray[np.intp], states: States, seeds: Sequence[int] | None) -> None: ...


class RowBranching(Branching):
    """Branching that copies rows of a native batch."""

    slots: BatchSlots

    def _visit(self, points: Sequence[Point], keep_memory: Visit, on_step: OnStep | None) -> States:
        numbers: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        parts: list[tuple[NDArray[Any], ...]] = [self.slots.save(np.empty(0, np.intp))]

        def save(rows: NDArray[np.intp], reached: NDArray[np.intp]) -> None:
            numbers.append(reached)
            parts.append(self.slots.save(rows))
            keep_memory(rows, reached)

        walk(self.slots, points, save, on_step)
        order = np.argsort(np.concatenate(numbers))
        return States(tuple(np.concatenate(arrays)[order] for arrays in zip(*parts, strict=True)))

    def _start(self, rows: NDArray[np.intp], states: States, seeds: Sequence[int] | None) -> None:
        self.slots.restore(rows, states.arrays, seeds)


class CopyBranching(Branching):
    """Branching that copies environments, with their wrappers."""

    slots: SingleSlots | SpaceSlots

    def _visit(self, points: Sequence[Point], keep_memory: Visit, on_step: OnStep | None) -> States:
        kept = np.empty(len(points), object)

        def save(rows: NDArray[np.intp], reached: NDArray[np.intp]) -> None:
            for row, number in zip(rows.tolist(), reached.tolist(), strict=True):
                kept[number] = points[number].seed, self.slots.shown(row), self._save(row)
            keep_memory(rows, reached)

        walk(self.slots, points, save, on_step)
        return States((kept,))

    def _start(self, rows: NDArray[np.intp], states: States, seeds: Sequence[int] | None) -> None:
        for i, (row, (seed, shown, saved)) in enumerate(zip(rows.tolist(), states.arrays[0], strict=True)):
            env = self._restored(row, saved)
            if seeds is not None:
                reseed(env, seeds[i])
            self.slots.place(row, env, seed if seeds is None else seeds[i], shown)

    def _save(self, row: int) -> Any:
        return copy.deepcopy(self.slots.environments[row])

    def _restored(self, row: int, saved: Any) -> Any:  # noqa: ARG002 (a new environment)
        return copy.deepcopy(saved)


class OwnStateBranching(CopyBranching):
    """Branching that reads and sets the environment's own state."""

    def __init__(self, slots: SingleSlots | SpaceSlots) -> None:
        super().__init__(slots)
        state = own_state(slots.environments[0])
        if state is None:
            raise BranchingError("the state of this environment cannot be read and set.")
        self._state: OwnState = state
        self._started: set[int] = set()

    def _save(self, row: int) -> Any:
        return self._state.save(self.slots.environments[row])

    def _restored(self, row: int, saved: Any) -> Any:
        env = self.slots.environments[row]
        if row not in self._started:
            env.reset(seed=0)  # before that, some environments have no state to set
            self._started.add(row)
        self._state.restore(env, saved)
        return env


class ReplayBranching(Branching):
    """Branching that repeats the actions of an episode from its start."""

    slots: SingleSlots | SpaceSlots

    def _visit(self, points: Sequence[Point], keep_memory: Visit, on_step: OnStep | None) -> States:
        # The points are the states; they are visited only for the policy's recurrent states.
        if on_step is not None:
            walk(self.slots, points, keep_memory, on_step)
        states = np.empty(len(points), object)
        states[:] = points
        return States((states,))

    def _start(self, rows: NDArray[np.intp], states: States, seeds: Sequence[int] | None) -> None:
        points: Sequence[Point] = states.arrays[0].tolist()
        self.slots.start(rows, [point.seed for point in points])
        some = points[0].actions
        actions = np.zeros((self.slots.n, *some.shape[1:]), some.dtype)
        for step in range(max(point.step for point in points)):
            active = np.zeros(self.slots.n, np.bool_)
            for row, point in zip(rows.tolist(), points, strict=True):
                if step < point.step:
                    actions[row], active[row] = point.actions[step], True
            self.slots.step(actions, active)
            over = active & (self.slots.terminated | self.slots.truncated)
            if over.any():
                row = int(np.argmax(over))
                raise differs(points[rows.tolist().index(row)].seed, step + 1, ENDED)
        for i, (row, point) in enumerate(zip(rows.tolist(), points, strict=True)):
            compare(self.slots, row, point)
            if seeds is not None:
                reseed(self.slots.environments[row], seeds[i])


_CLASSES: dict[Way, Any] = {
    "rows": RowBranching,
    "own state": OwnStateBranching,
    "copy": CopyBranching,
    "replay": ReplayBranching,
}


def make_branching(slots: Slots, way: Way) -> Branching:
    """Return a branching of some slots that uses one of the `WAYS`.

    `legible.play.find_branching_method` finds the method for an environment. Only slots of a native batch copy rows.
    """
    native = isinstance(slots, BatchSlots)
    if native != (way == "rows") or (isinstance(slots, BatchSlots) and not slots.can_copy):
        kind = "a native batch" if native else "single environments"
        raise BranchingError(f"slots of {kind} cannot return to a state by {way!r} ({WAYS[way]}).")
    made: Branching = _CLASSES[way](slots)
    return made
