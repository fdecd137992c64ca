"""Experiences: recorded steps of a policy, as columns.

- `Experiences`: the columns, saved in one file; `collect`: plays episodes and returns them.
- `ExperienceSetup`, `collect_unit`, `join_experiences`: the same in units of work, for engines.
- `describe_features`: the feature space, and whether the kinds of features have to be guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
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
from legible.play.acting import check_can_be_studied
from legible.play.adapted import adapt_policy, choice_space
from legible.play.choosing import PolicyChooser
from legible.play.episodes import play_episodes
from legible.play.recording import Recorder
from legible.play.slots import DEFAULT_BATCH, open_environment
from legible.play.stages import stage_seeds
from legible.play.trained_environments import environment_for
from legible.play.vector_envs import make_fast_slots
from legible.policies import Policy
from legible.policies.protocol import MASKED
from legible.records import DAMAGE_ERRORS
from legible.schemas import EXPERIENCES, check_arrays
from legible.settings import STEP_LIMIT, PlaySettings

_COLUMNS = ("observations", "actions", "scores", "episode_ids", "returns", "lengths", "seeds", "success", "endings")
_NUMBERS = "numbers"  # an additional column, if an action is not a single choice
Columns = dict[str, NDArray[Any]]
"""The columns of `Experiences` by name."""


@dataclass(frozen=True, repr=False)
class Experiences(Displayed):
    """Recorded steps, ordered by episode and step: one row per step, and one entry per episode.

    Parameters
    ----------
    observations
        ``float32[n, features]``.
    actions
        ``int64[n]``, the action taken; ``int64[n, groups]`` if it has one choice in each group.
    scores
        ``float32[n, actions]``, the policy's score of each action.
    episode_ids
        ``int64[n]``, the episode of each row: 0, 1, …
    returns, lengths, seeds, success, endings
        One entry per episode; `success` is NaN if the environment does not report it, `endings` are texts
        (`legible.environments.Ending`), "" where they are unknown.
    space
        Names and kinds of features and actions.
    numbers
        ``[n, groups]``, the actions that the environment received, with discrete values counted from 0; no columns if
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
    numbers: NDArray[Any] = None  # type: ignore[assignment]
    endings: NDArray[np.str_] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Fill in missing arrays, and raise an error if the shapes of the arrays do not fit each other."""
        n, episodes = len(self.observations), len(self.returns)
        if self.endings is None:
            object.__setattr__(self, "endings", np.zeros(episodes, np.str_))
        if self.numbers is None:
            object.__setattr__(self, _NUMBERS, np.zeros((n, 0), np.int64))

        # An action is one choice, or one choice in each of several groups (the parts of an action).
        n_groups = 0 if self.space.is_discrete else len(self.space.groups)
        shapes: dict[str, tuple[int, ...]] = {
            "actions": (n, n_groups) if n_groups else (n,),
            "scores": (n, len(self.space.actions)),
            "episode_ids": (n,),
            _NUMBERS: (n, n_groups),
            **dict.fromkeys(("lengths", "seeds", "success", "endings"), (episodes,)),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise LegibleError(f"experiences: {name} must have shape {shape}, got {getattr(self, name).shape}.")
        if n and not 0 <= self.episode_ids.min() <= self.episode_ids.max() < episodes:
            raise LegibleError(f"experiences: episode ids must lie in 0 … {episodes - 1}.")
        self.space.check(self.observations)

    def check_steps(self) -> None:
        """Raise `ValueError` if actions or episodes are impossible."""
        if self.actions.dtype != np.int64 or not ((self.actions >= 0) & (self.actions < len(self.space.actions))).all():
            raise ValueError("an action does not exist")
        if self.numbers.dtype.kind not in "if" or not np.isfinite(self.numbers).all():
            raise ValueError("an action is no number")
        if (self.lengths > len(self)).any() or self.lengths.sum() != len(self):
            raise ValueError("steps are missing")
        if not np.array_equal(self.episode_ids, np.repeat(np.arange(self.n_episodes), self.lengths)):
            raise ValueError("steps do not fit the lengths of episodes")

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {"steps": len(self), "episodes": self.n_episodes, "features": len(self.space)}

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.returns)

    def taken(self, action: int) -> NDArray[np.bool_]:
        """Return a mask of the rows in which an action, or a choice of a group, was taken."""
        actions = self.actions if self.space.is_discrete else self.actions[:, self.space.group_of(action)]
        return actions == action

    def of_episodes(self, episodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the rows that belong to some of the episodes."""
        return np.isin(self.episode_ids, episodes)

    def to_frame(self) -> Any:
        """Return a data frame with one row per step: episode, step, action, features and scores.

        Columns have the names of the features; scores are ``score.<action>``. Actions that are not a single choice have
        a column ``action.<group>`` for each choice, and ``number.<group>`` for the value that the environment received.
        Masked choices have the score NaN.
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
        scores = np.where(self.scores == MASKED, np.float32(np.nan), self.scores)
        columns |= {f"score.{name}": scores[:, i] for i, name in enumerate(self.space.action_names)}
        return data_frame(columns)

    def with_choices(self, space: FeatureSpace) -> Experiences:
        """Return the same experiences with continuous actions divided into other regions."""
        if all(group.regions is None for group in space.groups):
            return replace(self, space=space)
        return replace(
            self,
            space=space,
            actions=choices_of(space.groups, self.numbers),
            scores=scores_of(space.groups, self.numbers).astype(np.float32),
        )

    def with_guessed_kinds(self) -> Experiences:
        """Return the same experiences with the kinds of features guessed from the observations."""
        return replace(self, space=self.space.guess_kinds(self.observations))

    def save(self, path: str | Path, key: str = "") -> None:
        """Write everything into one ``.npz`` file, atomically; `key` identifies the data that it belongs to."""
        columns = _columns_of(self)
        columns["space"] = np.array(json.dumps(self.space.to_dict()))
        write_arrays(Path(path), columns, key)

    @classmethod
    def load(cls, path: str | Path, key: str | None = None) -> Experiences:
        """Read a file that `save` wrote; a `key` must match the saved one."""
        advice = "delete it to collect experiences again"
        try:
            columns = read_arrays(Path(path), key, advice)
        except FileNotFoundError as error:
            raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
        try:
            space = FeatureSpace.from_dict(json.loads(str(columns["space"])))
            check_arrays(columns, EXPERIENCES)
            names = [name for name in (*_COLUMNS, _NUMBERS) if name in columns]
            made = cls(**{name: columns[name] for name in names}, space=space)
            made.check_steps()
            return made
        except DAMAGE_ERRORS as error:
            raise DamagedFileError(f"{path}: is damaged, or not a file of experiences ({error}); {advice}.") from error


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
    """Play episodes with a policy and return its experiences: every step's observation, action and scores.

    This is the multiset E of the paper.

    Parameters
    ----------
    policy
        The policy.
    environment
        An id (or ``module:factory``), a spec with arguments, or an environment object.
    episodes
        Number of whole episodes.
    seed
        Decides the seeds of all episodes.
    names
        Feature names: a feature space or a TOML file. By default the names of the environment or of its domain, or
        ``f0, f1, …`` with kinds guessed from the observations.
    features
        The features that rules see, if not the observation: ``"entries:NAME,NAME"`` for entries of a dictionary,
        ``"info:NAME,NAME"`` for entries of info, ``"objects"`` for Atari's objects, or ``"module:function"``.
    epsilon
        Probability of a random action in each step.
    sample
        Whether to sample actions from the policy's probabilities instead of taking the best one.
    batch
        Number of episodes in parallel. It can change the last bits of the scores.
    step_limit
        Number of steps after which an episode is cut off.
    on_episode
        Called with the number of episodes that ended, for progress bars.
    """
    if episodes < 1:
        raise LegibleError(f"at least one episode is needed, got {episodes}.")

    # The environment with the wrappers that the policy needs, showing the features that rules see.
    environment = environment_for(policy, as_environment(environment))
    with open_environment(environment) as env:
        feature_map = map_features(env, names, features)
        check_can_be_studied(policy, env, feature_map)
    if isinstance(environment, EnvironmentSpec):
        environment = with_features(environment, feature_map)
    elif not is_flat(feature_map):
        environment = FeatureEnv(environment, feature_map)

    # Play on seeds that are reserved for experiences, with continuous actions cut into equal regions. They are cut
    # again below, where the policy's own actions are known; likewise, unnamed features become numeric or categorical by
    # their values.
    space, has_guessed_kinds = _space_to_guess(feature_map.names)
    adapted = adapt_policy(policy, environment, cut_choices(space))
    setup = ExperienceSetup(adapted, environment, epsilon, sample, batch, step_limit)
    columns = collect_unit(setup, stage_seeds(seed, "experiences", first=0, count=episodes), on_episode)
    experiences = join_experiences([columns], space)
    experiences = experiences.with_guessed_kinds() if has_guessed_kinds else experiences
    if is_cut(space):  # nothing to cut, or cut by the names given
        return experiences
    return experiences.with_choices(cut_choices(experiences.space, experiences.numbers))


@dataclass(frozen=True)
class ExperienceSetup:
    """The shared setup of all units of experiences: policy, environment and play settings (see `collect`).

    The policy scores choices, see `legible.play.adapt_policy`.
    """

    policy: Policy
    environment: EnvironmentSpec | Env
    epsilon: float = 0.0
    sample: bool = False
    batch: int = DEFAULT_BATCH
    step_limit: int = STEP_LIMIT
    endings: str = ""

    @classmethod
    def of(cls, policy: Policy, environment: EnvironmentSpec | Env, play: PlaySettings) -> ExperienceSetup:
        """Make a setup from the play settings of a study."""
        return cls(policy, environment, play.epsilon, play.sample, play.batch, play.step_limit, play.endings)


def collect_unit(
    setup: ExperienceSetup, seeds: Sequence[int], on_episode: Callable[[int], None] | None = None
) -> Columns:
    """Play one episode per seed and return the recorded arrays by name, as in `Experiences`.

    - `setup`: policy, environment and play settings.
    - `seeds`: a seed for every episode.
    - `on_episode`: called with the number of episodes that ended, for progress bars.
    """
    slots = make_fast_slots(setup.environment, min(setup.batch, len(seeds)), setup.policy, endings=setup.endings)
    recorder = Recorder()
    try:
        results = play_episodes(
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

    # Actions of several parts are recorded twice: as the environment received them (numbers), and as choices, which
    # rules see.
    steps = recorder.steps()
    space = choice_space(setup.policy)
    numbers: Columns = {} if space is None else {_NUMBERS: steps.actions}
    return {
        **numbers,
        "observations": steps.observations,
        "actions": steps.actions if space is None else choices_of(space.groups, steps.actions),
        "scores": np.asarray(steps.scores, np.float32),
        "episode_ids": steps.episodes,
        "returns": results.returns,
        "lengths": results.lengths,
        "seeds": results.seeds,
        "success": results.success,
        "endings": results.endings,
    }


def join_experiences(parts: Sequence[Columns | Experiences], space: FeatureSpace) -> Experiences:
    """Concatenate units of experiences."""
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
    """Return the feature space, and whether the kinds of features have to be guessed."""
    with open_environment(environment) as env:
        return _space_to_guess(resolve_names(env, names))


def _space_to_guess(named: NamedSpace) -> tuple[FeatureSpace, bool]:
    return named.space, not named.is_named and named.space[0].kind == "numeric"
