"""Trying out which method of branching works for an environment.

- `find_branching_method`: finds the fastest `BranchingMethod` that reproduces a recording to the bit.
- `can_copy_rows`: whether an environment supports the fastest method, without trying.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.engines import LocalProcesses, UnitFailedError, run_one
from legible.environments import Env, EnvironmentSpec, as_environment, check_policy_spaces, choice_sizes, map_arrays
from legible.errors import LegibleError
from legible.play.acting import RandomChooser
from legible.play.branching.generators import can_reseed, holds_module
from legible.play.branching.own_state import own_state
from legible.play.branching.points import BranchingError, Point
from legible.play.branching.ways import WAYS, Branching, Way, make_branching
from legible.play.slots import BatchSlots, Slots, SpaceSlots, make_space_slots, open_environment

MOST_STEPS, MOST_SECONDS = 250, 2.0  # of the recorded episode
STEPS_ON = 50  # compared from each of its points on
CHILD_SECONDS = 60.0

Futures = Literal["random", "nothing random", "cannot be reseeded"]
"""New futures differ; are all the same, because nothing is random after the start; or are not available."""


@dataclass(frozen=True)
class BranchingMethod:
    """The method of branching that works for an environment."""

    way: Way | None  # one of `legible.play.WAYS`; None if none works
    futures: Futures  # whether new futures differ, in the episode that was tried
    problem: str = ""  # why no method works, or why no faster one

    def __str__(self) -> str:
        if self.way is None:
            return self.problem
        futures = {
            "random": "new futures differ",
            "nothing random": "nothing is random after the start",
            "cannot be reseeded": "new futures are not available",
        }[self.futures]
        return f"{WAYS[self.way]}; {futures}"


def find_branching_method(
    environment: str | EnvironmentSpec | Env, *, seed: int = 0, time_limit: float | None = None
) -> BranchingMethod:
    """Return the fastest method of branching that works for an environment.

    Branching continues several times from a visited state, to compare actions there. To try the methods, one episode of
    random actions is recorded. Each method, fastest first, then repeats the actions from some points of the episode:
    observations and rewards must equal the recorded ones to the bit, also if another episode continues from the same
    state in between. Copies are tried in a separate process, because some environments crash.

    Environment objects are never copied, because other code may hold them. `time_limit` is the maximum of seconds per
    method, for environments that hang; all methods are then tried in another process.
    """
    spec_or_env = as_environment(environment)
    if not isinstance(spec_or_env, EnvironmentSpec):
        return _first_that_works(spec_or_env, seed, None)
    return _first_for_spec(spec_or_env, seed, time_limit)  # remembered: equal specifications need one search


def _first_that_works(environment: EnvironmentSpec | Env, seed: int, time_limit: float | None) -> BranchingMethod:
    problems: list[str] = []
    for way in _candidates(environment):
        try:
            if way == "copy" or time_limit is not None:
                with LocalProcesses(1) as engine:
                    futures = run_one(engine, try_way, environment, (way, seed), time_limit or CHILD_SECONDS)
            else:
                futures = try_way(environment, (way, seed))
        except UnitFailedError as error:
            problems.append(f"{way}: {error}")
        except LegibleError as error:
            problems.append(str(error))
        else:
            return BranchingMethod(way, futures, " ".join(problems))
    return BranchingMethod(None, "cannot be reseeded", problems[-1])


_first_for_spec = lru_cache(maxsize=64)(_first_that_works)


def _candidates(environment: EnvironmentSpec | Env) -> list[Way]:
    if can_copy_rows(environment):
        return ["rows"]
    with open_environment(environment) as env:
        ways: list[Way] = ["own state"] if own_state(env) is not None else []
        if isinstance(environment, EnvironmentSpec):
            with suppress(Exception):  # reported where the methods are tried
                env.reset(seed=0)
            # Box2D crashes in the first step after a copy.
            ways += [] if holds_module(env, "Box2D") else ["copy"]
        return [*ways, "replay"]


def can_copy_rows(environment: EnvironmentSpec | Env) -> bool:
    """Return whether an environment has a native batch whose rows can be copied, so that branching is fast."""
    with _opened_slots(environment, "rows") as slots:
        return slots is not None


@contextmanager
def _opened_slots(environment: EnvironmentSpec | Env, way: Way) -> Iterator[Slots | None]:
    """Yield two slots: of the native batch for "rows" (None if there is none), else of single environments."""
    if way == "rows":
        batch = environment.make_batch(2) if isinstance(environment, EnvironmentSpec) else None
        slots: Any = None if batch is None else BatchSlots(batch)
        if slots is not None and not slots.can_copy:
            slots.close()
            slots = None
    else:
        slots = make_space_slots(environment, 2)
        check_policy_spaces(slots.observation_space, slots.action_space)
    try:
        yield slots
    finally:
        if slots is not None and isinstance(environment, EnvironmentSpec):
            slots.close()


@dataclass(frozen=True)
class _Recorded:
    """One recorded episode of random actions."""

    seed: int
    actions: NDArray[Any]
    observations: Sequence[Any]  # one more than actions
    rewards: Sequence[float]
    over: Sequence[bool]


def try_way(environment: EnvironmentSpec | Env, way_and_seed: tuple[Way, int]) -> Futures:
    """Return whether an environment has random futures that a branching method can draw anew.

    The method (way) is tried on an episode of random actions: `BranchingError` is raised if it does not reproduce it.
    The answer is ``"random"`` if other random numbers lead to other futures, ``"nothing random"`` if they do not, and
    ``"cannot be reseeded"`` if the method cannot change the random numbers.
    """
    way, seed = way_and_seed
    with _opened_slots(environment, way) as slots:
        if slots is None:
            raise BranchingError("the environment has no native batch whose rows can be copied.")
        recorded = _record(slots, seed)
        branching = make_branching(slots, way)
        n_steps = len(recorded.actions)

        # Save the states at three points of the episode: at the start, after a third, and near the end.
        steps = sorted({0, n_steps // 3, max(0, n_steps - STEPS_ON // 2)} - {n_steps})
        points = [Point(seed, step, recorded.actions, recorded.observations[step]) for step in steps]
        states = branching.visit(points)
        # Continue from each with the recorded actions: observations and rewards must be the recorded ones, or
        # `_repeat` raises an error.
        for i, point in enumerate(points):
            state = states[np.array([i])]  # states are indexed by arrays, like their columns
            _repeat(branching, state, point, recorded)
            _repeat(branching, state, point, recorded)  # again: the saved state must not have changed

        # Continue from each with three other seeds, and see whether anything differs. Copied rows can always be
        # reseeded; an environment only if its random generators can be reached.
        if way != "rows" and not can_reseed(slots.environments[0]):  # type: ignore[attr-defined]
            return "cannot be reseeded"
        for i, point in enumerate(points):
            state = states[np.array([i])]
            futures = {_new_future(branching, state, point, recorded, seed=1 + attempt) for attempt in range(3)}
            if len(futures) > 1:
                return "random"
        return "nothing random"


def _record(slots: Slots, seed: int) -> _Recorded:
    """Record an episode of random actions in row 0, long enough to meet the usual time limits."""
    rng = np.random.default_rng(seed)
    chooser = RandomChooser(slots, seed) if isinstance(slots, SpaceSlots) or slots.masks is not None else None
    slots.start(np.array([0]), [seed])
    active = np.arange(slots.n) == 0
    actions: list[NDArray[Any]] = []
    seen, rewards, over = [_shown(slots, 0)], [], [False]
    deadline = math.inf  # counted from the first step on, which may have to compile code
    while not over[-1] and len(actions) < MOST_STEPS and time.monotonic() < deadline:
        zeros = np.zeros(slots.n, np.int64)
        chosen = rng.integers(slots.n_actions, size=slots.n) if chooser is None else chooser(None, zeros, zeros)[0]
        slots.step(chosen, active)
        actions.append(np.array(chosen[0]))
        seen.append(_shown(slots, 0))
        rewards.append(float(slots.rewards[0]))
        over.append(bool(slots.terminated[0] or slots.truncated[0]))
        deadline = min(deadline, time.monotonic() + MOST_SECONDS)
    return _Recorded(seed, np.array(actions), seen, rewards, over[1:])


def _shown(slots: Slots, row: int) -> Any:
    return map_arrays(lambda column: column[row].copy(), slots.observations)


def _same(observation: Any, recorded: Any) -> bool:
    agree: list[bool] = []
    map_arrays(lambda shown, expected: agree.append(shown.tobytes() == expected.tobytes()), observation, recorded)
    return all(agree)


def _repeat(branching: Branching, state: Any, point: Point, recorded: _Recorded) -> None:
    """Repeat the recording from a point, while the last row continues differently from the same point."""
    slots = branching.slots
    last = slots.n - 1
    for row in dict.fromkeys((0, last)):
        branching.start(np.array([row]), state, future="same")
    last_plays = last > 0  # until its own episode ends; with a single slot there is no other row
    for step in range(point.step, min(point.step + STEPS_ON, len(recorded.actions))):
        if not _same(_shown(slots, 0), recorded.observations[step]):
            raise _differs_from_recording(recorded.seed, point.step, step)
        actions = np.repeat(recorded.actions[step][None], slots.n, axis=0)
        if last:
            actions[last] = _within_mask(slots, last, recorded.actions[point.step])
        slots.step(actions, np.array([row == 0 or (last_plays and row == last) for row in range(slots.n)]))
        last_plays = last_plays and not (slots.terminated[last] or slots.truncated[last])
        is_over = bool(slots.terminated[0] or slots.truncated[0])
        agrees = float(slots.rewards[0]) == recorded.rewards[step] and is_over == recorded.over[step]
        if not agrees or not _same(_shown(slots, 0), recorded.observations[step + 1]):
            raise _differs_from_recording(recorded.seed, point.step, step + 1)


def _new_future(branching: Branching, state: Any, point: Point, recorded: _Recorded, seed: int) -> bytes:
    """Return the observations and rewards of the recorded actions in a new future, as bytes."""
    slots = branching.slots
    branching.start(np.array([0]), state, future="new", seeds=[seed])
    active = np.arange(slots.n) == 0
    seen: list[bytes] = []
    for step in range(point.step, min(point.step + STEPS_ON, len(recorded.actions))):
        action = _within_mask(slots, 0, recorded.actions[step])
        slots.step(np.repeat(action[None], slots.n, axis=0), active)
        map_arrays(lambda column: seen.append(column[0].tobytes()), slots.observations)
        seen.append(np.float64(slots.rewards[0]).tobytes())
        if slots.terminated[0] or slots.truncated[0]:
            break
    return b"".join(seen)


def _within_mask(slots: Slots, row: int, action: NDArray[Any]) -> NDArray[Any]:
    """Return an action with the first allowed value in the place of masked ones."""
    if slots.masks is None:
        return action
    parts = np.split(slots.masks[row], np.cumsum(choice_sizes(slots.action_space))[:-1])
    values = [v if part[v] else part.argmax() for v, part in zip(np.ravel(action).tolist(), parts, strict=True)]
    return np.array(values, action.dtype).reshape(action.shape)


def _differs_from_recording(seed: int, point: int, step: int) -> BranchingError:
    return BranchingError(
        f"from step {point} on, the same actions do not give the same episode (seed {seed}, step {step}). Draw all "
        "random numbers from self.np_random, which reset(seed=…) seeds, and keep no state outside the environment."
    )
