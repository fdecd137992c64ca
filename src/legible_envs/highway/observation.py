"""The observation of ego: a row for itself, then one for each of the vehicles that are nearest along its lane.

The values, their order and their quirks are those of highway-env's Kinematics observation: ego's own row is never
relative, distances are measured along ego's present lane whatever the road does there, and rows without a vehicle are
zero after normalisation, not before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible_envs.compiled import compiled, inlined
from legible_envs.highway.roads import (
    FIRST_LANE,
    LANE_LENGTH,
    Roads,
    heading_at,
    local_coordinates,
    longitudinal_of,
    position_on,
    wrap_to_pi,
)
from legible_envs.highway.scratch import Scratch
from legible_envs.highway.state import (
    ANY_LANE,
    COS,
    COUNT,
    EGO,
    HEADING,
    LANE,
    LENGTH,
    ROUTE,
    ROUTE_LANE,
    ROUTE_LENGTH,
    SIN,
    SPEED,
    Counters,
    Marks,
    Motion,
    X,
    Y,
)

# What a column can hold. A column's code is its place here.
OBSERVABLE = (
    "presence",
    "x",
    "y",
    "vx",
    "vy",
    "heading",
    "cos_h",
    "sin_h",
    "cos_d",
    "sin_d",
    "long_off",
    "lat_off",
    "ang_off",
)
(_PRESENCE, _X, _Y, _VX, _VY, _HEADING, _COS_H, _SIN_H, _COS_D, _SIN_D, _LONG_OFF, _LAT_OFF, _ANG_OFF) = range(13)
_N_VALUES = len(OBSERVABLE)

PERCEPTION_DISTANCE = 200.0
_SEEN_BEHIND = -2 * LENGTH


class Viewing(NamedTuple):
    """The settings that the observation needs."""

    rows: int
    columns: NDArray[np.int64]  # codes
    lows: NDArray[np.float64]  # the value that becomes -1; NaN: the column is not normalised
    highs: NDArray[np.float64]  # the value that becomes 1
    clip: bool
    absolute: bool  # other vehicles in the road's coordinates, not ego's
    sort: bool  # nearest first, not in the order of the road
    see_behind: bool
    intentions: bool  # other vehicles' destinations are seen
    obstacles: bool  # obstacles are seen like vehicles
    detailed: bool  # some column is about the destination or the place on the lane


def takes_time(column: str) -> bool:
    """Return whether a column is about the destination or the place on the lane, which has to be computed."""
    return OBSERVABLE.index(column) >= _COS_D


@compiled
def observe(
    roads: Roads,
    viewing: Viewing,
    motion: Motion,
    marks: Marks,
    episode: Counters,
    out: NDArray[np.float32],
    scratch: Scratch,
) -> None:
    """Write the observation of the policy: a row for ego (the vehicle that it drives), then one per nearby vehicle.

    Parameters
    ----------
    roads, viewing
        The road network; settings of the observation, such as its columns and number of rows.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    episode
        ``[N_EPISODE]``: EGO is ego's column, COUNT the number of vehicles.
    out
        ``[rows * columns]``: the observation, row after row; written in place.
    scratch
        Working memory: `records` holds the values of ego and of one other vehicle, `seen` the vehicles that get a row.
    """
    n_columns = len(viewing.columns)
    ego_record, record, seen = scratch.records[0], scratch.records[1], scratch.seen
    _describe(roads, viewing, motion, marks, episode[EGO], True, ego_record)
    _write_row(viewing, ego_record, out[:n_columns])
    n_seen = _nearest(roads, viewing, motion, marks, episode, scratch)
    for k in range(n_seen):
        vehicle = seen[k]
        if vehicle < 0:  # obstacle j is -1 - j
            _describe_obstacle(roads, -1 - vehicle, record)
        else:
            _describe(roads, viewing, motion, marks, vehicle, viewing.intentions, record)
        if not viewing.absolute:  # position and velocity relative to ego
            for code in range(_X, _VY + 1):
                record[code] -= ego_record[code]
        _write_row(viewing, record, out[(k + 1) * n_columns : (k + 2) * n_columns])
    # Rows without a vehicle are zero.
    for place in range((n_seen + 1) * n_columns, viewing.rows * n_columns):
        out[place] = 0.0


@compiled
def _nearest(roads: Roads, viewing: Viewing, motion: Motion, marks: Marks, episode: Counters, scratch: Scratch) -> int:
    """Write the vehicles that get a row of the observation into `scratch.seen`, and return how many they are.

    These are the nearest along ego's lane, within sight. A vehicle is given by its column, obstacle k by -1 - k.

    Parameters
    ----------
    roads, viewing
        The road network; settings of the observation.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    episode
        ``[N_EPISODE]``: EGO is the column of the vehicle that the policy drives, COUNT the number of vehicles.
    scratch
        Working memory.
    """
    ego = episode[EGO]
    lane = marks[LANE, ego]
    x, y = motion[X, ego], motion[Y, ego]
    ego_s = longitudinal_of(roads, lane, x, y)  # distance along ego's lane
    n_seen, room = 0, viewing.rows - 1
    for i in range(episode[COUNT]):
        dx, dy = motion[X, i] - x, motion[Y, i] - y
        if i == ego or not np.sqrt(dx * dx + dy * dy) < PERCEPTION_DISTANCE:
            continue
        ahead = longitudinal_of(roads, lane, motion[X, i], motion[Y, i]) - ego_s
        if viewing.see_behind or ahead > _SEEN_BEHIND:
            n_seen = _insert(viewing.sort, scratch, room, n_seen, abs(ahead), i)
    if viewing.obstacles:
        for k in range(len(roads.obstacles)):
            dx, dy = roads.obstacles[k, 0] - x, roads.obstacles[k, 1] - y
            ahead = longitudinal_of(roads, lane, roads.obstacles[k, 0], roads.obstacles[k, 1]) - ego_s
            if np.sqrt(dx * dx + dy * dy) < PERCEPTION_DISTANCE and ahead > _SEEN_BEHIND:
                n_seen = _insert(viewing.sort, scratch, room, n_seen, abs(ahead), -1 - k)
    return n_seen


@inlined
def _insert(sort: bool, scratch: Scratch, room: int, n_seen: int, distance: float, vehicle: int) -> int:
    """Put a vehicle among the nearest ones in `scratch`, and return how many there are now, at most `room`.

    With `sort` they are in the order of their distances, otherwise first come, first served.
    """
    distances, seen = scratch.distances, scratch.seen
    place = n_seen
    if sort:
        while place > 0 and distances[place - 1] > distance:
            place -= 1
    if place == room:
        return n_seen
    last = min(n_seen, room - 1)
    for k in range(last, place, -1):
        distances[k] = distances[k - 1]
        seen[k] = seen[k - 1]
    distances[place] = distance
    seen[place] = vehicle
    return last + 1


@inlined
def _write_row(viewing: Viewing, record: NDArray[np.float64], out: NDArray[np.float32]) -> None:
    """Write the columns of a vehicle, normalised."""
    for k in range(len(viewing.columns)):
        value = record[viewing.columns[k]]
        low, high = viewing.lows[k], viewing.highs[k]
        if not np.isnan(low):
            value = -1.0 + (value - low) * 2.0 / (high - low)
            if viewing.clip:
                # Not min and max: a value that is not a number stays so.
                if value < -1.0:
                    value = -1.0
                elif value > 1.0:
                    value = 1.0
        out[k] = value


@inlined
def _describe(
    roads: Roads, viewing: Viewing, motion: Motion, marks: Marks, i: int, intentions: bool, record: NDArray[np.float64]
) -> None:
    """Write all values that an observation can show of vehicle i into `record`, in the coordinates of the road.

    Parameters
    ----------
    roads, viewing
        The road network; settings of the observation. With `viewing.detailed`, some column needs the values that take
        time to compute: the direction to the destination, and the place on the lane.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    i
        Column of the vehicle.
    intentions
        Whether its destination may be seen.
    record
        ``[values]``: a place per value that can be observed, in the order of `OBSERVABLE`.
    """
    speed, cos, sin = motion[SPEED, i], motion[COS, i], motion[SIN, i]
    record[_PRESENCE] = 1.0
    record[_X] = motion[X, i]
    record[_Y] = motion[Y, i]
    record[_VX] = speed * cos
    record[_VY] = speed * sin
    record[_HEADING] = motion[HEADING, i]
    record[_COS_H] = cos
    record[_SIN_H] = sin
    if viewing.detailed:
        record[_COS_D] = record[_SIN_D] = 0.0
        if intentions:
            record[_COS_D], record[_SIN_D] = _towards_destination(roads, motion, marks, i)
        lane = marks[LANE, i]
        along, aside = local_coordinates(roads, lane, motion[X, i], motion[Y, i])
        record[_LONG_OFF] = along
        record[_LAT_OFF] = aside
        record[_ANG_OFF] = wrap_to_pi(motion[HEADING, i] - heading_at(roads, lane, along))


@compiled
def _towards_destination(roads: Roads, motion: Motion, marks: Marks, i: int) -> tuple[float, float]:
    """Return the direction to the end of the last road of vehicle i's route, zero without a route."""
    length = marks[ROUTE_LENGTH, i]
    if length <= 0:
        return 0.0, 0.0
    lane = roads.roads[marks[ROUTE + length - 1, i], FIRST_LANE]
    if length == 1 and marks[ROUTE_LANE, i] != ANY_LANE:
        lane += marks[ROUTE_LANE, i]
    x, y = position_on(roads, lane, roads.lanes[lane, LANE_LENGTH], 0.0)
    dx, dy = x - motion[X, i], y - motion[Y, i]
    distance = np.sqrt(dx * dx + dy * dy)
    if distance == 0.0:
        return 0.0, 0.0
    return dx / distance, dy / distance


@compiled
def _describe_obstacle(roads: Roads, k: int, record: NDArray[np.float64]) -> None:
    """Write the values of obstacle k, which stands still and faces along the x axis, into `record`."""
    for code in range(_N_VALUES):
        record[code] = 0.0
    record[_PRESENCE] = 1.0
    record[_X] = roads.obstacles[k, 0]
    record[_Y] = roads.obstacles[k, 1]
    record[_COS_H] = 1.0
    # highway-env's obstacles do not know these; its table has holes there.
    record[_HEADING] = np.nan
    record[_LONG_OFF] = record[_LAT_OFF] = record[_ANG_OFF] = np.nan
