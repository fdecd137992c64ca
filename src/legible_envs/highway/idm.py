"""The driving of other vehicles than ego, compiled: IDM along the lane, MOBIL across lanes.

- `decide`: lane, steering and acceleration of one vehicle for the next frame.
- `free_acceleration`, `interaction`, `desired_gap`: the terms of IDM.
- `should_change`: MOBIL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible_envs.highway.compiled import compiled, inlined
from legible_envs.highway.neighbours import NO_VEHICLE, neighbours
from legible_envs.highway.roads import LANES, NUMBER, ROAD, SPEED_LIMIT, Roads, is_reachable, longitudinal_of
from legible_envs.highway.scratch import Scratch
from legible_envs.highway.state import (
    ACCELERATION,
    ANY_LANE,
    COS,
    EXPONENT,
    LANE,
    ROUTE_LANE,
    ROUTE_LENGTH,
    SIN,
    SLIP,
    SPEED,
    TARGET_LANE,
    TARGET_SPEED,
    TIMER,
    Driving,
    X,
    Y,
)
from legible_envs.highway.steering import follow_road, not_zero, steer

_MAX_ACCELERATION = 6.0
_TIME_WANTED = 1.5
_LANE_CHANGE_DELAY = 1.0
_MAX_BRAKING_IMPOSED = 2.0
_MIN_GAIN = 0.2


@inlined
def decide(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    i: int,
    scratch: Scratch,
) -> None:
    """Let another driver than ego choose lane, steering and acceleration."""
    follow_road(roads, motion, marks, i)
    _choose_lane(roads, driving, motion, marks, count, i, scratch)
    lane, target = marks[LANE, i], marks[TARGET_LANE, i]
    motion[SLIP, i] = steer(roads, motion, i, target)
    free = free_acceleration(roads, driving, motion, marks, i, motion[EXPONENT, i])
    front, _ = neighbours(roads, motion, count, i, lane, scratch)
    acceleration = free - interaction(roads, driving, motion, marks, count, i, front)
    if lane != target:
        front, _ = neighbours(roads, motion, count, i, target, scratch)
        acceleration = min(acceleration, free - interaction(roads, driving, motion, marks, count, i, front))
    motion[ACCELERATION, i] = min(max(acceleration, -_MAX_ACCELERATION), _MAX_ACCELERATION)


@inlined
def free_acceleration(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    i: int,
    exponent: float,
) -> float:
    """IDM's acceleration of vehicle i on an empty road."""
    limit = roads.lanes[marks[LANE, i], SPEED_LIMIT]
    target = min(max(motion[TARGET_SPEED, i], 0.0), limit)
    share = max(motion[SPEED, i], 0.0) / abs(not_zero(target))
    return driving.comfort_acceleration * (1.0 - share**exponent)


@inlined
def desired_gap(driving: Driving, motion: NDArray[np.float64], i: int, front_vx: float, front_vy: float) -> float:
    """IDM's distance wanted between vehicle i and one in front that has this velocity."""
    speed, cos, sin = motion[SPEED, i], motion[COS, i], motion[SIN, i]
    closing = (speed * cos - front_vx) * cos + (speed * sin - front_vy) * sin
    braking = 2 * np.sqrt(-driving.comfort_acceleration * driving.comfort_braking)
    return driving.distance_wanted + speed * _TIME_WANTED + speed * closing / braking


@inlined
def _how_far_ahead(roads: Roads, motion: NDArray[np.float64], i: int, lane: int, x: float, y: float) -> float:
    """From vehicle i to a place, along a lane."""
    return longitudinal_of(roads, lane, x, y) - longitudinal_of(roads, lane, motion[X, i], motion[Y, i])


@inlined
def interaction(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    i: int,
    front: int,
) -> float:
    """Return how hard IDM brakes vehicle i for `front`: none (-1), a vehicle, or (from `count` on) an obstacle."""
    if front == NO_VEHICLE:
        return 0.0
    x, y, vx, vy = 0.0, 0.0, 0.0, 0.0
    if front < count:
        x, y = motion[X, front], motion[Y, front]
        vx, vy = motion[SPEED, front] * motion[COS, front], motion[SPEED, front] * motion[SIN, front]
    else:
        x, y = roads.obstacles[front - count, 0], roads.obstacles[front - count, 1]
    distance = _how_far_ahead(roads, motion, i, marks[LANE, i], x, y)
    ratio = desired_gap(driving, motion, i, vx, vy) / not_zero(distance)
    return driving.comfort_acceleration * (ratio * ratio)


@inlined
def _choose_lane(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    i: int,
    scratch: Scratch,
) -> None:
    """Give up a change of lanes that another vehicle is making too; once a second, think about a new one."""
    lane, target = marks[LANE, i], marks[TARGET_LANE, i]
    if lane != target:
        if roads.marks[lane, ROAD] == roads.marks[target, ROAD] and _is_contested(
            roads, driving, motion, marks, count, i
        ):
            marks[TARGET_LANE, i] = lane
        return
    if not motion[TIMER, i] > _LANE_CHANGE_DELAY:
        return
    motion[TIMER, i] = 0.0
    if abs(motion[SPEED, i]) < 1.0:
        return
    number, road = roads.marks[lane, NUMBER], roads.marks[lane, ROAD]
    # Left first, then right: where both are better, right it is.
    for side in (-1, 1):
        if (
            0 <= number + side < roads.roads[road, LANES]
            and is_reachable(roads, lane + side, motion[X, i], motion[Y, i])
            and should_change(roads, driving, motion, marks, count, i, lane + side, scratch)
        ):
            marks[TARGET_LANE, i] = lane + side


@compiled
def _is_contested(
    roads: Roads, driving: Driving, motion: NDArray[np.float64], marks: NDArray[np.int32], count: int, i: int
) -> bool:
    """Return whether another vehicle, close in front, is changing to the same lane as vehicle i."""
    lane, target = marks[LANE, i], marks[TARGET_LANE, i]
    for j in range(count):
        if j == i or marks[TARGET_LANE, j] != target or marks[LANE, j] == target:
            continue
        distance = _how_far_ahead(roads, motion, i, lane, motion[X, j], motion[Y, j])
        if distance > 0:
            vx, vy = motion[SPEED, j] * motion[COS, j], motion[SPEED, j] * motion[SIN, j]
            if distance < desired_gap(driving, motion, i, vx, vy):
                return True
    return False


@compiled
def should_change(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    i: int,
    lane: int,
    scratch: Scratch,
) -> bool:
    """MOBIL: whether changing to a lane is safe for the one behind there and better for vehicle i (politeness is 0)."""
    exponent = motion[EXPONENT, i]
    preceding, following = neighbours(roads, motion, count, i, lane, scratch)
    if following != NO_VEHICLE and following < count:
        braking = free_acceleration(roads, driving, motion, marks, following, exponent) - interaction(
            roads, driving, motion, marks, count, following, i
        )
        if braking < -_MAX_BRAKING_IMPOSED:
            return False
    free = free_acceleration(roads, driving, motion, marks, i, exponent)
    then = free - interaction(roads, driving, motion, marks, count, i, preceding)
    if marks[ROUTE_LENGTH, i] > 0 and marks[ROUTE_LANE, i] != ANY_LANE:
        here = roads.marks[marks[TARGET_LANE, i], NUMBER]
        wrong_way = np.sign(roads.marks[lane, NUMBER] - here) != np.sign(marks[ROUTE_LANE, i] - here)
        return not wrong_way and not then < -_MAX_BRAKING_IMPOSED
    old_preceding, _ = neighbours(roads, motion, count, i, marks[LANE, i], scratch)
    now = free - interaction(roads, driving, motion, marks, count, i, old_preceding)
    return not then - now < _MIN_GAIN
