"""How vehicles drive, compiled: steering, IDM, MOBIL, collisions and the rules of the road, a frame at a time.

A frame is as in highway-env: every vehicle decides in turn (`_decide`; what one has decided the next one sees), now
and then the rules of the road are enforced, then all move (`_move`), then collisions are found (`_collide`). Nobody
moves while others decide, so one order along x serves for the neighbours of all and for the collisions before.

Two things are computed otherwise than there, with the same outcome up to rounding (some 1e-15): the sine of the slip
angle β stands for the steering angle δ, of which only β = atan(tan δ / 2) is ever used, and neighbours and collision
partners are looked up in the order along x instead of among all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.environments.highway.compiled import compiled, inlined
from legible.environments.highway.roads import (
    AMPLITUDE,
    CIRCULAR,
    DIRECTION_X,
    DIRECTION_Y,
    FIRST_LANE,
    KIND,
    LANE_LENGTH,
    LANE_WIDTH,
    LANES,
    NUMBER,
    PRIORITY,
    RADIUS,
    ROAD,
    SPEED_LIMIT,
    START_X,
    START_Y,
    Roads,
    closest_lane_inlined,
    heading_at,
    is_after_end,
    is_on_lane,
    is_reachable,
    local_coordinates,
    longitudinal_of,
    next_lane,
    position_on,
    wrap_to_pi,
)
from legible.environments.highway.state import (
    ACCELERATION,
    ANY_LANE,
    COS,
    COUNT,
    CRASHED,
    EGO,
    EXPONENT,
    FASTER,
    FRAMES,
    HEADING,
    LANE,
    LANE_LEFT,
    LANE_RIGHT,
    LENGTH,
    MAX_SPEED,
    OBSTACLE_LENGTH,
    OBSTACLE_WIDTH,
    ROUTE,
    ROUTE_LANE,
    ROUTE_LENGTH,
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
    WIDTH,
    YIELDING,
    Driving,
    X,
    Y,
)

# Gains of the controllers: speed, heading, lateral position; how far ahead the lane's heading is looked up (seconds).
_KP_SPEED, _KP_HEADING, _KP_LATERAL = 1 / 0.6, 1 / 0.2, 1 / 0.6
_PURSUIT = 0.5 * 0.2
# The steering angle ends at ±π/3; this is the sine of the slip angle there.
_MAX_SLIP = np.sin(np.arctan(0.5 * np.tan(np.pi / 3)))
_SIN_45 = np.sin(np.pi / 4)

# IDM and MOBIL.
_MAX_ACCELERATION = 6.0
_TIME_WANTED = 1.5
_LANE_CHANGE_DELAY = 1.0
_MAX_BRAKING_IMPOSED = 2.0
_MIN_GAIN = 0.2

# Beyond a lane's half width, how far off a vehicle still counts as a neighbour on it.
_NEIGHBOUR_MARGIN = 1.0
_SLACK = 1e-9

_DIAGONAL = np.sqrt(LENGTH**2 + WIDTH**2)
_OBSTACLE_DIAGONAL = np.sqrt(OBSTACLE_LENGTH**2 + OBSTACLE_WIDTH**2)

# Rules of the road: how far ahead conflicts are looked for, and the size of a vehicle there.
_HORIZON, _HORIZON_STEP = 11, 0.25
_CONFLICT_HALF_LENGTH, _CONFLICT_HALF_WIDTH = 0.75 * LENGTH, 0.45 * WIDTH

_NOBODY = -1


class Scratch(NamedTuple):
    """Room to work in; holds nothing from one step to the next."""

    order: NDArray[np.int32]  # [capacity] columns by x
    rank: NDArray[np.int32]  # [capacity] where each column is in `order`
    pairs: NDArray[np.int64]  # [8 capacity] pairs that may collide, as first · 2³² + second
    foreseen: NDArray[np.float64]  # [capacity, horizon, 4] where each will be: x, y, lane, longitudinal
    bounds: NDArray[np.float64]  # [capacity, 4] the box around those positions
    seen: NDArray[np.int64]  # [capacity + 8] who is in the observation
    distances: NDArray[np.float64]  # [capacity + 8] how far off those are
    records: NDArray[np.float64]  # [2, 16] values of ego and of another


@njit(cache=True, nogil=True)
def new_scratch(capacity: int) -> Scratch:
    """Make room for an episode with so many vehicles."""
    return Scratch(
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(8 * capacity, np.int64),
        np.zeros((capacity, _HORIZON, 4)),
        np.zeros((capacity, 4)),
        np.zeros(capacity + 8, np.int64),
        np.zeros(capacity + 8),
        np.zeros((2, 16)),
    )


@compiled
def simulate_step(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    episode: NDArray[np.int64],
    command: int,
    scratch: Scratch,
) -> None:
    """Tell ego what to do (LANE_LEFT …) and simulate the frames of a policy step."""
    command_ego(roads, driving, motion, marks, episode, command)
    simulate_frames(roads, driving, motion, marks, episode, driving.frames, scratch)


@compiled
def simulate_frames(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    episode: NDArray[np.int64],
    n: int,
    scratch: Scratch,
) -> None:
    """Simulate n frames."""
    count, ego = episode[COUNT], episode[EGO]
    for i in range(count):
        scratch.order[i] = i
    _sort_by_x(motion, count, scratch)
    for _ in range(n):
        for i in range(count):
            if i == ego:
                _steer_ego(roads, motion, marks, i)
            elif not marks[CRASHED, i]:
                _decide(roads, driving, motion, marks, count, i, scratch)
        episode[FRAMES] += 1
        if driving.regulation_period and episode[FRAMES] % driving.regulation_period == 0:
            _enforce_rules(roads, motion, marks, count, ego, scratch)
        for i in range(count):
            _move(roads, driving.dt, motion, marks, i)
        _sort_by_x(motion, count, scratch)
        _collide(roads, driving, motion, marks, count, ego, scratch)


@compiled
def _sort_by_x(motion: NDArray[np.float64], count: int, scratch: Scratch) -> None:
    """Order the vehicles along x, starting from the order before, which is nearly right already."""
    order = scratch.order
    for k in range(1, count):
        i = order[k]
        at = motion[X, i]
        free = k
        while free > 0 and motion[X, order[free - 1]] > at:
            order[free] = order[free - 1]
            free -= 1
        order[free] = i
    for k in range(count):
        scratch.rank[order[k]] = k


# Ego -----------------------------------------------------------------------------------------------------------------


@compiled
def nearest_speed(target_speeds: NDArray[np.float64], speed: float) -> int:
    """Which of evenly spaced target speeds is the closest."""
    last = len(target_speeds) - 1
    share = (speed - target_speeds[0]) / (target_speeds[last] - target_speeds[0])
    return int(min(max(np.rint(share * last), 0.0), float(last)))


@compiled
def command_ego(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    episode: NDArray[np.int64],
    command: int,
) -> None:
    """Let a command change ego's target speed or target lane."""
    ego = episode[EGO]
    if command in (FASTER, SLOWER):
        index = nearest_speed(driving.target_speeds, motion[SPEED, ego]) + (1 if command == FASTER else -1)
        index = min(max(index, 0), len(driving.target_speeds) - 1)
        episode[SPEED_INDEX] = index
        motion[TARGET_SPEED, ego] = driving.target_speeds[index]
    _follow_road(roads, motion, marks, ego)
    if command in (LANE_LEFT, LANE_RIGHT):
        lane = marks[TARGET_LANE, ego]
        first = roads.roads[roads.marks[lane, ROAD], FIRST_LANE]
        last = first + roads.roads[roads.marks[lane, ROAD], LANES] - 1
        wanted = min(max(lane + (1 if command == LANE_RIGHT else -1), first), last)
        if is_reachable(roads, wanted, motion[X, ego], motion[Y, ego]):
            marks[TARGET_LANE, ego] = wanted


@inlined
def _steer_ego(roads: Roads, motion: NDArray[np.float64], marks: NDArray[np.int32], ego: int) -> None:
    _follow_road(roads, motion, marks, ego)
    motion[SLIP, ego] = steer(roads, motion, ego, marks[TARGET_LANE, ego])
    motion[ACCELERATION, ego] = _KP_SPEED * (motion[TARGET_SPEED, ego] - motion[SPEED, ego])


# Steering ------------------------------------------------------------------------------------------------------------


@inlined
def _follow_road(roads: Roads, motion: NDArray[np.float64], marks: NDArray[np.int32], i: int) -> None:
    """At the end of the target lane, go for the next one."""
    lane, x, y = marks[TARGET_LANE, i], motion[X, i], motion[Y, i]
    if is_after_end(roads, lane, x, y):
        marks[TARGET_LANE, i] = next_lane(roads, marks, i, lane, x, y)


@inlined
def _not_zero(value: float) -> float:
    if abs(value) > 1e-2:
        return value
    return 1e-2 if value >= 0 else -1e-2


@inlined
def steer(roads: Roads, motion: NDArray[np.float64], i: int, lane: int) -> float:
    """The sine of the slip angle with which vehicle i steers towards the middle of a lane."""
    speed = motion[SPEED, i]
    s, r = local_coordinates(roads, lane, motion[X, i], motion[Y, i])
    reference = heading_at(roads, lane, s + speed * _PURSUIT)
    divisor = _not_zero(speed)
    sideways = -_KP_LATERAL * r / divisor
    if abs(sideways) >= _SIN_45:
        reference += np.copysign(np.pi / 4, sideways)
    elif sideways != 0.0:
        reference += np.arcsin(sideways)
    rate = _KP_HEADING * wrap_to_pi(reference - motion[HEADING, i])
    return min(max(LENGTH / 2 / divisor * rate, -_MAX_SLIP), _MAX_SLIP)


# IDM and MOBIL -------------------------------------------------------------------------------------------------------


@inlined
def _decide(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    i: int,
    scratch: Scratch,
) -> None:
    """Let another driver than ego choose lane, steering and acceleration."""
    _follow_road(roads, motion, marks, i)
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
    share = max(motion[SPEED, i], 0.0) / abs(_not_zero(target))
    return driving.comfort_acceleration * (1.0 - share**exponent)


@inlined
def desired_gap(driving: Driving, motion: NDArray[np.float64], i: int, front_vx: float, front_vy: float) -> float:
    """IDM's distance wanted between vehicle i and one in front that has this velocity."""
    speed, cos, sin = motion[SPEED, i], motion[COS, i], motion[SIN, i]
    closing = (speed * cos - front_vx) * cos + (speed * sin - front_vy) * sin
    braking = 2 * np.sqrt(-driving.comfort_acceleration * driving.comfort_braking)
    return driving.distance_wanted + speed * _TIME_WANTED + speed * closing / braking


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
    """How much IDM brakes vehicle i for what is in front: nothing (-1), a vehicle, or (from `count` on) an obstacle."""
    if front == _NOBODY:
        return 0.0
    x, y, vx, vy = 0.0, 0.0, 0.0, 0.0
    if front < count:
        x, y = motion[X, front], motion[Y, front]
        vx, vy = motion[SPEED, front] * motion[COS, front], motion[SPEED, front] * motion[SIN, front]
    else:
        x, y = roads.obstacles[front - count, 0], roads.obstacles[front - count, 1]
    lane = marks[LANE, i]
    distance = longitudinal_of(roads, lane, x, y) - longitudinal_of(roads, lane, motion[X, i], motion[Y, i])
    ratio = desired_gap(driving, motion, i, vx, vy) / _not_zero(distance)
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
    if (
        number > 0
        and is_reachable(roads, lane - 1, motion[X, i], motion[Y, i])
        and should_change(roads, driving, motion, marks, count, i, lane - 1, scratch)
    ):
        marks[TARGET_LANE, i] = lane - 1
    if (
        number < roads.roads[road, LANES] - 1
        and is_reachable(roads, lane + 1, motion[X, i], motion[Y, i])
        and should_change(roads, driving, motion, marks, count, i, lane + 1, scratch)
    ):
        marks[TARGET_LANE, i] = lane + 1


@compiled
def _is_contested(
    roads: Roads, driving: Driving, motion: NDArray[np.float64], marks: NDArray[np.int32], count: int, i: int
) -> bool:
    """Whether another vehicle, close in front, is changing to the same lane as vehicle i."""
    lane, target = marks[LANE, i], marks[TARGET_LANE, i]
    for j in range(count):
        if j == i or marks[TARGET_LANE, j] != target or marks[LANE, j] == target:
            continue
        distance = longitudinal_of(roads, lane, motion[X, j], motion[Y, j]) - longitudinal_of(
            roads, lane, motion[X, i], motion[Y, i]
        )
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
    if following != _NOBODY and following < count:
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


# Neighbours ----------------------------------------------------------------------------------------------------------


@inlined
def neighbours(
    roads: Roads, motion: NDArray[np.float64], count: int, i: int, lane: int, scratch: Scratch
) -> tuple[int, int]:
    """Who is in front of vehicle i on a lane, and who behind: -1 for nobody; from `count` on, obstacles."""
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
    front, nearest = _NOBODY, np.inf
    for k in range(level, count):
        j = order[k]
        if motion[X, j] > nearest:
            break
        # Of several equally far ahead the last in the list counts.
        if j != i and abs(motion[Y, j] - middle) <= reach and start <= motion[X, j] < end and j > front:
            front, nearest = j, motion[X, j]
    rear, nearest = _NOBODY, -np.inf
    for k in range(level - 1, -1, -1):
        j = order[k]
        if motion[X, j] < nearest:
            break
        # Of several equally far behind the first.
        if abs(motion[Y, j] - middle) <= reach and start <= motion[X, j] < end and (rear == _NOBODY or j < rear):
            rear, nearest = j, motion[X, j]
    return front, rear


@compiled
def _neighbours_among_all(roads: Roads, motion: NDArray[np.float64], count: int, i: int, lane: int) -> tuple[int, int]:
    s = longitudinal_of(roads, lane, motion[X, i], motion[Y, i])
    front, rear, s_front, s_rear = _NOBODY, _NOBODY, np.inf, -np.inf
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
    """Whether a position is beside a lane and no neighbour on it, as far as can be said without trigonometry."""
    lanes = roads.lanes
    reach = lanes[lane, LANE_WIDTH] / 2 + _NEIGHBOUR_MARGIN + _SLACK
    dx, dy = x - lanes[lane, START_X], y - lanes[lane, START_Y]
    if roads.marks[lane, KIND] == CIRCULAR:
        square = dx * dx + dy * dy
        outer, inner = lanes[lane, RADIUS] + reach, max(lanes[lane, RADIUS] - reach, 0.0)
        return square > outer * outer or square < inner * inner
    return abs(dy * lanes[lane, DIRECTION_X] - dx * lanes[lane, DIRECTION_Y]) > reach + lanes[lane, AMPLITUDE]


# Motion --------------------------------------------------------------------------------------------------------------


@inlined
def _move(roads: Roads, dt: float, motion: NDArray[np.float64], marks: NDArray[np.int32], i: int) -> None:
    """Move vehicle i by a frame: the bicycle model, with the slip angle at its centre."""
    speed, slip, acceleration = motion[SPEED, i], motion[SLIP, i], motion[ACCELERATION, i]
    if marks[CRASHED, i]:
        slip, acceleration = 0.0, -speed
    if speed > MAX_SPEED:
        acceleration = min(acceleration, MAX_SPEED - speed)
    elif speed < -MAX_SPEED:
        acceleration = max(acceleration, -MAX_SPEED - speed)
    cos, sin = motion[COS, i], motion[SIN, i]
    if slip != 0.0:
        straight = np.sqrt(1.0 - slip * slip)
        cos, sin = cos * straight - sin * slip, sin * straight + cos * slip
        heading = motion[HEADING, i] + speed * slip / (LENGTH / 2) * dt
        motion[HEADING, i] = heading
        motion[COS, i] = np.cos(heading)
        motion[SIN, i] = np.sin(heading)
    motion[X, i] += speed * cos * dt
    motion[Y, i] += speed * sin * dt
    if marks[SHOVED, i]:
        motion[X, i] += motion[SHOVE_X, i]
        motion[Y, i] += motion[SHOVE_Y, i]
        marks[CRASHED, i] = 1
        marks[SHOVED, i] = 0
    motion[SPEED, i] = speed + acceleration * dt
    motion[TIMER, i] += dt
    marks[LANE, i] = closest_lane_inlined(roads, motion[X, i], motion[Y, i], motion[HEADING, i], marks[LANE, i])


# Collisions ----------------------------------------------------------------------------------------------------------


@compiled
def _collide(
    roads: Roads,
    driving: Driving,
    motion: NDArray[np.float64],
    marks: NDArray[np.int32],
    count: int,
    ego: int,
    scratch: Scratch,
) -> None:
    """Find the pairs that touch, or will within a frame, in the order of the list: the last shove counts."""
    n = _close_pairs(roads, driving, motion, count, ego, scratch)
    for k in range(n):
        first, second = scratch.pairs[k] >> 32, scratch.pairs[k] & 0xFFFFFFFF
        _collide_pair(roads, driving.dt, motion, marks, count, first, second)


@compiled
def _close_pairs(
    roads: Roads, driving: Driving, motion: NDArray[np.float64], count: int, ego: int, scratch: Scratch
) -> int:
    """Collect the pairs whose distance allows a collision, sorted, and return how many there are."""
    xs, ys, speeds, order, pairs = motion[X], motion[Y], motion[SPEED], scratch.order, scratch.pairs
    dt, room = driving.dt, len(scratch.pairs)
    fastest = 0.0
    for i in range(count):
        fastest = max(fastest, speeds[i])
    reach = _DIAGONAL + fastest * dt
    n = 0
    for rank in range(count):
        i = order[rank]
        for other_rank in range(rank + 1, count):
            j = order[other_rank]
            if xs[j] - xs[i] > reach:
                break
            if driving.only_ego_collides and ego not in (i, j):
                continue
            first, second = min(i, j), max(i, j)
            dx, dy = xs[j] - xs[i], ys[j] - ys[i]
            # Only the first one's speed counts here, as in highway-env.
            if np.sqrt(dx * dx + dy * dy) <= _DIAGONAL + speeds[first] * dt and n < room:
                n = _insert_sorted(pairs, n, (int(first) << 32) | second)
    for k in range(len(roads.obstacles)):
        for i in range(count):
            dx, dy = roads.obstacles[k, 0] - xs[i], roads.obstacles[k, 1] - ys[i]
            near = (_DIAGONAL + _OBSTACLE_DIAGONAL) / 2 + speeds[i] * dt
            if np.sqrt(dx * dx + dy * dy) <= near and n < room:
                n = _insert_sorted(pairs, n, (int(i) << 32) | (count + k))
    return n


@compiled
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
    """Whether two rectangles touch, whether they will when one has moved, and the least shove of one that parts them.

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


# Rules of the road ---------------------------------------------------------------------------------------------------


@compiled
def _enforce_rules(
    roads: Roads, motion: NDArray[np.float64], marks: NDArray[np.int32], count: int, ego: int, scratch: Scratch
) -> None:
    """Let those who yielded go on, foresee where everybody will be, and make one of each pair in conflict yield."""
    for i in range(count):
        if marks[YIELDING, i]:
            motion[TARGET_SPEED, i] = roads.lanes[marks[LANE, i], SPEED_LIMIT]
            marks[YIELDING, i] = 0
        _foresee(roads, motion, marks, i, scratch)
    for i in range(count - 1):
        for j in range(i + 1, count):
            if _may_conflict(roads, scratch, i, j):
                yielding = who_yields(roads, motion, marks, i, j)
                if yielding != ego:
                    motion[TARGET_SPEED, yielding] = 0.0
                    marks[YIELDING, yielding] = 1


@compiled
def _foresee(roads: Roads, motion: NDArray[np.float64], marks: NDArray[np.int32], i: int, scratch: Scratch) -> None:
    """Write down where vehicle i will be along its route at constant speed.

    The way begins on the first road of the route with the longitudinal coordinate of the present lane, even where the
    two differ, as in highway-env.
    """
    here = marks[LANE, i]
    start = longitudinal_of(roads, here, motion[X, i], motion[Y, i])
    length = marks[ROUTE_LENGTH, i]
    left, right, top, bottom = np.inf, -np.inf, np.inf, -np.inf
    for k in range(_HORIZON):
        s = start + motion[SPEED, i] * (_HORIZON_STEP * (k + 1))
        at, lane = 0, here
        if length > 0:
            lane = _lane_on_route(roads, marks, i, 0)
            while at < length - 1 and s > roads.lanes[lane, LANE_LENGTH]:
                s -= roads.lanes[lane, LANE_LENGTH]
                at += 1
                lane = _lane_on_route(roads, marks, i, at)
        x, y = position_on(roads, lane, s, 0.0)
        place = scratch.foreseen[i, k]
        place[0], place[1], place[2], place[3] = x, y, lane, s
        left, right, top, bottom = min(left, x), max(right, x), min(top, y), max(bottom, y)
    box = scratch.bounds[i]
    box[0], box[1], box[2], box[3] = left, right, top, bottom


@compiled
def _lane_on_route(roads: Roads, marks: NDArray[np.int32], i: int, at: int) -> int:
    """The lane of a road on vehicle i's route: the one it wants there, else the one with its present number."""
    number = (
        marks[ROUTE_LANE, i] if at == 0 and marks[ROUTE_LANE, i] != ANY_LANE else roads.marks[marks[LANE, i], NUMBER]
    )
    return roads.roads[marks[ROUTE + at, i], FIRST_LANE] + number


@compiled
def _may_conflict(roads: Roads, scratch: Scratch, i: int, j: int) -> bool:
    """Whether two vehicles will be in each other's way."""
    one, other = scratch.bounds[i], scratch.bounds[j]
    if one[0] - other[1] > LENGTH or other[0] - one[1] > LENGTH:
        return False
    if one[2] - other[3] > LENGTH or other[2] - one[3] > LENGTH:
        return False
    for k in range(_HORIZON):
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
    """Whether the middle, a corner or the middle of a side of a rectangle at (dx, dy) lies in another at the origin.

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
def who_yields(roads: Roads, motion: NDArray[np.float64], marks: NDArray[np.int32], i: int, j: int) -> int:
    """Who of two vehicles in conflict yields: the one without right of way, else the one behind."""
    one, other = roads.marks[marks[LANE, i], PRIORITY], roads.marks[marks[LANE, j], PRIORITY]
    if one != other:
        return j if one > other else i
    dx, dy = motion[X, j] - motion[X, i], motion[Y, j] - motion[Y, i]
    ahead = motion[COS, i] * dx + motion[SIN, i] * dy
    ahead_of_other = -(motion[COS, j] * dx + motion[SIN, j] * dy)
    return i if ahead > ahead_of_other else j
