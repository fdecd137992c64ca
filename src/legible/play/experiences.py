"""Experiences: what a policy saw and did, as columns. `collect` makes them, one file keeps them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import Env, EnvironmentSpec, as_environment, feature_space_of, own_feature_space
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.files import write_whole
from legible.formatting import data_frame
from legible.play.choosing import PolicyChooser, check_policy
from legible.play.episodes import episode_seeds, play_episodes
from legible.play.recording import Recorder
from legible.play.slots import DEFAULT_BATCH, make_slots
from legible.policies import Policy
from legible.settings import STEP_LIMIT

_COLUMNS = ("observations", "actions", "scores", "episode_ids", "returns", "lengths", "seeds", "success")


@dataclass(frozen=True)
class Experiences:
    """State-action pairs in the order of episodes and steps; one row a step, and one entry an episode.

    Parameters
    ----------
    observations
        ``float32[n, features]``.
    actions
        ``int64[n]``, the action taken.
    scores
        ``float32[n, actions]``, what the policy thought of each.
    episode_ids
        ``int64[n]``, the episode of each row: 0, 1, …
    returns, lengths, seeds, success
        One entry an episode; `success` is NaN where the environment does not tell.
    space
        Names and kinds of features and actions.
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

    def __post_init__(self) -> None:
        n, episodes = len(self.observations), len(self.returns)
        for name in ("actions", "scores", "episode_ids"):
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
        self.space.check(self.observations)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def n_episodes(self) -> int:
        """How many episodes were played."""
        return len(self.returns)

    def of_episodes(self, episodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the rows that belong to some of the episodes."""
        chosen = np.zeros(self.n_episodes, np.bool_)
        chosen[episodes] = True
        return chosen[self.episode_ids]

    def to_pandas(self) -> Any:
        """Return a data frame with a row for every step: episode, step, action, features and scores.

        Columns are called by the features' names, scores ``score.<action>``.
        """
        starts = np.cumsum(self.lengths) - self.lengths
        columns: dict[str, Any] = {
            "episode": self.episode_ids,
            "step": np.arange(len(self)) - starts[self.episode_ids],
            "action": np.array(self.space.action_names, dtype=object)[self.actions],
        }
        columns |= dict(zip(self.space.names, self.observations.T, strict=True))
        columns |= {f"score.{name}": self.scores[:, i] for i, name in enumerate(self.space.action_names)}
        return data_frame(columns)

    def save(self, path: str | Path) -> None:
        """Write everything into one ``.npz`` file; whole or not at all."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        columns["space"] = np.array(json.dumps(self.space.to_dict()))
        write_whole(Path(path), lambda file: np.savez_compressed(file, **columns))

    @classmethod
    def load(cls, path: str | Path) -> Experiences:
        """Read what `save` wrote."""
        try:
            file = io.BytesIO(Path(path).read_bytes())
        except OSError as error:
            raise LegibleError(f"{path}: cannot be read ({error.strerror or error}).") from error
        try:
            with np.lib.npyio.NpzFile(file, allow_pickle=False) as data:
                columns = {name: data[name] for name in _COLUMNS}
                space = FeatureSpace.from_dict(json.loads(str(data["space"])))
            return cls(**columns, space=space)
        except Exception as error:  # what a damaged zip or array raises depends on where the damage is
            raise LegibleError(f"{path}: is no file of experiences, or a damaged one ({error}).") from error


def collect(
    policy: Policy,
    environment: str | EnvironmentSpec | Env,
    episodes: int = 600,
    *,
    seed: int,
    names: str | Path | FeatureSpace | None = None,
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
        Feature names: a feature space or a TOML file. By default those of the environment, or ``f0, f1, …`` with kinds
        guessed from what was seen.
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
    environment = as_environment(environment)
    space, guess = _describe(environment, names)
    check_policy(policy, len(space), len(space.actions))
    seeds = episode_seeds(seed, 0, episodes)
    slots = make_slots(environment, min(batch, episodes))
    recorder = Recorder()
    try:
        played = play_episodes(
            slots,
            PolicyChooser(policy, seeds, epsilon=epsilon, sample=sample),
            seeds,
            step_limit=step_limit,
            on_step=recorder,
            on_episode=on_episode,
        )
    finally:
        if isinstance(environment, EnvironmentSpec):
            slots.close()
    steps = recorder.steps()
    return Experiences(
        observations=steps.observations,
        actions=steps.actions,
        scores=np.asarray(steps.scores, np.float32),
        episode_ids=steps.episodes,
        returns=played.returns,
        lengths=played.lengths,
        seeds=played.seeds,
        success=played.success,
        space=space.guess_kinds(steps.observations) if guess else space,
    )


def _describe(environment: EnvironmentSpec | Env, names: str | Path | FeatureSpace | None) -> tuple[FeatureSpace, bool]:
    """Return the feature space, and whether kinds have to be guessed because nothing tells them."""
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    try:
        space = feature_space_of(env, names)
        told = names is not None or own_feature_space(env) is not None
        return space, not told and space[0].kind == "numeric"
    finally:
        if isinstance(environment, EnvironmentSpec):
            env.close()
