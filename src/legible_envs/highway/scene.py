"""Replays of driving for a report: lanes, and the vehicles that the camera sees.

`RoadScene` is the scene; `road_scene` makes it where it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
        """Keep one moment of an episode: the camera's place, then ego and the other vehicles in view.

        The moment is a flat list of whole numbers, which is small in a file: x of the camera in decimetres, and for
        each vehicle its x (from the camera) and y in decimetres, its heading in hundredths of a radian, whether it
        crashed, and the number by which rules call it ("vehicle3"), or 0.
        """
        traffic = env.unwrapped.traffic  # type: ignore[attr-defined]
        # Along straight roads the camera follows ego, the vehicle that the policy drives.
        camera_x = float(traffic.x[traffic.ego]) if self._straight else 0.0
        x_in_view = traffic.x - camera_x
        margin = 5.0  # a vehicle's length: half of it may still be seen
        in_view = (x_in_view > -self._behind - margin) & (x_in_view < self._ahead + margin)
        if not self._straight:
            in_view &= np.abs(traffic.y) < self._ahead + margin
        others = [int(i) for i in np.flatnonzero(in_view) if i != traffic.ego]
        moment = [round(10 * camera_x)]
        numbers = self._numbers(traffic, np.asarray(observation).reshape(-1))
        for i in (traffic.ego, *others):
            moment += [
                round(10 * x_in_view[i]),
                round(10 * traffic.y[i]),
                round(100 * traffic.heading[i]),
                int(traffic.crashed[i]),
                numbers.get(i, 0),
            ]
        self._moments.append(moment)

    def _numbers(self, traffic: Any, observation: NDArray[Any]) -> dict[int, int]:
        """Return the numbers by which the observation calls vehicles (3 for "vehicle3"), by their place in `traffic`.

        The observation gives positions relative to ego, not identities, so vehicles are found by their position.
        Normalised distances are clipped to −1 and 1: then only the direction is known, and a vehicle gets its number
        only where no other one fits as well.
        """
        numbers: dict[int, int] = {}
        # Position of every vehicle relative to ego, [2, vehicles].
        positions = np.stack([traffic.x - traffic.x[traffic.ego], traffic.y - traffic.y[traffic.ego]])
        for number, row in self._rows.items():
            seen, scale = observation[[row.x, row.y]], np.array(row.metres)
            is_clipped = np.abs(seen) >= 1.0
            if not observation[row.presence] or is_clipped.all():
                continue
            # Distance of every vehicle from this place; a clipped coordinate fits everything beyond the edge.
            missing = np.sign(seen)[:, None] * ((scale * seen)[:, None] - positions)
            distances = np.hypot(*np.where(is_clipped[:, None], np.maximum(missing, 0.0), missing))
            distances[traffic.ego] = np.inf
            near = np.flatnonzero(distances < NEAR_ENOUGH)
            if len(near) == 1 or (len(near) and not is_clipped.any()):
                numbers[int(distances.argmin())] = number
        return numbers

    def frames(self) -> dict[str, Any]:
        """Return one row of numbers a step."""
        return {"moments": self._moments}


class _VehicleRow(NamedTuple):
    """The places of one vehicle's presence, x and y among the features, and how many metres 1 stands for in x and y."""

    presence: int
    x: int
    y: int
    metres: tuple[float, float]


def _vehicle_rows(space: FeatureSpace | None) -> dict[int, _VehicleRow]:
    """Return the row of every vehicle of an observation by its number; none where positions are not seen from ego."""
    rows: dict[int, _VehicleRow] = {}
    names = () if space is None else space.names
    for i, name in enumerate(names):
        vehicle, _, column = name.partition(".")
        positions = [f"{vehicle}.x", f"{vehicle}.y"]
        is_vehicle = column == "presence" and vehicle.startswith("vehicle") and set(positions) <= set(names)
        if space is None or not is_vehicle:
            continue
        x, y = (space.feature_index(position) for position in positions)
        scales = space[x].scale, space[y].scale
        if space[x].sides and None not in scales:  # only where it is seen from ego
            metres = (float(scales[0] or 1), float(scales[1] or 1))
            rows[int(vehicle.removeprefix("vehicle"))] = _VehicleRow(i, x, y, metres)
    return rows


def road_scene(env: Env) -> RoadScene | None:
    """Return the scene of an environment that gives its traffic; highway-env's own do not, and draw pictures."""
    has_traffic = hasattr(env.unwrapped, "road_map") and hasattr(env.unwrapped, "traffic")
    return RoadScene(env) if has_traffic else None
