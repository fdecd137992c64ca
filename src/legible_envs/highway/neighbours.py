"""The vehicles in front of and behind a vehicle on a lane: `neighbours`, compiled.

On parallel lanes they are looked up in the order along x instead of among all, with the same outcome.
"""

from __future__ import annotations

import numpy as np

from legible_envs.compiled import compiled, inlined
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
from legible_envs.highway.state import LENGTH, Motion, X, Y

NO_VEHICLE = -1

# Beyond a lane's half width, how far off a vehicle still counts as a neighbour on it.
_NEIGHBOUR_MARGIN = 1.0
_SLACK = 1e-9


@inlined
def neighbours(roads: Roads, motion: Motion, count: int, i: int, lane: int, scratch: Scratch) -> tuple[int, int]:
    """Return the vehicles in front of and behind vehicle i on a lane: -1 for none; from `count` on, obstacles."""
    if roads.parallel:
        return _neighbours_in_order(roads, motion, count, i, lane, scratch)
    return _neighbours_among_all(roads, motion, count, i, lane)


@inlined
def _neighbours_in_order(
    roads: Roads, motion: Motion, count: int, i: int, lane: int, scratch: Scratch
) -> tuple[int, int]:
    """Return the vehicles in front of and behind vehicle i, for parallel lanes along x; NO_VEHICLE (-1) for none.

    Vehicles are sorted along x, so it is enough to walk forwards and backwards from vehicle i.

    Parameters
    ----------
    roads
        The road network.
    motion
        ``[N_MOTION, vehicles]``: a row per quantity, a column per vehicle.
    count
        Number of vehicles.
    i, lane
        Column of the vehicle, and number of the lane on which neighbours are looked for.
    scratch
        Working memory: `order` lists vehicles by x, `rank` is the place of each vehicle in `order`.
    """
    order, lanes = scratch.order, roads.lanes
    # A vehicle is on the lane if it is within `reach` of its middle and between `start` and `end`.
    middle, reach = lanes[lane, START_Y], lanes[lane, LANE_WIDTH] / 2 + _NEIGHBOUR_MARGIN
    start, end = lanes[lane, START_X] - LENGTH, lanes[lane, START_X] + lanes[lane, LANE_LENGTH] + LENGTH
    # The first place in the order with the same x as vehicle i: equally far counts as in front.
    x = motion[X, i]
    rank = scratch.rank[i]
    while rank > 0 and motion[X, order[rank - 1]] == x:
        rank -= 1
    front, nearest = NO_VEHICLE, np.inf
    for k in range(rank, count):
        j = order[k]
        if motion[X, j] > nearest:
            break
        # Of several equally far ahead the last in the list counts.
        if j != i and abs(motion[Y, j] - middle) <= reach and start <= motion[X, j] < end and j > front:
            front, nearest = j, motion[X, j]
    rear, nearest = NO_VEHICLE, -np.inf
    for k in range(rank - 1, -1, -1):
        j = order[k]
        if motion[X, j] < nearest:
            break
        # Of several equally far behind the first.
        if abs(motion[Y, j] - middle) <= reach and start <= motion[X, j] < end and (rear == NO_VEHICLE or j < rear):
            rear, nearest = j, motion[X, j]
    return front, rear


@compiled
def _neighbours_among_all(roads: Roads, motion: Motion, count: int, i: int, lane: int) -> tuple[int, int]:
    """Return the vehicles or obstacles in front of and behind vehicle i on a lane of any shape; NO_VEHICLE for none.

    `motion` ``[N_MOTION, vehicles]`` has a row per quantity and a column per vehicle, of which `count` are used.
    Obstacle k has the number count + k.
    """
    own_s = longitudinal_of(roads, lane, motion[X, i], motion[Y, i])  # distance along the lane
    front, rear, s_front, s_rear = NO_VEHICLE, NO_VEHICLE, np.inf, -np.inf
    for j in range(count + len(roads.obstacles)):
        if j == i:
            continue
        if j < count:
            x, y = motion[X, j], motion[Y, j]
        else:
            x, y = roads.obstacles[j - count, 0], roads.obstacles[j - count, 1]
        if _is_far_aside(roads, lane, x, y):  # cheap, and rules out most
            continue
        s_other, r_other = local_coordinates(roads, lane, x, y)  # along the lane, and right of its middle
        if not is_on_lane(roads, lane, s_other, r_other, _NEIGHBOUR_MARGIN):
            continue
        if own_s <= s_other <= s_front:
            front, s_front = j, s_other
        if s_rear < s_other < own_s:
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
