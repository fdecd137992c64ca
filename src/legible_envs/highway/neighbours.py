"""The vehicles in front of and behind a vehicle on a lane: `neighbours`, compiled.

On parallel lanes they are looked up in the order along x instead of among all, with the same outcome.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible_envs.highway.compiled import compiled, inlined
from legible_envs.highway.roads import (
    AMPLITUDE,
    CIRCULAR,
    DIRECTION_X,
    DIRECTION_Y,
    KIND,
    LANE_LENGTH,
    LANE_WIDTH,
    RADIUS,
    START_X,
    START_Y,
    Roads,
    is_on_lane,
    local_coordinates,
    longitudinal_of,
)
from legible_envs.highway.scratch import Scratch
from legible_envs.highway.state import LENGTH, X, Y

NO_VEHICLE = -1

# Beyond a lane's half width, how far off a vehicle still counts as a neighbour on it.
_NEIGHBOUR_MARGIN = 1.0
_SLACK = 1e-9


@inlined
def neighbours(
    roads: Roads, motion: NDArray[np.float64], count: int, i: int, lane: int, scratch: Scratch
) -> tuple[int, int]:
    """Return the vehicles in front of and behind vehicle i on a lane: -1 for none; from `count` on, obstacles."""
    if roads.parallel:
        return _neighbours_in_order(roads, motion, count, i, lane, scratch)
    return _neighbours_among_all(roads, motion, count, i, lane)


@inlined
def _neighbours_in_order(
    roads: Roads, motion: NDArray[np.float64], count: int, i: int, lane: int, scratch: Scratch
) -> tuple[int, int]:
    """As `neighbours`, on parallel lanes along x: walk from the vehicle forwards and backwards."""
    order, lanes = scratch.order, roads.lanes
    middle, reach = lanes[lane, START_Y], lanes[lane, LANE_WIDTH] / 2 + _NEIGHBOUR_MARGIN
    start, end = lanes[lane, START_X] - LENGTH, lanes[lane, START_X] + lanes[lane, LANE_LENGTH] + LENGTH
    x = motion[X, i]
    level = scratch.rank[i]
    while level > 0 and motion[X, order[level - 1]] == x:
        level -= 1
    front, nearest = NO_VEHICLE, np.inf
    for k in range(level, count):
        j = order[k]
        if motion[X, j] > nearest:
            break
        # Of several equally far ahead the last in the list counts.
        if j != i and abs(motion[Y, j] - middle) <= reach and start <= motion[X, j] < end and j > front:
            front, nearest = j, motion[X, j]
    rear, nearest = NO_VEHICLE, -np.inf
    for k in range(level - 1, -1, -1):
        j = order[k]
        if motion[X, j] < nearest:
            break
        # Of several equally far behind the first.
        if abs(motion[Y, j] - middle) <= reach and start <= motion[X, j] < end and (rear == NO_VEHICLE or j < rear):
            rear, nearest = j, motion[X, j]
    return front, rear


@compiled
def _neighbours_among_all(roads: Roads, motion: NDArray[np.float64], count: int, i: int, lane: int) -> tuple[int, int]:
    s = longitudinal_of(roads, lane, motion[X, i], motion[Y, i])
    front, rear, s_front, s_rear = NO_VEHICLE, NO_VEHICLE, np.inf, -np.inf
    for j in range(count + len(roads.obstacles)):
        if j == i:
            continue
        if j < count:
            x, y = motion[X, j], motion[Y, j]
        else:
            x, y = roads.obstacles[j - count, 0], roads.obstacles[j - count, 1]
        if _is_far_aside(roads, lane, x, y):
            continue
        s_other, r_other = local_coordinates(roads, lane, x, y)
        if not is_on_lane(roads, lane, s_other, r_other, _NEIGHBOUR_MARGIN):
            continue
        if s <= s_other <= s_front:
            front, s_front = j, s_other
        if s_rear < s_other < s:
            rear, s_rear = j, s_other
    return front, rear


@inlined
def _is_far_aside(roads: Roads, lane: int, x: float, y: float) -> bool:
    """Return whether a position is certainly off a lane, as far as can be said without trigonometry."""
    lanes = roads.lanes
    reach = lanes[lane, LANE_WIDTH] / 2 + _NEIGHBOUR_MARGIN + _SLACK
    dx, dy = x - lanes[lane, START_X], y - lanes[lane, START_Y]
    if roads.marks[lane, KIND] == CIRCULAR:
        square = dx * dx + dy * dy
        outer, inner = lanes[lane, RADIUS] + reach, max(lanes[lane, RADIUS] - reach, 0.0)
        return square > outer * outer or square < inner * inner
    return abs(dy * lanes[lane, DIRECTION_X] - dx * lanes[lane, DIRECTION_Y]) > reach + lanes[lane, AMPLITUDE]
