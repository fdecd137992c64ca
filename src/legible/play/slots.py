"""Places in which episodes run side by side.

- `Slots`: what they show and how they are stepped.
- `BatchSlots`, `SingleSlots`: in a native vector environment, and made of single environments; observations are rows of
  float32, actions are numbers.
- `SpaceSlots`: made of single environments of any spaces; observations, actions and masks stay as they are.
- `make_slots`, `make_space_slots`: a fixed number of them for an environment.
- `EpisodeFailedError`: an environment that raised an error, with the seed of the episode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from legible.environments import (
    Env,
    EnvironmentSpec,
    ObservationEncoder,
    UnfitEnvironmentError,
    as_environment,
    as_taken,
    check_choosable,
    choice_sizes,
    count_actions,
    feature_map_of,
    map_arrays,
    stack_observations,
)
from legible.errors import LegibleError
from legible.features import FeatureError

Observations = NDArray[np.float32]
DEFAULT_BATCH = 256
MASKED = "the environment masks actions: legible play heeds that, a study does not yet."


class Slots(Protocol):
    """Places in which episodes run side by side. Rows of idle places hold whatever was there last."""

    n: int
    n_actions: int
    observations: Observations
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    cost: NDArray[np.float64]
    cost_name: str
    cost_seen: bool
    masks: NDArray[np.bool_] | None
    n_features: int | None

    @property
    def seen(self) -> Any:
        """What rules see of the observations, and what records keep."""

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> None:
        """Take a step in every active row and fill the arrays; `success` where an episode says so at its end."""

    def close(self) -> None:
        """Close what was opened."""


class _SlotArrays:
    """The arrays that both kinds of slots fill."""

    def __init__(self, n: int, width: int, n_actions: int, cost_name: str) -> None:
        self.n = n
        self.n_actions = n_actions
        self.observations: Observations = np.zeros((n, width), np.float32)
        self.rewards = np.zeros(n, np.float64)
        self.terminated = np.zeros(n, np.bool_)
        self.truncated = np.zeros(n, np.bool_)
        self.success = np.full(n, np.nan)
        self.cost = np.zeros(n, np.float64)
        self.cost_name = cost_name
        self.cost_seen = False
        self.masks: NDArray[np.bool_] | None = None
        # Where rows hold more than features, how many of their columns are (see `legible.environments.FeatureMap`).
        self.n_features: int | None = None

    @property
    def seen(self) -> Any:
        """What rules see of the observations, and what records keep."""
        return self.observations if self.n_features is None else self.observations[:, : self.n_features]


class BatchSlots(_SlotArrays):
    """Slots in a native vector environment.

    Idle ones rest if the environment leaves episodes that are over as they are (``leaves_finished``); else they are
    stepped along.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], cost_name: str = "") -> None:
        self._encoder = ObservationEncoder.of(envs.single_observation_space)
        self.action_space = envs.single_action_space
        super().__init__(envs.num_envs, self._encoder.width, _count_actions(self.action_space), cost_name)
        self._envs = envs
        self._idle_rest = bool(getattr(envs.unwrapped, "leaves_finished", False))
        self._begin(np.ones(self.n, np.bool_), [0] * self.n)

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""
        mask = np.zeros(self.n, np.bool_)
        mask[rows] = True
        all_seeds: list[int | None] = [None] * self.n
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            all_seeds[row] = seed
        self._begin(mask, all_seeds)

    def _begin(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        # Gymnasium types `seed` as a single int; its own vector environments take lists, as `make_batch` demands.
        every_seed: Any = list(seeds)
        observations, _ = self._envs.reset(seed=every_seed, options={"reset_mask": mask})
        self.observations = self._encoder.encode(observations)

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> None:
        """Take a step in every row; an idle one whose episode is over rests, or starts another that is not watched."""
        if not self._idle_rest:
            idle_and_over = ~active & (self.terminated | self.truncated)
            if idle_and_over.any():
                self._begin(idle_and_over, [0] * self.n)
        stepped = self._envs.step(as_taken(self.action_space, actions))
        observations, self.rewards, self.terminated, self.truncated, infos = stepped
        self.observations = self._encoder.encode(observations)
        told = infos.get("_is_success", np.zeros(self.n, np.bool_))
        self.success = np.where(told, infos.get("is_success", np.nan), np.nan)
        if self.cost_name:
            self.cost_seen |= self.cost_name in infos
            charged = infos.get(f"_{self.cost_name}", np.zeros(self.n, np.bool_))
            self.cost = np.where(charged, infos.get(self.cost_name, 0.0), 0.0)

    @property
    def can_copy(self) -> bool:
        """Whether rows can be copied: the vector environment has `save_rows`, `restore_rows` and `reseed_rows`."""
        names = ("save_rows", "restore_rows", "reseed_rows")
        return all(callable(getattr(self._envs.unwrapped, name, None)) for name in names)

    def save(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        """Copy the whole states of some rows: arrays, a row each."""
        envs: Any = self._envs.unwrapped
        saved: tuple[NDArray[Any], ...] = envs.save_rows(rows)
        return saved

    def restore(
        self, rows: NDArray[np.intp], saved: tuple[NDArray[Any], ...], seeds: Sequence[int] | None = None
    ) -> None:
        """Go on from saved states in some rows; with seeds, with other futures than those states had."""
        envs: Any = self._envs.unwrapped
        envs.restore_rows(rows, saved)
        if seeds is not None:
            envs.reseed_rows(rows, seeds)
        self.terminated[rows] = self.truncated[rows] = False
        self.observations = self._encoder.encode(envs.observations())

    def close(self) -> None:
        """Close the vector environment."""
        self._envs.close()


class _EnvironmentSlots(_SlotArrays, ABC):
    """Slots made of single environments; idle ones rest."""

    action_space: spaces.Space[Any]

    def __init__(self, envs: Sequence[Env], width: int, n_actions: int, cost_name: str) -> None:
        if len({id(env) for env in envs}) < len(envs):
            raise UnfitEnvironmentError("the factory made the same environment twice; every slot needs its own.")
        super().__init__(len(envs), width, n_actions, cost_name)
        self._envs = list(envs)
        self._seeds = [-1] * self.n

    @property
    def environments(self) -> Sequence[Env]:
        """The environment of each row."""
        return self._envs

    def shown(self, row: int) -> Any:
        """Copy what a row shows: its observation, and its masks where there are any."""
        masks = None if self.masks is None else self.masks[row].copy()
        return map_arrays(lambda column: column[row].copy(), self.observations), masks

    def place(self, row: int, env: Env, seed: int, shown: Any) -> None:
        """Go on in a row with an environment that is in the middle of the episode with a seed."""
        observation, masks = shown
        if max(self._seeds) < 0:
            # Policies are shown idle rows, too.
            self.observations = map_arrays(lambda one: np.repeat(one[None], self.n, axis=0), observation)
        map_arrays(lambda old, new: old.__setitem__(row, new), self.observations, observation)
        if self.masks is not None:
            self.masks[row] = masks
        self._envs[row], self._seeds[row] = env, seed
        self.terminated[row] = self.truncated[row] = False

    @abstractmethod
    def _show(self, rows: NDArray[np.intp], seen: list[Any], *, everywhere: bool) -> None:
        """Put what was seen into the rows; `everywhere`: the first of it into all other rows, too."""

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""
        seen = []
        unused = max(self._seeds) < 0
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            self._seeds[row] = seed
            try:
                observation, _ = self._envs[row].reset(seed=seed)
            except FeatureError:
                raise  # it is not the environment's fault, and no other episode will do better
            except Exception as error:
                raise _failure(seed, error) from error
            seen.append(observation)
        # Policies are shown idle rows, too: zeros need not be an observation of this space.
        self._show(rows, seen, everywhere=unused)

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> None:
        """Take a step in every active row."""
        rows = np.flatnonzero(active)
        # Environments may write into what they are handed, and a record holds the actions.
        taken = np.array(as_taken(self.action_space, actions))
        seen = []
        for row in rows.tolist():
            try:
                observation, reward, terminated, truncated, info = self._envs[row].step(taken[row])
            except FeatureError:
                raise
            except Exception as error:
                raise _failure(self._seeds[row], error) from error
            seen.append(observation)
            self.rewards[row], self.terminated[row], self.truncated[row] = float(reward), terminated, truncated
            self.success[row] = float(info["is_success"]) if "is_success" in info else np.nan
            if self.cost_name:
                self.cost_seen |= self.cost_name in info
                self.cost[row] = float(info.get(self.cost_name, 0.0))
        self._show(rows, seen, everywhere=False)

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


class SingleSlots(_EnvironmentSlots):
    """Slots made of single environments; observations are rows of float32.

    Actions are numbers from 0; where they are made of several parts, or continuous, rows of numbers.
    """

    def __init__(self, envs: Sequence[Env], cost_name: str = "") -> None:
        if envs[0].has_wrapper_attr("action_masks"):
            raise UnfitEnvironmentError(MASKED)
        self._encoder = ObservationEncoder.of(envs[0].observation_space)
        self.action_space = envs[0].action_space
        super().__init__(envs, self._encoder.width, _count_actions(self.action_space), cost_name)
        features = feature_map_of(envs[0])
        if features is not None and features.n_features < features.width:
            self.n_features = features.n_features

    def _show(self, rows: NDArray[np.intp], seen: list[Any], *, everywhere: bool) -> None:
        encoded = self._encoder.encode(seen)
        if everywhere:
            self.observations[:] = encoded[0]
        self.observations[rows] = encoded


class SpaceSlots(_EnvironmentSlots):
    """Slots made of single environments of any spaces.

    `observations` are arrays in the type of the space, with a row for each slot; dictionaries and tuples of them where
    the space is one. Actions are as `gymnasium` has them, whole numbers counted from 0. `masks` say which of the
    values of an action may be taken, one part after another, where the environment has ``action_masks()`` as in
    sb3-contrib; else they are None.
    """

    def __init__(self, envs: Sequence[Env], cost_name: str = "") -> None:
        self.observation_space, self.action_space = envs[0].observation_space, envs[0].action_space
        sizes = choice_sizes(self.action_space)
        super().__init__(envs, 0, sizes[0] if self.action_space.shape == () and sizes else 0, cost_name)
        self.observations: Any = None
        self._sizes = sizes
        if sizes and envs[0].has_wrapper_attr("action_masks"):
            self.masks = np.ones((self.n, sum(sizes)), np.bool_)

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""
        self.terminated[rows] = self.truncated[rows] = False
        super().start(rows, seeds)

    def _show(self, rows: NDArray[np.intp], seen: list[Any], *, everywhere: bool) -> None:
        stacked = stack_observations(self.observation_space, seen)
        if everywhere:
            self.observations = map_arrays(lambda new: np.repeat(new[:1], self.n, axis=0), stacked)
        map_arrays(lambda old, new: old.__setitem__(rows, new), self.observations, stacked)
        if self.masks is not None:
            for row in rows.tolist():
                # An episode that is over has no more actions, so no policy is asked about them.
                if self.terminated[row] or self.truncated[row]:
                    self.masks[row] = True
                    continue
                mask = np.asarray(self._envs[row].get_wrapper_attr("action_masks")(), np.bool_).ravel()
                if mask.size != sum(self._sizes):
                    raise UnfitEnvironmentError(
                        f"action_masks() of the environment has {mask.size} entries, but its actions, "
                        f"{self.action_space}, need {sum(self._sizes)}."
                    )
                if not all(part.any() for part in np.split(mask, np.cumsum(self._sizes)[:-1])):
                    seed = self._seeds[row]
                    raise UnfitEnvironmentError(
                        f"action_masks() of the environment allows no action in the episode with seed {seed}."
                    )
                self.masks[row] = mask


def _count_actions(space: spaces.Space[Any]) -> int:
    """Number of actions; 0 where an action is no single choice."""
    check_choosable(space)
    return count_actions(space) if isinstance(space, spaces.Discrete) else 0


class EpisodeFailedError(UnfitEnvironmentError):
    """An episode in which the environment raised an error."""

    exit_code = 1


def _failure(seed: int, error: Exception) -> EpisodeFailedError:
    return EpisodeFailedError(f"in the episode with seed {seed} the environment raised {type(error).__name__}: {error}")


def make_slots(environment: str | EnvironmentSpec | Env, n: int, cost_name: str = "") -> Slots:
    """Make n slots: a native vector environment where every episode can have its own seed, else single environments.

    An environment object can only be used as it is, so it makes one slot, whatever n. `cost_name` is an entry of the
    environment's infos that is added up over an episode, besides the reward.
    """
    if n < 1:
        raise LegibleError(f"at least one slot is needed, got {n}.")
    environment = as_environment(environment)
    if not isinstance(environment, EnvironmentSpec):
        return SingleSlots([environment], cost_name)
    batch = environment.make_batch(n)
    with ExitStack() as opened:
        slots: Slots
        if batch is not None:
            slots = BatchSlots(opened.enter_context(closing(batch)), cost_name)
        else:
            slots = SingleSlots([opened.enter_context(closing(environment.make())) for _ in range(n)], cost_name)
        # They fit, so they stay open.
        opened.pop_all()
    return slots


def make_space_slots(environment: str | EnvironmentSpec | Env, n: int, cost_name: str = "") -> SpaceSlots:
    """Make n slots of any spaces; an environment object makes one, whatever n. See `make_slots`."""
    if n < 1:
        raise LegibleError(f"at least one slot is needed, got {n}.")
    environment = as_environment(environment)
    if not isinstance(environment, EnvironmentSpec):
        return SpaceSlots([environment], cost_name)
    with ExitStack() as opened:
        slots = SpaceSlots([opened.enter_context(closing(environment.make())) for _ in range(n)], cost_name)
        opened.pop_all()
    return slots
