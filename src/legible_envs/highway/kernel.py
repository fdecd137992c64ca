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
from legible_envs.compiled import compiled
from legible_envs.highway.driving import command_ego, simulate_frames
from legible_envs.highway.observation import Viewing, observe
from legible_envs.highway.rewards import Rewarding, judge
from legible_envs.highway.roads import Roads
from legible_envs.highway.scratch import Scratch, new_scratch
from legible_envs.highway.spawn import Spawning, renew_traffic, start_episode
from legible_envs.highway.state import RUNNING, STATUS, STEPS, Driving, World

# Orders for an episode: take a step, begin the next one, begin the one of its key, or do nothing.
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
    rules: Rules, world: World, e: int, action: int, order: int, observation: NDArray[np.float32], scratch: Scratch
) -> float:
    """Step or start one episode in place, and return the reward of the step.

    Parameters
    ----------
    rules
        Everything about the environment that never changes.
    world
        The batch of episodes, of which episode `e` is changed; its STATUS then says whether it is over.
    e
        Number of the episode in the batch.
    action
        Number of the policy's action.
    order
        PLAY: take a step. RESTART: begin the next episode. START: begin the episode of the present random stream
        (``world.keys[e]``). LEAVE: do nothing.
    observation
        ``[features]``: what the policy sees afterwards, written in place.
    scratch
        Working memory.
    """
    if order == LEAVE:
        return 0.0
    roads, driving = rules.roads, rules.driving
    motion, marks, episode = world.motion[e], world.marks[e], world.episode[e]
    # A start earns no reward.
    if order != PLAY:
        if order == RESTART:
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
    # New traffic comes after the observation, as in highway-env, so it is first seen in the next step.
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
    orders: NDArray[np.uint8],
    observations: NDArray[np.float32],
    rewards: NDArray[np.float64],
) -> None:
    """Step or start every episode of a batch in place, see `step_row`.

    `actions` and `orders` (PLAY, RESTART, START or LEAVE) are ``[n]``; `observations` ``[n, features]`` and `rewards`
    ``[n]`` are written.
    """
    scratch = new_scratch(world.motion.shape[2])
    for e in range(len(actions)):
        rewards[e] = step_row(rules, world, e, actions[e], orders[e], observations[e], scratch)


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
    orders: NDArray[np.uint8],
    observations: NDArray[np.float32],
    rewards: NDArray[np.float64],
    chunk: int,
) -> None:
    """Step or start every episode of a batch in place on several threads, with the same bits as `step_batch`.

    The first six parameters are the fields of `Rules`, because numba's parallel loops take named tuples of arrays but
    no nested ones. The other arrays are those of `step_batch`, and each thread takes `chunk` episodes at a time.
    """
    n = len(actions)
    n_chunks = (n + chunk - 1) // chunk
    for c in prange(n_chunks):
        rules = Rules(roads, driving, spawning, viewing, rewarding, step_seconds)
        scratch = new_scratch(world.motion.shape[2])  # each chunk has its own working memory
        for e in range(c * chunk, min(n, (c + 1) * chunk)):
            rewards[e] = step_row(rules, world, e, actions[e], orders[e], observations[e], scratch)
