"""Collisions, compiled: find vehicles that touch, or will within a frame, and push them apart.

Partners are looked up in the order along x instead of among all, with the same outcome as in highway-env.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible_envs.compiled import compiled, inlined
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
    Marks,
    Motion,
    X,
    Y,
)

_DIAGONAL = np.sqrt(LENGTH**2 + WIDTH**2)
_OBSTACLE_DIAGONAL = np.sqrt(OBSTACLE_LENGTH**2 + OBSTACLE_WIDTH**2)


@compiled
def collide(
    roads: Roads, driving: Driving, motion: Motion, marks: Marks, count: int, ego: int, scratch: Scratch
) -> None:
    """Mark all vehicles that collide in this frame as crashed, and write down the shoves that push them apart.

    Pairs are visited in the order in which highway-env lists vehicles, because the last shove of a vehicle counts.

    Parameters
    ----------
    roads
        The road network with its obstacles.
    driving
        Settings: the length of a frame, and whether only ego collides.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity (X, SPEED, CRASHED …), a column per
        vehicle. Changed in place.
    count
        Number of vehicles; only the first `count` columns are used.
    ego
        Column of the vehicle that the policy drives.
    scratch
        Working memory, in which `order` and `rank` hold the order of the vehicles along x.
    """
    xs, ys, speeds, partners = motion[X], motion[Y], motion[SPEED], scratch.partners
    for i in range(count):
        # Collect the possible partners of vehicle i: those it can touch within a frame.
        # Only the first one's speed counts for the distance, as in highway-env.
        travelled = speeds[i] * driving.dt
        n_partners = 0
        if not driving.only_ego_collides or i == ego:
            n_partners = _find_partners(xs, ys, count, i, _DIAGONAL + travelled, scratch)
        elif i < ego and _distance(xs[ego] - xs[i], ys[ego] - ys[i]) <= _DIAGONAL + travelled:
            n_partners = _insert_sorted(partners, n_partners, ego)
        # Obstacle k has the number count + k.
        for k in range(len(roads.obstacles)):
            distance = _distance(roads.obstacles[k, 0] - xs[i], roads.obstacles[k, 1] - ys[i])
            if distance <= (_DIAGONAL + _OBSTACLE_DIAGONAL) / 2 + travelled:
                n_partners = _insert_sorted(partners, n_partners, count + k)
        for k in range(n_partners):
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
def _collide_pair(roads: Roads, dt: float, motion: Motion, marks: Marks, count: int, i: int, j: int) -> None:
    """Mark vehicle i and its partner j as crashed if they touch, and shove them apart if they would within a frame.

    Parameters
    ----------
    roads
        The road network with its obstacles.
    dt
        Seconds of a frame.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle; changed in
        place.
    count
        Number of vehicles.
    i, j
        Columns of the two vehicles; from `count` on, j is an obstacle, which does not move.
    """
    # Position, heading, speed and size of the partner.
    x, y, cos, sin, speed = 0.0, 0.0, 1.0, 0.0, 0.0
    length, width = OBSTACLE_LENGTH, OBSTACLE_WIDTH
    if j < count:
        x, y, cos, sin = motion[X, j], motion[Y, j], motion[COS, j], motion[SIN, j]
        speed, length, width = motion[SPEED, j], LENGTH, WIDTH
    else:
        x, y = roads.obstacles[j - count, 0], roads.obstacles[j - count, 1]

    # Do both rectangles touch now, will they meet within the frame, and which push parts them?
    own_cos, own_sin, own_speed = motion[COS, i], motion[SIN, i], motion[SPEED, i]
    touching, meeting, shove_x, shove_y = rectangles_meet(
        x - motion[X, i],
        y - motion[Y, i],
        (own_speed * own_cos - speed * cos) * dt,
        (own_speed * own_sin - speed * sin) * dt,
        (own_cos, own_sin, LENGTH, WIDTH),
        (cos, sin, length, width),
    )
    # Two vehicles share the shove; an obstacle stays where it is.
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
    first: tuple[float, float, float, float],
    second: tuple[float, float, float, float],
) -> tuple[bool, bool, float, float]:
    """Return whether two rectangles touch or will meet, and the smallest push that parts them.

    By the separating-axis theorem: two rectangles are apart if their shadows on the normal of some side are apart.

    Parameters
    ----------
    dx, dy
        From the middle of the first rectangle to the middle of the second.
    move_x, move_y
        Movement of the first relative to the second.
    first, second
        Of each rectangle: cos and sin of its heading, its length, its width.

    Returns
    -------
    Whether they touch now; whether they meet during the movement; x and y of the push for the first rectangle, zero if
    neither.
    """
    touching = meeting = True
    smallest_push, push_x, push_y = np.inf, 0.0, 0.0
    for side in range(8):  # four sides of each rectangle
        cos, sin = (first[0], first[1]) if side < 4 else (second[0], second[1])
        # Outward normal (nx, ny) of the side, in the order of highway-env: back, right, front, left.
        turn = side % 4
        if turn == 0:
            nx, ny = -cos, -sin
        elif turn == 1:
            nx, ny = -sin, cos
        elif turn == 2:
            nx, ny = cos, sin
        else:
            nx, ny = sin, -cos
        # Shadows on the normal: the first reaches from -half to half, the second around `centre`.
        half = _half_extent(first, nx, ny)
        half_of_second = _half_extent(second, nx, ny)
        centre = dx * nx + dy * ny
        if _interval_distance(-half, half, centre - half_of_second, centre + half_of_second) > 0:
            touching = False
        # The movement stretches the shadow of the first.
        move = move_x * nx + move_y * ny
        distance = _interval_distance(
            -half + min(move, 0.0), half + max(move, 0.0), centre - half_of_second, centre + half_of_second
        )
        if distance > 0:
            meeting = False
        if not touching and not meeting:
            return False, False, 0.0, 0.0
        # Overlapping shadows have a negative distance; the least overlap needs the smallest push.
        if abs(distance) < smallest_push:
            smallest_push = abs(distance)
            sign = 1.0 if centre < 0 else -1.0
            push_x, push_y = sign * nx * smallest_push, sign * ny * smallest_push
    return touching, meeting, push_x, push_y


@inlined
def _half_extent(rectangle: tuple[float, float, float, float], nx: float, ny: float) -> float:
    """Return half the extent of a rectangle (cos, sin, length, width) in the direction of a unit vector."""
    cos, sin, length, width = rectangle
    return abs(cos * nx + sin * ny) * (length / 2) + abs(cos * ny - sin * nx) * (width / 2)


@inlined
def _interval_distance(low: float, high: float, other_low: float, other_high: float) -> float:
    """Return the gap between two intervals, negative if they overlap."""
    return other_low - high if low < other_low else low - other_high
