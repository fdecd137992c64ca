"""The Gymnasium environments: `PacmanEnv` for one game, `PacmanVectorEnv` for many, both over one kernel.

>>> import gymnasium, legible
>>> env = gymnasium.make("legible/PacmanSmall-v0")
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step(2)
>>> env.unwrapped.feature_space.names[:2], float(reward)
(('near.unscared', 'near.scared'), 9.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from legible.environments.pacman import kernel
from legible.environments.pacman.games import Games, PacmanError, PacmanSettings, PacmanState
from legible.environments.pacman.maze import Maze
from legible.environments.pacman.render import Picture, to_text
from legible.streams import check_seed

RENDER_MODES = ("rgb_array", "ansi", "human")
FRAMES_PER_SECOND = 8


def _check_render_mode(render_mode: str | None, allowed: Sequence[str]) -> str | None:
    if render_mode is not None and render_mode not in allowed:
        raise PacmanError(f"render_mode {render_mode!r} is not known; use one of {', '.join(allowed)}.")
    return render_mode


class PacmanEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One game of PAC-Man. For the arguments see `PacmanSettings`.

    ``info["is_success"]`` says at the end of an episode whether the level was won. `state` and `set_state` read and set
    the whole state.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None, **settings: Any) -> None:
        self.render_mode = _check_render_mode(render_mode, RENDER_MODES)
        self.settings = PacmanSettings(**settings)
        self.games = Games(1, self.settings)
        self.feature_space = self.games.feature_space
        self.observation_space = self.games.observation_box()
        self.action_space = spaces.Discrete(len(self.feature_space.actions))
        self._restart = np.zeros(1, np.bool_)
        self._picture: Picture | None = None
        self._window: Any = None

    @property
    def maze(self) -> Maze:
        """The maze that is played."""
        return self.games.maze

    @property
    def state(self) -> PacmanState:
        """The whole state of the game."""
        return self.games.state(0)

    def set_state(self, state: PacmanState) -> NDArray[np.float32]:
        """Put the game into a state and return its observation."""
        self.games.set_state(0, state)
        return self.games.observations[0].copy()

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 (Gymnasium's signature)
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; the same seed gives the same episode for the same actions."""
        super().reset(seed=None if seed is None else check_seed(seed))
        self.games.start(np.ones(1, np.bool_), [seed])
        if self.render_mode == "human":
            self.render()
        return self.games.observations[0].copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one round."""
        games = self.games
        if games.agents[0, kernel.STATUS] != kernel.PLAYING:
            raise PacmanError("the episode is over; call reset() before the next step().")
        games.step(_check_actions(np.asarray(action).reshape(-1), 1), self._restart)
        status = games.agents[0, kernel.STATUS]
        terminated, truncated = bool(status in {kernel.WON, kernel.LOST}), bool(status == kernel.CUT_OFF)
        info = {"is_success": bool(status == kernel.WON)} if terminated or truncated else {}
        if self.render_mode == "human":
            self.render()
        return games.observations[0].copy(), float(games.rewards[0]), terminated, truncated, info

    def render(self) -> Any:
        """Draw the state: an RGB array, a text, or a frame in the window."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode; give one to gymnasium.make.")
            return None
        if self.render_mode == "ansi":
            return to_text(self.maze, self.state)
        self._picture = self._picture or Picture(self.maze)
        frame = self._picture.draw(self.state)
        if self.render_mode == "rgb_array":
            return frame
        return self._show(frame)

    def _show(self, frame: NDArray[np.uint8]) -> None:
        try:
            import pygame  # noqa: PLC0415 (only a window needs it)
        except ImportError as error:
            raise PacmanError(
                "render_mode='human' opens a window with pygame: pip install 'legible-rl[human]'."
            ) from error
        if self._window is None:
            pygame.init()
            self._window = pygame.display.set_mode((frame.shape[1], frame.shape[0]))
            pygame.display.set_caption(f"PAC-Man: {self.maze.name}")
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._window.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(FRAMES_PER_SECOND)

    def close(self) -> None:
        """Close the window if there is one."""
        if self._window is not None:
            import pygame  # noqa: PLC0415

            pygame.display.quit()
            self._window = None


def _check_actions(actions: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return n actions as int64, or name the first one that is none."""
    if actions.shape != (n,):
        raise PacmanError(f"{n} actions are expected, one a game; got an array of shape {actions.shape}.")
    if actions.dtype.kind not in "iu":
        raise PacmanError(f"actions are whole numbers 0…4 (North, South, East, West, Stop); got {actions[0]!r}.")
    wrong = (actions < 0) | (actions > kernel.STOP)
    if wrong.any():
        i = int(np.argmax(wrong))
        where = f" (game {i})" if n > 1 else ""
        raise PacmanError(
            f"action {actions[i]} does not exist{where}; actions are 0…4 (North, South, East, West, Stop)."
        )
    return np.ascontiguousarray(actions, np.int64)


class PacmanVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """Many games of PAC-Man, stepped by one call of the kernel. For the arguments see `PacmanSettings`.

    Parameters
    ----------
    num_envs
        How many games.
    autoreset_mode
        When a game that is over starts again: at the next step (default), in the same step, or when you reset it.
    copy
        Whether observations are copied out. Without copies the array you got is overwritten by the next step.
    """

    seeds_each_episode = True
    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array", "ansi"],
        "render_fps": FRAMES_PER_SECOND,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        if num_envs < 1:
            raise PacmanError(f"num_envs must be at least 1, got {num_envs}.")
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = _check_render_mode(render_mode, self.metadata["render_modes"])
        self.copy = copy
        self.settings = PacmanSettings(**settings)
        self.games = Games(num_envs, self.settings)
        self.feature_space = self.games.feature_space
        self.single_observation_space = self.games.observation_box()
        self.single_action_space = spaces.Discrete(len(self.feature_space.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._over = np.zeros(num_envs, np.bool_)
        self._nowhere = np.zeros(num_envs, np.bool_)
        self._picture: Picture | None = None

    @property
    def maze(self) -> Maze:
        """The maze that is played."""
        return self.games.maze

    def state(self, i: int) -> PacmanState:
        """Read the state of game i."""
        return self.games.state(i)

    def set_state(self, i: int, state: PacmanState) -> NDArray[np.float32]:
        """Put game i into a state and return its observation."""
        self.games.set_state(i, state)
        self._over[i] = False
        return self.games.observations[i].copy()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start episodes in all games, or in those that ``options["reset_mask"]`` marks.

        A single seed s stands for s, s + 1, …; a list has a seed (or None) for every game.
        """
        mask = self._reset_mask(options)
        self.games.start(mask, self._seeds(seed))
        self._over[mask] = False
        return self._observations(), {}

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            first = check_seed(seed)
            return [first + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise PacmanError(f"{self.num_envs} seeds are expected, one a game; got {len(seed)}.")
        return seed

    def _reset_mask(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        if not options or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise PacmanError(f"reset_mask must be a boolean array of shape ({self.num_envs},), got {mask!r}.")
        if not mask.any():
            raise PacmanError("reset_mask marks no game.")
        return mask

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play one round in every game."""
        games = self.games
        checked = _check_actions(np.asarray(actions), self.num_envs)
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            games.step(checked, self._over)
        else:
            if self._over.any():
                raise PacmanError(
                    f"game {int(np.argmax(self._over))} is over; reset it first (options={{'reset_mask': …}})."
                )
            games.step(checked, self._nowhere)
        status = games.status
        truncated = status == kernel.CUT_OFF
        over = status != kernel.PLAYING
        terminated = over & ~truncated
        rewards = games.rewards.copy()
        infos: dict[str, Any] = {}
        if over.any():
            infos = {"is_success": status == kernel.WON, "_is_success": over}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = self._restart_now(over, infos)
        self._over = np.zeros_like(over) if self.autoreset_mode is AutoresetMode.SAME_STEP else over
        return self._observations(), rewards, terminated, truncated, infos

    def _restart_now(self, over: NDArray[np.bool_], final_info: dict[str, Any]) -> dict[str, Any]:
        """Keep the last observations of finished games in the infos and start them again."""
        final = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(over):
            final[i] = self.games.observations[i].copy()
        self.games.start(over, [None] * self.num_envs)
        return {"final_obs": final, "_final_obs": over, "final_info": final_info, "_final_info": over}

    def _observations(self) -> NDArray[np.float32]:
        return self.games.observations.copy() if self.copy else self.games.observations

    def render(self) -> tuple[Any, ...] | None:
        """Draw every game."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode; give one to gymnasium.make_vec.")
            return None
        states = [self.state(i) for i in range(self.num_envs)]
        if self.render_mode == "ansi":
            return tuple(to_text(self.maze, state) for state in states)
        self._picture = self._picture or Picture(self.maze)
        return tuple(self._picture.draw(state) for state in states)
