"""Recorded actions, repeated in slots.

- `walk`: repeats the actions of recorded episodes, and looks at some of their steps.
- `compare`: whether a row shows what was recorded, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import map_arrays
from legible.play.branching.points import BranchingError, Point
from legible.play.slots import Slots

Look = Callable[[NDArray[np.intp], NDArray[np.intp]], None]
"""Called with rows of the slots and the numbers of the points that they have reached."""
OnStep = Callable[[NDArray[np.int64]], None]
"""Called before every step with how many steps each row has taken."""

ENDED = "it is over, which it was not then"


def walk(slots: Slots, points: Sequence[Point], look: Look, on_step: OnStep | None = None) -> None:
    """Bring slots to all points, each episode once, and look at every point when it is reached.

    Parameters
    ----------
    slots
        Where the actions are repeated; what runs in them is lost.
    points
        The points, in any order. Their observations are compared, where they are given.
    look
        What to do at the points.
    on_step
        Called at every decision on the way, after `look`.
    """
    if not len(points):
        return
    state = _Walk(slots, points, look)
    while True:
        state.refill()
        if not state.active.any():
            return
        state.look()
        if on_step is not None:
            on_step(state.step)
        state.move()


class _Walk:
    """Which row repeats which episode, and how far it has come."""

    def __init__(self, slots: Slots, points: Sequence[Point], look: Look) -> None:
        self.slots, self.points, self._look = slots, points, look
        # Points by episode and step, and the actions of all episodes one after the other.
        seeds = np.array([point.seed for point in points], np.int64)
        steps = np.array([point.step for point in points], np.int64)
        self._order = np.lexsort((steps, seeds))
        self._steps, ordered = steps[self._order], seeds[self._order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        self._seeds = ordered[starts]
        self._first_point = np.r_[starts, len(points)]
        last = [points[self._order[end - 1]] for end in self._first_point[1:]]
        self._recorded = np.concatenate([point.actions[: point.step] for point in last])
        self._first_action = np.r_[0, np.cumsum([point.step for point in last])]
        self.episode = np.full(slots.n, -1, np.int64)
        self.step, self.reached = np.zeros(slots.n, np.int64), np.zeros(slots.n, np.int64)
        self._actions = np.zeros((slots.n, *self._recorded.shape[1:]), self._recorded.dtype)
        self._next = 0

    @property
    def active(self) -> NDArray[np.bool_]:
        return self.episode >= 0

    def refill(self) -> None:
        """Give the next episodes to rows that have none."""
        fresh = np.flatnonzero(~self.active)[: len(self._seeds) - self._next]
        if fresh.size:
            episodes = np.arange(self._next, self._next + fresh.size)
            self.slots.start(fresh, self._seeds[episodes].tolist())
            self.episode[fresh], self.step[fresh] = episodes, 0
            self.reached[fresh] = self._first_point[episodes]
            self._next += fresh.size

    def look(self) -> None:
        """Look at all points that have been reached; several may be of one decision."""
        rows = np.flatnonzero(self.active)
        while rows.size:
            rows = rows[self.reached[rows] < self._first_point[self.episode[rows] + 1]]
            rows = rows[self._steps[self.reached[rows]] == self.step[rows]]
            if rows.size:
                numbers = self._order[self.reached[rows]]
                for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                    compare(self.slots, row, self.points[number])
                self._look(rows, numbers)
                self.reached[rows] += 1

    def move(self) -> None:
        """Take the next recorded action in every row that has a point before it; others become idle."""
        left = self.reached < self._first_point[self.episode + 1]
        self.episode[~left] = -1
        rows = np.flatnonzero(self.active)
        if not rows.size:
            return
        self._actions[rows] = self._recorded[self._first_action[self.episode[rows]] + self.step[rows]]
        self.slots.step(self._actions, self.active)
        self.step[rows] += 1
        over = self.active & (self.slots.terminated | self.slots.truncated)
        if over.any():
            row = int(np.argmax(over))
            raise differs(int(self._seeds[self.episode[row]]), int(self.step[row]), ENDED)


def compare(slots: Slots, row: int, point: Point) -> None:
    """Raise unless a row shows what was recorded at a point, to the bit."""
    if point.observation is None:
        return
    agree: list[bool] = []

    def look(shown: NDArray[Any], recorded: Any) -> None:
        agree.append(np.array_equal(shown[row], recorded, equal_nan=shown.dtype.kind == "f"))

    map_arrays(look, slots.seen, point.observation)
    if not all(agree):
        raise differs(point.seed, point.step, "something else is seen than then")


def differs(seed: int, step: int, what: str) -> BranchingError:
    """Say that an episode cannot be repeated."""
    return BranchingError(
        f"the episode with seed {seed} cannot be repeated: after its first {step} actions {what}. "
        "All that is random in an environment must come from self.np_random, seeded by reset(seed=…)."
    )
