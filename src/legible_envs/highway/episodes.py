"""A batch of driving episodes in arrays: what both environments share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.features import Action, FeatureSpace
from legible.streams import check_seed, key_of_seed
from legible_envs.highway import kernel
from legible_envs.highway.features import WORDS_OF_ACTIONS, highway_features
from legible_envs.highway.render import is_straight
from legible_envs.highway.settings import HighwayError, HighwaySettings
from legible_envs.highway.state import (
    COUNT,
    CRASHED,
    EGO,
    INTERSECTION,
    LANE,
    RUNNING,
    STATUS,
    TERMINATED,
    TRUNCATED,
    new_world,
)

# Columns of an observation that lie between these bounds even where they are not normalised.
_BOUNDS = {
    "presence": (0.0, 1.0),
    "cos_h": (-1.0, 1.0),
    "sin_h": (-1.0, 1.0),
    "cos_d": (-1.0, 1.0),
    "sin_d": (-1.0, 1.0),
}


@dataclass(frozen=True)
class HighwayState:
    """The whole state of an episode: its rows of `state.World`, cut to the vehicles that are there."""

    motion: NDArray[np.float64]
    marks: NDArray[np.int32]
    episode: NDArray[np.int64]
    clock: float
    key: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HighwayState):
            return NotImplemented
        return (
            np.array_equal(self.motion, other.motion)
            and np.array_equal(self.marks, other.marks)
            and np.array_equal(self.episode, other.episode)
            and (self.clock, self.key) == (other.clock, other.key)
        )

    def __hash__(self) -> int:
        return hash((self.motion.tobytes(), self.marks.tobytes(), self.episode.tobytes(), self.clock, self.key))


class Episodes:
    """A batch of n episodes of one scenario; results do not depend on the number of threads that step it."""

    def __init__(self, n: int, settings: HighwaySettings, threads: int = 1) -> None:
        """Make room for n episodes, which begin at the first call of `start`; `threads` step them together."""
        max_threads = int(getattr(numba.config, "NUMBA_NUM_THREADS", 1))
        if not 1 <= threads <= max_threads:
            raise HighwayError(f"threads must be 1…{max_threads} on this machine, got {threads}.")
        self.settings = settings
        self.threads = min(threads, n)
        self.road_map = settings.roads()
        # Everything that the compiled kernels need and that never changes.
        self.rules = kernel.Rules(
            self.road_map.tables,
            settings.driving(),
            settings.spawning(),
            settings.viewing(),
            settings.rewarding(),
            1 / settings.policy_frequency,
        )
        observation = settings.observation
        self.feature_space: FeatureSpace = highway_features(
            observation.vehicles_count,
            observation.features,
            tuple(Action(name, WORDS_OF_ACTIONS[name]) for name in settings.action_names),
            absolute=observation.absolute,
            straight=is_straight(self.road_map.tables),
            ranges=settings.ranges,
        )
        # Everything that changes: the vehicles of n episodes. Without a seed, every episode gets a random one.
        self.world = new_world(n, settings.capacity)
        self.world.keys[:] = np.random.SeedSequence().generate_state(n, np.uint64)
        # No vehicle drives before the first reset.
        self.world.episode[:, STATUS] = TERMINATED
        self.observations = np.zeros((n, len(self.feature_space)), np.float32)
        self.rewards = np.zeros(n, np.float64)

    def start(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        """Begin new episodes where `mask` is set; without a seed the episode's own stream moves on."""
        orders = np.where(mask, kernel.RESTART, kernel.LEAVE).astype(np.uint8)
        for i in np.flatnonzero(mask).tolist():
            seed = seeds[i]
            if seed is not None:
                self.world.keys[i] = key_of_seed(np.uint64(check_seed(seed) % 2**64))
                orders[i] = kernel.START
        self.step(np.zeros(len(orders), np.int64), orders)

    def step(self, actions: NDArray[np.int64], orders: NDArray[np.uint8]) -> None:
        """Step every episode; `orders` says for each whether to PLAY, RESTART, START or LEAVE it (see `kernel`)."""
        if self.threads == 1:
            kernel.step_batch(self.rules, self.world, actions, orders, self.observations, self.rewards)
            return
        before = numba.get_num_threads()
        numba.set_num_threads(self.threads)
        # A few chunks a thread even out that some episodes take longer than others.
        chunk = max(1, len(actions) // (4 * self.threads))
        kernel.step_batch_in_parallel(*self.rules, self.world, actions, orders, self.observations, self.rewards, chunk)
        numba.set_num_threads(before)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All that the course of the episodes depends on, and what they show.

        New traffic appears after a step has been seen, so observations do not follow from the rest.
        """
        return *self.world, self.observations

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The random stream of each episode."""
        return self.world.keys

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Flags of the episodes that terminated."""
        return (self.world.episode[:, STATUS] & TERMINATED) != 0

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Flags of the episodes that ran out of time."""
        return (self.world.episode[:, STATUS] & TRUNCATED) != 0

    @property
    def over(self) -> NDArray[np.bool_]:
        """Flags of the episodes that are over or have not begun."""
        return self.world.episode[:, STATUS] != RUNNING

    def crashed(self) -> NDArray[np.bool_]:
        """In which episodes ego has crashed."""
        rows = np.arange(len(self.rewards))
        return self.world.marks[rows, CRASHED, self.world.episode[:, EGO]] != 0

    def succeeded(self) -> NDArray[np.bool_]:
        """Flags of finished episodes that ended well: without a crash and, at the intersection, on arrival."""
        if self.settings.kind != INTERSECTION:
            return ~self.crashed()
        rows = np.arange(len(self.rewards))
        lanes = self.world.marks[rows, LANE, self.world.episode[:, EGO]]
        return ~self.crashed() & self.terminated & self.rules.rewarding.exits[lanes]

    def state(self, i: int) -> HighwayState:
        """Copy the state of episode i."""
        world = self.world
        count = int(world.episode[i, COUNT])
        return HighwayState(
            world.motion[i, :, :count].copy(),
            world.marks[i, :, :count].copy(),
            world.episode[i].copy(),
            float(world.clock[i]),
            int(world.keys[i]),
        )

    def set_state(self, i: int, state: HighwayState) -> None:
        """Put episode i into a state of the same scenario."""
        world, count = self.world, int(state.episode[COUNT])
        self._check_state(state, count)
        world.motion[i, :, :count] = state.motion
        world.marks[i, :, :count] = state.marks
        world.episode[i] = state.episode
        world.clock[i] = state.clock
        world.keys[i] = state.key
        kernel.observe_batch(self.rules, world, np.array([i]), self.observations)

    def _check_state(self, state: HighwayState, count: int) -> None:
        rows = (self.world.motion.shape[1], self.world.marks.shape[1])
        if (*state.motion.shape, *state.marks.shape) != (rows[0], count, rows[1], count):
            raise HighwayError(
                f"the state's arrays {state.motion.shape}, {state.marks.shape} are not of {count} vehicles."
            )
        if not 1 <= count <= self.world.motion.shape[2] or not 0 <= state.episode[EGO] < count:
            raise HighwayError(
                f"there is room for 1…{self.world.motion.shape[2]} vehicles, ego among them, got {count}."
            )
        lanes = state.marks[:2]
        if lanes.min() < 0 or lanes.max() >= len(self.road_map.lane_names):
            raise HighwayError("the state has lanes that these roads do not have; it is of another scenario.")

    def observation_box(self) -> spaces.Space[NDArray[np.float32]]:
        """Bounds of the observation: -1 and 1 where columns are normalised and cut off there."""
        observation = self.settings.observation
        bounds = dict(_BOUNDS)
        if observation.clip:
            bounds |= dict.fromkeys(self.settings.ranges or (), (-1.0, 1.0))
        pairs = [bounds.get(name, (-np.inf, np.inf)) for name in observation.features]
        low, high = np.array(pairs * observation.vehicles_count, np.float32).T
        return cast("spaces.Space[NDArray[np.float32]]", spaces.Box(low, high, dtype=np.float32))
