"""Replays of driving for a report: lanes, and the vehicles that the camera sees.

`RoadScene` is the scene; `road_scene` makes it where it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import Env, feature_space_of
from legible.features import FeatureSpace

NEAR_ENOUGH = 0.5  # metres between where a vehicle is and where an observation says that it is


class RoadScene:
    """Traffic from its state: decimetres and hundredths of a radian, as whole numbers."""

    kind = "road"

    def __init__(self, env: Env) -> None:
        from legible_envs.highway.render import describe_roads  # noqa: PLC0415 (the roads need highway-env)

        roads = describe_roads(env.unwrapped.road_map)  # type: ignore[attr-defined]
        view = roads["view"]
        self._straight = bool(roads["straight"])
        self._behind, self._ahead = (view["behind"], view["ahead"]) if self._straight else (view["around"],) * 2
        height = view["bottom"] - view["top"] if self._straight else 2 * view["around"]
        self.layout: dict[str, Any] = {**roads, "width": self._behind + self._ahead, "height": height}
        self._moments: list[list[int]] = []
        self._rows = _vehicle_rows(feature_space_of(env))

    def begin(self, steps: int, marked: Iterable[int]) -> None:  # noqa: ARG002 (every step is kept)
        """Forget the last episode."""
        self._moments = []

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Keep where the camera is, then ego and the vehicles in view.

        Each is its place from the camera, its heading, whether it crashed, and the number that rules call it by, or 0.
        """
        traffic = env.unwrapped.traffic  # type: ignore[attr-defined]
        camera = float(traffic.x[traffic.ego]) if self._straight else 0.0
        ahead = traffic.x - camera
        room = 5.0  # a vehicle's length: half of it may still be seen
        seen = (ahead > -self._behind - room) & (ahead < self._ahead + room)
        if not self._straight:
            seen &= np.abs(traffic.y) < self._ahead + room
        others = [int(i) for i in np.flatnonzero(seen) if i != traffic.ego]
        row = [round(10 * camera)]
        numbers = self._numbers(traffic, np.asarray(observation).reshape(-1))
        for i in (traffic.ego, *others):
            row += [
                round(10 * ahead[i]),
                round(10 * traffic.y[i]),
                round(100 * traffic.heading[i]),
                int(traffic.crashed[i]),
                numbers.get(i, 0),
            ]
        self._moments.append(row)

    def _numbers(self, traffic: Any, observation: NDArray[Any]) -> dict[int, int]:
        """Return which vehicle is in which row of the observation.

        Distances are cut off at 1: of such a one only the direction is known, and a vehicle has its number only where
        no other one fits as well.
        """
        found: dict[int, int] = {}
        away = np.stack([traffic.x - traffic.x[traffic.ego], traffic.y - traffic.y[traffic.ego]])
        for number, (there, along, across, metres) in self._rows.items():
            seen, scale = observation[[along, across]], np.array(metres)
            is_cut = np.abs(seen) >= 1.0
            if not observation[there] or is_cut.all():
                continue
            # Distance of a vehicle from its place in the observation; clipped places lie beyond the edge.
            short = np.sign(seen)[:, None] * ((scale * seen)[:, None] - away)
            off = np.hypot(*np.where(is_cut[:, None], np.maximum(short, 0.0), short))
            off[traffic.ego] = np.inf
            near = np.flatnonzero(off < NEAR_ENOUGH)
            if len(near) == 1 or (len(near) and not is_cut.any()):
                found[int(off.argmin())] = number
        return found

    def frames(self) -> dict[str, Any]:
        """Return one row of numbers a step."""
        return {"moments": self._moments}


def _vehicle_rows(space: FeatureSpace | None) -> dict[int, tuple[int, int, int, tuple[float, float]]]:
    """For every vehicle of an observation its number, where its presence, x and y are, and how many metres 1 is."""
    rows: dict[int, tuple[int, int, int, tuple[float, float]]] = {}
    names = () if space is None else space.names
    for i, name in enumerate(names):
        who, _, column = name.partition(".")
        places = [f"{who}.x", f"{who}.y"]
        if space is None or column != "presence" or not who.startswith("vehicle") or not set(places) <= set(names):
            continue
        along, across = (space.feature_index(place) for place in places)
        scales = space[along].scale, space[across].scale
        if space[along].sides and None not in scales:  # only where it is seen from ego
            rows[int(who.removeprefix("vehicle"))] = (i, along, across, (float(scales[0] or 1), float(scales[1] or 1)))
    return rows


def road_scene(env: Env) -> RoadScene | None:
    """Return the scene of an environment that gives its traffic; highway-env's own do not, and draw pictures."""
    has_traffic = hasattr(env.unwrapped, "road_map") and hasattr(env.unwrapped, "traffic")
    return RoadScene(env) if has_traffic else None
