"""Experiences: what a policy saw and did, as columns. `collect` makes them, one file keeps them.

- `Experiences`: the columns; `collect`: plays episodes and returns them.
- `ExperienceSetup`, `collect_unit`, `join_experiences`: the same in units of work, for engines.
- `describe_features`: names of features, and whether their kinds have to be guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import (
    Env,
    EnvironmentSpec,
    FeatureEnv,
    NamedSpace,
    as_environment,
    is_flat,
    map_features,
    resolve_names,
    with_features,
)
from legible.errors import LegibleError
from legible.features import FeatureSpace, choices_of, cut_choices, is_cut, scores_of
from legible.files import DamagedFileError, read_arrays, write_arrays
from legible.formatting import data_frame
from legible.play.acting import check_studied
from legible.play.choosing import PolicyChooser
from legible.play.episodes import play_episodes
from legible.play.recording import Recorder
from legible.play.row_policy import on_rows
from legible.play.slots import DEFAULT_BATCH, make_slots
from legible.play.stages import stage_seeds
from legible.play.trained_environments import environment_for
from legible.policies import ChoicePolicy, Policy, with_choices
from legible.settings import STEP_LIMIT, PlaySettings

_COLUMNS = ("observations", "actions", "scores", "episode_ids", "returns", "lengths", "seeds", "success")
# Where actions are no single choice there is one more.
_NUMBERS = "numbers"
SIGNS_OF_DAMAGE = (*(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError), LegibleError)
"""What reading a damaged file may raise."""


@dataclass(frozen=True)
class Experiences:
    """State-action pairs in the order of episodes and steps; one row a step, and one entry an episode.

    Parameters
    ----------
    observations
        ``float32[n, features]``.
    actions
        ``int64[n]``, the action taken; ``int64[n, groups]`` where it takes one choice of each group.
    scores
        ``float32[n, actions]``, what the policy thought of each.
    episode_ids
        ``int64[n]``, the episode of each row: 0, 1, …
    returns, lengths, seeds, success
        One entry an episode; `success` is NaN where the environment does not tell.
    space
        Names and kinds of features and actions.
    numbers
        ``[n, groups]``, the actions as the environment took them, whole numbers counted from 0; without columns where
        an action is a single choice.
    """

    observations: NDArray[np.float32]
    actions: NDArray[np.int64]
    scores: NDArray[np.float32]
    episode_ids: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    seeds: NDArray[np.int64]
    success: NDArray[np.float64]
    space: FeatureSpace
    numbers: NDArray[Any] = None  # type: ignore[assignment]  # without columns, where an action is a single choice

    def __post_init__(self) -> None:
        n, episodes = len(self.observations), len(self.returns)
        if self.numbers is None:
            object.__setattr__(self, _NUMBERS, np.zeros((n, 0), np.int64))
        for name in ("actions", "scores", "episode_ids", _NUMBERS):
            if len(getattr(self, name)) != n:
                raise LegibleError(f"experiences: {name} has {len(getattr(self, name))} rows, observations {n}.")
        for name in ("lengths", "seeds", "success"):
            if len(getattr(self, name)) != episodes:
                raise LegibleError(f"experiences: {name} has {len(getattr(self, name))} entries, returns {episodes}.")
        if self.scores.shape != (n, len(self.space.actions)):
            raise LegibleError(
                f"experiences: scores of shape {(n, len(self.space.actions))} are expected, got {self.scores.shape}."
            )
        if n and not 0 <= self.episode_ids.min() <= self.episode_ids.max() < episodes:
            raise LegibleError(f"experiences: episode ids must lie in 0 … {episodes - 1}.")
        parts = 0 if self.space.is_discrete else len(self.space.groups)
        for name, shape in (("actions", (n, parts) if parts else (n,)), (_NUMBERS, (n, parts))):
            if getattr(self, name).shape != shape:
                raise LegibleError(
                    f"experiences: {name} of shape {shape} are expected, got {getattr(self, name).shape}."
                )
        self.space.check(self.observations)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def n_episodes(self) -> int:
        """How many episodes were played."""
        return len(self.returns)

    def taken(self, action: int) -> NDArray[np.bool_]:
        """Mark the rows in which an action was taken, or a choice of a group."""
        actions = self.actions if self.space.is_discrete else self.actions[:, self.space.group_of(action)]
        return actions == action

    def of_episodes(self, episodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the rows that belong to some of the episodes."""
        chosen = np.zeros(self.n_episodes, np.bool_)
        chosen[episodes] = True
        return chosen[self.episode_ids]

    def to_pandas(self) -> Any:
        """Return a data frame with a row for every step: episode, step, action, features and scores.

        Columns are called by the features' names, scores ``score.<action>``. Actions that are no single choice have a
        column ``action.<group>`` for each choice, and ``number.<group>`` for what the environment took.
        """
        starts = np.cumsum(self.lengths) - self.lengths
        columns: dict[str, Any] = {"episode": self.episode_ids, "step": np.arange(len(self)) - starts[self.episode_ids]}
        names = np.array(self.space.action_names, dtype=object)
        if self.space.is_discrete:
            columns["action"] = names[self.actions]
        else:
            for i, group in enumerate(self.space.groups):
                columns[f"action.{group.name}"] = names[self.actions[:, i]]
                columns[f"number.{group.name}"] = self.numbers[:, i]
        columns |= dict(zip(self.space.names, self.observations.T, strict=True))
        columns |= {f"score.{name}": self.scores[:, i] for i, name in enumerate(self.space.action_names)}
        return data_frame(columns)

    def with_choices(self, space: FeatureSpace) -> Experiences:
        """Return the same experiences with continuous actions cut into other regions."""
        if all(group.regions is None for group in space.groups):
            return replace(self, space=space)
        return replace(
            self,
            space=space,
            actions=choices_of(space.groups, self.numbers),
            scores=scores_of(space.groups, self.numbers).astype(np.float32),
        )

    def with_guessed_kinds(self) -> Experiences:
        """Return the same experiences with kinds of features that are guessed from what was seen."""
        return replace(self, space=self.space.guess_kinds(self.observations))

    def save(self, path: str | Path, key: str = "") -> None:
        """Write everything into one ``.npz`` file, whole or not at all; `key` says what it belongs to."""
        columns = _columns_of(self)
        columns["space"] = np.array(json.dumps(self.space.to_dict()))
        write_arrays(Path(path), columns, key)

    @classmethod
    def load(cls, path: str | Path, key: str | None = None) -> Experiences:
        """Read what `save` wrote; with a `key`, only what belongs to that."""
        advice = "delete it to collect experiences again"
        try:
            columns = read_arrays(Path(path), key, advice)
        except FileNotFoundError as error:
            raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
        try:
            space = FeatureSpace.from_dict(json.loads(str(columns["space"])))
            names = [*_COLUMNS, *(name for name in columns if name == _NUMBERS)]
            return cls(**{name: columns[name] for name in names}, space=space)
        except SIGNS_OF_DAMAGE as error:
            raise DamagedFileError(f"{path}: is damaged, or no file of experiences ({error}); {advice}.") from error


def _columns_of(part: Columns | Experiences) -> Columns:
    if isinstance(part, dict):
        return part
    names = _COLUMNS if part.space.is_discrete else (*_COLUMNS, _NUMBERS)
    return {name: getattr(part, name) for name in names}


def collect(
    policy: Policy,
    environment: str | EnvironmentSpec | Env,
    episodes: int = 600,
    *,
    seed: int,
    names: str | Path | FeatureSpace | None = None,
    features: str | None = None,
    epsilon: float = 0.0,
    sample: bool = False,
    batch: int = DEFAULT_BATCH,
    step_limit: int = STEP_LIMIT,
    on_episode: Callable[[int], None] | None = None,
) -> Experiences:
    """Let a policy play and keep what it saw and did: the multiset E of the paper.

    Parameters
    ----------
    policy
        The policy.
    environment
        An id (or ``module:factory``), a spec with arguments, or an environment object.
    episodes
        How many whole episodes.
    seed
        Decides the seeds of all episodes.
    names
        Feature names: a feature space or a TOML file. By default those of the environment or of its domain, or
        ``f0, f1, …`` with kinds guessed from what was seen.
    features
        What rules see, if that is not the observation, see `legible.environments.feature_readers.reader_of`.
    epsilon, sample
        Random actions: see `legible.play.choose_actions`.
    batch
        How many episodes run side by side. Another number may change the last bits of the scores.
    step_limit
        Steps after which an endless episode is cut off.
    on_episode
        Called with the number of episodes that ended, for progress bars.
    """
    if episodes < 1:
        raise LegibleError(f"at least one episode is needed, got {episodes}.")
    environment = environment_for(policy, as_environment(environment))
    with _opened(environment) as env:
        mapped = map_features(env, names, features)
        check_studied(policy, env, mapped)
    environment = (
        with_features(environment, mapped)
        if isinstance(environment, EnvironmentSpec)
        else environment
        if is_flat(mapped)
        else FeatureEnv(environment, mapped)
    )
    space, guess = _guessed(mapped.names)
    # Continuous actions are cut anew once it is known what the policy does.
    player = with_choices(on_rows(policy, environment), cut_choices(space))
    setup = ExperienceSetup(player, environment, epsilon, sample, batch, step_limit)
    part = collect_unit(setup, stage_seeds(seed, "experiences", 0, episodes), on_episode)
    found = join_experiences([part], space)
    found = found.with_guessed_kinds() if guess else found
    return found if is_cut(space) else found.with_choices(cut_choices(found.space, found.numbers))


@contextmanager
def _opened(environment: EnvironmentSpec | Env) -> Iterator[Env]:
    """An environment, which is closed again if it was made here."""
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    try:
        yield env
    finally:
        if isinstance(environment, EnvironmentSpec):
            env.close()


@dataclass(frozen=True)
class ExperienceSetup:
    """What all units of experiences share: the policy, the environment, and how it is played (see `collect`).

    The policy scores the choices of actions, see `legible.policies.with_choices`.
    """

    policy: Policy
    environment: EnvironmentSpec | Env
    epsilon: float = 0.0
    sample: bool = False
    batch: int = DEFAULT_BATCH
    step_limit: int = STEP_LIMIT

    @classmethod
    def of(cls, policy: Policy, environment: EnvironmentSpec | Env, play: PlaySettings) -> ExperienceSetup:
        """Make it from the settings of play."""
        return cls(policy, environment, play.epsilon, play.sample, play.batch, play.step_limit)


Columns = dict[str, NDArray[Any]]
"""The columns of `Experiences`, without names."""


def collect_unit(
    setup: ExperienceSetup, seeds: Sequence[int], on_episode: Callable[[int], None] | None = None
) -> Columns:
    """Play one episode for every seed and return what was seen and done."""
    slots = make_slots(setup.environment, min(setup.batch, len(seeds)))
    recorder = Recorder()
    try:
        played = play_episodes(
            slots,
            PolicyChooser(setup.policy, seeds, epsilon=setup.epsilon, sample=setup.sample),
            seeds,
            step_limit=setup.step_limit,
            on_step=recorder,
            on_episode=on_episode,
        )
    finally:
        if isinstance(setup.environment, EnvironmentSpec):
            slots.close()
    steps, numbers = recorder.steps(), {}
    actions = steps.actions
    if isinstance(setup.policy, ChoicePolicy):
        numbers, actions = {_NUMBERS: actions}, choices_of(setup.policy.space.groups, actions)
    return {
        **numbers,
        "observations": steps.observations,
        "actions": actions,
        "scores": np.asarray(steps.scores, np.float32),
        "episode_ids": steps.episodes,
        "returns": played.returns,
        "lengths": played.lengths,
        "seeds": played.seeds,
        "success": played.success,
    }


def join_experiences(parts: Sequence[Columns | Experiences], space: FeatureSpace) -> Experiences:
    """Put units of experiences one after the other."""
    lists: dict[str, list[NDArray[Any]]] = {}
    episodes = 0
    for part in parts:
        for name, column in _columns_of(part).items():
            lists.setdefault(name, []).append(column + episodes if name == "episode_ids" else column)
        episodes += len(lists["returns"][-1])
    return Experiences(**{name: np.concatenate(columns) for name, columns in lists.items()}, space=space)


def describe_features(
    environment: EnvironmentSpec | Env, names: str | Path | FeatureSpace | None = None
) -> tuple[FeatureSpace, bool]:
    """Return the feature space, and whether kinds have to be guessed because nothing tells them."""
    with _opened(environment) as env:
        return _guessed(resolve_names(env, names))


def _guessed(named: NamedSpace) -> tuple[FeatureSpace, bool]:
    return named.space, not named.is_named and named.space[0].kind == "numeric"
