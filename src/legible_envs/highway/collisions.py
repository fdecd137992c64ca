"""Collisions, compiled: find vehicles that touch, or will within a frame, and push them apart.

- `collide`: all collisions of a frame.
- `rectangles_meet`: two rectangles, of which one moves.

Partners are looked up in the order along x instead of among all, with the same outcome as in highway-env.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible_envs.highway.compiled import compiled, inlined
from legible_envs.highway.roads import Roads
from legible_envs.highway.scratch import Scratch
from legible_envs.highway.state import (
    COS,
    CRASHED,
    LENGTH,
    OBSTACLE_LENGTH,
    OBSTACLE_WIDTH,
    SHOVE_X,
    SHOVE_Y,
    SHOVED,
    SIN,
    SPEED,
    WIDTH,
    Driving,
    X,
    Y,
)

_DIAGONAL = np.sqrt(LENGTH**2 + WIDTH**2)
_OBSTACLE_DIAGONAL = np.sqrt(OBSTACLE_LENGTH**2 + OBSTACLE_WIDTH**2)


@compiled
def collide(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    ego: int,
    scratch: Scratch,
) -> None:
    """Find the pairs that touch, or will within a frame, in the order of the list: the last shove counts."""
    xs, ys, speeds, partners = motion[X], motion[Y], motion[SPEED], scratch.partners
    for i in range(count):
        # Only the first one's speed counts for the distance, as in highway-env.
        way = speeds[i] * driving.dt
        n = 0
        if not driving.only_ego_collides or i == ego:
            n = _find_partners(xs, ys, count, i, _DIAGONAL + way, scratch)
        elif i < ego and _distance(xs[ego] - xs[i], ys[ego] - ys[i]) <= _DIAGONAL + way:
            n = _insert_sorted(partners, n, ego)
        for k in range(len(roads.obstacles)):
            apart = _distance(roads.obstacles[k, 0] - xs[i], roads.obstacles[k, 1] - ys[i])
            if apart <= (_DIAGONAL + _OBSTACLE_DIAGONAL) / 2 + way:
                n = _insert_sorted(partners, n, count + k)
        for k in range(n):
            _collide_pair(roads, driving.dt, motion, marks, count, i, partners[k])


@inlined
def _find_partners(
    xs: NDArray[np.float64], ys: NDArray[np.float64], count: int, i: int, reach: float, scratch: Scratch
) -> int:
    """Collect the vehicles after vehicle i in the list that are within reach, in their order; return how many."""
    order, n = scratch.order, 0
    for step in (-1, 1):
        rank = scratch.rank[i] + step
        while 0 <= rank < count and abs(xs[order[rank]] - xs[i]) <= reach:
            j = order[rank]
            if j > i and _distance(xs[j] - xs[i], ys[j] - ys[i]) <= reach:
                n = _insert_sorted(scratch.partners, n, j)
            rank += step
    return n


@inlined
def _distance(dx: float, dy: float) -> float:
    return np.sqrt(dx * dx + dy * dy)


@inlined
def _insert_sorted(values: NDArray[np.int64], n: int, value: int) -> int:
    k = n
    while k > 0 and values[k - 1] > value:
        values[k] = values[k - 1]
        k -= 1
    values[k] = value
    return n + 1


@compiled
def _collide_pair(
    roads: Roads,
    dt: float,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    i: int,
    j: int,
) -> None:
    """Let vehicle i and vehicle (or, from `count` on, obstacle) j collide if their rectangles meet."""
    x, y, cos, sin, speed = 0.0, 0.0, 1.0, 0.0, 0.0
    length, width = OBSTACLE_LENGTH, OBSTACLE_WIDTH
    if j < count:
        x, y, cos, sin = motion[X, j], motion[Y, j], motion[COS, j], motion[SIN, j]
        speed, length, width = motion[SPEED, j], LENGTH, WIDTH
    else:
        x, y = roads.obstacles[j - count, 0], roads.obstacles[j - count, 1]
    own_cos, own_sin, own_speed = motion[COS, i], motion[SIN, i], motion[SPEED, i]
    touching, meeting, shove_x, shove_y = rectangles_meet(
        x - motion[X, i],
        y - motion[Y, i],
        (own_speed * own_cos - speed * cos) * dt,
        (own_speed * own_sin - speed * sin) * dt,
        (own_cos, own_sin, LENGTH, WIDTH),
        (cos, sin, length, width),
    )
    if meeting:
        share = 0.5 if j < count else 1.0
        marks[SHOVED, i] = 1
        motion[SHOVE_X, i], motion[SHOVE_Y, i] = shove_x * share, shove_y * share
        if j < count:
            marks[SHOVED, j] = 1
            motion[SHOVE_X, j], motion[SHOVE_Y, j] = -shove_x * share, -shove_y * share
    if touching:
        marks[CRASHED, i] = 1
        if j < count:
            marks[CRASHED, j] = 1


@compiled
def rectangles_meet(
    dx: float,
    dy: float,
    move_x: float,
    move_y: float,
    one: tuple[float, float, float, float],
    other: tuple[float, float, float, float],
) -> tuple[bool, bool, float, float]:
    """Return whether two rectangles touch, whether they will after one has moved, and the smallest push to part them.

    Parameters
    ----------
    dx, dy
        From the middle of one to the middle of the other.
    move_x, move_y
        How far one moves, seen from the other.
    one, other
        cos and sin of the heading, length, width.
    """
    touching = meeting = True
    least, shove_x, shove_y = np.inf, 0.0, 0.0
    for side in range(8):
        cos, sin = (one[0], one[1]) if side < 4 else (other[0], other[1])
        # Normals of the four sides in the order of highway-env: back, right, front, left.
        turn = side % 4
        if turn == 0:
            nx, ny = -cos, -sin
        elif turn == 1:
            nx, ny = -sin, cos
        elif turn == 2:
            nx, ny = cos, sin
        else:
            nx, ny = sin, -cos
        half = _half_extent(one, nx, ny)
        half_other = _half_extent(other, nx, ny)
        centre = dx * nx + dy * ny
        if _interval_distance(-half, half, centre - half_other, centre + half_other) > 0:
            touching = False
        move = move_x * nx + move_y * ny
        distance = _interval_distance(
            -half + min(move, 0.0), half + max(move, 0.0), centre - half_other, centre + half_other
        )
        if distance > 0:
            meeting = False
        if not touching and not meeting:
            return False, False, 0.0, 0.0
        if abs(distance) < least:
            least = abs(distance)
            sign = 1.0 if centre < 0 else -1.0
            shove_x, shove_y = sign * nx * least, sign * ny * least
    return touching, meeting, shove_x, shove_y


@inlined
def _half_extent(rectangle: tuple[float, float, float, float], nx: float, ny: float) -> float:
    cos, sin, length, width = rectangle
    return abs(cos * nx + sin * ny) * (length / 2) + abs(cos * ny - sin * nx) * (width / 2)


@inlined
def _interval_distance(low: float, high: float, other_low: float, other_high: float) -> float:
    return other_low - high if low < other_low else low - other_high
