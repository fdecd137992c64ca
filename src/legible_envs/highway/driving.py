"""Traffic a frame at a time, compiled.

A frame is as in highway-env: vehicles decide in turn (each sees the decisions made before it), now and then the rules
of the road are enforced, then all move, then collisions are found. No vehicle moves while others decide, so one order
along x serves for the neighbours of all and for the collisions before.

Outcomes are those of highway-env up to rounding (some 1e-15): see `steering` and `neighbours` for what is computed
otherwise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible_envs.compiled import compiled, inlined
from legible_envs.highway.collisions import collide
from legible_envs.highway.idm import decide
from legible_envs.highway.right_of_way import enforce_rules
from legible_envs.highway.roads import FIRST_LANE, LANES, ROAD, Roads, closest_lane_inlined, is_reachable
from legible_envs.highway.scratch import Scratch
from legible_envs.highway.state import (
    ACCELERATION,
    COS,
    COUNT,
    CRASHED,
    EGO,
    FASTER,
    FRAMES,
    HEADING,
    LANE,
    LANE_LEFT,
    LANE_RIGHT,
    LENGTH,
    MAX_SPEED,
    SHOVE_X,
    SHOVE_Y,
    SHOVED,
    SIN,
    SLIP,
    SLOWER,
    SPEED,
    SPEED_INDEX,
    TARGET_LANE,
    TARGET_SPEED,
    TIMER,
    Counters,
    Driving,
    Marks,
    Motion,
    X,
    Y,
)
from legible_envs.highway.steering import follow_road, steer

_KP_SPEED = 1 / 0.6  # gain of ego's controller of speed


@compiled
def simulate_frames(
    roads: Roads, driving: Driving, motion: Motion, marks: Marks, episode: Counters, n_frames: int, scratch: Scratch
) -> None:
    """Simulate some frames of one episode in place: every vehicle decides, moves, and perhaps collides.

    Parameters
    ----------
    roads, driving
        The road network; settings of the simulation, such as the length of a frame.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity (X, SPEED, LANE …), a column per
        vehicle.
    episode
        ``[N_EPISODE]``: counters of the episode, such as COUNT (vehicles on the road), EGO (the column of the vehicle
        that the policy drives) and FRAMES (frames so far).
    n_frames
        Number of frames.
    scratch
        Working memory.
    """
    count, ego = episode[COUNT], episode[EGO]
    for i in range(count):
        scratch.order[i] = i
    _sort_by_x(motion, count, scratch)
    for _ in range(n_frames):
        # All decide before anyone moves; a crashed vehicle only rolls out.
        for i in range(count):
            if i == ego:
                _steer_ego(roads, motion, marks, i)
            elif not marks[CRASHED, i]:
                decide(roads, driving, motion, marks, count, i, scratch)
        # At intersections, right of way is enforced every few frames.
        episode[FRAMES] += 1
        if driving.regulation_period and episode[FRAMES] % driving.regulation_period == 0:
            enforce_rules(roads, motion, marks, count, ego, scratch)
        for i in range(count):
            _move(roads, driving.dt, motion, marks, i)
        _sort_by_x(motion, count, scratch)
        collide(roads, driving, motion, marks, count, ego, scratch)


@compiled
def _sort_by_x(motion: Motion, count: int, scratch: Scratch) -> None:
    """Update the order of the vehicles along x: `scratch.order` (vehicles by place) and `scratch.rank` (the reverse).

    Insertion sort, because the order before is nearly right already.
    """
    order = scratch.order
    for k in range(1, count):
        i = order[k]
        x = motion[X, i]
        free = k
        while free > 0 and motion[X, order[free - 1]] > x:
            order[free] = order[free - 1]
            free -= 1
        order[free] = i
    for k in range(count):
        scratch.rank[order[k]] = k


@compiled
def nearest_speed(target_speeds: NDArray[np.float64], speed: float) -> int:
    """Return the index of the closest of evenly spaced target speeds."""
    last = len(target_speeds) - 1
    share = (speed - target_speeds[0]) / (target_speeds[last] - target_speeds[0])
    return int(min(max(np.rint(share * last), 0.0), float(last)))


@compiled
def command_ego(roads: Roads, driving: Driving, motion: Motion, marks: Marks, episode: Counters, command: int) -> None:
    """Carry out a command of the policy: change the target speed or the target lane of ego, the vehicle that it drives.

    Parameters
    ----------
    roads, driving
        The road network; settings, among them the target speeds that ego can choose from.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle; changed in
        place.
    episode
        ``[N_EPISODE]``: EGO is ego's column; SPEED_INDEX, the index of its target speed, is changed in place.
    command
        LANE_LEFT, IDLE, LANE_RIGHT, FASTER or SLOWER.
    """
    ego = episode[EGO]
    if command in (FASTER, SLOWER):
        # One step up or down from the target speed that is nearest to the present speed.
        index = nearest_speed(driving.target_speeds, motion[SPEED, ego]) + (1 if command == FASTER else -1)
        index = min(max(index, 0), len(driving.target_speeds) - 1)
        episode[SPEED_INDEX] = index
        motion[TARGET_SPEED, ego] = driving.target_speeds[index]
    follow_road(roads, motion, marks, ego)  # the target lane may have ended
    if command in (LANE_LEFT, LANE_RIGHT):
        # The lane at the side, if the road has one and it can be reached from here.
        lane = marks[TARGET_LANE, ego]
        first = roads.roads[roads.marks[lane, ROAD], FIRST_LANE]
        last = first + roads.roads[roads.marks[lane, ROAD], LANES] - 1
        wanted = min(max(lane + (1 if command == LANE_RIGHT else -1), first), last)
        if is_reachable(roads, wanted, motion[X, ego], motion[Y, ego]):
            marks[TARGET_LANE, ego] = wanted


@inlined
def _steer_ego(roads: Roads, motion: Motion, marks: Marks, ego: int) -> None:
    follow_road(roads, motion, marks, ego)
    motion[SLIP, ego] = steer(roads, motion, ego, marks[TARGET_LANE, ego])
    motion[ACCELERATION, ego] = _KP_SPEED * (motion[TARGET_SPEED, ego] - motion[SPEED, ego])


@inlined
def _move(roads: Roads, dt: float, motion: Motion, marks: Marks, i: int) -> None:
    """Move vehicle i by a frame of dt seconds, by the bicycle model with the slip angle at its centre.

    `motion` ``[N_MOTION, vehicles]`` and `marks` ``[N_MARKS, vehicles]`` have a row per quantity and a column per
    vehicle; they are changed in place.
    """
    # SLIP is the sine of the slip angle that the driver chose. A crashed vehicle brakes in a straight line.
    speed, slip, acceleration = motion[SPEED, i], motion[SLIP, i], motion[ACCELERATION, i]
    if marks[CRASHED, i]:
        slip, acceleration = 0.0, -speed
    # Speeds beyond the limit fall back to it.
    if speed > MAX_SPEED:
        acceleration = min(acceleration, MAX_SPEED - speed)
    elif speed < -MAX_SPEED:
        acceleration = max(acceleration, -MAX_SPEED - speed)
    # Turn: the direction of motion is the heading plus the slip angle.
    cos, sin = motion[COS, i], motion[SIN, i]
    if slip != 0.0:
        cos_of_slip = np.sqrt(1.0 - slip * slip)
        cos, sin = cos * cos_of_slip - sin * slip, sin * cos_of_slip + cos * slip
        heading = motion[HEADING, i] + speed * slip / (LENGTH / 2) * dt
        motion[HEADING, i] = heading
        motion[COS, i] = np.cos(heading)
        motion[SIN, i] = np.sin(heading)
    motion[X, i] += speed * cos * dt
    motion[Y, i] += speed * sin * dt
    # A collision in the frame before pushes the vehicle aside.
    if marks[SHOVED, i]:
        motion[X, i] += motion[SHOVE_X, i]
        motion[Y, i] += motion[SHOVE_Y, i]
        marks[CRASHED, i] = 1
        marks[SHOVED, i] = 0
    motion[SPEED, i] = speed + acceleration * dt
    motion[TIMER, i] += dt
    marks[LANE, i] = closest_lane_inlined(roads, motion[X, i], motion[Y, i], motion[HEADING, i], marks[LANE, i])
