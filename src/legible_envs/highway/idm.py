"""The driving of other vehicles than ego, compiled: IDM along the lane, MOBIL across lanes.

- `decide`: lane, steering and acceleration of one vehicle for the next frame.
- `free_acceleration`, `interaction`, `desired_gap`: the terms of IDM.
- `should_change`: MOBIL.
"""

from __future__ import annotations

import numpy as np

from legible_envs.compiled import compiled, inlined
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
    Marks,
    Motion,
    X,
    Y,
)
from legible_envs.highway.steering import follow_road, not_zero, steer

# As in highway-env, in metres and seconds.
_MAX_ACCELERATION = 6.0
_TIME_WANTED = 1.5  # distance in time to the vehicle in front
_LANE_CHANGE_DELAY = 1.0  # between two considerations of a lane change
_MAX_BRAKING_IMPOSED = 2.0  # on the vehicle behind, by a lane change
_MIN_GAIN = 0.2  # of acceleration, for a lane change


@inlined
def decide(roads: Roads, driving: Driving, motion: Motion, marks: Marks, count: int, i: int, scratch: Scratch) -> None:
    """Set target lane, steering and acceleration of vehicle i, which is driven by the simulation and not by the policy.

    Lanes are chosen by MOBIL, speeds by IDM (intelligent driver model).

    Parameters
    ----------
    roads, driving
        The road network; settings, such as the comfortable acceleration.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle. Rows
        TARGET_LANE, SLIP and ACCELERATION are changed in place.
    count
        Number of vehicles; only the first `count` columns are used.
    i
        Column of the vehicle.
    scratch
        Working memory, with the order of the vehicles along x.
    """
    # Where the target lane has ended, aim for the next one; then perhaps for a lane at the side.
    follow_road(roads, motion, marks, i)
    _choose_lane(roads, driving, motion, marks, count, i, scratch)
    lane, target = marks[LANE, i], marks[TARGET_LANE, i]
    motion[SLIP, i] = steer(roads, motion, i, target)
    # IDM: the acceleration on an empty road, less the braking for the vehicle in front.
    free = free_acceleration(roads, driving, motion, marks, i, motion[EXPONENT, i])
    front, _ = neighbours(roads, motion, count, i, lane, scratch)
    acceleration = free - interaction(roads, driving, motion, marks, count, i, front)
    # During a lane change, heed the vehicles in front on both lanes.
    if lane != target:
        front, _ = neighbours(roads, motion, count, i, target, scratch)
        acceleration = min(acceleration, free - interaction(roads, driving, motion, marks, count, i, front))
    motion[ACCELERATION, i] = min(max(acceleration, -_MAX_ACCELERATION), _MAX_ACCELERATION)


@inlined
def free_acceleration(roads: Roads, driving: Driving, motion: Motion, marks: Marks, i: int, exponent: float) -> float:
    """Return IDM's acceleration of vehicle i on an empty road; `exponent` is IDM's δ."""
    limit = roads.lanes[marks[LANE, i], SPEED_LIMIT]
    target = min(max(motion[TARGET_SPEED, i], 0.0), limit)
    share = max(motion[SPEED, i], 0.0) / abs(not_zero(target))
    return driving.comfort_acceleration * (1.0 - share**exponent)


@inlined
def desired_gap(driving: Driving, motion: Motion, i: int, front_vx: float, front_vy: float) -> float:
    """IDM's distance wanted between vehicle i and one in front that has this velocity."""
    speed, cos, sin = motion[SPEED, i], motion[COS, i], motion[SIN, i]
    closing = (speed * cos - front_vx) * cos + (speed * sin - front_vy) * sin
    braking = 2 * np.sqrt(-driving.comfort_acceleration * driving.comfort_braking)
    return driving.distance_wanted + speed * _TIME_WANTED + speed * closing / braking


@inlined
def _how_far_ahead(roads: Roads, motion: Motion, i: int, lane: int, x: float, y: float) -> float:
    """From vehicle i to a place, along a lane."""
    return longitudinal_of(roads, lane, x, y) - longitudinal_of(roads, lane, motion[X, i], motion[Y, i])


@inlined
def interaction(roads: Roads, driving: Driving, motion: Motion, marks: Marks, count: int, i: int, front: int) -> float:
    """Return how hard IDM (intelligent driver model) brakes vehicle i for what is in front of it, in m/s².

    Parameters
    ----------
    roads, driving
        The road network; settings, such as the comfortable acceleration.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    count
        Number of vehicles.
    i
        Column of the vehicle.
    front
        What is in front: NO_VEHICLE, the column of a vehicle, or, from `count` on, an obstacle, which stands still.
    """
    if front == NO_VEHICLE:
        return 0.0
    x, y, vx, vy = 0.0, 0.0, 0.0, 0.0
    if front < count:
        x, y = motion[X, front], motion[Y, front]
        vx, vy = motion[SPEED, front] * motion[COS, front], motion[SPEED, front] * motion[SIN, front]
    else:
        x, y = roads.obstacles[front - count, 0], roads.obstacles[front - count, 1]
    distance = _how_far_ahead(roads, motion, i, marks[LANE, i], x, y)
    # The braking grows with the square of the gap that the driver wants over the gap that there is.
    ratio = desired_gap(driving, motion, i, vx, vy) / not_zero(distance)
    return driving.comfort_acceleration * (ratio * ratio)


@inlined
def _choose_lane(
    roads: Roads, driving: Driving, motion: Motion, marks: Marks, count: int, i: int, scratch: Scratch
) -> None:
    """Set the target lane of vehicle i: give up a contested lane change, and once a second consider a new one.

    Parameters
    ----------
    roads, driving
        The road network; settings of the drivers.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle. TARGET_LANE and
        TIMER of vehicle i are changed in place.
    count
        Number of vehicles.
    i
        Column of the vehicle.
    scratch
        Working memory, with the order of the vehicles along x.
    """
    # In the middle of a change: go back if another vehicle changes to the same lane.
    lane, target = marks[LANE, i], marks[TARGET_LANE, i]
    if lane != target:
        if roads.marks[lane, ROAD] == roads.marks[target, ROAD] and _is_contested(
            roads, driving, motion, marks, count, i
        ):
            marks[TARGET_LANE, i] = lane
        return
    # A new change is considered once a second, and not in a standing vehicle.
    if not motion[TIMER, i] > _LANE_CHANGE_DELAY:
        return
    motion[TIMER, i] = 0.0
    if abs(motion[SPEED, i]) < 1.0:
        return
    lane_on_road, road = roads.marks[lane, NUMBER], roads.marks[lane, ROAD]
    # Left first, then right: where both are better, right it is.
    for side in (-1, 1):
        if (
            0 <= lane_on_road + side < roads.roads[road, LANES]
            and is_reachable(roads, lane + side, motion[X, i], motion[Y, i])
            and should_change(roads, driving, motion, marks, count, i, lane + side, scratch)
        ):
            marks[TARGET_LANE, i] = lane + side


@compiled
def _is_contested(roads: Roads, driving: Driving, motion: Motion, marks: Marks, count: int, i: int) -> bool:
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
    roads: Roads, driving: Driving, motion: Motion, marks: Marks, count: int, i: int, lane: int, scratch: Scratch
) -> bool:
    """Return whether vehicle i should change to a lane, by MOBIL: it must be safe for others and better for itself.

    Others count only as far as safety goes (MOBIL's politeness is 0).

    Parameters
    ----------
    roads, driving
        The road network; settings of the drivers.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    count
        Number of vehicles; a neighbour with a number from `count` on is an obstacle.
    i, lane
        Column of the vehicle, and number of the lane.
    scratch
        Working memory, with the order of the vehicles along x.
    """
    # Safe: the vehicle behind on that lane must not have to brake hard.
    exponent = motion[EXPONENT, i]
    preceding, following = neighbours(roads, motion, count, i, lane, scratch)
    if following != NO_VEHICLE and following < count:
        braking = free_acceleration(roads, driving, motion, marks, following, exponent) - interaction(
            roads, driving, motion, marks, count, following, i
        )
        if braking < -_MAX_BRAKING_IMPOSED:
            return False
    # Own acceleration after the change.
    free = free_acceleration(roads, driving, motion, marks, i, exponent)
    acceleration_there = free - interaction(roads, driving, motion, marks, count, i, preceding)
    # A vehicle whose route needs a certain lane changes towards it, and never away from it.
    if marks[ROUTE_LENGTH, i] > 0 and marks[ROUTE_LANE, i] != ANY_LANE:
        lane_on_road = roads.marks[marks[TARGET_LANE, i], NUMBER]
        wrong_way = np.sign(roads.marks[lane, NUMBER] - lane_on_road) != np.sign(marks[ROUTE_LANE, i] - lane_on_road)
        return not wrong_way and not acceleration_there < -_MAX_BRAKING_IMPOSED
    # Better: the gain in acceleration over staying must be worth it.
    old_preceding, _ = neighbours(roads, motion, count, i, marks[LANE, i], scratch)
    acceleration_here = free - interaction(roads, driving, motion, marks, count, i, old_preceding)
    return not acceleration_there - acceleration_here < _MIN_GAIN
