"""States from Farama's highway-env into legible's arrays, and the comparison of both after a step.

Only needed to check that the two drive alike; nothing here is used by the environments themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legible_envs.highway.roads import RoadMap
from legible_envs.highway.settings import HighwayError
from legible_envs.highway.state import (
    ANY_LANE,
    COUNT,
    CRASHED,
    EGO,
    EXPONENT,
    FRAMES,
    HEADING,
    LANE,
    MAX_ROUTE,
    NO_ROUTE,
    ROUTE,
    ROUTE_LANE,
    ROUTE_LENGTH,
    SHOVE_X,
    SHOVE_Y,
    SHOVED,
    SPEED,
    SPEED_INDEX,
    STATUS,
    STEPS,
    TARGET_LANE,
    TARGET_SPEED,
    TIMER,
    YIELDING,
    World,
    X,
    Y,
    place_vehicle,
)


def read_state(env: Any, roads: RoadMap, world: World, e: int) -> None:
    """Copy the state of a live environment of highway-env's into episode e of a batch.

    The random stream is left alone: highway-env's generator has no counterpart here.
    """
    source = env.unwrapped
    vehicles = source.road.vehicles
    if len(vehicles) > world.motion.shape[2]:
        raise HighwayError(f"{len(vehicles)} vehicles do not fit into a batch with room for {world.motion.shape[2]}.")
    motion, marks, episode = world.motion[e], world.marks[e], world.episode[e]
    for i, vehicle in enumerate(vehicles):
        _read_vehicle(vehicle, roads, motion, marks, i)
    episode[COUNT] = len(vehicles)
    episode[EGO] = vehicles.index(source.vehicle)
    episode[SPEED_INDEX] = source.vehicle.speed_index
    episode[FRAMES] = getattr(source.road, "steps", source.steps)
    episode[STEPS] = source.steps // int(source.config["simulation_frequency"] // source.config["policy_frequency"])
    episode[STATUS] = 0
    world.clock[e] = source.time


def _read_vehicle(vehicle: Any, roads: RoadMap, motion: Any, marks: Any, i: int) -> None:
    x, y = vehicle.position
    place_vehicle(motion, marks, i, x, y, vehicle.heading, vehicle.speed, roads.lane_number(vehicle.lane_index))
    marks[TARGET_LANE, i] = roads.lane_number(vehicle.target_lane_index)
    motion[TARGET_SPEED, i] = vehicle.target_speed
    # Ego is not driven by IDM and has neither.
    motion[TIMER, i] = getattr(vehicle, "timer", 0.0)
    motion[EXPONENT, i] = getattr(vehicle, "DELTA", 4.0)
    marks[CRASHED, i] = vehicle.crashed
    if vehicle.impact is not None:
        marks[SHOVED, i] = 1
        motion[SHOVE_X, i], motion[SHOVE_Y, i] = vehicle.impact
    marks[YIELDING, i] = getattr(vehicle, "is_yielding", False)
    route = vehicle.route
    marks[ROUTE_LENGTH, i] = NO_ROUTE if route is None else len(route)
    if route:
        if len(route) > MAX_ROUTE or any(lane is not None for *_, lane in route[1:]):
            raise HighwayError(f"the route {route} has more than {MAX_ROUTE} roads, or asks for a lane further on.")
        marks[ROUTE_LANE, i] = ANY_LANE if route[0][2] is None else route[0][2]
        for k, road in enumerate(route):
            marks[ROUTE + k, i] = roads.road_names.index((road[0], road[1]))


# Values compared with a tolerance, and values that must be the same. Crashed vehicles no longer decide anything, so
# their targets are compared like everything else.
_CLOSE = {"x": X, "y": Y, "heading": HEADING, "speed": SPEED, "target speed": TARGET_SPEED}
_SAME = {
    "lane": LANE,
    "target lane": TARGET_LANE,
    "crashed": CRASHED,
    "shoved": SHOVED,
    "yielding": YIELDING,
    "route length": ROUTE_LENGTH,
    "route's first lane": ROUTE_LANE,
}


def differences(expected: World, e: int, actual: World, a: int) -> dict[str, float]:
    """Compare two episodes and return for every quantity the largest difference (of marks: how many differ).

    Use it after one step from the same state: `expected` read from highway-env, `actual` simulated here. Where the
    numbers of vehicles differ, only that is returned.
    """
    count = int(expected.episode[e, COUNT])
    if count != actual.episode[a, COUNT]:
        return {"vehicles": float(abs(count - actual.episode[a, COUNT]))}
    found = {"vehicles": 0.0}
    others = np.arange(count) != expected.episode[e, EGO]
    for name, row in _CLOSE.items():
        found[name] = _largest(expected.motion[e, row, :count] - actual.motion[a, row, :count])
    found["timer"] = _largest((expected.motion[e, TIMER, :count] - actual.motion[a, TIMER, :count])[others])
    shoved = expected.marks[e, SHOVED, :count] != 0
    for name, row in (("shove x", SHOVE_X), ("shove y", SHOVE_Y)):
        found[name] = _largest((expected.motion[e, row, :count] - actual.motion[a, row, :count])[shoved])
    for name, row in _SAME.items():
        found[name] = float(np.count_nonzero(expected.marks[e, row, :count] != actual.marks[a, row, :count]))
    found["route"] = float(
        sum(
            not np.array_equal(expected.marks[e, ROUTE : ROUTE + n, i], actual.marks[a, ROUTE : ROUTE + n, i])
            for i, n in enumerate(expected.marks[e, ROUTE_LENGTH, :count])
            if n > 0
        )
    )
    for name, column in (("ego", EGO), ("speed index", SPEED_INDEX)):
        found[name] = float(abs(expected.episode[e, column] - actual.episode[a, column]))
    return found


def _largest(values: Any) -> float:
    return float(np.abs(values).max()) if len(values) else 0.0
