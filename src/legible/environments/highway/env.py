"""The Gymnasium environments: `HighwayEnv` for one episode, `HighwayVectorEnv` for many, both over one kernel.

>>> import gymnasium, legible
>>> env = gymnasium.make("legible/Merge-v0", config={"high_speed_reward": 0.3})
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step(1)
>>> env.unwrapped.feature_space.names[:3], env.unwrapped.settings.high_speed_reward
(('ego.presence', 'ego.x', 'ego.y'), 0.3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from legible.environments.highway import kernel
from legible.environments.highway.episodes import Episodes, HighwayState
from legible.environments.highway.render import Picture, Traffic, to_text
from legible.environments.highway.roads import RoadMap
from legible.environments.highway.settings import HighwayError, settings_of
from legible.environments.highway.state import EGO, SPEED
from legible.streams import check_seed

RENDER_MODES = ("rgb_array", "ansi", "human")


def _check_render_mode(render_mode: str | None, allowed: Sequence[str]) -> str | None:
    if render_mode is not None and render_mode not in allowed:
        raise HighwayError(f"render_mode {render_mode!r} is not known; use one of {', '.join(allowed)}.")
    return render_mode


class HighwayEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One episode of a driving scenario.

    Parameters
    ----------
    scenario
        "highway", "highway-fast", "merge", "intersection" or "roundabout".
    config, entries
        Settings by highway-env's names, in a mapping as there or as arguments; see `settings_of`.
    preset
        What the settings start from: "authors", the configuration of the paper's experiments, or "highway-env", the
        scenario's own defaults.

    Notes
    -----
    Observations are highway-env's Kinematics table, row after row. Infos have ego's ``speed`` and whether it
    ``crashed``; ``is_success`` says at the end of an episode whether ego came through without a crash and, at the
    intersection, arrived. `state` and `set_state` read and set the whole state.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 2}  # noqa: RUF012

    def __init__(
        self,
        scenario: str = "highway",
        *,
        config: Mapping[str, Any] | None = None,
        preset: str = "authors",
        render_mode: str | None = None,
        **entries: Any,
    ) -> None:
        self.render_mode = _check_render_mode(render_mode, RENDER_MODES)
        self.settings = settings_of(scenario, {**(config or {}), **entries}, preset=preset)
        self.metadata = {**self.metadata, "render_fps": self.settings.policy_frequency}
        self.episodes = Episodes(1, self.settings)
        self.feature_space = self.episodes.feature_space
        self.observation_space = self.episodes.observation_box()
        self.action_space = spaces.Discrete(len(self.feature_space.actions))
        self._play = np.zeros(1, np.uint8)
        self._picture: Picture | None = None
        self._window: Any = None

    @property
    def road_map(self) -> RoadMap:
        """The roads that are driven on."""
        return self.episodes.road_map

    @property
    def traffic(self) -> Traffic:
        """Where everybody is."""
        return Traffic.of(self.episodes.world, 0)

    @property
    def state(self) -> HighwayState:
        """The whole state of the episode."""
        return self.episodes.state(0)

    def set_state(self, state: HighwayState) -> NDArray[np.float32]:
        """Put the episode into a state and return its observation."""
        self.episodes.set_state(0, state)
        return self.episodes.observations[0].copy()

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 (Gymnasium's signature)
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; the same seed gives the same episode for the same actions."""
        super().reset(seed=None if seed is None else check_seed(seed))
        self.episodes.start(np.ones(1, np.bool_), [seed])
        if self.render_mode == "human":
            self.render()
        return self.episodes.observations[0].copy(), self._info()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Drive for one step of the policy."""
        episodes = self.episodes
        if episodes.over[0]:
            raise HighwayError("the episode is over, or has not begun; call reset() before the next step().")
        episodes.step(_check_actions(np.asarray(action).reshape(-1), 1, self.feature_space.actions), self._play)
        if self.render_mode == "human":
            self.render()
        return (
            episodes.observations[0].copy(),
            float(episodes.rewards[0]),
            bool(episodes.terminated[0]),
            bool(episodes.truncated[0]),
            self._info(),
        )

    def _info(self) -> dict[str, Any]:
        world = self.episodes.world
        ego = int(world.episode[0, EGO])
        info = {"speed": float(world.motion[0, SPEED, ego]), "crashed": bool(self.episodes.crashed()[0])}
        if self.episodes.over[0]:
            info["is_success"] = bool(self.episodes.succeeded()[0])
        return info

    def render(self) -> Any:
        """Draw the state: an RGB array, a text, or a frame in the window."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode; give one to gymnasium.make.")
            return None
        if self.render_mode == "ansi":
            return to_text(self.road_map, self.traffic)
        self._picture = self._picture or Picture(self.road_map)
        frame = self._picture.draw(self.traffic)
        if self.render_mode == "rgb_array":
            return frame
        return self._show(frame)

    def _show(self, frame: NDArray[np.uint8]) -> None:
        try:
            import pygame  # noqa: PLC0415 (only a window needs it)
        except ImportError as error:
            raise HighwayError(
                "render_mode='human' opens a window with pygame: pip install 'legible-rl[human]'."
            ) from error
        if self._window is None:
            pygame.init()
            self._window = pygame.display.set_mode((frame.shape[1], frame.shape[0]))
            pygame.display.set_caption(f"legible: {self.settings.scenario}")
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._window.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(self.metadata["render_fps"])

    def close(self) -> None:
        """Close the window if there is one."""
        if self._window is not None:
            import pygame  # noqa: PLC0415

            pygame.display.quit()
            self._window = None


def _check_actions(actions: NDArray[Any], n: int, names: Sequence[Any]) -> NDArray[np.int64]:
    """Return n actions as int64, or name the first one that is none."""
    known = f"actions are 0…{len(names) - 1} ({', '.join(action.name for action in names)})"
    if actions.shape != (n,):
        raise HighwayError(f"{n} actions are expected, one an episode; got an array of shape {actions.shape}.")
    if actions.dtype.kind not in "iu":
        raise HighwayError(f"{known} and whole numbers; got {actions[0]!r}.")
    wrong = (actions < 0) | (actions >= len(names))
    if wrong.any():
        i = int(np.argmax(wrong))
        where = f" (episode {i})" if n > 1 else ""
        raise HighwayError(f"action {actions[i]} does not exist{where}; {known}.")
    return np.ascontiguousarray(actions, np.int64)


class HighwayVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """Many episodes of a driving scenario, stepped by one call of the kernel. For the settings see `HighwayEnv`.

    Parameters
    ----------
    num_envs
        How many episodes at a time.
    autoreset_mode
        When an episode that is over is followed by the next: at the next step (default), in the same step, or when you
        reset it. Until you do, stepping leaves it as it is, for nothing, and earns 0.
    copy
        Whether observations are copied out. Without copies the array you got is overwritten by the next step.
    threads
        How many threads step the batch; the results are the same, to the bit.
    """

    seeds_each_episode = True
    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array", "ansi"],
        "render_fps": 2,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str = "highway",
        *,
        config: Mapping[str, Any] | None = None,
        preset: str = "authors",
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        **entries: Any,
    ) -> None:
        if num_envs < 1:
            raise HighwayError(f"num_envs must be at least 1, got {num_envs}.")
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.settings = settings_of(scenario, {**(config or {}), **entries}, preset=preset)
        self.metadata = {
            **self.metadata,
            "autoreset_mode": self.autoreset_mode,
            "render_fps": self.settings.policy_frequency,
        }
        self.render_mode = _check_render_mode(render_mode, self.metadata["render_modes"])
        self.copy = copy
        self.episodes = Episodes(num_envs, self.settings, threads)
        self.feature_space = self.episodes.feature_space
        self.single_observation_space = self.episodes.observation_box()
        self.single_action_space = spaces.Discrete(len(self.feature_space.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._picture: Picture | None = None

    @property
    def road_map(self) -> RoadMap:
        """The roads that are driven on."""
        return self.episodes.road_map

    def traffic(self, i: int) -> Traffic:
        """Where everybody is in episode i."""
        return Traffic.of(self.episodes.world, i)

    def state(self, i: int) -> HighwayState:
        """Read the state of episode i."""
        return self.episodes.state(i)

    def set_state(self, i: int, state: HighwayState) -> NDArray[np.float32]:
        """Put episode i into a state and return its observation."""
        self.episodes.set_state(i, state)
        return self.episodes.observations[i].copy()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start all episodes, or those that ``options["reset_mask"]`` marks.

        A single seed s stands for s, s + 1, …; a list has a seed (or None) for every episode.
        """
        self.episodes.start(self._reset_mask(options), self._seeds(seed))
        return self._observations(), {}

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            first = check_seed(seed)
            return [first + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise HighwayError(f"{self.num_envs} seeds are expected, one an episode; got {len(seed)}.")
        return seed

    def _reset_mask(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        if not options or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise HighwayError(f"reset_mask must be a boolean array of shape ({self.num_envs},), got {mask!r}.")
        if not mask.any():
            raise HighwayError("reset_mask marks no episode.")
        return mask

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Drive for one step of the policy in every episode."""
        episodes = self.episodes
        checked = _check_actions(np.asarray(actions), self.num_envs, self.feature_space.actions)
        instead = kernel.RESTART if self.autoreset_mode is AutoresetMode.NEXT_STEP else kernel.LEAVE
        episodes.step(checked, np.where(episodes.over, instead, kernel.PLAY).astype(np.uint8))
        rewards, terminated, truncated = episodes.rewards.copy(), episodes.terminated, episodes.truncated
        infos: dict[str, Any] = {}
        over = terminated | truncated
        if over.any():
            infos = {
                "is_success": episodes.succeeded() & over,
                "_is_success": over,
                "crashed": episodes.crashed() & over,
                "_crashed": over,
            }
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = self._restart_now(over, infos)
        return self._observations(), rewards, terminated, truncated, infos

    def _restart_now(self, over: NDArray[np.bool_], final_info: dict[str, Any]) -> dict[str, Any]:
        """Keep the last observations of finished episodes in the infos and start the next ones."""
        final = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(over):
            final[i] = self.episodes.observations[i].copy()
        self.episodes.start(over, [None] * self.num_envs)
        return {"final_obs": final, "_final_obs": over, "final_info": final_info, "_final_info": over}

    def _observations(self) -> NDArray[np.float32]:
        return self.episodes.observations.copy() if self.copy else self.episodes.observations

    def render(self) -> tuple[Any, ...] | None:
        """Draw every episode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode; give one to gymnasium.make_vec.")
            return None
        scenes = [self.traffic(i) for i in range(self.num_envs)]
        if self.render_mode == "ansi":
            return tuple(to_text(self.road_map, traffic) for traffic in scenes)
        self._picture = self._picture or Picture(self.road_map)
        return tuple(self._picture.draw(traffic) for traffic in scenes)
