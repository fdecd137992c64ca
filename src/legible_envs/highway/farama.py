"""Farama's own highway-env with names: the yardstick for the fast environments, and anything that they do not do.

- `FaramaEnv`: a scenario of highway-env, by default in the configuration of the paper's experiments, observations flat.
- `farama_features`: names and words for any highway-env environment with a Kinematics observation.

highway-env is imported when an environment is made, not before: it brings pygame, pandas and matplotlib along.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.errors import did_you_mean
from legible.features import Action, FeatureSpace
from legible.imports import optional_package
from legible_envs.highway.features import WORDS_OF_ACTIONS, highway_features
from legible_envs.highway.presets import AUTHORS_CONFIGURATION
from legible_envs.highway.settings import HighwayError

SCENARIOS = {
    "highway": "highway_env.envs.highway_env:HighwayEnv",
    "highway-fast": "highway_env.envs.highway_env:HighwayEnvFast",
    "merge": "highway_env.envs.merge_env:MergeEnv",
    "intersection": "highway_env.envs.intersection_env:IntersectionEnv",
    "roundabout": "highway_env.envs.roundabout_env:RoundaboutEnv",
}

PRESETS: dict[str, Mapping[str, Any]] = {"authors": AUTHORS_CONFIGURATION, "highway-env": {}}

# The intersection sets these on the class of all drivers and does not restore them: other environments of the process
# would then drive differently.
_DRIVERS = {"DISTANCE_WANTED": 10.0, "COMFORT_ACC_MAX": 3.0, "COMFORT_ACC_MIN": -5.0}
_DRIVERS_AT_INTERSECTION = {"DISTANCE_WANTED": 7.0, "COMFORT_ACC_MAX": 6.0, "COMFORT_ACC_MIN": -3.0}


class FaramaEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A scenario of highway-env whose observations are flat and have names.

    ``info["is_success"]`` says at the end of an episode whether ego came through without a crash; at the intersection,
    whether it arrived.

    Parameters
    ----------
    scenario
        One of ``highway``, ``highway-fast``, ``merge``, ``intersection``, ``roundabout``.
    config
        Settings by highway-env's names, on top of the preset. As in highway-env, a table replaces a table.
    preset
        What the configuration starts from: ``authors`` is that of the paper's experiments, ``highway-env`` the
        scenario's own.
    render_mode
        As in highway-env: ``rgb_array`` or ``human``.

    Examples
    --------
    >>> env = FaramaEnv("highway-fast", {"duration": 5})  # doctest: +SKIP
    >>> env.feature_space.names[7:10]  # doctest: +SKIP
    ('vehicle1.presence', 'vehicle1.x', 'vehicle1.y')
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        scenario: str,
        config: Mapping[str, Any] | None = None,
        *,
        preset: str = "authors",
        render_mode: str | None = None,
    ) -> None:
        """Make highway-env's environment of a scenario, with checked settings and named, flat observations."""
        # Find the class of highway-env's environment.
        if scenario not in SCENARIOS:
            hint = did_you_mean(scenario, SCENARIOS) or f" The scenarios are {', '.join(SCENARIOS)}."
            raise HighwayError(f"highway-env has no scenario {scenario!r} that is known here.{hint}")
        optional_package("highway_env", "highway", "Farama's driving scenarios")
        module, _, class_name = SCENARIOS[scenario].partition(":")
        environment_class = getattr(importlib.import_module(module), class_name)

        # highway-env ignores settings that it does not know, so a misspelt one would have no effect.
        if preset not in PRESETS:
            raise HighwayError(f"preset {preset!r} is not known; use one of {', '.join(PRESETS)}.")
        known = {**environment_class.default_config(), **AUTHORS_CONFIGURATION}
        for name in config or {}:
            if name not in known:
                raise HighwayError(f"{scenario}: there is no setting {name!r}.{did_you_mean(name, known)}")

        # Its drivers have constants that other environments of this process may have changed.
        self.scenario = scenario
        self.render_mode = render_mode
        self._drivers = _DRIVERS_AT_INTERSECTION if scenario == "intersection" else _DRIVERS
        self._set_drivers()
        merged = copy.deepcopy({**PRESETS[preset], **(config or {})})
        self.inner: Any = environment_class(config=merged, render_mode=render_mode)

        # Names for the features, and a flat observation.
        feature_space = farama_features(self.inner)
        if feature_space is None:
            raise HighwayError(
                f"{scenario}: the observation must be of the type Kinematics and the action of the type "
                "DiscreteMetaAction; for others, make the environment with highway-env itself."
            )
        self.feature_space: FeatureSpace = feature_space
        box = self.inner.observation_space
        self.observation_space = spaces.Box(box.low.reshape(-1), box.high.reshape(-1), dtype=np.float32)
        self.action_space = spaces.Discrete(int(self.inner.action_space.n))

    @property
    def config(self) -> dict[str, Any]:
        """The settings in force."""
        return self.inner.config

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; the same seed gives the same episode for the same actions."""
        super().reset(seed=seed)
        self._set_drivers()
        observation, info = self.inner.reset(seed=seed, options=options)
        return self._flat(observation), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Drive one step of the policy."""
        self._set_drivers()
        observation, reward, terminated, truncated, info = self.inner.step(int(action))
        if terminated or truncated:
            info["is_success"] = bool(info["rewards"].get("arrived_reward", True)) and not info["crashed"]
        return self._flat(observation), float(reward), bool(terminated), bool(truncated), info

    def render(self) -> Any:
        """Draw the scene as highway-env does."""
        return self.inner.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self.inner.close()

    @staticmethod
    def _flat(observation: Any) -> NDArray[np.float32]:
        return np.asarray(observation, np.float32).reshape(-1)

    def _set_drivers(self) -> None:
        """Give the drivers of this process the constants of this scenario, whatever was driven before."""
        drivers = importlib.import_module("highway_env.vehicle.behavior").IDMVehicle
        for name, value in self._drivers.items():
            setattr(drivers, name, value)


def farama_features(env: gymnasium.Env[Any, Any]) -> FeatureSpace | None:
    """Return names of features and actions for one of highway-env's environments, or None where there are none.

    Only discrete actions and Kinematics observations (a table of vehicles) have names.

    >>> env = gymnasium.make("highway_env:highway-fast-v0")  # doctest: +SKIP
    >>> farama_features(env).names[:6]  # doctest: +SKIP
    ('ego.presence', 'ego.x', 'ego.y', 'ego.vx', 'ego.vy', 'vehicle1.presence')
    """
    inner: Any = env.unwrapped
    observation: Any = getattr(inner, "observation_type", None)
    action: Any = getattr(inner, "action_type", None)
    if type(observation).__name__ != "KinematicObservation" or type(action).__name__ != "DiscreteMetaAction":
        return None
    # Words are "ahead" and "right" on roads along x, "east" and "south" on others. A slip road's bow counts as
    # straight; a circle's direction is no vector.
    directions = [np.atleast_1d(getattr(lane, "direction", 0.0)) for lane in inner.road.network.lanes_list()]
    is_straight = all(direction.size == 2 and abs(direction[1]) < 1e-9 for direction in directions)
    actions = tuple(Action(name, WORDS_OF_ACTIONS[name]) for _, name in sorted(action.actions.items()))
    return highway_features(
        observation.vehicles_count,
        observation.features,
        actions,
        absolute=observation.absolute,
        straight=is_straight,
        # Ranges are known once something was observed, which making the environment has done.
        ranges=(observation.features_range or {}) if observation.normalize else {},
    )
