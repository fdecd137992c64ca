"""What an environment looks like, step by step, small enough for a report.

- `Scene`: sees an environment between its steps and gives plain data, which the report's player draws.
- `PacmanScene`: places of everybody and what was eaten.
- `RoadScene`: lanes, and the vehicles that the camera sees; `road_scene` makes it where it can.
- `PictureScene`: pictures of any environment that renders ``rgb_array``, shrunk and capped.
- `FeatureScene`: the values of some features, where nothing can be drawn.
- `scene_of`: the best one for an environment; `is_drawn_from_state` tells whether it takes little room.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.environments import (
    CannotDrawError,
    Env,
    EnvironmentSpec,
    ObservationEncoder,
    domain_of,
    feature_space_of,
    load_by_name,
)
from legible.environments.pacman.env import PacmanEnv
from legible.environments.pacman.games import PacmanState
from legible.features import FeatureSpace

PICTURE_WIDTH = 240
PICTURE_HEIGHT = 200
MOST_PICTURES = 120
COLOURS = 64
NEAR_ENOUGH = 0.5  # metres between where a vehicle is and where an observation says that it is


class Scene(Protocol):
    """Sees an environment at its start and after every step of one episode.

    `kind` names the drawer of the player, `layout` is what all episodes share.
    """

    kind: str
    layout: dict[str, Any]

    def begin(self, steps: int, marked: Iterable[int]) -> None:
        """Forget the last episode; the next one has so many steps, some of which must be seen."""

    def see(self, env: Env, observation: Any, step: int) -> None:
        """Look at the environment after `step` steps."""

    def frames(self) -> Any:
        """Return all that was seen of the episode, as plain data."""


class PacmanScene:
    """PAC-Man from its state: a few whole numbers a step."""

    kind = "pacman"

    def __init__(self, env: Env) -> None:
        game = env.unwrapped
        assert isinstance(game, PacmanEnv)
        maze = game.maze
        rows = ["".join("%" if (x, y) in maze.walls else " " for x in range(maze.width)) for y in range(maze.height)]
        self.layout: dict[str, Any] = {"width": maze.width, "height": maze.height, "walls": rows}
        self._places: list[list[int]] = []
        self._food: list[frozenset[tuple[int, int]]] = []
        self._capsules: list[frozenset[tuple[int, int]]] = []

    def begin(self, steps: int, marked: Iterable[int]) -> None:  # noqa: ARG002 (every step is kept)
        """Forget the last episode."""
        self._places, self._food, self._capsules = [], [], []

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Keep where everybody is; half cells are doubled to stay whole."""
        state: PacmanState = env.unwrapped.state  # type: ignore[attr-defined]
        row = [*state.pacman, state.facing]
        for ghost in state.ghosts:
            row += [round(2 * ghost.x), round(2 * ghost.y), ghost.heading, ghost.timer]
        self._places.append(row)
        self._food.append(state.food)
        self._capsules.append(state.capsules)

    def frames(self) -> dict[str, Any]:
        """Places of every step; food and capsules at the start, and the step at which each was gone."""
        return {
            "places": self._places,
            "food": _when_gone(self._food),
            "capsules": _when_gone(self._capsules),
        }


def _when_gone(sets: Sequence[frozenset[tuple[int, int]]]) -> list[list[int]]:
    """For every cell of the first set its column, its row and the first step without it (−1: it stays)."""
    gone = dict.fromkeys(sorted(sets[0]), -1)
    for step, (before, after) in enumerate(pairwise(sets), start=1):
        for cell in before - after:
            gone[cell] = step
    return [[*cell, step] for cell, step in gone.items()]


class RoadScene:
    """Traffic from its state: decimetres and hundredths of a radian, as whole numbers."""

    kind = "road"

    def __init__(self, env: Env) -> None:
        from legible.environments.highway.render import describe_roads  # noqa: PLC0415 (the roads need highway-env)

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
        """Which vehicle is in which row of the observation.

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
            # How far a vehicle is from where the observation has it; beyond the edge is where it has what is cut off.
            short = np.sign(seen)[:, None] * ((scale * seen)[:, None] - away)
            off = np.hypot(*np.where(is_cut[:, None], np.maximum(short, 0.0), short))
            off[traffic.ego] = np.inf
            near = np.flatnonzero(off < NEAR_ENOUGH)
            if len(near) == 1 or (len(near) and not is_cut.any()):
                found[int(off.argmin())] = number
        return found

    def frames(self) -> dict[str, Any]:
        """One row of numbers a step."""
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
    """The scene of an environment that tells its traffic; highway-env's own, which do not, draw pictures."""
    tells = hasattr(env.unwrapped, "road_map") and hasattr(env.unwrapped, "traffic")
    return RoadScene(env) if tells else None


class PictureScene:
    """Pictures of any environment, shrunk; long episodes are seen every few steps and where something is marked.

    Parameters
    ----------
    budget
        Bytes that the pictures of one episode may take.
    """

    kind = "pictures"

    def __init__(self, budget: int) -> None:
        self.layout: dict[str, Any] = {}
        self._budget = budget
        self._chosen: set[int] = set()
        self._seen: dict[int, NDArray[np.uint8]] = {}

    def begin(self, steps: int, marked: Iterable[int]) -> None:
        """Choose the steps to look at: the start, the end, marked ones, and others evenly between."""
        self._seen = {}
        must = [step for step in marked if step <= steps]
        if len(must) > MOST_PICTURES // 2:
            must = [must[i] for i in np.linspace(0, len(must) - 1, MOST_PICTURES // 2).round().astype(int)]
        even = np.linspace(0, steps, min(steps + 1, MOST_PICTURES - len(must))).round().astype(int)
        self._chosen = {0, steps, *must, *(int(step) for step in even)}

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Render the environment if this is one of the chosen steps."""
        if step in self._chosen:
            self._seen[step] = _shrink(np.asarray(env.render()))

    def frames(self) -> dict[str, Any]:
        """Pictures as data addresses, each once, and for every picture's step which one it is."""
        steps = sorted(self._seen)
        while True:
            pictures, numbers = _encode_pictures([self._seen[step] for step in steps])
            if sum(map(len, pictures)) <= self._budget or len(steps) < 3:
                break
            steps = [*steps[:-1:2], steps[-1]]
        self.layout = {"width": self._seen[steps[0]].shape[1], "height": self._seen[steps[0]].shape[0]}
        return {"pictures": pictures, "steps": steps, "numbers": numbers}


def _shrink(picture: NDArray[Any]) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 (only pictures need it)

    image = Image.fromarray(np.asarray(picture, np.uint8)[..., :3])
    whole = min(image.width // PICTURE_WIDTH, image.height // PICTURE_HEIGHT)
    if whole > 1:
        image = image.reduce(whole)  # by a whole number is much faster
    image.thumbnail((PICTURE_WIDTH, PICTURE_HEIGHT), Image.Resampling.BILINEAR)
    return np.asarray(image)


def _encode_pictures(pictures: Sequence[NDArray[np.uint8]]) -> tuple[list[str], list[int]]:
    """Encode pictures, equal ones once, in the format that suits the middle one best."""
    middle = pictures[len(pictures) // 2]
    kind = min(("png", "jpeg"), key=lambda kind: len(_encode_picture(middle, kind)))
    known: dict[bytes, int] = {}
    encoded: list[str] = []
    numbers = []
    for picture in pictures:
        number = known.setdefault(picture.tobytes(), len(known))
        if number == len(encoded):
            data = base64.b64encode(_encode_picture(picture, kind)).decode()
            encoded.append(f"data:image/{kind};base64,{data}")
        numbers.append(number)
    return encoded, numbers


def _encode_picture(picture: NDArray[np.uint8], kind: str) -> bytes:
    from PIL import Image  # noqa: PLC0415

    image = Image.fromarray(picture)
    buffer = io.BytesIO()
    if kind == "png":
        image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    else:
        image.save(buffer, "JPEG", quality=60, optimize=True)
    return buffer.getvalue()


class FeatureScene:
    """The values of some features, for environments that cannot be drawn; `why`, in words, if they should be."""

    kind = "features"

    def __init__(self, env: Env, space: FeatureSpace, features: Sequence[int], why: str = "") -> None:
        self._encoder = ObservationEncoder.of(env.observation_space)
        self._features = list(features)
        self.layout: dict[str, Any] = {"features": [space[i].label for i in self._features], "note": why}
        self._rows: list[list[float]] = []

    def begin(self, steps: int, marked: Iterable[int]) -> None:  # noqa: ARG002 (every step is kept)
        """Forget the last episode."""
        self._rows = []

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Keep the values."""
        row = self._encoder.encode([observation])[0]
        self._rows.append([float(f"{row[i]:.4g}") for i in self._features])

    def frames(self) -> dict[str, Any]:
        """One row of values a step."""
        return {"rows": self._rows}


def is_drawn_from_state(spec: EnvironmentSpec) -> bool:
    """Whether replays of an environment are a few numbers a step, so that many of them fit into a report."""
    env = spec.make()
    drawn = _scene_from_state(env) is not None
    env.close()
    return drawn


def _scene_from_state(env: Env) -> Scene | None:
    domain = domain_of(env)
    scene: Scene | None = load_by_name(domain.scene)(env) if domain is not None and domain.scene else None
    return scene


def scene_of(
    spec: EnvironmentSpec, space: FeatureSpace, features: Sequence[int], picture_budget: int
) -> tuple[Env, Scene]:
    """Make the environment that replays run in, and the scene that sees it best.

    Parameters
    ----------
    spec
        The environment.
    space, features
        Which features to show where nothing can be drawn.
    picture_budget
        Bytes that the pictures of an episode may take.
    """
    env = spec.make()
    scene = _scene_from_state(env)
    if scene is not None:
        return env, scene
    drawn, why = _rendering(spec)
    if drawn is not None:
        env.close()
        return drawn, PictureScene(picture_budget)
    return env, FeatureScene(env, space, features, why)


def _rendering(spec: EnvironmentSpec) -> tuple[Env | None, str]:
    """The environment in its ``rgb_array`` mode; None where it has none that works, and why it does not."""
    try:
        env = spec.make(render_mode="rgb_array")
        env.reset(seed=0)
        picture = np.asarray(env.render())
    except CannotDrawError as error:
        return None, f"No pictures: {error}"
    except Exception:  # a missing picture must not cost the report; the reasons are the environments' own
        return None, ""
    if picture.ndim != 3 or picture.shape[2] < 3:
        env.close()
        return None, ""
    return env, ""
