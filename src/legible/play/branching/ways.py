"""Ways of getting into a state that was visited.

- `Branching`: what they share; `WAYS`: their names, and what they are in words.
- `make_branching`: the one for some slots and a way.
- `States`: what they keep of the points that were visited.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.play.branching.generators import reseed
from legible.play.branching.own_state import OwnState, own_state
from legible.play.branching.points import BranchingError, Future, Point
from legible.play.branching.walking import ENDED, compare, differs, walk
from legible.play.choosing import Chooser
from legible.play.slots import BatchSlots, SingleSlots, Slots, SpaceSlots

Way = Literal["rows", "own state", "copy", "replay"]

WAYS: dict[Way, str] = {
    "rows": "rows of the batch are copied",
    "own state": "the environment's own state is read and set",
    "copy": "the environment is copied as it stands",
    "replay": "the episode's actions are repeated from its start",
}
"""The ways, quickest first, in words."""


Memory = tuple[NDArray[Any], ...]
"""What a policy remembers, as ``predict`` returns it: arrays whose second axis is the row of the batch."""


class Remembering(Chooser, Protocol):
    """A chooser that remembers, such as `legible.play.ActingChooser`."""

    def memory(self, rows: NDArray[np.intp]) -> Memory | None:
        """Copy what is remembered in some rows."""

    def recall(self, rows: NDArray[np.intp], memory: Memory) -> None:
        """Remember it again."""


class States(Protocol):
    """What was kept of points: as many entries as points; and what the policy remembered there, if it does."""

    memory: Memory | None

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: NDArray[np.intp]) -> States:
        """Return some of them, also several times."""


class Branching(ABC):
    """Brings rows of slots into states that were visited.

    Parameters
    ----------
    slots
        The slots.

    Examples
    --------
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

    def visit(self, points: Sequence[Point], remembering: Remembering | None = None) -> States:
        """Keep the states of points, in their order. What runs in the slots is lost.

        Parameters
        ----------
        points
            The points. Their observations are compared to the bit, where they are given (a replay compares when it
            starts from them).
        remembering
            For policies that remember: a chooser of theirs that has not been used yet. It is shown everything on the
            way, and what it remembers at the points is kept with the states.
        """
        if remembering is None:
            return self._visit(points, None)
        memories = _Memories(self.slots, remembering)
        states = self._visit(points, memories)
        states.memory = memories.in_order(len(points))
        return states

    @abstractmethod
    def _visit(self, points: Sequence[Point], memories: _Memories | None) -> States: ...

    def start(
        self, rows: NDArray[np.intp], states: States, *, future: Future = "same", seeds: Sequence[int] | None = None
    ) -> None:
        """Bring rows into states, one each; other rows go on as if nothing had happened.

        Parameters
        ----------
        rows
            Rows of the slots.
        states
            As many, from `visit`.
        future
            "same": what is random from there on is what it was in the recorded episode. "new": it follows from `seeds`.
        seeds
            A seed for each of the rows, for new futures.
        """
        if (future == "new") != (seeds is not None):
            raise BranchingError("new futures need a seed a row, the same ones have theirs already.")
        if len(states) != len(rows) or (seeds is not None and len(seeds) != len(rows)):
            raise BranchingError(f"{len(rows)} rows, {len(states)} states: one each is expected.")
        self._start(rows, states, seeds)

    @abstractmethod
    def _start(self, rows: NDArray[np.intp], states: States, seeds: Sequence[int] | None) -> None: ...


class _Memories:
    """What a policy remembers at points, collected on the way."""

    def __init__(self, slots: Slots, chooser: Remembering) -> None:
        self._slots, self._chooser = slots, chooser
        self._numbers: list[NDArray[np.intp]] = []
        self._parts: list[Memory] = []

    def look(self, rows: NDArray[np.intp], numbers: NDArray[np.intp]) -> None:
        """Keep what is remembered before the observations of points are seen."""
        memory = self._chooser.memory(rows)
        if memory is not None:
            self._numbers.append(numbers)
            self._parts.append(memory)

    def show(self, steps: NDArray[np.int64]) -> None:
        """Let the policy see what all rows show."""
        self._chooser(self._slots.observations, np.zeros(self._slots.n, np.int64), steps)

    def in_order(self, n: int) -> Memory | None:
        """All that was kept of n points; zeros where nothing had been seen yet."""
        if not self._parts:
            return None
        numbers, ordered = np.concatenate(self._numbers), []
        for parts in zip(*self._parts, strict=True):
            kept = np.concatenate(parts, axis=1)
            every = np.zeros((len(kept), n, *kept.shape[2:]), kept.dtype)
            every[:, numbers] = kept
            ordered.append(every)
        return tuple(ordered)


def _chosen(memory: Memory | None, chosen: NDArray[np.intp]) -> Memory | None:
    return None if memory is None else tuple(part[:, chosen] for part in memory)


@dataclass
class _SavedRows:
    """States in arrays, a row each."""

    arrays: tuple[NDArray[Any], ...]
    memory: Memory | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, chosen: NDArray[np.intp]) -> _SavedRows:
        return _SavedRows(tuple(array[chosen] for array in self.arrays), _chosen(self.memory, chosen))


class RowBranching(Branching):
    """Copies rows of a native batch."""

    slots: BatchSlots

    def _visit(self, points: Sequence[Point], memories: _Memories | None) -> _SavedRows:
        numbers: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        parts: list[tuple[NDArray[Any], ...]] = [self.slots.save(np.empty(0, np.intp))]

        def look(rows: NDArray[np.intp], reached: NDArray[np.intp]) -> None:
            numbers.append(reached)
            parts.append(self.slots.save(rows))
            if memories is not None:
                memories.look(rows, reached)

        walk(self.slots, points, look, None if memories is None else memories.show)
        order = np.argsort(np.concatenate(numbers))
        return _SavedRows(tuple(np.concatenate(arrays)[order] for arrays in zip(*parts, strict=True)))

    def _start(self, rows: NDArray[np.intp], states: Any, seeds: Sequence[int] | None) -> None:
        self.slots.restore(rows, states.arrays, seeds)


@dataclass
class _Saved:
    """States as objects."""

    states: Sequence[Any]
    memory: Memory | None = None

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, chosen: NDArray[np.intp]) -> _Saved:
        return _Saved([self.states[i] for i in chosen.tolist()], _chosen(self.memory, chosen))


class _EnvironmentBranching(Branching):
    """Keeps something of every single environment at the points."""

    slots: SingleSlots | SpaceSlots

    def _visit(self, points: Sequence[Point], memories: _Memories | None) -> _Saved:
        kept: list[Any] = [None] * len(points)

        def look(rows: NDArray[np.intp], reached: NDArray[np.intp]) -> None:
            for row, number in zip(rows.tolist(), reached.tolist(), strict=True):
                kept[number] = points[number].seed, self.slots.shown(row), self._save(row)
            if memories is not None:
                memories.look(rows, reached)

        walk(self.slots, points, look, None if memories is None else memories.show)
        return _Saved(kept)

    def _start(self, rows: NDArray[np.intp], states: Any, seeds: Sequence[int] | None) -> None:
        for i, (row, (seed, shown, saved)) in enumerate(zip(rows.tolist(), states.states, strict=True)):
            env = self._restored(row, saved)
            if seeds is not None:
                reseed(env, seeds[i])
            self.slots.place(row, env, seed if seeds is None else seeds[i], shown)

    @abstractmethod
    def _save(self, row: int) -> Any: ...

    @abstractmethod
    def _restored(self, row: int, saved: Any) -> Any: ...


class OwnStateBranching(_EnvironmentBranching):
    """Reads and sets the environment's own state."""

    def __init__(self, slots: SingleSlots | SpaceSlots) -> None:
        super().__init__(slots)
        found = own_state(slots.environments[0])
        if found is None:
            raise BranchingError("nothing is known about how the state of this environment is set.")
        self._state: OwnState = found
        self._begun: set[int] = set()

    def _save(self, row: int) -> Any:
        return self._state.save(self.slots.environments[row])

    def _restored(self, row: int, saved: Any) -> Any:
        env = self.slots.environments[row]
        if row not in self._begun:
            env.reset(seed=0)  # before that, some environments have nothing that could be set
            self._begun.add(row)
        self._state.restore(env, saved)
        return env


class CopyBranching(_EnvironmentBranching):
    """Copies environments, with their wrappers."""

    def _save(self, row: int) -> Any:
        return copy.deepcopy(self.slots.environments[row])

    def _restored(self, row: int, saved: Any) -> Any:  # noqa: ARG002 (an environment of its own)
        return copy.deepcopy(saved)


class ReplayBranching(Branching):
    """Repeats the actions of an episode from its start."""

    slots: SingleSlots | SpaceSlots

    def _visit(self, points: Sequence[Point], memories: _Memories | None) -> _Saved:
        # The points say it all; they are gone through now only for what a policy remembers there.
        if memories is not None:
            walk(self.slots, points, memories.look, memories.show)
        return _Saved(list(points))

    def _start(self, rows: NDArray[np.intp], states: Any, seeds: Sequence[int] | None) -> None:
        points: Sequence[Point] = states.states
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
    """Return what brings rows of some slots into states that were visited, in one of the `WAYS`.

    `legible.play.find_way` tells which way an environment gets. Slots of a native batch copy rows, others cannot.
    """
    native = isinstance(slots, BatchSlots)
    if native != (way == "rows") or (isinstance(slots, BatchSlots) and not slots.can_copy):
        kind = "a native batch" if native else "single environments"
        raise BranchingError(f"slots of {kind} cannot go back to a state by {way!r}: {WAYS[way]}.")
    made: Branching = _CLASSES[way](slots)
    return made
