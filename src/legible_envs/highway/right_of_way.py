"""The rules of the road at an intersection, compiled: which vehicles will be in conflict, and which of them yields."""

from __future__ import annotations

import numpy as np

from legible_envs.compiled import compiled
from legible_envs.highway.roads import (
    FIRST_LANE,
    LANE_LENGTH,
    NUMBER,
    PRIORITY,
    SPEED_LIMIT,
    Roads,
    heading_at,
    longitudinal_of,
    position_on,
)
from legible_envs.highway.scratch import HORIZON, Scratch
from legible_envs.highway.state import (
    ANY_LANE,
    COS,
    LANE,
    LENGTH,
    ROUTE,
    ROUTE_LANE,
    ROUTE_LENGTH,
    SIN,
    SPEED,
    TARGET_SPEED,
    WIDTH,
    YIELDING,
    Marks,
    Motion,
    X,
    Y,
)

# Seconds between two foreseen positions, and the size of a vehicle there.
_HORIZON_STEP = 0.25
_CONFLICT_HALF_LENGTH, _CONFLICT_HALF_WIDTH = 0.75 * LENGTH, 0.45 * WIDTH


@compiled
def enforce_rules(roads: Roads, motion: Motion, marks: Marks, count: int, ego: int, scratch: Scratch) -> None:
    """Let yielding vehicles go on, predict all positions, and make one of each pair in conflict yield."""
    for i in range(count):
        if marks[YIELDING, i]:
            motion[TARGET_SPEED, i] = roads.lanes[marks[LANE, i], SPEED_LIMIT]
            marks[YIELDING, i] = 0
        _foresee(roads, motion, marks, i, scratch)
    for i in range(count - 1):
        for j in range(i + 1, count):
            if _may_conflict(roads, scratch, i, j):
                yielding = yielding_vehicle(roads, motion, marks, i, j)
                if yielding != ego:
                    motion[TARGET_SPEED, yielding] = 0.0
                    marks[YIELDING, yielding] = 1


@compiled
def _foresee(roads: Roads, motion: Motion, marks: Marks, i: int, scratch: Scratch) -> None:
    """Predict where vehicle i will be along its route at constant speed, for `HORIZON` moments a quarter second apart.

    The positions begin on the first road of the route with the longitudinal coordinate of the present lane, even where
    the two differ, as in highway-env.

    Parameters
    ----------
    roads
        The road network.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    i
        Column of the vehicle.
    scratch
        Receives the result: ``foreseen[i]`` ``[HORIZON, 4]`` with x, y, lane and distance along the lane, and
        ``bounds[i]`` with the box around these positions (left, right, top, bottom).
    """
    present_lane = marks[LANE, i]
    start = longitudinal_of(roads, present_lane, motion[X, i], motion[Y, i])
    n_roads = marks[ROUTE_LENGTH, i]
    left, right, top, bottom = np.inf, -np.inf, np.inf, -np.inf
    for k in range(HORIZON):
        s = start + motion[SPEED, i] * (_HORIZON_STEP * (k + 1))
        road_of_route, lane = 0, present_lane
        if n_roads > 0:
            # Go on to the next road of the route where a lane ends.
            lane = _lane_on_route(roads, marks, i, 0)
            while road_of_route < n_roads - 1 and s > roads.lanes[lane, LANE_LENGTH]:
                s -= roads.lanes[lane, LANE_LENGTH]
                road_of_route += 1
                lane = _lane_on_route(roads, marks, i, road_of_route)
        x, y = position_on(roads, lane, s, 0.0)
        place = scratch.foreseen[i, k]
        place[0], place[1], place[2], place[3] = x, y, lane, s
        left, right, top, bottom = min(left, x), max(right, x), min(top, y), max(bottom, y)
    box = scratch.bounds[i]
    box[0], box[1], box[2], box[3] = left, right, top, bottom


@compiled
def _lane_on_route(roads: Roads, marks: Marks, i: int, at: int) -> int:
    """Return the lane of a road on vehicle i's route: the one it wants there, else the one with its present number."""
    number = (
        marks[ROUTE_LANE, i] if at == 0 and marks[ROUTE_LANE, i] != ANY_LANE else roads.marks[marks[LANE, i], NUMBER]
    )
    return roads.roads[marks[ROUTE + at, i], FIRST_LANE] + number


@compiled
def _may_conflict(roads: Roads, scratch: Scratch, i: int, j: int) -> bool:
    """Return whether two vehicles will be in each other's way."""
    one, other = scratch.bounds[i], scratch.bounds[j]
    if one[0] - other[1] > LENGTH or other[0] - one[1] > LENGTH:
        return False
    if one[2] - other[3] > LENGTH or other[2] - one[3] > LENGTH:
        return False
    for k in range(HORIZON):
        a, b = scratch.foreseen[i, k], scratch.foreseen[j, k]
        dx, dy = b[0] - a[0], b[1] - a[1]
        if np.sqrt(dx * dx + dy * dy) > LENGTH:
            continue
        heading_a = heading_at(roads, int(a[2]), a[3])
        heading_b = heading_at(roads, int(b[2]), b[3])
        if _has_point_inside(-dx, -dy, heading_a, heading_b) or _has_point_inside(dx, dy, heading_b, heading_a):
            return True
    return False


@compiled
def _has_point_inside(dx: float, dy: float, heading: float, other_heading: float) -> bool:
    """Return whether the middle, a corner or a side's middle of a rectangle at (dx, dy) lies in another at the origin.

    Points are turned by the other's heading, not back by it: as highway-env does it, wrong in turns.
    """
    cos, sin = np.cos(heading), np.sin(heading)
    other_cos, other_sin = np.cos(other_heading), np.sin(other_heading)
    for along in range(-1, 2):
        for across in range(-1, 2):
            px, py = along * _CONFLICT_HALF_LENGTH, across * _CONFLICT_HALF_WIDTH
            x, y = cos * px - sin * py + dx, sin * px + cos * py + dy
            if (
                abs(other_cos * x - other_sin * y) <= _CONFLICT_HALF_LENGTH
                and abs(other_sin * x + other_cos * y) <= _CONFLICT_HALF_WIDTH
            ):
                return True
    return False


@compiled
def yielding_vehicle(roads: Roads, motion: Motion, marks: Marks, i: int, j: int) -> int:
    """Return which of two vehicles in conflict yields: the one without right of way, else the one behind."""
    one, other = roads.marks[marks[LANE, i], PRIORITY], roads.marks[marks[LANE, j], PRIORITY]
    if one != other:
        return j if one > other else i
    dx, dy = motion[X, j] - motion[X, i], motion[Y, j] - motion[Y, i]
    ahead = motion[COS, i] * dx + motion[SIN, i] * dy
    ahead_of_other = -(motion[COS, j] * dx + motion[SIN, j] * dy)
    return i if ahead > ahead_of_other else j
