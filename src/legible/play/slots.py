"""Slots: environments in which episodes run in parallel.

- `Slots`: the base class.
- `BatchSlots`, `SingleSlots`: slots of a native vector environment, and of single environments; observations are rows
  of float32, actions are numbers.
- `SpaceSlots`: slots of single environments of any spaces; observations, actions and masks keep their types.
- `make_slots`, `make_space_slots`: make slots for an environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from legible.environments import (
    EndingReader,
    Env,
    EnvironmentSpec,
    LastStep,
    ObservationEncoder,
    TermReader,
    UnfitEnvironmentError,
    as_environment,
    check_action_space,
    check_finite,
    choice_sizes,
    count_actions,
    find_feature_map,
    find_masks,
    map_arrays,
    reset_environment,
    stack_observations,
    step_environment,
    to_environment_actions,
)
from legible.errors import LegibleError

Observations = NDArray[np.float32]
_S = TypeVar("_S", "SingleSlots", "SpaceSlots")
DEFAULT_BATCH = 256
_UNKNOWN = 2**60  # the start of an episode that did not start at its beginning: its steps are negative


class Slots(ABC):
    """Environments in which episodes run in parallel, one row of the arrays each. Idle rows hold old values."""

    action_space: spaces.Space[Any]

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
        self.ending_reader, self.term_reader = EndingReader(), TermReader()
        # Number of columns that are features, if rows hold more than that (see `legible.environments.FeatureMap`).
        self.n_features: int | None = None

    @property
    def seen(self) -> Any:
        """The part of the observations that rules see and records keep."""
        return self.observations if self.n_features is None else self.observations[:, : self.n_features]

    @abstractmethod
    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Start an episode with its seed in each of the rows."""

    @abstractmethod
    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> None:
        """Take a step in every active row and fill the arrays; `success` if an episode reports it at its end."""

    @abstractmethod
    def last_step(self, row: int) -> LastStep:
        """Return the last step of the episode that ended in a row."""

    def outcome(self, row: int, total: float, steps: int) -> tuple[str, Mapping[str, float]]:
        """Return how the episode that ended in a row ended, and the totals of its reward terms.

        The ending is the text of a `legible.environments.Ending`. `total` and `steps` are its return and its length.
        """
        last, of_episode = self.last_step(row), self.term_reader.of_episode
        terms = {} if of_episode is None else of_episode(last, total, steps)
        return self.ending_reader(last), terms or self.totals(row)

    @abstractmethod
    def totals(self, row: int) -> Mapping[str, float]:
        """Return the totals of the numbers in the infos of the episode in a row."""

    @abstractmethod
    def close(self) -> None:
        """Close the environments."""


class BatchSlots(Slots):
    """Slots of a native vector environment.

    Idle slots are not stepped if the environment keeps finished episodes unchanged (``leaves_finished``).
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], cost_name: str = "") -> None:
        self._encoder = ObservationEncoder.of(envs.single_observation_space)
        self.action_space = envs.single_action_space
        super().__init__(envs.num_envs, self._encoder.width, _count_actions(self.action_space), cost_name)
        self._envs = envs
        self._infos: dict[str, Any] = {}
        self._totals: dict[str, NDArray[np.float64]] = {}
        self._idle_rest = bool(getattr(envs.unwrapped, "leaves_finished", False))
        self._begin(np.ones(self.n, np.bool_), [0] * self.n)

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Start an episode with its seed in each of the rows."""
        mask = np.zeros(self.n, np.bool_)
        mask[rows] = True
        all_seeds: list[int | None] = [None] * self.n
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            all_seeds[row] = seed
        self._begin(mask, all_seeds)

    def _begin(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        # Gymnasium types `seed` as a single int; its own vector environments take lists, as `make_batch` demands.
        every_seed: Any = list(seeds)
        for total in self._totals.values():
            total[mask] = 0.0
        observations, _ = self._envs.reset(seed=every_seed, options={"reset_mask": mask})
        self.observations = self._encoder.encode(observations)

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> None:
        """Take a step in every row; a finished idle row rests, or plays another episode that is not recorded."""
        if not self._idle_rest:
            idle_and_over = ~active & (self.terminated | self.truncated)
            if idle_and_over.any():
                self._begin(idle_and_over, [0] * self.n)
        stepped = self._envs.step(to_environment_actions(self.action_space, actions))
        observations, self.rewards, self.terminated, self.truncated, infos = stepped
        self.observations, self._infos = self._encoder.encode(observations), infos
        for name, values in infos.items():
            if f"_{name}" in infos and np.asarray(values).dtype.kind in "fiu" and np.shape(values) == (self.n,):
                total = self._totals.setdefault(name, np.zeros(self.n))
                total += np.where(infos[f"_{name}"], values, 0.0)
        reported = infos.get("_is_success", np.zeros(self.n, np.bool_))
        self.success = np.where(reported, infos.get("is_success", np.nan), np.nan)
        if self.cost_name:
            self.cost_seen |= self.cost_name in infos
            charged = infos.get(f"_{self.cost_name}", np.zeros(self.n, np.bool_))
            self.cost = np.where(charged, infos.get(self.cost_name, 0.0), 0.0)

    def last_step(self, row: int) -> LastStep:
        """Return the last step of the episode that ended in a row."""
        names = [name for name in self._infos if f"_{name}" in self._infos and self._infos[f"_{name}"][row]]
        info = {name: self._infos[name][row] for name in names}
        # Environments below rows of features have their own attributes.
        bare = getattr(self._envs.unwrapped, "bare", self._envs.unwrapped)
        return LastStep(bare, row, self.seen[row], float(self.rewards[row]), info, bool(self.terminated[row]))

    def totals(self, row: int) -> Mapping[str, float]:
        """Return the totals of the numbers in the infos of the episode in a row."""
        return {name: float(total[row]) for name, total in self._totals.items()}

    @property
    def can_copy(self) -> bool:
        """Return whether rows can be copied: the environment has `save_rows`, `restore_rows` and `reseed_rows`."""
        names = ("save_rows", "restore_rows", "reseed_rows")
        return all(callable(getattr(self._envs.unwrapped, name, None)) for name in names)

    def save(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        """Return copies of the complete states of some rows, as arrays with one row per state."""
        envs: Any = self._envs.unwrapped
        saved: tuple[NDArray[Any], ...] = envs.save_rows(rows)
        return saved

    def restore(
        self, rows: NDArray[np.intp], saved: tuple[NDArray[Any], ...], seeds: Sequence[int] | None = None
    ) -> None:
        """Continue from saved states in some rows; with `seeds`, with new futures."""
        envs: Any = self._envs.unwrapped
        envs.restore_rows(rows, saved)
        if seeds is not None:
            envs.reseed_rows(rows, seeds)
        self.terminated[rows] = self.truncated[rows] = False
        for total in self._totals.values():
            total[rows] = np.nan  # what was earned before is unknown
        self.observations = self._encoder.encode(envs.observations())

    def close(self) -> None:
        """Close the vector environment."""
        self._envs.close()


class _EnvironmentSlots(Slots):
    """Slots of single environments; idle ones are not stepped."""

    def __init__(self, envs: Sequence[Env], width: int, n_actions: int, cost_name: str) -> None:
        if len({id(env) for env in envs}) < len(envs):
            raise UnfitEnvironmentError("the factory returned the same environment twice; every slot needs its own.")
        super().__init__(len(envs), width, n_actions, cost_name)
        self._envs = list(envs)
        self._infos: list[Mapping[str, Any]] = [{}] * self.n
        self._seeds = [-1] * self.n
        self._totals: list[dict[str, float]] = [{} for _ in range(self.n)]
        # Steps of all slots, and what they were when the episode of each row started.
        self._clock, self._since = 0, [_UNKNOWN] * self.n

    @property
    def environments(self) -> Sequence[Env]:
        """The environment of each row."""
        return self._envs

    def shown(self, row: int) -> Any:
        """Return copies of the observation and of the action masks of a row."""
        masks = None if self.masks is None else self.masks[row].copy()
        return map_arrays(lambda column: column[row].copy(), self.observations), masks

    def place(self, row: int, env: Env, seed: int, shown: Any) -> None:
        """Continue in a row with an environment that is in the middle of the episode with this seed."""
        observation, masks = shown
        if max(self._seeds) < 0:
            # Policies also see idle rows.
            self.observations = map_arrays(lambda one: np.repeat(one[None], self.n, axis=0), observation)
        map_arrays(lambda old, new: old.__setitem__(row, new), self.observations, observation)
        if self.masks is not None:
            self.masks[row] = masks
        self._envs[row], self._seeds[row], self._since[row], self._totals[row] = env, seed, _UNKNOWN, {}
        self.terminated[row] = self.truncated[row] = False

    def _check_finite(self, rows: NDArray[np.intp], observations: NDArray[Any]) -> None:
        """Raise an error that names the episode if an observation is not finite."""
        if observations.dtype.kind != "f" or np.isfinite(observations).all():
            return
        for row, observation in zip(rows.tolist(), observations, strict=True):
            check_finite(observation.reshape(1, -1), self._seeds[row])

    @abstractmethod
    def _show(self, rows: NDArray[np.intp], seen: list[Any], *, everywhere: bool) -> None:
        """Store observations in the rows; with `everywhere`, the first of them in all other rows, too."""

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Start an episode with its seed in each of the rows."""
        seen = []
        unused = max(self._seeds) < 0
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            self._seeds[row], self._totals[row] = seed, {}
            self._since[row] = self._clock
            observation, self._infos[row] = reset_environment(self._envs[row], seed)
            seen.append(observation)
        # Policies also see idle rows, and zeros may not be a valid observation.
        self._show(rows, seen, everywhere=unused)

    def step(self, actions: NDArray[Any], active: NDArray[np.bool_]) -> None:
        """Take a step in every active environment, and store what it returns in the arrays of the slots.

        - `actions`: one action per slot; those of inactive slots are ignored.
        - `active`: ``bool[n]``: the slots that take a step.
        """
        rows = np.flatnonzero(active)
        # A copy, because environments may overwrite it and a record holds the actions.
        environment_actions = np.array(to_environment_actions(self.action_space, actions))
        new_observations = []
        for row in rows.tolist():
            # Seed and number of the step are for error messages. The clock counts steps of all slots together, and
            # `_since` says where it stood when the episode of a row started.
            observation, reward, terminated, truncated, info = step_environment(
                self._envs[row], environment_actions[row], self._seeds[row], self._clock - self._since[row]
            )
            self._infos[row] = info
            new_observations.append(observation)
            self.rewards[row], self.terminated[row], self.truncated[row] = reward, terminated, truncated
            self.success[row] = float(info["is_success"]) if "is_success" in info else np.nan
            if self.cost_name:
                self.cost_seen |= self.cost_name in info
                self.cost[row] = float(info.get(self.cost_name, 0.0))

        # Store the observations of these rows. Reward terms are read last, because they may look at them.
        self._clock += 1
        self._show(rows, new_observations, everywhere=False)
        for row in rows.tolist():
            info = self._infos[row]
            if info or self.term_reader.function:
                self.term_reader.add_step(self._totals[row], partial(self.last_step, row), info)

    def totals(self, row: int) -> Mapping[str, float]:
        """Return the totals of the numbers in the infos of the episode in a row."""
        return self._totals[row]

    def last_step(self, row: int) -> LastStep:
        """Return the last step of the episode that ended in a row."""
        observation = map_arrays(lambda column: column[row], self.seen)
        reward, terminated = float(self.rewards[row]), bool(self.terminated[row])
        return LastStep(self._envs[row].unwrapped, 0, observation, reward, self._infos[row], terminated)

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


class SingleSlots(_EnvironmentSlots):
    """Slots of single environments; observations are rows of float32.

    Actions are numbers from 0, or rows of numbers if they have several parts or are continuous.
    """

    def __init__(self, envs: Sequence[Env], cost_name: str = "") -> None:
        self._encoder = ObservationEncoder.of(envs[0].observation_space)
        self.action_space = envs[0].action_space
        super().__init__(envs, self._encoder.width, _count_actions(self.action_space), cost_name)
        features = find_feature_map(envs[0])
        if features is not None and features.n_features < features.width:
            self.n_features = features.n_features
        self._masked = None if features is None or features.masks is None else features.masked
        if self._masked is not None:
            self.masks = self.observations[:, self._masked] > 0

    def _show(self, rows: NDArray[np.intp], seen: list[Any], *, everywhere: bool) -> None:
        encoded = self._encoder.encode(seen)
        self._check_finite(rows, encoded)
        if everywhere:
            self.observations[:] = encoded[0]
        self.observations[rows] = encoded
        if self._masked is not None:
            self.masks = self.observations[:, self._masked] > 0


class SpaceSlots(_EnvironmentSlots):
    """Slots of single environments of any spaces.

    `observations` are arrays in the type of the space with one row per slot, or dictionaries and tuples of them.
    Actions have Gymnasium's format, with discrete values counted from 0. `masks` mark the allowed values of each part
    of an action if the environment masks actions (`legible.environments.find_masks`); otherwise they are None.
    """

    def __init__(self, envs: Sequence[Env], cost_name: str = "") -> None:
        self.observation_space, self.action_space = envs[0].observation_space, envs[0].action_space
        sizes = choice_sizes(self.action_space)
        super().__init__(envs, 0, sizes[0] if self.action_space.shape == () and sizes else 0, cost_name)
        self.observations: Any = None
        self._mask_reader = find_masks(envs[0])
        if self._mask_reader is not None:
            self.masks = np.ones((self.n, self._mask_reader.width), np.bool_)

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Start an episode with its seed in each of the rows."""
        self.terminated[rows] = self.truncated[rows] = False
        super().start(rows, seeds)

    def _show(self, rows: NDArray[np.intp], seen: list[Any], *, everywhere: bool) -> None:
        stacked = stack_observations(self.observation_space, seen)
        map_arrays(lambda new: self._check_finite(rows, new), stacked)
        if everywhere:
            self.observations = map_arrays(lambda new: np.repeat(new[:1], self.n, axis=0), stacked)
        map_arrays(lambda old, new: old.__setitem__(rows, new), self.observations, stacked)
        if self.masks is not None and self._mask_reader is not None:
            for row, observation in zip(rows.tolist(), seen, strict=True):
                # A finished episode has no more actions.
                over = self.terminated[row] or self.truncated[row]
                try:
                    self.masks[row] = over or self._mask_reader.read(observation, self._infos[row], self._envs[row])
                except UnfitEnvironmentError as error:
                    raise UnfitEnvironmentError(f"in the episode with seed {self._seeds[row]}: {error}") from error


def _count_actions(space: spaces.Space[Any]) -> int:
    """Return the number of actions; 0 if an action is not a single choice."""
    check_action_space(space)
    return count_actions(space) if isinstance(space, spaces.Discrete) else 0


@contextmanager
def open_environment(environment: EnvironmentSpec | Env) -> Iterator[Env]:
    """Yield an environment, and close it again if it was made here."""
    if isinstance(environment, EnvironmentSpec):
        with closing(environment.make()) as env:
            yield env
    else:
        yield environment


def make_slots(
    environment: str | EnvironmentSpec | Env, n: int, cost_name: str = "", endings: str = "", terms: str = ""
) -> Slots:
    """Return n slots, in each of which one episode runs at a time.

    They belong to a native vector environment if it takes one seed per episode, otherwise to n single environments.

    - `environment`: an id, a specification, or an environment object. An object makes a single slot, whatever n.
    - `n`: the number of slots.
    - `cost_name`: an entry of the environment's infos that is summed over an episode, like the reward; "" for none.
    - `endings`, `terms`: the user's functions that name how an episode ended and the terms of its reward, as
      ``module:function``; "" for none. See `EndingReader` and `TermReader`.
    """
    environment = as_environment(environment)
    batch = environment.make_batch(n) if isinstance(environment, EnvironmentSpec) and n > 0 else None
    if batch is None:
        return _single_slots(SingleSlots, environment, n, cost_name, endings, terms)
    assert isinstance(environment, EnvironmentSpec)
    if terms:
        raise LegibleError(
            f"play.terms: {terms!r} cannot read the steps of {environment.name}, which is played in batches; leave "
            "play.terms out."
        )
    return batch_slots(batch, environment, cost_name, endings)


def batch_slots(
    batch: VectorEnv[Any, Any, Any], environment: EnvironmentSpec, cost_name: str = "", endings: str = ""
) -> BatchSlots:
    """Return the slots of a vector environment; see `make_slots`."""
    # If the user's functions do not fit, the readers raise an error, and the batch is closed.
    with ExitStack() as opened:
        slots = BatchSlots(opened.enter_context(closing(batch)), cost_name)
        slots.ending_reader, slots.term_reader = EndingReader(environment.name, endings), TermReader(environment.name)
        opened.pop_all()  # the readers fit, so the environments stay open
    return slots


def make_space_slots(environment: str | EnvironmentSpec | Env, n: int, cost_name: str = "") -> SpaceSlots:
    """Make n slots of any spaces; an environment object makes a single one, whatever n. See `make_slots`."""
    return _single_slots(SpaceSlots, as_environment(environment), n, cost_name)


def _single_slots(
    kind: type[_S], environment: EnvironmentSpec | Env, n: int, cost_name: str, endings: str = "", terms: str = ""
) -> _S:
    if n < 1:
        raise LegibleError(f"at least one slot is needed, got {n}.")
    if not isinstance(environment, EnvironmentSpec):
        slots = kind([environment], cost_name)
        slots.ending_reader, slots.term_reader = EndingReader(environment, endings), TermReader(environment, terms)
        return slots
    with ExitStack() as opened:
        made = [opened.enter_context(closing(environment.make())) for _ in range(n)]
        slots = kind(made, cost_name)
        slots.ending_reader, slots.term_reader = EndingReader(made[0], endings), TermReader(made[0], terms)
        opened.pop_all()
    return slots
