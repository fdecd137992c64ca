"""Steps and starts of whole batches, compiled.

A step of an episode: simulate its frames, advance the clock, look, judge, and let traffic come and go. The order is
highway-env's; what comes and goes is first seen in the step after.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from legible.streams import next_key
from legible_envs.highway.compiled import compiled
from legible_envs.highway.driving import command_ego, simulate_frames
from legible_envs.highway.observation import Viewing, observe
from legible_envs.highway.rewards import Rewarding, judge
from legible_envs.highway.roads import Roads
from legible_envs.highway.scratch import Scratch, new_scratch
from legible_envs.highway.spawn import Spawning, renew_traffic, start_episode
from legible_envs.highway.state import RUNNING, STATUS, STEPS, Driving, World

# What a step does with an episode: play on, begin the next one, begin the one of its key, or nothing.
PLAY, RESTART, START, LEAVE = 0, 1, 2, 3


class Rules(NamedTuple):
    """Everything about an environment that never changes."""

    roads: Roads
    driving: Driving
    spawning: Spawning
    viewing: Viewing
    rewarding: Rewarding
    step_seconds: float


@compiled
def step_row(
    rules: Rules,
    world: World,
    e: int,
    action: int,
    what: int,
    observation: NDArray[np.float32],
    scratch: Scratch,
) -> float:
    """Do with episode e what `what` says, and return the reward; how the episode stands then is in its STATUS."""
    if what == LEAVE:
        return 0.0
    roads, driving = rules.roads, rules.driving
    motion, marks, episode = world.motion[e], world.marks[e], world.episode[e]
    if what != PLAY:
        if what == RESTART:
            world.keys[e] = next_key(world.keys[e])
        start_episode(roads, driving, rules.spawning, motion, marks, episode, world.keys[e], scratch)
        world.clock[e] = 0.0
        observe(roads, rules.viewing, motion, marks, episode, observation, scratch)
        return 0.0
    command_ego(roads, driving, motion, marks, episode, driving.ego_actions[action])
    simulate_frames(roads, driving, motion, marks, episode, driving.frames, scratch)
    world.clock[e] += rules.step_seconds
    episode[STEPS] += 1
    observe(roads, rules.viewing, motion, marks, episode, observation, scratch)
    reward, status = judge(roads, rules.rewarding, motion, marks, episode, world.clock[e], action)
    episode[STATUS] = status
    if status == RUNNING:
        renew_traffic(roads, rules.spawning, motion, marks, episode, world.keys[e])
    return reward


@njit(cache=True, nogil=True)
def observe_batch(rules: Rules, world: World, rows: NDArray[np.intp], observations: NDArray[np.float32]) -> None:
    """Look again in some episodes."""
    scratch = new_scratch(world.motion.shape[2])
    for e in rows:
        motion, marks, episode = world.motion[e], world.marks[e], world.episode[e]
        observe(rules.roads, rules.viewing, motion, marks, episode, observations[e], scratch)


@njit(cache=True, nogil=True)
def step_batch(
    rules: Rules,
    world: World,
    actions: NDArray[np.int64],
    what: NDArray[np.uint8],
    observations: NDArray[np.float32],
    rewards: NDArray[np.float64],
) -> None:
    """Step every episode: `what` says PLAY, RESTART, START or LEAVE."""
    scratch = new_scratch(world.motion.shape[2])
    for e in range(len(actions)):
        rewards[e] = step_row(rules, world, e, actions[e], what[e], observations[e], scratch)


@njit(cache=True, nogil=True, parallel=True)
def step_batch_in_parallel(
    roads: Roads,
    driving: Driving,
    spawning: Spawning,
    viewing: Viewing,
    rewarding: Rewarding,
    step_seconds: float,
    world: World,
    actions: NDArray[np.int64],
    what: NDArray[np.uint8],
    observations: NDArray[np.float32],
    rewards: NDArray[np.float64],
    chunk: int,
) -> None:
    """As `step_batch`, on several threads; episodes are independent, so both give the same bits.

    Numba's parallel loops take named tuples of arrays but no nested ones, so the rules come in parts.
    """
    n = len(actions)
    for c in prange((n + chunk - 1) // chunk):
        rules = Rules(roads, driving, spawning, viewing, rewarding, step_seconds)
        scratch = new_scratch(world.motion.shape[2])
        for e in range(c * chunk, min(n, (c + 1) * chunk)):
            rewards[e] = step_row(rules, world, e, actions[e], what[e], observations[e], scratch)
