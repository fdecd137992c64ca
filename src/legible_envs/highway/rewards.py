"""Rewards and ends of episodes in each scenario, as highway-env has them.

`judge` is called after the frames of a step have been simulated and the clock has been advanced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible_envs.compiled import compiled, inlined
from legible_envs.highway.roads import LANES, NUMBER, ROAD, Roads, is_on_lane, local_coordinates
from legible_envs.highway.state import (
    COS,
    COUNT,
    CRASHED,
    EGO,
    INTERSECTION,
    LANE,
    MERGE,
    ROUNDABOUT,
    RUNNING,
    SPEED,
    SPEED_INDEX,
    TARGET_LANE,
    TARGET_SPEED,
    TERMINATED,
    TRUNCATED,
    Counters,
    Marks,
    Motion,
    X,
    Y,
)

# Where merge ends, and how far along the way out of the intersection ego has arrived.
_MERGED = 370.0
_ARRIVED = 25.0
# highway-env divides the speed's index by that of its default speeds, whatever the speeds are.
_HIGHEST_SPEED_INDEX = 2


class Rewarding(NamedTuple):
    """The settings that rewards and ends of episodes need."""

    scenario: int
    duration: float
    collision_reward: float
    right_lane_reward: float
    high_speed_reward: float
    lane_change_reward: float
    merging_speed_reward: float
    arrived_reward: float
    slow: float  # the speed that earns nothing
    fast: float  # the speed that earns the whole high_speed_reward
    normalize: bool
    offroad_terminal: bool
    ramp: int  # merge: the lane on which slowness costs
    exits: NDArray[np.bool_]  # intersection: which lanes lead out of it


@compiled
def judge(
    roads: Roads, rewarding: Rewarding, motion: Motion, marks: Marks, episode: Counters, clock: float, action: int
) -> tuple[float, int]:
    """Return the reward of a step and the status of the episode after it, as highway-env does.

    Parameters
    ----------
    roads, rewarding
        The road network; settings, such as the weights of the parts of the reward.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    episode
        ``[N_EPISODE]``: EGO is the column of the vehicle that the policy drives.
    clock
        Seconds since the start of the episode.
    action
        The action by its number in the action space. Numbers 0 and 2 count as lane changes even where they are none.

    Returns
    -------
    The status is RUNNING, TERMINATED, TRUNCATED, or TERMINATED + TRUNCATED when time runs out in the step that ends
    the episode.
    """
    ego = episode[EGO]
    crashed = marks[CRASHED, ego] != 0
    scenario = rewarding.scenario
    # Merging has no time limit: it ends where the road ends.
    if scenario == MERGE:
        reward = _merge_reward(roads, rewarding, motion, marks, episode, action)
        return reward, TERMINATED if crashed or motion[X, ego] > _MERGED else RUNNING
    # Where ego is: s along its lane, r to the right of its middle.
    s, r = local_coordinates(roads, marks[LANE, ego], motion[X, ego], motion[Y, ego])
    on_road = is_on_lane(roads, marks[LANE, ego], s, r, 0.0)
    terminated = crashed
    if scenario == ROUNDABOUT:
        reward = _roundabout_reward(rewarding, episode, crashed, action)
    elif scenario == INTERSECTION:
        arrived = rewarding.exits[marks[LANE, ego]] and s >= _ARRIVED
        reward = _intersection_reward(rewarding, motion[SPEED, ego], crashed, arrived, on_road)
        terminated = terminated or arrived
    else:
        reward = _highway_reward(roads, rewarding, motion, marks, ego, crashed)
    # Off the road nothing is earned. The intersection has seen to that before it normalised the reward.
    if scenario != INTERSECTION and not on_road:
        reward = 0.0
    terminated = terminated or (rewarding.offroad_terminal and not on_road)
    status = RUNNING
    if terminated:
        status += TERMINATED
    if clock >= rewarding.duration:
        status += TRUNCATED
    return reward, status


@inlined
def _share(value: float, low: float, high: float) -> float:
    """Return where a value lies between two others: 0 at the first, 1 at the second."""
    return (value - low) / (high - low)


@inlined
def _clipped_share(value: float, low: float, high: float) -> float:
    """Return where a value lies between two others: 0 at or below the first, 1 at or above the second."""
    return min(max(_share(value, low, high), 0.0), 1.0)


@inlined
def _highway_reward(roads: Roads, rewarding: Rewarding, motion: Motion, marks: Marks, ego: int, crashed: bool) -> float:
    """Return the reward on the highway: for speed and the rightmost lane, less for a crash."""
    lanes = roads.roads[roads.marks[marks[LANE, ego], ROAD], LANES]
    right = roads.marks[marks[TARGET_LANE, ego], NUMBER] / max(lanes - 1, 1)
    speed = _clipped_share(motion[SPEED, ego] * motion[COS, ego], rewarding.slow, rewarding.fast)
    reward = rewarding.right_lane_reward * right + rewarding.high_speed_reward * speed
    if crashed:
        reward += rewarding.collision_reward
    if rewarding.normalize:
        best = rewarding.high_speed_reward + rewarding.right_lane_reward
        reward = _share(reward, rewarding.collision_reward, best)
    return reward


@inlined
def _merge_reward(
    roads: Roads, rewarding: Rewarding, motion: Motion, marks: Marks, episode: Counters, action: int
) -> float:
    """Return the reward in merge: for speed and the right lane, less for crashes, lane changes and slow merging cars.

    Parameters
    ----------
    roads, rewarding
        The road network; settings, such as the weights of the parts of the reward.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    episode
        ``[N_EPISODE]``: EGO is the column of the vehicle that the policy drives, COUNT the number of vehicles.
    action
        The action by its number; 0 and 2 count as lane changes.
    """
    ego = episode[EGO]
    # How far vehicles on the ramp stay below their target speeds, as shares of these.
    slowness = 0.0
    for i in range(episode[COUNT]):
        if marks[LANE, i] == rewarding.ramp:
            slowness += (motion[TARGET_SPEED, i] - motion[SPEED, i]) / motion[TARGET_SPEED, i]
    reward = (
        rewarding.right_lane_reward * roads.marks[marks[LANE, ego], NUMBER]
        + rewarding.high_speed_reward * _share(motion[SPEED, ego], rewarding.slow, rewarding.fast)
        + rewarding.merging_speed_reward * slowness
    )
    if marks[CRASHED, ego]:
        reward += rewarding.collision_reward
    if action in (0, 2):
        reward += rewarding.lane_change_reward
    # Normalised between the worst and the best reward.
    worst = rewarding.collision_reward + rewarding.merging_speed_reward
    return _share(reward, worst, rewarding.high_speed_reward + rewarding.right_lane_reward)


@inlined
def _roundabout_reward(rewarding: Rewarding, episode: Counters, crashed: bool, action: int) -> float:
    """Return the reward in the roundabout: for speed, less for crashes and lane changes (actions 0 and 2)."""
    reward = rewarding.high_speed_reward * (episode[SPEED_INDEX] / _HIGHEST_SPEED_INDEX)
    if crashed:
        reward += rewarding.collision_reward
    if action in (0, 2):
        reward += rewarding.lane_change_reward
    if rewarding.normalize:
        reward = _share(reward, rewarding.collision_reward, rewarding.high_speed_reward)
    return reward


@inlined
def _intersection_reward(rewarding: Rewarding, speed: float, crashed: bool, arrived: bool, on_road: bool) -> float:
    """Return the reward at the intersection: for speed, less for a crash; a fixed one on arrival, none off the road."""
    reward = rewarding.high_speed_reward * _clipped_share(speed, rewarding.slow, rewarding.fast)
    if crashed:
        reward += rewarding.collision_reward
    if arrived:
        reward = rewarding.arrived_reward
    if not on_road:
        reward = 0.0
    if rewarding.normalize:
        reward = _share(reward, rewarding.collision_reward, rewarding.arrived_reward)
    return reward
