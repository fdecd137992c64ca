"""Recorded actions, repeated in slots.

- `walk`: repeats the actions of recorded episodes and visits some of their steps.
- `compare`: checks that a row shows the recorded observation, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import map_arrays
from legible.play.branching.points import BranchingError, Point
from legible.play.slots import Slots

Visit = Callable[[NDArray[np.intp], NDArray[np.intp]], None]
"""Called with rows of the slots and the numbers of the points that they have reached."""
OnStep = Callable[[NDArray[np.int64]], None]
"""Called before every step with the number of steps that each row has taken."""

ENDED = "it is over, unlike in the recording"


def walk(slots: Slots, points: Sequence[Point], visit: Visit, on_step: OnStep | None = None) -> None:
    """Repeat the recorded actions of each episode once, and visit every point when it is reached.

    Parameters
    ----------
    slots
        The slots in which the actions are repeated; their episodes are lost.
    points
        The points, in any order. Their observations are compared, if given.
    visit, on_step
        Called at the points, and then at every decision on the way.
    """
    if not len(points):
        return
    # Points by episode and step, and the actions of all episodes one after the other.
    seeds = np.array([point.seed for point in points], np.int64)
    steps = np.array([point.step for point in points], np.int64)
    order = np.lexsort((steps, seeds))
    point_steps, ordered = steps[order], seeds[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    seeds = ordered[starts]
    first_point = np.r_[starts, len(points)]
    last_points = [points[order[end - 1]] for end in first_point[1:]]
    recorded = np.concatenate([point.actions[: point.step] for point in last_points])
    first_action = np.r_[0, np.cumsum([point.step for point in last_points])]
    # The episode of each row (−1: none), its steps, and the next of its points.
    episode, step, next_point = np.full(slots.n, -1, np.int64), np.zeros(slots.n, np.int64), np.zeros(slots.n, np.int64)
    actions = np.zeros((slots.n, *recorded.shape[1:]), recorded.dtype)
    started = 0
    while True:
        free = np.flatnonzero(episode < 0)[: len(seeds) - started]
        if free.size:
            episodes = np.arange(started, started + free.size)
            slots.start(free, seeds[episodes].tolist())
            episode[free], step[free], next_point[free] = episodes, 0, first_point[episodes]
            started += free.size
        rows = np.flatnonzero(episode >= 0)
        if not rows.size:
            return
        while rows.size:  # several points may belong to one decision
            rows = rows[next_point[rows] < first_point[episode[rows] + 1]]
            rows = rows[point_steps[next_point[rows]] == step[rows]]
            if rows.size:
                numbers = order[next_point[rows]]
                for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                    compare(slots, row, points[number])
                visit(rows, numbers)
                next_point[rows] += 1
        if on_step is not None:
            on_step(step)
        episode[next_point >= first_point[episode + 1]] = -1
        active = episode >= 0
        rows = np.flatnonzero(active)
        if rows.size:
            actions[rows] = recorded[first_action[episode[rows]] + step[rows]]
            slots.step(actions, active)
            step[rows] += 1
            ended_early = active & (slots.terminated | slots.truncated)
            if ended_early.any():
                row = int(np.argmax(ended_early))
                raise differs(int(seeds[episode[row]]), int(step[row]), ENDED)


def compare(slots: Slots, row: int, point: Point) -> None:
    """Raise unless a row shows the recorded observation of a point, to the bit."""
    if point.observation is None:
        return
    agree: list[bool] = []

    def compare_part(shown: NDArray[Any], recorded: Any) -> None:
        agree.append(np.array_equal(shown[row], recorded, equal_nan=shown.dtype.kind == "f"))

    map_arrays(compare_part, slots.seen, point.observation)
    if not all(agree):
        raise differs(point.seed, point.step, "the observation is not the recorded one")


def differs(seed: int, step: int, what: str) -> BranchingError:
    """Return the error for an episode that cannot be repeated."""
    return BranchingError(
        f"the episode with seed {seed} cannot be repeated: after its first {step} actions {what}. "
        "All randomness of an environment must come from self.np_random, seeded by reset(seed=…)."
    )
