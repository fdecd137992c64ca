"""Base classes of Gymnasium environments whose episodes are rows of arrays, such as PAC-Man and driving.

- `Batch`: episodes in arrays, stepped by a compiled kernel.
- `ArrayEnv`: one episode of a batch as a Gymnasium environment; `ArrayVectorEnv`: all of them as a vector environment.
- `Window`: a window that shows an episode.

A domain adds how an episode is drawn (`Drawing`) and stepped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.imports import optional_package
from legible.streams import check_seed, key_of_seed

State = TypeVar("State")

RENDER_MODES = ("rgb_array", "ansi", "human")


class Batch(Protocol[State]):
    """Episodes in arrays, one row per episode."""

    feature_space: FeatureSpace
    observations: NDArray[np.float32]

    def observation_box(self) -> spaces.Space[NDArray[np.float32]]:
        """Return the bounds of an observation."""

    def start(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        """Begin new episodes where `mask` is set; without a seed the random stream of the row continues."""

    def state(self, i: int) -> State:
        """Return the whole state of row i."""

    def set_state(self, i: int, state: State) -> None:
        """Put row i into a state."""

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays that determine the future of the episodes, and their observations; one row per episode."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The random stream of each row."""


SavedRows = tuple[NDArray[Any], ...]
"""Rows of the arrays of a `Batch`."""


class Picture(Protocol):
    """A drawer of scenes as pixels."""

    def draw(self, scene: Any, /) -> NDArray[np.uint8]:
        """Return a scene as ``uint8[height, width, 3]``."""


class Drawing:
    """Drawing of episodes, and messages about them."""

    error: ClassVar[type[LegibleError]]
    an_episode: ClassVar[str]  # "an episode", or the domain's word for it
    render_mode: str | None
    _picture: Picture | None = None

    @abstractmethod
    def scene(self, i: int) -> Any:
        """Return the scene of row i."""

    @abstractmethod
    def to_text(self, scene: Any) -> str:
        """Draw a scene for a terminal."""

    @abstractmethod
    def new_picture(self) -> Picture:
        """Return a drawer of scenes."""

    def draw(self, i: int) -> Any:
        """Draw row i as text or pixels, as the render mode says."""
        if self.render_mode == "ansi":
            return self.to_text(self.scene(i))
        if self._picture is None:
            self._picture = self.new_picture()
        return self._picture.draw(self.scene(i))

    def check_render_mode(self, render_mode: str | None, known: Sequence[str]) -> str | None:
        """Return a render mode, or raise if it is not known."""
        if render_mode is not None and render_mode not in known:
            raise self.error(f"render_mode {render_mode!r} is not known; use one of {', '.join(known)}.")
        return render_mode

    def check_actions(self, actions: NDArray[Any], n: int, space: FeatureSpace) -> NDArray[np.int64]:
        """Return n actions as int64, or raise and name the first one that does not exist."""
        if actions.shape != (n,):
            noun = self.an_episode.split()[-1]  # without its article
            raise self.error(f"{n} actions are expected, one per {noun}; got an array of shape {actions.shape}.")
        if actions.dtype.kind not in "iu":
            raise self.error(f"{_known_actions(space)} and whole numbers; got {actions[0]!r}.")
        wrong = (actions < 0) | (actions >= len(space.actions))
        if wrong.any():
            i = int(np.argmax(wrong))
            where = f" ({self.an_episode.split()[-1]} {i})" if n > 1 else ""
            raise self.error(f"action {actions[i]} does not exist{where}; {_known_actions(space)}.")
        return np.ascontiguousarray(actions, np.int64)


def _known_actions(space: FeatureSpace) -> str:
    return f"actions are 0…{len(space.actions) - 1} ({', '.join(space.action_names)})"


class Window:
    """A pygame window, opened with the first frame."""

    def __init__(self) -> None:
        self._pygame: Any = optional_package("pygame", "human", "windows")
        self._surface: Any = None

    def show(self, frame: NDArray[np.uint8], caption: str, frames_per_second: float) -> None:
        """Show a frame and wait until it is time for the next."""
        pygame = self._pygame
        if self._surface is None:
            pygame.init()
            self._surface = pygame.display.set_mode((frame.shape[1], frame.shape[0]))
            pygame.display.set_caption(caption)
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._surface.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(frames_per_second)

    def close(self) -> None:
        """Close the window; another frame opens it again."""
        if self._surface is not None:
            self._pygame.display.quit()
            self._surface = None


def _stream_key(seed: int) -> np.uint64:
    return key_of_seed(np.uint64(check_seed(seed) % 2**64))


class ArrayEnv(Drawing, gymnasium.Env[NDArray[np.float32], np.int64], Generic[State]):
    """The only episode of a batch; `render_mode` is one of `RENDER_MODES` or None, `caption` the window's title."""

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 2}  # noqa: RUF012

    def __init__(self, batch: Batch[State], render_mode: str | None, caption: str) -> None:
        self.render_mode = self.check_render_mode(render_mode, RENDER_MODES)
        self._batch = batch
        self._caption = caption
        self._window = Window() if render_mode == "human" else None
        self.feature_space = batch.feature_space
        self.observation_space = batch.observation_box()
        self.action_space = spaces.Discrete(len(self.feature_space.actions))

    @property
    def state(self) -> State:
        """The whole state of the episode."""
        return self._batch.state(0)

    def set_state(self, state: State) -> NDArray[np.float32]:
        """Put the episode into a state and return its observation."""
        self._batch.set_state(0, state)
        return self._batch.observations[0].copy()

    def clone_state(self) -> SavedRows:
        """Copy the whole state of the episode, with its random stream."""
        return tuple(array[[0]] for array in self._batch.arrays)

    def restore_state(self, state: SavedRows) -> None:
        """Continue from a copied state."""
        for array, values in zip(self._batch.arrays, state, strict=True):
            array[[0]] = values

    def reseed(self, seed: int) -> None:
        """Draw all random numbers from here on from the stream of a seed."""
        self._batch.keys[0] = _stream_key(seed)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 (Gymnasium's signature)
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; the same seed gives the same episode for the same actions."""
        super().reset(seed=None if seed is None else check_seed(seed))
        self._batch.start(np.ones(1, np.bool_), [seed])
        if self.render_mode == "human":
            self.render()
        return self._batch.observations[0].copy(), self.info()

    def info(self) -> dict[str, Any]:
        """Return the info of a step."""
        return {}

    def render(self) -> Any:
        """Draw the state: an RGB array, a text, or a frame in the window."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode; give one to gymnasium.make.")
            return None
        drawn = self.draw(0)
        if self._window is None:
            return drawn
        self._window.show(drawn, self._caption, self.metadata["render_fps"])
        return None

    def close(self) -> None:
        """Close the window if there is one."""
        if self._window is not None:
            self._window.close()


class ArrayVectorEnv(Drawing, VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]], Generic[State]):
    """All episodes of a batch; `render_mode` is "rgb_array", "ansi" or None.

    Without `copy`, observations are not copies, and the next step overwrites them.
    """

    seeds_each_episode = True
    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array", "ansi"],
        "render_fps": 2,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        batch: Batch[State],
        num_envs: int,
        render_mode: str | None,
        autoreset_mode: str | AutoresetMode,
        copy: bool,
    ) -> None:
        """Prepare `num_envs` episodes, which begin with the first `reset`.

        The batch is the array code that plays the episodes; it knows the features, the actions and the bounds. The
        autoreset mode is Gymnasium's: finished episodes start again in the next step, in the same step, or never.
        Without `copy`, the observations are always the same array, which the next step overwrites.
        """
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        # Whether finished episodes stay as they are in further steps, until they are reset.
        self.leaves_finished = self.autoreset_mode is AutoresetMode.DISABLED
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self.check_render_mode(render_mode, self.metadata["render_modes"])
        self.copy, self._batch = copy, batch
        self.feature_space = batch.feature_space
        self.single_observation_space = batch.observation_box()
        self.single_action_space = spaces.Discrete(len(self.feature_space.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @classmethod
    def check_number(cls, num_envs: int) -> int:
        """Return a number of environments, or raise if it is not positive."""
        if num_envs < 1:
            raise cls.error(f"num_envs must be at least 1, got {num_envs}.")
        return num_envs

    def state(self, i: int) -> State:
        """Return the state of episode i."""
        return self._batch.state(i)

    def set_state(self, i: int, state: State) -> NDArray[np.float32]:
        """Put episode i into a state and return its observation."""
        self._batch.set_state(i, state)
        return self._batch.observations[i].copy()

    def save_rows(self, rows: NDArray[np.intp]) -> SavedRows:
        """Copy the whole states of some episodes, with their random streams."""
        return tuple(array[rows] for array in self._batch.arrays)

    def restore_rows(self, rows: NDArray[np.intp], saved: SavedRows) -> None:
        """Put episodes into copied states."""
        for array, values in zip(self._batch.arrays, saved, strict=True):
            array[rows] = values

    def reseed_rows(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Draw all random numbers of some episodes from here on from the streams of seeds."""
        self._batch.keys[rows] = [_stream_key(seed) for seed in seeds]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start all or some episodes, and return the observations ``float32[episodes, features]`` and an empty info.

        - `seed`: one number s for the seeds s, s + 1, …, or a list with a seed (or None) for every episode. None
          continues the random numbers of the episodes before.
        - `options`: ``options["reset_mask"]``, ``bool[episodes]``, marks the episodes to start; by default all.
        """
        # Which episodes to start.
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise self.error(f"reset_mask must be a boolean array of shape ({self.num_envs},), got {mask!r}.")
        if not mask.any():
            noun = self.an_episode.split()[-1]  # without its article
            raise self.error(f"reset_mask marks no {noun}.")

        # A seed for every episode, also for those that are not started.
        seeds: Sequence[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, (int, np.integer)):
            first = check_seed(seed)
            seeds = [first + i for i in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            noun = self.an_episode.split()[-1]
            raise self.error(f"{self.num_envs} seeds are expected, one per {noun}; got {len(seeds)}.")
        self.start(mask, seeds)
        return self.observations(), {}

    def start(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        """Begin new episodes where `mask` is set."""
        self._batch.start(mask, seeds)

    def restart_now(self, over: NDArray[np.bool_], final_info: dict[str, Any]) -> dict[str, Any]:
        """Start new episodes where `over` is set, and return infos with the last observations of the old ones."""
        final = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(over):
            final[i] = self._batch.observations[i].copy()
        self._batch.start(over, [None] * self.num_envs)
        return {"final_obs": final, "_final_obs": over, "final_info": final_info, "_final_info": over}

    def observations(self) -> NDArray[np.float32]:
        """Return the observations of all episodes."""
        return self._batch.observations.copy() if self.copy else self._batch.observations

    def render(self) -> tuple[Any, ...] | None:
        """Draw every episode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode; give one to gymnasium.make_vec.")
            return None
        return tuple(self.draw(i) for i in range(self.num_envs))
