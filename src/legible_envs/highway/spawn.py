"""Traffic at the start of an episode, and the intersection's coming and going.

The distributions are highway-env's, its oddities included: traffic on the highway is put ahead of the foremost vehicle,
the intersection's first vehicles do not heed the spawn probability and drive three seconds before ego appears, ego
starts there 5 m ahead of the place that the code names, and vehicles too close to it are then removed.

A random number is a function of the episode's key and of how many were drawn before; see `legible.streams`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.streams import uniform
from legible_envs.compiled import compiled, inlined
from legible_envs.highway.driving import nearest_speed, simulate_frames
from legible_envs.highway.roads import (
    LANE_LENGTH,
    SPEED_LIMIT,
    RoadMap,
    Roads,
    closest_lane,
    heading_at,
    longitudinal_of,
    plan_route,
    position_on,
)
from legible_envs.highway.scratch import Scratch
from legible_envs.highway.state import (
    COUNT,
    DRAWS,
    EGO,
    EXPONENT,
    FRAMES,
    INTERSECTION,
    LANE,
    LENGTH,
    MERGE,
    NO_ROUTE,
    ROUNDABOUT,
    ROUTE_LENGTH,
    RUNNING,
    SPEED_INDEX,
    STATUS,
    STEPS,
    TARGET_SPEED,
    Counters,
    Driving,
    Marks,
    Motion,
    X,
    Y,
    move_column,
    place_vehicle,
)

# Bounds of the exponent that a driver's own IDM acceleration has.
_EXPONENT_LOW, _EXPONENT_HIGH = 3.5, 4.5
# Highway: ego's speed, the others' speeds as shares of the limit, and how the gap ahead follows from the speed.
_EGO_SPEED, _SLOWEST, _FASTEST = 25.0, 0.7, 0.8
_STANDING_GAP, _GAP_PER_SPEED, _CLOSER_PER_LANE = 12.0, 1.0, 5 / 40
# Intersection: the probability that holds before ego appears, free space around a vehicle that enters, free space
# around ego when it appears, and how far before the end of the way out vehicles leave.
_FIRST_PROBABILITY, _ROOM, _ROOM_FOR_EGO, _BEFORE_END = 0.6, 15.0, 20.0, 4 * LENGTH


class Spawning(NamedTuple):
    """The settings that the kernels for new vehicles need."""

    scenario: int
    vehicles: int  # highway: other vehicles
    ego_lane: int  # highway: the lane on which ego starts, -1 for a random one
    ego_spacing: float  # highway: ego's gap, as a multiple of the usual one
    spacing: float  # highway: the others' gap
    initial_vehicles: int  # intersection: attempts to put vehicles on the road at the start, plus one
    spawn_probability: float  # intersection: that a vehicle tries to enter after a step
    destination: int  # intersection: ego's; roundabout: the first vehicle's; an index into `goals`, -1 at random
    warm_up_frames: int  # intersection: frames before ego appears
    lanes: NDArray[np.int64]  # where vehicles start
    goals: NDArray[np.int64]  # nodes where they go
    exits: NDArray[np.bool_]  # intersection: which lanes lead out of it


class Places(NamedTuple):
    """Lanes and nodes of a road network at which traffic starts and ends."""

    lanes: NDArray[np.int64]
    goals: NDArray[np.int64]
    exits: NDArray[np.bool_]


# Lanes in the order in which the functions below name them.
_STARTS: dict[int, list[tuple[str, str, int]]] = {
    MERGE: [("a", "b", 0), ("a", "b", 1), ("j", "k", 0)],
    ROUNDABOUT: [("ser", "ses", 0), ("we", "sx", 0), ("we", "sx", 1), ("eer", "ees", 0)],
    INTERSECTION: [(f"o{corner}", f"ir{corner}", 0) for corner in range(4)],
}
# Of the roundabout's, the last is ego's.
_GOALS: dict[int, list[str]] = {
    ROUNDABOUT: ["exr", "sxr", "nxr", "nxs"],
    INTERSECTION: [f"o{corner}" for corner in range(4)],
}


def places_of(scenario: int, roads: RoadMap) -> Places:
    """Look up where a scenario's traffic starts and ends."""
    exits = [origin.startswith("il") and end.startswith("o") for origin, end, _ in roads.lane_names]
    return Places(
        np.array([roads.lane_number(name) for name in _STARTS.get(scenario, [])], np.int64),
        np.array([roads.node_number(name) for name in _GOALS.get(scenario, [])], np.int64),
        np.array(exits, np.bool_),
    )


@compiled
def start_episode(
    roads: Roads,
    driving: Driving,
    spawning: Spawning,
    motion: Motion,
    marks: Marks,
    episode: Counters,
    key: np.uint64,
    scratch: Scratch,
) -> None:
    """Reset the arrays of one episode and put its first vehicles onto the road.

    Parameters
    ----------
    roads, driving, spawning
        The road network; settings of driving and of new vehicles, among them the scenario.
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle. Written in
        place.
    episode
        ``[N_EPISODE]``: counters of the episode, written in place.
    key
        Names the stream of random numbers of the episode, which begins anew.
    scratch
        Working memory.
    """
    episode[COUNT] = 0
    episode[EGO] = -1
    episode[FRAMES] = 0
    episode[STEPS] = 0
    episode[STATUS] = RUNNING
    episode[DRAWS] = 0
    if spawning.scenario == MERGE:
        _start_merge(roads, driving, spawning, motion, marks, episode, key)
    elif spawning.scenario == ROUNDABOUT:
        _start_roundabout(roads, driving, spawning, motion, marks, episode, key)
    elif spawning.scenario == INTERSECTION:
        _start_intersection(roads, driving, spawning, motion, marks, episode, key, scratch)
    else:
        _start_highway(roads, driving, spawning, motion, marks, episode, key)


@compiled
def renew_traffic(
    roads: Roads, spawning: Spawning, motion: Motion, marks: Marks, episode: Counters, key: np.uint64
) -> None:
    """Remove vehicles that leave the intersection after a step, and let one enter at random. Does nothing elsewhere."""
    if spawning.scenario != INTERSECTION:
        return
    _clear_leaving(roads, spawning, motion, marks, episode)
    _try_to_enter(roads, spawning, motion, marks, episode, key, 0.0, spawning.spawn_probability, crosses=False)


# Random numbers -------------------------------------------------------------------------------------------------------


@compiled
def _draw(episode: Counters, key: np.uint64) -> float:
    """Return the next number in [0, 1)."""
    number = uniform(key, np.uint64(episode[DRAWS]))
    episode[DRAWS] += 1
    return number


@inlined
def _draw_between(episode: Counters, key: np.uint64, low: float, high: float) -> float:
    return low + (high - low) * _draw(episode, key)


@inlined
def _draw_below(episode: Counters, key: np.uint64, n: int) -> int:
    """Return a whole number from 0 to n - 1."""
    return int(_draw(episode, key) * n)


@compiled
def _draw_normal(episode: Counters, key: np.uint64) -> float:
    """Return a number from the standard normal distribution (Box and Muller)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - _draw(episode, key)))
    return radius * np.cos(2.0 * np.pi * _draw(episode, key))


# Vehicles -------------------------------------------------------------------------------------------------------------


@compiled
def _add(
    roads: Roads, motion: Motion, marks: Marks, episode: Counters, lane: int, longitudinal: float, speed: float
) -> int:
    """Put a vehicle onto the middle of a lane, and return its column. Beyond a lane's end it is on another."""
    i = episode[COUNT]
    x, y = position_on(roads, lane, longitudinal, 0.0)
    heading = heading_at(roads, lane, longitudinal)
    place_vehicle(motion, marks, i, x, y, heading, speed, closest_lane(roads, x, y, heading, lane))
    episode[COUNT] = i + 1
    return i


@compiled
def _add_ego(
    roads: Roads,
    driving: Driving,
    motion: Motion,
    marks: Marks,
    episode: Counters,
    lane: int,
    longitudinal: float,
    speed: float,
) -> int:
    """Put ego onto the middle of a lane; it goes for the target speed nearest to its own."""
    i = _add(roads, motion, marks, episode, lane, longitudinal, speed)
    episode[EGO] = i
    episode[SPEED_INDEX] = nearest_speed(driving.target_speeds, speed)
    motion[TARGET_SPEED, i] = driving.target_speeds[episode[SPEED_INDEX]]
    return i


@inlined
def _draw_exponent(motion: Motion, episode: Counters, key: np.uint64, i: int) -> None:
    motion[EXPONENT, i] = _draw_between(episode, key, _EXPONENT_LOW, _EXPONENT_HIGH)


@inlined
def _send(
    roads: Roads, spawning: Spawning, motion: Motion, marks: Marks, episode: Counters, key: np.uint64, i: int, goal: int
) -> None:
    """Give vehicle i a route to one of the goals, and a driver."""
    plan_route(roads, marks, i, marks[LANE, i], spawning.goals[goal])
    _draw_exponent(motion, episode, key, i)


# Scenarios ------------------------------------------------------------------------------------------------------------


@compiled
def _start_highway(
    roads: Roads, driving: Driving, spawning: Spawning, motion: Motion, marks: Marks, episode: Counters, key: np.uint64
) -> None:
    """Put ego (the vehicle of the policy) onto the highway, and the others ahead of it, each in front of the last.

    `motion` ``[N_MOTION, vehicles]`` and `marks` ``[N_MARKS, vehicles]`` get a column per vehicle, `episode` its
    counters. `key` names the stream of random numbers.
    """
    lanes = len(roads.lanes)
    closer = np.exp(-_CLOSER_PER_LANE * lanes)  # on more lanes, gaps are smaller
    lane = spawning.ego_lane
    if lane < 0:  # at random
        lane = _draw_below(episode, key, lanes)
    gap = spawning.ego_spacing * (_STANDING_GAP + _GAP_PER_SPEED * _EGO_SPEED) * closer
    foremost = 3 * gap + gap * _draw_between(episode, key, 0.9, 1.1)
    _add_ego(roads, driving, motion, marks, episode, lane, foremost, _EGO_SPEED)
    for _ in range(spawning.vehicles):
        lane = _draw_below(episode, key, lanes)
        limit = roads.lanes[lane, SPEED_LIMIT]
        speed = _draw_between(episode, key, _SLOWEST * limit, _FASTEST * limit)
        gap = spawning.spacing * (_STANDING_GAP + _GAP_PER_SPEED * speed) * closer
        foremost += gap * _draw_between(episode, key, 0.9, 1.1)
        i = _add(roads, motion, marks, episode, lane, foremost, speed)
        _draw_exponent(motion, episode, key, i)


@compiled
def _start_merge(
    roads: Roads, driving: Driving, spawning: Spawning, motion: Motion, marks: Marks, episode: Counters, key: np.uint64
) -> None:
    """Put ego onto the main road, three vehicles ahead of and behind it, and one onto the ramp that merges.

    `motion` ``[N_MOTION, vehicles]`` and `marks` ``[N_MARKS, vehicles]`` get a column per vehicle, `episode` its
    counters. `key` names the stream of random numbers. Places, speeds and lanes are highway-env's.
    """
    # Ego at 30 m with 30 m/s; the others on either lane of the main road, with some variation.
    _add_ego(roads, driving, motion, marks, episode, spawning.lanes[1], 30.0, 30.0)
    for place, speed in ((90.0, 29.0), (70.0, 31.0), (5.0, 31.5)):
        lane = spawning.lanes[_draw_below(episode, key, 2)]
        longitudinal = place + _draw_between(episode, key, -5.0, 5.0)
        _add(roads, motion, marks, episode, lane, longitudinal, speed + _draw_between(episode, key, -1.0, 1.0))
    # The merging vehicle is slow and wants to go as fast as the others.
    merging = _add(roads, motion, marks, episode, spawning.lanes[2], 110.0, 20.0)
    motion[TARGET_SPEED, merging] = 30.0


@compiled
def _start_roundabout(
    roads: Roads, driving: Driving, spawning: Spawning, motion: Motion, marks: Marks, episode: Counters, key: np.uint64
) -> None:
    """Put ego (the vehicle of the policy) before the roundabout, three vehicles onto it, and one before another entry.

    `motion` ``[N_MOTION, vehicles]`` and `marks` ``[N_MARKS, vehicles]`` get a column per vehicle, `episode` its
    counters. `key` names the stream of random numbers. Places (metres along a lane) and speeds are highway-env's.
    """
    # Ego at 125 m with 8 m/s; the last goal is its way out.
    ego = _add_ego(roads, driving, motion, marks, episode, spawning.lanes[0], 125.0, 8.0)
    plan_route(roads, marks, ego, marks[LANE, ego], spawning.goals[3])
    # The others: lane and place along it.
    inner, outer, entering = spawning.lanes[1], spawning.lanes[2], spawning.lanes[3]
    places = ((outer, 5.0), (inner, 20.0), (inner, -20.0), (entering, 50.0))
    for number, (lane, place) in enumerate(places):
        longitudinal = place + 2.0 * _draw_normal(episode, key)
        i = _add(roads, motion, marks, episode, lane, longitudinal, 16.0 + 2.0 * _draw_normal(episode, key))
        # Only the first vehicle can have a destination by the settings; all others draw one of the first three.
        goal = spawning.destination
        if number > 0 or goal < 0:
            goal = _draw_below(episode, key, 3)
        _send(roads, spawning, motion, marks, episode, key, i, goal)


@compiled
def _start_intersection(
    roads: Roads,
    driving: Driving,
    spawning: Spawning,
    motion: Motion,
    marks: Marks,
    episode: Counters,
    key: np.uint64,
    scratch: Scratch,
) -> None:
    """Put vehicles around the intersection, let them drive for some seconds, and then put ego before it.

    Ego is the vehicle of the policy. `motion` ``[N_MOTION, vehicles]`` and `marks` ``[N_MARKS, vehicles]`` get a column
    per vehicle, `episode` its counters. `key` names the stream of random numbers, `scratch` is working memory. Places
    (metres along a lane) are highway-env's.
    """
    attempts = spawning.initial_vehicles - 1
    for attempt in range(attempts):
        place = 80.0 * attempt / attempts
        _try_to_enter(roads, spawning, motion, marks, episode, key, place, _FIRST_PROBABILITY, crosses=False)
    simulate_frames(roads, driving, motion, marks, episode, spawning.warm_up_frames, scratch)
    # A vehicle that crosses in front of ego.
    _try_to_enter(roads, spawning, motion, marks, episode, key, 60.0, 1.0, crosses=True)
    goal = spawning.destination
    if goal < 0:  # one of the three other corners, at random
        goal = 1 + _draw_below(episode, key, 3)
    lane = spawning.lanes[0]
    longitudinal = 60.0 + 5.0 * (1.0 + _draw_normal(episode, key))
    ego = _add_ego(roads, driving, motion, marks, episode, lane, longitudinal, roads.lanes[lane, SPEED_LIMIT])
    plan_route(roads, marks, ego, marks[LANE, ego], spawning.goals[goal])
    _clear_around_ego(motion, marks, episode)


@compiled
def _try_to_enter(
    roads: Roads,
    spawning: Spawning,
    motion: Motion,
    marks: Marks,
    episode: Counters,
    key: np.uint64,
    longitudinal: float,
    probability: float,
    crosses: bool,
) -> None:
    """Let a vehicle enter at one of the four corners of the intersection, with a probability and if there is room.

    Parameters
    ----------
    roads, spawning
        The road network; settings of new vehicles.
    motion, marks, episode
        ``[N_MOTION, vehicles]``, ``[N_MARKS, vehicles]`` and ``[N_EPISODE]``: a column per vehicle, and the counters of
        the episode. Changed in place.
    key
        Names the stream of random numbers.
    longitudinal
        Metres along its lane, to which highway-env adds 5.
    probability
        Probability that it enters.
    crosses
        Whether it goes to the opposite corner, with hardly any variation of place and speed; otherwise it goes to any
        of the other corners.
    """
    if _draw(episode, key) > probability:
        return
    origin = _draw_below(episode, key, 4)
    goal = _draw_below(episode, key, 3)
    if goal >= origin:  # any corner but its own
        goal += 1
    position_deviation, speed_deviation = 1.0, 1.0  # metres, m/s
    if crosses:
        goal = (origin + 2) % 4
        position_deviation, speed_deviation = 0.1, 0.0
    place = longitudinal + 5.0 + _draw_normal(episode, key) * position_deviation
    speed = 8.0 + _draw_normal(episode, key) * speed_deviation
    lane = spawning.lanes[origin]
    x, y = position_on(roads, lane, place, 0.0)
    # No column is free, or another vehicle is too close.
    if episode[COUNT] == motion.shape[1] or _is_taken(motion, episode, x, y):
        return
    i = _add(roads, motion, marks, episode, lane, place, speed)
    _send(roads, spawning, motion, marks, episode, key, i, goal)


@inlined
def _distance(motion: Motion, i: int, x: float, y: float) -> float:
    """Return the distance of vehicle i from a place."""
    dx, dy = motion[X, i] - x, motion[Y, i] - y
    return np.sqrt(dx * dx + dy * dy)


@compiled
def _is_taken(motion: Motion, episode: Counters, x: float, y: float) -> bool:
    """Return whether some vehicle is too close to a place for another to enter there."""
    for i in range(episode[COUNT]):  # noqa: SIM110 (a generator cannot be compiled)
        if _distance(motion, i, x, y) < _ROOM:
            return True
    return False


@compiled
def _clear_around_ego(motion: Motion, marks: Marks, episode: Counters) -> None:
    """Remove vehicles that are too close to ego."""
    ego = episode[EGO]
    x, y = motion[X, ego], motion[Y, ego]
    kept = 0
    for i in range(episode[COUNT]):
        if i == ego or not _distance(motion, i, x, y) < _ROOM_FOR_EGO:
            _keep(motion, marks, episode, i, kept)
            kept += 1
    episode[COUNT] = kept


@compiled
def _clear_leaving(roads: Roads, spawning: Spawning, motion: Motion, marks: Marks, episode: Counters) -> None:
    """Remove vehicles that are near the end of a way out of the intersection, or have no route; ego always stays.

    `motion` ``[N_MOTION, vehicles]`` and `marks` ``[N_MARKS, vehicles]`` have a column per vehicle; those that stay
    move up. ``episode[COUNT]``, the number of vehicles, and ``episode[EGO]``, ego's column, follow.
    """
    ego = episode[EGO]
    n_kept = 0
    for i in range(episode[COUNT]):
        lane = marks[LANE, i]
        is_leaving = marks[ROUTE_LENGTH, i] == NO_ROUTE
        if spawning.exits[lane] and not is_leaving:
            along = longitudinal_of(roads, lane, motion[X, i], motion[Y, i])
            is_leaving = along >= roads.lanes[lane, LANE_LENGTH] - _BEFORE_END
        if i == ego or not is_leaving:
            _keep(motion, marks, episode, i, n_kept)
            n_kept += 1
    episode[COUNT] = n_kept


@inlined
def _keep(motion: Motion, marks: Marks, episode: Counters, i: int, place: int) -> None:
    """Move vehicle i, which stays on the road, into column `place`, where removed vehicles have left a gap."""
    if i == place:
        return
    move_column(motion, marks, i, place)
    if i == episode[EGO]:
        episode[EGO] = place
