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
    """Repeat the recorded actions of episodes, each episode once, and call `visit` whenever a point is reached.

    - `slots`: the slots in which the actions are repeated, one row of arrays per slot; their present episodes are lost.
    - `points`: visited states to return to, in any order: seed, step, and the actions of the episode until then. If a
      point has its observation, it is compared with the one that is reached.
    - `visit`: called with the rows that have reached a point, and the positions of these points in `points`.
    - `on_step`: called before every step, after `visit`, with the number of steps that each row has taken.
    """
    if not len(points):
        return
    # Sort the points by episode (seed) and step. `order` holds their positions in `points`.
    seeds = np.array([point.seed for point in points], np.int64)
    steps = np.array([point.step for point in points], np.int64)
    order = np.lexsort((steps, seeds))
    point_steps, point_seeds = steps[order], seeds[order]

    # Episode e has the points first_point[e] up to first_point[e + 1]. Its final point has all actions that are needed.
    first_of_episode = np.flatnonzero(np.r_[True, point_seeds[1:] != point_seeds[:-1]])
    episode_seeds = point_seeds[first_of_episode]
    first_point = np.r_[first_of_episode, len(points)]
    final_points = [points[order[end - 1]] for end in first_point[1:]]
    recorded_actions = np.concatenate([point.actions[: point.step] for point in final_points])
    first_action = np.r_[0, np.cumsum([point.step for point in final_points])]

    # For each row: the number of its episode (−1: none), the steps taken in it, and its next point.
    episode = np.full(slots.n, -1, np.int64)
    step, next_point = np.zeros(slots.n, np.int64), np.zeros(slots.n, np.int64)
    actions = np.zeros((slots.n, *recorded_actions.shape[1:]), recorded_actions.dtype)
    n_started = 0
    while True:
        # Start the next episodes in rows without one.
        free_rows = np.flatnonzero(episode < 0)[: len(episode_seeds) - n_started]
        if free_rows.size:
            episodes = np.arange(n_started, n_started + free_rows.size)
            slots.start(free_rows, episode_seeds[episodes].tolist())
            episode[free_rows], step[free_rows], next_point[free_rows] = episodes, 0, first_point[episodes]
            n_started += free_rows.size
        rows = np.flatnonzero(episode >= 0)
        if not rows.size:
            return

        # Visit the points at which rows have arrived; `compare` raises an error if the observation is another one.
        # Several points may be the same state of an episode.
        while rows.size:
            rows = rows[next_point[rows] < first_point[episode[rows] + 1]]
            rows = rows[point_steps[next_point[rows]] == step[rows]]
            if rows.size:
                reached = order[next_point[rows]]
                for row, reached_point in zip(rows.tolist(), reached.tolist(), strict=True):
                    compare(slots, row, points[reached_point])
                visit(rows, reached)
                next_point[rows] += 1
        if on_step is not None:
            on_step(step)

        # Rows whose episode has no further points become free; the others take their next recorded action.
        episode[next_point >= first_point[episode + 1]] = -1
        active = episode >= 0
        rows = np.flatnonzero(active)
        if rows.size:
            actions[rows] = recorded_actions[first_action[episode[rows]] + step[rows]]
            slots.step(actions, active)
            step[rows] += 1
            ended_early = active & (slots.terminated | slots.truncated)
            if ended_early.any():
                row = int(np.argmax(ended_early))
                raise differs(int(episode_seeds[episode[row]]), int(step[row]), ENDED)


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
