"""Roads as arrays: the road networks of the scenarios, and geometry along their lanes.

- `RoadMap`: a network with its names; `scenario_roads` reads those of the scenarios from highway-env, `from_network`
  any network of highway-env's.
- `Roads`: the arrays of a map, for compiled code.
- Compiled geometry: a position in a lane's own coordinates and back, the closest lane, the next lane, routes.

A lane runs from one node to another; lanes that share both nodes make up a road and are numbered from its left. Lanes,
roads and nodes have the numbers that follow from the order of highway-env's dictionaries, because ties go to the first.
Angles are measured from the x axis towards the y axis, which points down on pictures; "lateral" is positive to the
right.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.imports import optional_package
from legible_envs.compiled import compiled, inlined
from legible_envs.highway.state import ANY_LANE, LENGTH, MAX_ROUTE, ROUTE, ROUTE_LANE, ROUTE_LENGTH, Marks

# Columns of `Roads.lanes` (float64). Straight and sine lanes have a start, circular lanes a centre in the same place.
START_X, START_Y, DIRECTION_X, DIRECTION_Y, LANE_HEADING = 0, 1, 2, 3, 4
LANE_LENGTH, LANE_WIDTH, SPEED_LIMIT = 5, 6, 7
AMPLITUDE, PULSATION, PHASE = 8, 9, 10  # sine
RADIUS, START_PHASE, TURN = 11, 12, 13  # circular; TURN is 1 clockwise, -1 anticlockwise
N_LANE_NUMBERS = 14

# Columns of `Roads.marks` (int32), a row for every lane: kind, road, number on the road from the left, whether changing
# to it is forbidden, right of way.
KIND, ROAD, NUMBER, FORBIDDEN, PRIORITY = 0, 1, 2, 3, 4
STRAIGHT, SINE, CIRCULAR = 0, 1, 2

# Columns of `Roads.roads` (int32): first lane (the others follow), how many lanes, node it leaves, node it leads to.
FIRST_LANE, LANES, FROM, TO = 0, 1, 2, 3

DEFAULT_WIDTH = 4.0  # of highway-env's lanes
MAX_OBSTACLES = 8  # for which the kernels have room; highway-env's scenarios have one at most
# Where highway-env makes the roads of a scenario: module, class, method.
_MAKERS = {
    "highway": ("highway_env", "HighwayEnv", "_create_road"),
    "merge": ("merge_env", "MergeEnv", "_make_road"),
    "roundabout": ("roundabout_env", "RoundaboutEnv", "_make_road"),
    "intersection": ("intersection_env", "IntersectionEnv", "_make_road"),
}
# Distances are compared with this slack before a lane is ruled out by a bound instead of by its exact distance.
_SLACK = 1e-9
_TWO_PI = 2 * np.pi

LaneName = tuple[str, str, int]


class RoadError(LegibleError):
    """A road network that the kernels cannot drive on."""


class Roads(NamedTuple):
    """A road network as compiled code sees it."""

    lanes: NDArray[np.float64]  # [lanes, N_LANE_NUMBERS]
    marks: NDArray[np.int32]  # [lanes, 5]
    roads: NDArray[np.int32]  # [roads, 4]
    leaving: NDArray[np.int32]  # [nodes, …] roads that leave a node, in order, then -1
    paths: NDArray[np.int32]  # [nodes, nodes, MAX_ROUTE] roads of the shortest path from one node to another
    path_lengths: NDArray[np.int32]  # [nodes, nodes] how many roads that are; 0 where there is no path
    obstacles: NDArray[np.float64]  # [obstacles, 2] where things lie on the road (2 m × 2 m)
    parallel: bool  # one road of straight lanes along the x axis: along-lane order is the order of x


@dataclass(frozen=True)
class Lane:
    """A lane before it becomes a row of numbers."""

    origin: str
    destination: str
    kind: int
    numbers: NDArray[np.float64]
    forbidden: bool = False
    priority: int = 0


@dataclass(frozen=True)
class RoadMap:
    """A road network: its arrays and its names."""

    nodes: tuple[str, ...]
    road_names: tuple[tuple[str, str], ...]
    lane_names: tuple[LaneName, ...]
    tables: Roads

    def lane_number(self, name: Sequence[Any]) -> int:
        """Return the number of the lane that highway-env calls (from, to, id)."""
        return self.lane_names.index((name[0], name[1], int(name[2])))

    def node_number(self, name: str) -> int:
        """Return the number of a node."""
        return self.nodes.index(name)


@lru_cache(maxsize=32)
def scenario_roads(scenario: str, lanes_count: int = 0) -> RoadMap:
    """Return the roads of a scenario, read from highway-env.

    Parameters
    ----------
    scenario
        "highway", "merge", "roundabout" or "intersection".
    lanes_count
        Number of lanes; 0 for the scenario's default.

    >>> roads = scenario_roads("highway", lanes_count=3)
    >>> roads.lane_names[1], roads.lane_number(("0", "1", 2))
    (('0', '1', 1), 2)
    """
    if scenario not in _MAKERS:
        raise RoadError(f"there are no roads for {scenario!r}; there are {', '.join(_MAKERS)}.")
    module_name, class_name, method = _MAKERS[scenario]
    optional_package("highway_env", "highway", f"the roads of {scenario!r}")
    module = importlib.import_module(f"highway_env.envs.{module_name}")
    environment_class = getattr(module, class_name)
    # Only the road is made, without the environment's constructor: making traffic would change constants of
    # highway-env's classes for all its other environments in this process.
    env = environment_class.__new__(environment_class)
    env.config = {**environment_class.default_config(), **({"lanes_count": lanes_count} if lanes_count else {})}
    getattr(env, method)()
    return from_network(env.road.network, env.road.objects)


def from_network(network: Any, obstacles: Sequence[Any] = ()) -> RoadMap:
    """Return the roads of a ``RoadNetwork`` of highway-env, with the obstacles that lie on it."""
    if len(obstacles) > MAX_OBSTACLES:
        raise RoadError(f"{len(obstacles)} obstacles lie on the road; {MAX_OBSTACLES} are the most.")
    lanes = [
        _read_lane(origin, destination, lane)
        for origin, roads in network.graph.items()
        for destination, side_by_side in roads.items()
        for lane in side_by_side
    ]
    return _road_map(lanes, [obstacle.position for obstacle in obstacles])


def _read_lane(origin: str, destination: str, lane: Any) -> Lane:
    name = type(lane).__name__
    kinds = {"StraightLane": STRAIGHT, "SineLane": SINE, "CircularLane": CIRCULAR}
    if name not in kinds:
        raise RoadError(
            f"the lane from {origin!r} to {destination!r} is a {name}; lanes can be {', '.join(sorted(kinds))}."
        )
    row = np.zeros(N_LANE_NUMBERS)
    row[[LANE_LENGTH, LANE_WIDTH, SPEED_LIMIT]] = lane.length, lane.width, lane.speed_limit
    if name == "CircularLane":
        row[[START_X, START_Y]] = lane.center
        row[[RADIUS, START_PHASE, TURN]] = lane.radius, lane.start_phase, lane.direction
    else:
        row[[START_X, START_Y]] = lane.start
        row[[DIRECTION_X, DIRECTION_Y]] = lane.direction
        row[LANE_HEADING] = lane.heading
    if name == "SineLane":
        row[[AMPLITUDE, PULSATION, PHASE]] = lane.amplitude, lane.pulsation, lane.phase
    return Lane(origin, destination, kinds[name], row, bool(lane.forbidden), int(lane.priority))


def _road_map(lanes: Sequence[Lane], obstacles: Sequence[Any] = ()) -> RoadMap:
    """Return lanes as a road map: numbered nodes, roads and lanes, and the tables that compiled code reads.

    A road is all lanes with the same two ends. Numbers follow from the order of first appearance, as in highway-env's
    dictionary of dictionaries, because ties between lanes go to the first.

    Parameters
    ----------
    lanes
        The lanes, each with the nodes that it connects.
    obstacles
        Positions (x, y) of things that lie on the road.
    """
    lanes_by_ends: dict[str, dict[str, list[Lane]]] = {}
    for lane in lanes:
        lanes_by_ends.setdefault(lane.origin, {}).setdefault(lane.destination, []).append(lane)
    road_names = [(origin, destination) for origin, leaving in lanes_by_ends.items() for destination in leaving]
    # Nodes that roads leave come first, then those where roads only end.
    nodes = list(lanes_by_ends)
    nodes += [destination for _, destination in dict.fromkeys(road_names) if destination not in lanes_by_ends]
    nodes = list(dict.fromkeys(nodes))
    road_numbers = {road: i for i, road in enumerate(road_names)}

    # The tables of lanes, numbers such as their length and marks (KIND, ROAD, NUMBER, FORBIDDEN, PRIORITY), and the
    # table of roads (FIRST_LANE, LANES, FROM, TO).
    lane_names: list[LaneName] = []
    numbers_of_lanes, lane_marks, road_rows = [], [], []
    for road, (origin, destination) in enumerate(road_names):
        lanes_of_road = lanes_by_ends[origin][destination]
        road_rows.append((len(lane_names), len(lanes_of_road), nodes.index(origin), nodes.index(destination)))
        for i, lane in enumerate(lanes_of_road):
            lane_names.append((origin, destination, i))
            numbers_of_lanes.append(lane.numbers)
            lane_marks.append((lane.kind, road, i, lane.forbidden, lane.priority))
    lane_numbers = np.array(numbers_of_lanes)

    # The roads that leave each node, filled up with -1; and the shortest paths between nodes.
    most_leaving = max(len(destinations) for destinations in lanes_by_ends.values())
    leaving_roads = np.full((len(nodes), most_leaving), -1, np.int32)
    for origin, destinations in lanes_by_ends.items():
        leaving = [road_numbers[origin, destination] for destination in destinations]
        leaving_roads[nodes.index(origin), : len(leaving)] = leaving
    paths, path_lengths = _all_paths(lanes_by_ends, nodes, road_numbers)

    # One road of straight lanes along x: the neighbours of a vehicle can be looked up in the order of x.
    is_parallel = len(road_names) == 1 and bool(
        all(lane.kind == STRAIGHT for lane in lanes)
        and (lane_numbers[:, [DIRECTION_X, DIRECTION_Y]] == (1.0, 0.0)).all()
        and not len(obstacles)
    )
    tables = Roads(
        lane_numbers,
        np.array(lane_marks, np.int32),
        np.array(road_rows, np.int32),
        leaving_roads,
        paths,
        path_lengths,
        np.array(obstacles, np.float64).reshape(-1, 2),
        is_parallel,
    )
    return RoadMap(tuple(nodes), tuple(road_names), tuple(lane_names), tables)


def _all_paths(
    lanes_by_ends: dict[str, dict[str, list[Lane]]], nodes: list[str], road_numbers: dict[tuple[str, str], int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the shortest paths between all nodes: their roads ``[from, to, MAX_ROUTE]``, and how many those are."""
    paths = np.full((len(nodes), len(nodes), MAX_ROUTE), -1, np.int32)
    lengths = np.zeros((len(nodes), len(nodes)), np.int32)
    for i, start in enumerate(nodes):
        for goal, path in _shortest_paths(lanes_by_ends, start).items():
            # A route begins with the road the vehicle is on.
            if len(path) - 1 <= MAX_ROUTE - 1:
                roads = [road_numbers[step] for step in pairwise(path)]
                paths[i, nodes.index(goal), : len(roads)] = roads
                lengths[i, nodes.index(goal)] = len(roads)
    return paths, lengths


def _shortest_paths(lanes_by_ends: dict[str, dict[str, list[Lane]]], start: str) -> dict[str, list[str]]:
    """Return to every node the path with the fewest roads; among equals the one whose nodes come first by name."""
    paths: dict[str, list[str]] = {}
    queue = deque([[start]])
    while queue:
        path = queue.popleft()
        for node in sorted(lanes_by_ends.get(path[-1], {})):
            if node not in path and node not in paths:
                paths[node] = [*path, node]
                queue.append(paths[node])
    return paths


# Compiled geometry ---------------------------------------------------------------------------------------------------


@inlined
def wrap_to_pi(angle: float) -> float:
    """Return the same angle in [-π, π)."""
    turned = angle + np.pi
    if 0.0 <= turned < _TWO_PI:
        return turned - np.pi
    return turned % _TWO_PI - np.pi


@inlined
def local_coordinates(roads: Roads, lane: int, x: float, y: float) -> tuple[float, float]:
    """Return how far along a lane a position is, and how far to the right of its middle."""
    lanes = roads.lanes
    dx, dy = x - lanes[lane, START_X], y - lanes[lane, START_Y]
    kind = roads.marks[lane, KIND]
    if kind == CIRCULAR:
        along = wrap_to_pi(np.arctan2(dy, dx) - lanes[lane, START_PHASE])
        # Adding the phase and taking it away again rounds as the original does.
        phase = lanes[lane, START_PHASE] + along
        longitudinal = lanes[lane, TURN] * (phase - lanes[lane, START_PHASE]) * lanes[lane, RADIUS]
        return longitudinal, lanes[lane, TURN] * (lanes[lane, RADIUS] - np.sqrt(dx * dx + dy * dy))
    longitudinal = dx * lanes[lane, DIRECTION_X] + dy * lanes[lane, DIRECTION_Y]
    lateral = dy * lanes[lane, DIRECTION_X] - dx * lanes[lane, DIRECTION_Y]
    if kind == SINE:
        lateral -= lanes[lane, AMPLITUDE] * np.sin(lanes[lane, PULSATION] * longitudinal + lanes[lane, PHASE])
    return longitudinal, lateral


@inlined
def longitudinal_of(roads: Roads, lane: int, x: float, y: float) -> float:
    """Return how far along a lane a position is."""
    lanes = roads.lanes
    dx, dy = x - lanes[lane, START_X], y - lanes[lane, START_Y]
    if roads.marks[lane, KIND] == CIRCULAR:
        phase = lanes[lane, START_PHASE] + wrap_to_pi(np.arctan2(dy, dx) - lanes[lane, START_PHASE])
        return lanes[lane, TURN] * (phase - lanes[lane, START_PHASE]) * lanes[lane, RADIUS]
    return dx * lanes[lane, DIRECTION_X] + dy * lanes[lane, DIRECTION_Y]


@compiled
def position_on(roads: Roads, lane: int, longitudinal: float, lateral: float) -> tuple[float, float]:
    """Return the position that has these coordinates on a lane."""
    lanes = roads.lanes
    kind = roads.marks[lane, KIND]
    if kind == CIRCULAR:
        phase = lanes[lane, TURN] * longitudinal / lanes[lane, RADIUS] + lanes[lane, START_PHASE]
        radius = lanes[lane, RADIUS] - lateral * lanes[lane, TURN]
        return lanes[lane, START_X] + radius * np.cos(phase), lanes[lane, START_Y] + radius * np.sin(phase)
    if kind == SINE:
        lateral += lanes[lane, AMPLITUDE] * np.sin(lanes[lane, PULSATION] * longitudinal + lanes[lane, PHASE])
    x = lanes[lane, START_X] + longitudinal * lanes[lane, DIRECTION_X] - lateral * lanes[lane, DIRECTION_Y]
    y = lanes[lane, START_Y] + longitudinal * lanes[lane, DIRECTION_Y] + lateral * lanes[lane, DIRECTION_X]
    return x, y


@inlined
def heading_at(roads: Roads, lane: int, longitudinal: float) -> float:
    """Return the heading of a lane at a distance along it."""
    lanes = roads.lanes
    kind = roads.marks[lane, KIND]
    if kind == CIRCULAR:
        return (
            lanes[lane, TURN] * longitudinal / lanes[lane, RADIUS]
            + lanes[lane, START_PHASE]
            + np.pi / 2 * lanes[lane, TURN]
        )
    if kind == SINE:
        slope = (
            lanes[lane, AMPLITUDE]
            * lanes[lane, PULSATION]
            * np.cos(lanes[lane, PULSATION] * longitudinal + lanes[lane, PHASE])
        )
        return lanes[lane, LANE_HEADING] + np.arctan(slope)
    return lanes[lane, LANE_HEADING]


@inlined
def is_on_lane(roads: Roads, lane: int, longitudinal: float, lateral: float, margin: float) -> bool:
    """Return whether lane coordinates lie on the lane, widened by a margin and lengthened by a vehicle at both ends."""
    lanes = roads.lanes
    if not abs(lateral) <= lanes[lane, LANE_WIDTH] / 2 + margin:
        return False
    return -LENGTH <= longitudinal < lanes[lane, LANE_LENGTH] + LENGTH


@compiled
def is_reachable(roads: Roads, lane: int, x: float, y: float) -> bool:
    """Return whether a vehicle at a position may change to the lane."""
    if roads.marks[lane, FORBIDDEN]:
        return False
    longitudinal, lateral = local_coordinates(roads, lane, x, y)
    lanes = roads.lanes
    return abs(lateral) <= 2 * lanes[lane, LANE_WIDTH] and 0 <= longitudinal < lanes[lane, LANE_LENGTH] + LENGTH


@inlined
def is_after_end(roads: Roads, lane: int, x: float, y: float) -> bool:
    """Return whether a vehicle at a position has reached the end of the lane."""
    return longitudinal_of(roads, lane, x, y) > roads.lanes[lane, LANE_LENGTH] - LENGTH / 2


@compiled
def distance_to_lane(roads: Roads, lane: int, x: float, y: float) -> float:
    """Return the distance of a position from a lane, sideways and beyond its ends."""
    s, r = local_coordinates(roads, lane, x, y)
    return abs(r) + max(s - roads.lanes[lane, LANE_LENGTH], 0.0) + max(0.0 - s, 0.0)


@inlined
def distance_with_heading(roads: Roads, lane: int, x: float, y: float, heading: float) -> float:
    """Return the distance of a position from a lane plus the angle (radians) between a heading and the lane's."""
    s, r = local_coordinates(roads, lane, x, y)
    angle = abs(wrap_to_pi(heading - heading_at(roads, lane, s)))
    return abs(r) + max(s - roads.lanes[lane, LANE_LENGTH], 0.0) + max(0.0 - s, 0.0) + angle


@inlined
def _least_distance(roads: Roads, lane: int, x: float, y: float) -> float:
    """Return a number that `distance_with_heading` is never below, without trigonometry."""
    lanes = roads.lanes
    dx, dy = x - lanes[lane, START_X], y - lanes[lane, START_Y]
    if roads.marks[lane, KIND] == CIRCULAR:
        return abs(lanes[lane, RADIUS] - np.sqrt(dx * dx + dy * dy))
    s = dx * lanes[lane, DIRECTION_X] + dy * lanes[lane, DIRECTION_Y]
    r = dy * lanes[lane, DIRECTION_X] - dx * lanes[lane, DIRECTION_Y]
    return max(abs(r) - lanes[lane, AMPLITUDE], 0.0) + max(s - lanes[lane, LANE_LENGTH], 0.0) + max(0.0 - s, 0.0)


@compiled
def closest_lane(roads: Roads, x: float, y: float, heading: float, likely: int) -> int:
    """Return the lane with the least `distance_with_heading`, the first of equals; a good guess `likely` saves time."""
    return closest_lane_inlined(roads, x, y, heading, likely)


@inlined
def closest_lane_inlined(roads: Roads, x: float, y: float, heading: float, likely: int) -> int:
    """As `closest_lane`, for where it is called all the time."""
    best = likely
    least = distance_with_heading(roads, likely, x, y, heading)
    for lane in range(len(roads.lanes)):
        if lane == likely or _least_distance(roads, lane, x, y) > least + _SLACK:
            continue
        distance = distance_with_heading(roads, lane, x, y, heading)
        if distance < least or (distance == least and lane < best):
            best, least = lane, distance
    return best


@compiled
def _lane_of_next_road(roads: Roads, lane: int, road: int, x: float, y: float) -> int:
    """Return the lane on which a vehicle goes on: the same number if the roads are equally wide, else the closest."""
    first, count = roads.roads[road, FIRST_LANE], roads.roads[road, LANES]
    if roads.roads[roads.marks[lane, ROAD], LANES] == count:
        return first + roads.marks[lane, NUMBER]
    best, least = first, np.inf
    for candidate in range(first, first + count):
        distance = distance_to_lane(roads, candidate, x, y)
        if distance < least:
            best, least = candidate, distance
    return best


@compiled
def next_lane(roads: Roads, marks: Marks, i: int, lane: int, x: float, y: float) -> int:
    """Return the lane on which vehicle i goes on at the end of a lane: by its route, or else the closest one.

    Parameters
    ----------
    roads
        The road network.
    marks
        ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle. Roads that are behind vehicle i are taken
        off its route, in place.
    i, lane
        Column of the vehicle, and the lane that ends.
    x, y
        Position of the vehicle.
    """
    road = roads.marks[lane, ROAD]
    node = roads.roads[road, TO]
    # The next road of the route, if the vehicle has one that goes on from here, and the lane that it wants there.
    road_wanted, lane_wanted = -1, ANY_LANE
    if marks[ROUTE_LENGTH, i] > 0:
        if marks[ROUTE, i] == road:
            drop_first_road(marks, i)
        if marks[ROUTE_LENGTH, i] > 0 and roads.roads[marks[ROUTE, i], FROM] == node:
            road_wanted, lane_wanted = marks[ROUTE, i], marks[ROUTE_LANE, i]
    # Its place on the middle of the present lane, from which distances are measured.
    s, _ = local_coordinates(roads, lane, x, y)
    middle_x, middle_y = position_on(roads, lane, s, 0.0)
    if road_wanted >= 0:
        if lane_wanted != ANY_LANE and roads.roads[road, LANES] == roads.roads[road_wanted, LANES]:
            return roads.roads[road_wanted, FIRST_LANE] + lane_wanted
        return _lane_of_next_road(roads, lane, road_wanted, middle_x, middle_y)
    # Without a route, the closest lane of all roads that leave here; at a dead end, the lane itself.
    best, least = lane, np.inf
    for road_after in roads.leaving[node]:
        if road_after < 0:
            break
        candidate = _lane_of_next_road(roads, lane, road_after, middle_x, middle_y)
        distance = distance_to_lane(roads, candidate, middle_x, middle_y)
        if distance < least:
            best, least = candidate, distance
    return best


@compiled
def drop_first_road(marks: Marks, i: int) -> None:
    """Take the first road off the route of vehicle i."""
    length = marks[ROUTE_LENGTH, i]
    for k in range(length - 1):
        marks[ROUTE + k, i] = marks[ROUTE + k + 1, i]
    marks[ROUTE_LENGTH, i] = length - 1
    marks[ROUTE_LANE, i] = ANY_LANE


@compiled
def plan_route(roads: Roads, marks: Marks, i: int, lane: int, goal: int) -> None:
    """Give vehicle i, on `lane`, the shortest route to a node: its own road and lane first, then any lane."""
    road = roads.marks[lane, ROAD]
    start = roads.roads[road, TO]
    length = roads.path_lengths[start, goal]
    marks[ROUTE, i] = road
    marks[ROUTE_LANE, i] = roads.marks[lane, NUMBER]
    marks[ROUTE_LENGTH, i] = length + 1
    for k in range(length):
        marks[ROUTE + 1 + k, i] = roads.paths[start, goal, k]
