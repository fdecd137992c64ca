"""Pictures of traffic, drawn from state.

- `Traffic`: the positions of all vehicles, copied out of a batch.
- `Picture`: pixels. The camera follows ego along straight roads and looks at the middle of the others.
- `to_text`: the same for a terminal.
- `describe_roads`: plain numbers for JSON, from which a page can draw a replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible_envs.highway import state
from legible_envs.highway.roads import (
    CIRCULAR,
    DIRECTION_Y,
    KIND,
    LANE_LENGTH,
    LANE_WIDTH,
    LANES,
    NUMBER,
    ROAD,
    START_Y,
    STRAIGHT,
    RoadMap,
    Roads,
    local_coordinates,
    position_on,
)

Colour = tuple[int, int, int]
GRASS: Colour = (205, 216, 196)
ASPHALT: Colour = (98, 102, 108)
LINE: Colour = (240, 240, 235)
EGO: Colour = (24, 160, 88)
OTHER: Colour = (86, 145, 214)
CRASHED: Colour = (214, 62, 52)
OBSTACLE: Colour = (230, 150, 40)
WINDOW: Colour = (36, 44, 54)

LINE_WIDTH = 0.3
STRIPE_LENGTH, STRIPE_SPACING = 3.0, 9.0
OVERLAP = 1.0
BEHIND, AHEAD = 30.0, 90.0
"""How far the camera sees along straight roads, from ego."""
AROUND = 50.0
"""How far the camera sees in all directions where roads bend, from their middle."""
_MARGIN = 2.0  # metres of grass on both sides of straight roads
_TEXT_BEHIND, _TEXT_AHEAD = 40.0, 120.0
_TEXT_METRES = 2.5  # a character along straight roads
_MAP_METRES = (2.0, 4.0)  # a character of a map, which is twice as high as wide
_MAP_AROUND = 52.0  # the middles of the lanes at y = -2 and 2 are middles of lines


@dataclass(frozen=True)
class Traffic:
    """All vehicles of one episode at one moment."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    heading: NDArray[np.float64]
    speed: NDArray[np.float64]
    crashed: NDArray[np.bool_]
    ego: int
    seconds: float

    @classmethod
    def of(cls, world: state.World, episode: int) -> Traffic:
        """Copy one episode's traffic out of a batch."""
        n = int(world.episode[episode, state.COUNT])
        motion = world.motion[episode, :, :n]
        return cls(
            motion[state.X].copy(),
            motion[state.Y].copy(),
            motion[state.HEADING].copy(),
            motion[state.SPEED].copy(),
            world.marks[episode, state.CRASHED, :n] != 0,
            int(world.episode[episode, state.EGO]),
            float(world.clock[episode]),
        )


def is_straight(roads: Roads) -> bool:
    """Return whether all lanes run along x; the bow of a ramp counts as straight."""
    return bool(np.all((roads.marks[:, KIND] != CIRCULAR) & (np.abs(roads.lanes[:, DIRECTION_Y]) < 1e-9)))


@njit(cache=True, nogil=True)
def _survey(
    roads: Roads, xs: NDArray[np.floating[Any]], ys: NDArray[np.floating[Any]]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return two distances in metres for every point of a grid, both ``[ys, xs]``, from which pictures are painted.

    The first is the distance to the edge of the road, negative on the road; the second the distance to the nearest
    stripe between two lanes, negative on the stripe's line.

    Parameters
    ----------
    roads
        The road network.
    xs, ys
        The coordinates of the grid, in metres.
    """
    edge = np.full((ys.size, xs.size), np.float32(1e3))
    stripe = np.full((ys.size, xs.size), np.float32(1e3))
    for lane in range(roads.lanes.shape[0]):
        length, half_width = roads.lanes[lane, LANE_LENGTH], roads.lanes[lane, LANE_WIDTH] / 2
        number = roads.marks[lane, NUMBER]  # on its road, from the left
        # Lanes reach into their neighbours a little, or else there would be an edge between them.
        left = -half_width - (OVERLAP if number > 0 else 0.0)
        right = half_width + (OVERLAP if number + 1 < roads.roads[roads.marks[lane, ROAD], LANES] else 0.0)
        for i in range(ys.size):
            for j in range(xs.size):
                along, across = local_coordinates(roads, lane, xs[j], ys[i])
                beyond_end = max(-along, along - length) - OVERLAP
                edge[i, j] = min(edge[i, j], max(beyond_end, left - across, across - right))
                # Stripes are painted on the left side of a lane, with gaps between them.
                if number > 0 and along % STRIPE_SPACING < STRIPE_LENGTH:
                    stripe[i, j] = min(stripe[i, j], max(beyond_end + OVERLAP, abs(across + half_width)))
    return edge, stripe


class Picture:
    """Draws the traffic of one road network; where the camera stands still, the roads are drawn once.

    Parameters
    ----------
    road_map
        The roads.
    scale
        Pixels a metre.
    """

    def __init__(self, road_map: RoadMap, scale: float = 5.0) -> None:
        self.road_map = road_map
        self.scale = scale
        self.straight = is_straight(road_map.tables)
        self._ground: NDArray[np.float32] | None = None

    def draw(self, traffic: Traffic) -> NDArray[np.uint8]:
        """Return a picture of the traffic, ``uint8[height, width, 3]``."""
        # The part of the map that the camera shows, in metres: along straight roads it follows ego.
        left = top = -AROUND
        right = bottom = AROUND
        if self.straight:
            (top, bottom), x = _height(self.road_map.tables), float(traffic.x[traffic.ego])
            left, right, top, bottom = x - BEHIND, x + AHEAD, top - _MARGIN, bottom + _MARGIN
        pixel = 1.0 / self.scale
        xs, ys = np.arange(left + pixel / 2, right, pixel), np.arange(top + pixel / 2, bottom, pixel)

        # The ground, drawn once where the camera stands still.
        if self.straight:
            frame = self._draw_ground(xs, ys)
        else:
            if self._ground is None:
                self._ground = self._draw_ground(xs, ys)
            frame = self._ground.copy()

        for x, y in self.road_map.tables.obstacles:
            self._box(frame, xs, ys, (x, y, 0.0), (state.OBSTACLE_LENGTH, state.OBSTACLE_WIDTH), OBSTACLE)
        for i in sorted(range(len(traffic.x)), key=lambda i: i == traffic.ego):  # ego on top
            colour = CRASHED if traffic.crashed[i] else EGO if i == traffic.ego else OTHER
            place = (float(traffic.x[i]), float(traffic.y[i]), float(traffic.heading[i]))
            self._box(frame, xs, ys, place, (state.LENGTH, state.WIDTH), colour)
            self._box(frame, xs, ys, place, (0.8, state.WIDTH - 0.5), WINDOW, ahead=0.9)  # the windscreen
        return np.clip(np.rint(frame), 0, 255).astype(np.uint8)

    def _draw_ground(self, xs: NDArray[np.float64], ys: NDArray[np.float64]) -> NDArray[np.float32]:
        edge, stripe = _survey(self.road_map.tables, xs, ys)
        frame = np.empty((ys.size, xs.size, 3), np.float32)
        frame[:] = GRASS
        self._paint(frame, edge, ASPHALT)
        self._paint(frame, stripe - LINE_WIDTH / 2, LINE)
        self._paint(frame, np.abs(edge + LINE_WIDTH / 2) - LINE_WIDTH / 2, LINE)
        return frame

    def _paint(self, part: NDArray[np.float32], outside: NDArray[np.float32], colour: Colour) -> None:
        """Colour the pixels whose distance to the shape (in metres, negative inside) is below zero, edges smoothed."""
        alpha = np.clip(0.5 - outside * np.float32(self.scale), 0.0, 1.0)[..., None]
        part += alpha * (np.asarray(colour, np.float32) - part)

    def _box(
        self,
        frame: NDArray[np.float32],
        xs: NDArray[np.float64],
        ys: NDArray[np.float64],
        place: tuple[float, float, float],
        size: tuple[float, float],
        colour: Colour,
        ahead: float = 0.0,
    ) -> None:
        """Paint a rectangle into a picture.

        Parameters
        ----------
        frame
            The picture ``[ys, xs, 3]``, changed in place.
        xs, ys
            The coordinates of its columns and rows, in metres.
        place
            x, y and heading of the rectangle's middle.
        size
            Length and width in metres.
        colour
            Red, green and blue.
        ahead
            Metres by which the middle is moved along the heading.
        """
        x, y, heading = place
        length, width = size
        cos, sin = np.cos(heading), np.sin(heading)
        x, y = x + ahead * cos, y + ahead * sin
        # Only the pixels near the rectangle are computed.
        reach = np.hypot(length, width) / 2 + 1.0
        columns = slice(*np.searchsorted(xs, [x - reach, x + reach]))
        rows = slice(*np.searchsorted(ys, [y - reach, y + reach]))
        # Their distance to the rectangle, negative inside, from their coordinates along and across the heading.
        dx, dy = np.meshgrid(xs[columns] - x, ys[rows] - y)
        along, across = dx * cos + dy * sin, dy * cos - dx * sin
        outside = np.maximum(np.abs(along) - length / 2, np.abs(across) - width / 2)
        self._paint(frame[rows, columns], outside.astype(np.float32), colour)


def _height(roads: Roads) -> tuple[float, float]:
    """Return y of the left edge of the leftmost lane and of the right edge of the rightmost one, on straight roads."""
    plain = roads.marks[:, KIND] == STRAIGHT
    middle, half = roads.lanes[plain, START_Y], roads.lanes[plain, LANE_WIDTH] / 2
    return float((middle - half).min()), float((middle + half).max())


def to_text(road_map: RoadMap, traffic: Traffic) -> str:
    """Return the traffic as text: ``@>`` ego, ``=>`` others, ``xx`` crashed; a map with ``@`` and arrows at bends."""
    straight = is_straight(road_map.tables)
    board = _lanes_as_text(road_map.tables, traffic) if straight else _map_as_text(road_map.tables, traffic)
    ego = traffic.ego
    state_of_ego = "crashed" if traffic.crashed[ego] else f"{traffic.speed[ego]:.1f} m/s"
    where = f"x {traffic.x[ego]:.0f} m, y {traffic.y[ego]:.0f} m"
    return f"{board}\n{traffic.seconds:.1f} s, ego: {state_of_ego}, {where}, {len(traffic.x) - 1} other vehicles\n"


def _lanes_as_text(roads: Roads, traffic: Traffic) -> str:
    """Return straight roads and their traffic as text: a line per lane, with ego always in the same column."""
    left = float(traffic.x[traffic.ego]) - _TEXT_BEHIND
    n_columns = int((_TEXT_BEHIND + _TEXT_AHEAD) / _TEXT_METRES)
    top, bottom = _height(roads)
    lane_width = float(roads.lanes[0, LANE_WIDTH])
    n_rows = math.ceil((bottom - top) / lane_width - 1e-9)

    # A dot for every character whose middle lies on a road.
    xs = left + (np.arange(n_columns) + 0.5) * _TEXT_METRES
    edge, _ = _survey(roads, xs, top + (np.arange(n_rows) + 0.5) * lane_width)
    grid = np.where(edge < 0, ".", " ").astype("<U1")

    def put(x: float, y: float, signs: str) -> None:
        """Write characters around a position, as far as they are in view."""
        row = math.floor((y - top) / lane_width)
        column = math.floor((x - left) / _TEXT_METRES - len(signs) / 2 + 0.5)
        for k, sign in enumerate(signs):
            if 0 <= row < n_rows and 0 <= column + k < n_columns:
                grid[row, column + k] = sign

    for x, y in roads.obstacles:
        put(float(x), float(y), "#")
    for i in sorted(range(len(traffic.x)), key=lambda i: i == traffic.ego):  # ego last, so that nothing hides it
        sign_of_vehicle = "@>" if i == traffic.ego else "=>"
        put(float(traffic.x[i]), float(traffic.y[i]), "xx" if traffic.crashed[i] else sign_of_vehicle)
    border = "-" * n_columns
    return "\n".join([border, *("".join(row) for row in grid), border])


def _map_as_text(roads: Roads, traffic: Traffic) -> str:
    """Return a map of the middle, with an arrow for every vehicle."""
    wide, high = _MAP_METRES
    xs = np.arange(-_MAP_AROUND + wide / 2, _MAP_AROUND, wide)
    ys = np.arange(-_MAP_AROUND + high / 2, _MAP_AROUND, high)
    edge, _ = _survey(roads, xs, ys)
    grid = np.where(edge < 0, ".", " ").astype("<U1")
    for i in sorted(range(len(traffic.x)), key=lambda i: i == traffic.ego):
        row, column = int((traffic.y[i] + _MAP_AROUND) // high), int((traffic.x[i] + _MAP_AROUND) // wide)
        if 0 <= row < ys.size and 0 <= column < xs.size:
            arrow = ">v<^"[round(float(traffic.heading[i]) / (np.pi / 2)) % 4]
            grid[row, column] = "x" if traffic.crashed[i] else "@" if i == traffic.ego else arrow
    return "\n".join("".join(row).rstrip() for row in grid)


def describe_roads(road_map: RoadMap) -> dict[str, Any]:
    """Return the roads as plain data, from which a page can draw them. Coordinates are metres, y downwards.

    Of each lane: the points of its middle, its width, and whether another lane is to its left (``striped``). ``view``
    is the part of the map to show: along straight roads how far behind and ahead of ego, and from which y to which;
    otherwise how far around (0, 0).
    """
    roads = road_map.tables
    lanes = []
    for lane in range(len(roads.lanes)):
        length = float(roads.lanes[lane, LANE_LENGTH])
        # A bend becomes a line of pieces of about two metres.
        n_pieces = 1 if roads.marks[lane, KIND] == STRAIGHT else max(2, round(length / 2))
        points = [position_on(roads, lane, length * k / n_pieces, 0.0) for k in range(n_pieces + 1)]
        lanes.append(
            {
                "points": [[round(float(x), 2), round(float(y), 2)] for x, y in points],
                "width": float(roads.lanes[lane, LANE_WIDTH]),
                "striped": bool(roads.marks[lane, NUMBER] > 0),
            }
        )
    straight = is_straight(roads)
    top, bottom = _height(roads) if straight else (-AROUND, AROUND)
    view_along_road = {"behind": BEHIND, "ahead": AHEAD, "top": top - _MARGIN, "bottom": bottom + _MARGIN}
    return {
        "straight": straight,
        "lanes": lanes,
        "obstacles": [[round(float(x), 2), round(float(y), 2)] for x, y in roads.obstacles],
        "vehicle": [state.LENGTH, state.WIDTH],
        "obstacle": [state.OBSTACLE_LENGTH, state.OBSTACLE_WIDTH],
        "view": view_along_road if straight else {"around": AROUND},
    }
