"""Scenes: views of an environment step by step, small enough for a report."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.environments import (
    CannotDrawError,
    Env,
    EnvironmentSpec,
    ObservationEncoder,
    domain_of,
    load_by_name,
)
from legible.features import FeatureSpace

PICTURE_WIDTH = 240
PICTURE_HEIGHT = 200
MOST_PICTURES = 120
TYPICAL_PICTURES = 1000  # of a report: about eight replays, with and without rules, half of their steps left out
TIMED_PICTURES = 3
COLOURS = 64
_FORMATS = ("png", "jpeg")
_FEWEST = 3  # an episode keeps the first and the last picture


class Scene(Protocol):
    """A view of an environment at the start and after every step of an episode.

    `kind` names the drawer of the player, `layout` is shared by all episodes.
    """

    kind: str
    layout: dict[str, Any]

    def begin(self, steps: int, marked: Iterable[int]) -> None:
        """Start an episode with this number of steps; `marked` steps must be included."""

    def see(self, env: Env, observation: Any, step: int) -> None:
        """Observe the environment after `step` steps."""

    def frames(self) -> Any:
        """Return the frames of the episode as plain data."""


class PictureScene:
    """Small pictures of any environment; of long episodes every few steps and all marked ones.

    `budget` is the maximum number of bytes for the pictures of one episode.
    """

    kind = "pictures"

    def __init__(self, budget: int) -> None:
        self.layout: dict[str, Any] = {}
        self._budget = budget
        self._chosen: list[int] = []
        self._seen: dict[int, NDArray[np.uint8]] = {}
        self._encoded: dict[bytes, dict[str, str]] = {}  # data URLs of a picture, by format

    def begin(self, steps: int, marked: Iterable[int]) -> None:
        """Choose the steps to draw: the first, the last, marked ones, and others evenly between."""
        self._seen, self._encoded = {}, {}
        must = [step for step in marked if step <= steps]
        if len(must) > MOST_PICTURES // 2:
            must = [must[i] for i in np.linspace(0, len(must) - 1, MOST_PICTURES // 2).round().astype(int)]
        even = np.linspace(0, steps, min(steps + 1, MOST_PICTURES - len(must))).round().astype(int)
        self._chosen = sorted({0, steps, *must, *(int(step) for step in even)})

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Render the environment in a chosen step; draw fewer of the rest once the pictures are too large."""
        if step in self._chosen:
            picture = _shrink(np.asarray(env.render()))
            self._seen[step] = picture
            self._encode(picture)
            while self._least_size() > self._budget and len(self._chosen) >= _FEWEST:
                self._leave_out_half()

    def frames(self) -> dict[str, Any]:
        """Return distinct pictures as data URLs, and the number of the picture of every drawn step."""
        while True:
            steps = sorted(self._seen)
            pictures, numbers = self._urls([self._seen[step] for step in steps])
            if sum(map(len, pictures)) <= self._budget or len(steps) < _FEWEST:
                break
            self._leave_out_half()
        self.layout = {"width": self._seen[steps[0]].shape[1], "height": self._seen[steps[0]].shape[0]}
        return {"pictures": pictures, "steps": steps, "numbers": numbers}

    def _encode(self, picture: NDArray[np.uint8]) -> dict[str, str]:
        """Return a picture as a data URL in every format; equal pictures are encoded once."""
        key = picture.tobytes()
        if key not in self._encoded:
            self._encoded[key] = {kind: _picture_url(picture, kind) for kind in _FORMATS}
        return self._encoded[key]

    def _least_size(self) -> int:
        """Return the size of the pictures so far, each in the format that suits it best."""
        distinct = {picture.tobytes() for picture in self._seen.values()}
        return sum(min(map(len, self._encoded[key].values())) for key in distinct)

    def _leave_out_half(self) -> None:
        self._chosen = [*self._chosen[:-1:2], self._chosen[-1]]
        self._seen = {step: self._seen[step] for step in self._chosen if step in self._seen}

    def _urls(self, pictures: Sequence[NDArray[np.uint8]]) -> tuple[list[str], list[int]]:
        """Return distinct pictures in the format that suits the middle one best, and the number of every picture."""
        middle = self._encode(pictures[len(pictures) // 2])
        kind = min(_FORMATS, key=lambda kind: len(middle[kind]))
        known: dict[str, int] = {}
        numbers = [known.setdefault(self._encode(picture)[kind], len(known)) for picture in pictures]
        return list(known), numbers


def _shrink(picture: NDArray[Any]) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 (only pictures need it)

    image = Image.fromarray(np.asarray(picture, np.uint8)[..., :3])
    whole = min(image.width // PICTURE_WIDTH, image.height // PICTURE_HEIGHT)
    if whole > 1:
        image = image.reduce(whole)  # by a whole number is much faster
    image.thumbnail((PICTURE_WIDTH, PICTURE_HEIGHT), Image.Resampling.BILINEAR)
    return np.asarray(image)


def _picture_url(picture: NDArray[np.uint8], kind: str) -> str:
    """Return a picture as a data URL, of the format "png" or "jpeg"."""
    from PIL import Image  # noqa: PLC0415 (only pictures need it)

    image = Image.fromarray(picture)
    buffer = io.BytesIO()
    if kind == "png":
        image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    else:
        image.save(buffer, "JPEG", quality=60, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


class FeatureScene:
    """The values of some features, for environments that cannot be drawn; `why` is an optional note."""

    kind = "features"

    def __init__(self, env: Env, space: FeatureSpace, features: Sequence[int], why: str = "") -> None:
        self._encoder = ObservationEncoder.of(env.observation_space)
        self._features = list(features)
        self.layout: dict[str, Any] = {"features": [space[i].label for i in self._features], "note": why}
        self._rows: list[list[float]] = []

    def begin(self, steps: int, marked: Iterable[int]) -> None:  # noqa: ARG002 (every step is kept)
        """Start an episode."""
        self._rows = []

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Store the values."""
        row = self._encoder.encode([observation])[0]
        self._rows.append([float(f"{row[i]:.4g}") for i in self._features])

    def frames(self) -> dict[str, Any]:
        """Return one row of values per step."""
        return {"rows": self._rows}


def is_drawn_from_state(spec: EnvironmentSpec) -> bool:
    """Return whether replays take only a few numbers per step, so that many fit into a report."""
    env = spec.make()
    drawn = _scene_from_state(env) is not None
    env.close()
    return drawn


def drawing_seconds(spec: EnvironmentSpec) -> float:
    """Return about how many seconds the pictures of a report take; 0 where the browser draws replays from states."""
    drawn = None if is_drawn_from_state(spec) else _rendering(spec)[0]
    if drawn is None:
        return 0.0
    scene = PictureScene(budget=10**9)
    scene.begin(TIMED_PICTURES, range(TIMED_PICTURES + 1))
    # `_rendering` has drawn the first picture, which takes longer because a window or a buffer is made for it.
    started = time.perf_counter()
    for step in range(1, TIMED_PICTURES + 1):
        drawn.reset(seed=step)  # another picture, without choosing an action
        scene.see(drawn, None, step)
    seconds = time.perf_counter() - started
    drawn.close()
    return seconds / TIMED_PICTURES * TYPICAL_PICTURES


def _scene_from_state(env: Env) -> Scene | None:
    domain = domain_of(env)
    scene: Scene | None = load_by_name(domain.scene)(env) if domain is not None and domain.scene else None
    return scene


def scene_of(
    spec: EnvironmentSpec, space: FeatureSpace, features: Sequence[int], picture_budget: int
) -> tuple[Env, Scene]:
    """Return the environment for replays and its best scene: drawn from states, pictures, or values of `features`.

    `picture_budget` is the maximum number of bytes for the pictures of one episode.
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
    """Return the environment in ``rgb_array`` mode, or None and the reason if it cannot draw."""
    try:
        env = spec.make(render_mode="rgb_array")
        env.reset(seed=0)
        picture = np.asarray(env.render())
    except CannotDrawError as error:
        return None, f"No pictures: {error}"
    except Exception:  # a picture that cannot be drawn must not stop the report
        return None, ""
    if picture.ndim != 3 or picture.shape[2] < 3:
        env.close()
        return None, ""
    return env, ""
