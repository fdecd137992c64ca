"""The Gymnasium environments: `HighwayEnv` for one episode, `HighwayVectorEnv` for many, both over one kernel.

>>> import gymnasium, legible
>>> env = gymnasium.make("legible/Merge-v0", config={"high_speed_reward": 0.3})
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step(1)
>>> env.unwrapped.feature_space.names[:3], env.unwrapped.settings.high_speed_reward
(('ego.presence', 'ego.x', 'ego.y'), 0.3)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from legible.environments.array_envs import ArrayEnv, ArrayVectorEnv, Drawing
from legible_envs.highway import kernel
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.episodes import Episodes, HighwayState
from legible_envs.highway.render import Picture, Traffic, to_text
from legible_envs.highway.roads import RoadMap
from legible_envs.highway.settings import HighwayError
from legible_envs.highway.state import EGO, SPEED


class _HighwayDrawing(Drawing):
    """The parts of a driving episode that people see: pictures, text, positions."""

    error = HighwayError
    an_episode = "an episode"
    episodes: Episodes

    @property
    def road_map(self) -> RoadMap:
        """The roads that are driven on."""
        return self.episodes.road_map

    def scene(self, i: int) -> Traffic:
        """Return the positions of all vehicles in episode i."""
        return Traffic.of(self.episodes.world, i)

    def to_text(self, scene: Traffic) -> str:
        """Draw traffic for a terminal."""
        return to_text(self.road_map, scene)

    def new_picture(self) -> Picture:
        """Return what draws traffic as pixels."""
        return Picture(self.road_map)


class HighwayEnv(_HighwayDrawing, ArrayEnv[HighwayState]):
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

    def __init__(
        self,
        scenario: str = "highway",
        *,
        config: Mapping[str, Any] | None = None,
        preset: str = "authors",
        render_mode: str | None = None,
        **entries: Any,
    ) -> None:
        self.settings = settings_of(scenario, {**(config or {}), **entries}, preset=preset)
        self.metadata = {**self.metadata, "render_fps": self.settings.policy_frequency}
        self.episodes = Episodes(1, self.settings)
        super().__init__(self.episodes, render_mode, caption=f"legible: {scenario}")
        self._play = np.zeros(1, np.uint8)

    @property
    def traffic(self) -> Traffic:
        """The positions of all vehicles."""
        return self.scene(0)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Drive for one step of the policy."""
        episodes = self.episodes
        if episodes.over[0]:
            raise HighwayError("the episode is over, or has not begun; call reset() before the next step().")
        episodes.step(self.check_actions(np.asarray(action).reshape(-1), 1, self.feature_space), self._play)
        if self.render_mode == "human":
            self.render()
        return (
            episodes.observations[0].copy(),
            float(episodes.rewards[0]),
            bool(episodes.terminated[0]),
            bool(episodes.truncated[0]),
            self.info(),
        )

    def info(self) -> dict[str, Any]:
        """Return ego's speed, whether it crashed and, at the end of an episode, whether it came through."""
        world = self.episodes.world
        ego = int(world.episode[0, EGO])
        info = {"speed": float(world.motion[0, SPEED, ego]), "crashed": bool(self.episodes.crashed()[0])}
        if self.episodes.over[0]:
            info["is_success"] = bool(self.episodes.succeeded()[0])
        return info


class HighwayVectorEnv(_HighwayDrawing, ArrayVectorEnv[HighwayState]):
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
        self.settings = settings_of(scenario, {**(config or {}), **entries}, preset=preset)
        self.metadata = {**self.metadata, "render_fps": self.settings.policy_frequency}
        self.episodes = Episodes(self.check_number(num_envs), self.settings, threads)
        super().__init__(self.episodes, num_envs, render_mode, autoreset_mode, copy)

    def traffic(self, i: int) -> Traffic:
        """Return the positions of all vehicles in episode i."""
        return self.scene(i)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Drive for one step of the policy in every episode, and return what Gymnasium's vector environments return.

        `actions` holds one action per episode. An episode that is over begins anew instead of stepping, or stays as it
        is, depending on the autoreset mode.
        """
        episodes = self.episodes
        checked = self.check_actions(np.asarray(actions), self.num_envs, self.feature_space)
        instead_of_playing = kernel.RESTART if self.autoreset_mode is AutoresetMode.NEXT_STEP else kernel.LEAVE
        orders = np.where(episodes.over, instead_of_playing, kernel.PLAY).astype(np.uint8)
        episodes.step(checked, orders)
        rewards, terminated, truncated = episodes.rewards.copy(), episodes.terminated, episodes.truncated
        # Infos hold arrays; by Gymnasium's convention "_name" says in which episodes "name" is known.
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
                infos = self.restart_now(over, infos)
        return self.observations(), rewards, terminated, truncated, infos
