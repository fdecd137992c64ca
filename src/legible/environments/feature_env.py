"""Environments whose observations are rows of features, with a memory of each episode.

- `FeatureEnv`: a wrapper around one environment; `FeatureVectorEnv`: around a native batch.
- `FeaturedSpec`: an `EnvironmentSpec` whose environments are wrapped so; `with_features`: the spec for a map.
- `without_features`: an environment without the rows of features; `find_feature_map`: the map of an environment.

`legible.play.AdaptedPolicy` shows a policy its own columns of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from legible.environments.array_envs import SavedRows
from legible.environments.feature_map import FeatureMap, is_flat
from legible.environments.feature_readers import ObservationReader, flatten_observation, is_named_code
from legible.environments.spaces import to_environment_actions
from legible.environments.spec import Env, EnvironmentSpec

_ONE = np.zeros(1, np.bool_)


class FeatureEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observations are rows of features; see `legible.environments.FeatureMap`.

    At the end of an episode, when no decision follows, features keep their last values. The attribute ``shown`` is the
    environment's own observation.
    """

    def __init__(self, env: Env, features: FeatureMap) -> None:
        super().__init__(env)
        # Constants are not copied with the state of an episode (see `legible.play.branching.own_state`).
        self._cached_map = features
        self.observation_space = features.row_space
        derived = features.space.derived
        self._memory = None if derived is None else derived.new_memory(1)
        self._row = np.zeros(features.width, np.float32)
        self.shown: Any = None

    @property
    def feature_map(self) -> FeatureMap:
        """The features that rules see."""
        return self._cached_map

    @property
    def feature_space(self) -> Any:
        """Names of features and actions."""
        return self._cached_map.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._show(observation, info, fresh=True, over=False), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._memory is not None:
            derived = self._cached_map.space.derived
            assert derived is not None
            derived.act(self._memory, np.asarray(action) - getattr(self.env.action_space, "start", 0))
        over = bool(terminated or truncated)
        return self._show(observation, info, fresh=False, over=over), reward, terminated, truncated, info

    def _show(self, observation: Any, info: dict[str, Any], *, fresh: bool, over: bool) -> NDArray[np.float32]:
        mapped, row = self._cached_map, self._row.copy()
        n_own = mapped.space.n_own
        if not mapped.reader.holds_observation:
            row[mapped.shown] = flatten_observation(mapped.observation_space, observation)
        if not over or isinstance(mapped.reader, ObservationReader):
            row[:n_own] = mapped.reader.read(observation, info, self.env)
        if not over and self._memory is not None and mapped.space.derived is not None:
            row[n_own : len(mapped.space)] = mapped.space.derived.compute(
                row[None, :n_own], self._memory, _ONE | fresh
            )[0]
        if not over and mapped.masks is not None:
            row[mapped.masked] = mapped.masks.read(observation, info, self.env)
        self._row, self.shown = row, observation
        return row.copy()


class FeatureVectorEnv(VectorEnv[Any, Any, Any]):
    """A native batch (see `EnvironmentSpec.make_batch`) whose observations are followed by derived features."""

    seeds_each_episode = True

    def __init__(self, envs: VectorEnv[Any, Any, Any], features: FeatureMap) -> None:
        derived = features.space.derived
        assert derived is not None
        self._envs, self._derived, self.feature_map = envs, derived, features
        self.num_envs = envs.num_envs
        self.metadata = envs.metadata
        self.leaves_finished = bool(getattr(envs.unwrapped, "leaves_finished", False))
        self.single_observation_space = features.row_space
        self.single_action_space = envs.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = envs.action_space
        self.feature_space = features.space
        self._own = features.space.n_own
        self._first = getattr(envs.single_action_space, "start", 0)
        self._memory = derived.new_memory(self.num_envs)
        self._rows = np.zeros((self.num_envs, features.width), np.float32)
        copies = ("save_rows", "restore_rows", "reseed_rows")
        if not all(callable(getattr(envs.unwrapped, name, None)) for name in copies):
            self.save_rows = self.restore_rows = self.reseed_rows = None  # type: ignore[assignment]

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start all episodes, or only the ones that ``options["reset_mask"]`` marks."""
        mask = (options or {}).get("reset_mask")
        begun = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask).copy()
        observations, infos = self._envs.reset(seed=seed, options=options)
        self._show(observations, begun, fresh=True)
        return self._rows, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in every row."""
        observations, rewards, terminated, truncated, infos = self._envs.step(actions)
        self._derived.act(self._memory, np.asarray(actions) - self._first)
        self._show(observations, ~(terminated | truncated), fresh=False)
        return self._rows, rewards, terminated, truncated, infos

    def _show(self, observations: Any, rows: NDArray[np.bool_], *, fresh: bool) -> None:
        own_features = np.asarray(observations, np.float32).reshape(self.num_envs, self._own)
        self._rows[:, : self._own] = own_features
        memory = self._memory[rows]
        self._rows[rows, self._own :] = self._derived.compute(own_features[rows], memory, np.full(len(memory), fresh))
        self._memory[rows] = memory

    @property
    def bare(self) -> VectorEnv[Any, Any, Any]:
        """The batch without features."""
        return self._envs.unwrapped

    def observations(self) -> NDArray[np.float32]:
        """Return the rows of all episodes."""
        return self._rows

    def save_rows(self, rows: NDArray[np.intp]) -> SavedRows:
        """Copy the whole states of some episodes, with their random streams and the memory of derived features."""
        inner = cast("Any", self._envs.unwrapped).save_rows(rows)
        return (*inner[:-1], self._memory[rows], self._rows[rows])

    def restore_rows(self, rows: NDArray[np.intp], saved: SavedRows) -> None:
        """Put episodes into copied states."""
        *inner, memory, shown = saved
        cast("Any", self._envs.unwrapped).restore_rows(rows, (*inner, shown[:, : self._own]))
        self._memory[rows] = memory
        self._rows[rows] = shown

    def reseed_rows(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Draw all random numbers of some episodes from here on from the streams of seeds."""
        cast("Any", self._envs.unwrapped).reseed_rows(rows, seeds)

    def close_extras(self, **options: Any) -> None:
        """Close the batch."""
        self._envs.close(**options)


@dataclass(frozen=True)
class FeaturedSpec(EnvironmentSpec):
    """A description from which an environment with rows of `features` can be made."""

    features: FeatureMap | None = None

    @property
    def plain(self) -> EnvironmentSpec:
        """The specification without features."""
        return EnvironmentSpec(**{f.name: getattr(self, f.name) for f in fields(EnvironmentSpec)})

    @property
    def named_code(self) -> tuple[str, ...]:
        """Names of code that making this environment imports because the spec names it."""
        assert self.features is not None
        text = self.features.reader.text
        return (*super().named_code, *((text,) if is_named_code(text) else ()))

    def make(self, **more: Any) -> Env:
        """Make one environment."""
        assert self.features is not None
        return FeatureEnv(self.plain.make(**more), self.features)

    def make_batch(self, n: int, *, undeclared: bool = False) -> VectorEnv[Any, Any, Any] | None:
        """Make a batch of n environments, or return None where rows hold more than the observation."""
        assert self.features is not None
        if not isinstance(self.features.reader, ObservationReader) or self.features.masks is not None:
            return None
        envs = self.plain.make_batch(n, undeclared=undeclared)
        return None if envs is None else FeatureVectorEnv(envs, self.features)


def with_features(spec: EnvironmentSpec, features: FeatureMap) -> EnvironmentSpec:
    """Return the spec with rows of features; unchanged where rules see the observation itself."""
    return spec if is_flat(features) else FeaturedSpec(spec.name, spec.arguments, spec.wrappers, features)


def without_features(environment: EnvironmentSpec | Env) -> EnvironmentSpec | Env:
    """Return an environment without the rows of features around it."""
    if isinstance(environment, FeaturedSpec):
        return environment.plain
    return environment.env if isinstance(environment, FeatureEnv) else environment


def find_feature_map(environment: EnvironmentSpec | Env) -> FeatureMap | None:
    """Return the feature map of an environment with rows of features; None for any other."""
    if isinstance(environment, FeaturedSpec):
        return environment.features
    if isinstance(environment, gymnasium.Env) and environment.has_wrapper_attr("feature_map"):
        return cast("FeatureMap", environment.get_wrapper_attr("feature_map"))
    return None


def allowed_action(env: Env, row: NDArray[np.float32], rng: np.random.Generator) -> Any:
    """Return a random action within the mask that a row of features holds; None for rows without a mask."""
    features = find_feature_map(env)
    if features is None or features.masks is None:
        return None
    parts = np.split(row[features.masked] > 0, np.cumsum(features.masks.sizes)[:-1])
    values = np.array([int(rng.choice(np.flatnonzero(part))) for part in parts])
    action = values.reshape((1, *(env.action_space.shape or ())))
    return to_environment_actions(env.action_space, action)[0]
