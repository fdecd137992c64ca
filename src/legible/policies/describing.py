"""`describe_policy`: what is in a policy's file, as a plain record."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legible.policies.environment_ids import todays_id
from legible.policies.loading import load_policy, located
from legible.policies.predicting import acting
from legible.policies.protocol import Policy, ScoreKind
from legible.policies.readers.hub import fetch
from legible.policies.registry import find_reader
from legible.policies.rl_zoo import ENVIRONMENT_NEEDS, Training, find_training, is_zoo_folder, policy_in_folder


@dataclass(frozen=True)
class PolicyDescription:
    """What was found in a policy's file.

    Parameters
    ----------
    source
        The file or address.
    format
        The reader that reads it.
    algorithm, library_version
        What it was trained with, None when it does not say.
    observation_space, action_space
        Its spaces, as Gymnasium writes them; None when it does not say.
    n_features, n_actions
        Width of a flat observation, None for dictionaries; number of discrete actions, 0 for others.
    kind
        What its scores mean, ``"none"`` when it has none.
    recurrent, stochastic
        Whether it remembers, and whether its actions can be drawn.
    env_id, env_id_from
        The environment that it was trained on, and what says so; None when nothing does.
    todays_env_id, env_changes
        What an environment of an old version is called today, and what changed since.
    normalisation
        The file with the statistics of its observations; "in the file" when it brings them; None without any.
    training
        What the RL Zoo's files next to it say.
    metadata
        Anything else that it says.
    """

    source: str
    format: str
    algorithm: str | None
    library_version: str | None
    observation_space: str | None
    action_space: str
    n_features: int | None
    n_actions: int
    kind: ScoreKind
    recurrent: bool
    stochastic: bool
    env_id: str | None
    env_id_from: str | None
    todays_env_id: str | None
    env_changes: tuple[str, ...]
    normalisation: str | None
    training: Training | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        plain = dataclasses.asdict(dataclasses.replace(self, training=None, metadata={}))
        plain["metadata"] = dict(self.metadata)
        plain["training"] = None if self.training is None else dataclasses.asdict(self.training)
        return plain


def describe_policy(source: str | os.PathLike[str], policy: Policy | None = None, **options: Any) -> PolicyDescription:
    """Return what is in a policy's file.

    Parameters
    ----------
    source
        The file, folder or address.
    policy
        The policy, when it has been loaded already.
    **options
        Those of `legible.policies.load_policy`.
    """
    found = located(source)
    reader = find_reader(found)
    loaded = load_policy(source, **options) if policy is None else policy
    actor = acting(loaded)
    metadata = {key: value for key, value in getattr(loaded, "metadata", {}).items() if key != ENVIRONMENT_NEEDS}
    path = found if isinstance(found, Path) else fetch(found) if reader.name == "hub" else None
    training = None
    if path is not None:
        in_folder = is_zoo_folder(path)
        training = find_training(policy_in_folder(path) if in_folder else path, anywhere=in_folder)
    env_id, env_id_from = _environment(loaded, path, training)
    today = None if env_id is None else todays_id(env_id)
    observation_space = actor.observation_space
    return PolicyDescription(
        source=str(found),
        format=reader.name,
        algorithm=metadata.get("algorithm") or (None if training is None else training.algorithm),
        library_version=metadata.get("stable_baselines3_version"),
        observation_space=None if observation_space is None else str(observation_space),
        action_space=str(actor.action_space),
        n_features=loaded.n_features,
        n_actions=loaded.n_actions,
        kind=actor.kind,
        recurrent=actor.recurrent,
        stochastic=actor.stochastic,
        env_id=env_id,
        env_id_from=env_id_from,
        todays_env_id=None if today is None else today.env_id,
        env_changes=() if today is None else today.changes,
        normalisation=normalisation_source(loaded),
        training=training,
        metadata=metadata,
    )


def normalisation_source(policy: Policy) -> str | None:
    """Return where the statistics of a policy's observations come from, for people; None when it has none."""
    statistics = getattr(policy, "normalisation", None)
    if isinstance(statistics, Mapping):
        statistics = next(iter(statistics.values()), None)
    if statistics is None:
        return None
    source: str | None = statistics.source
    return source or "in the file"


def _environment(policy: Policy, path: Path | None, training: Training | None) -> tuple[str | None, str | None]:
    """Return the environment that a policy was trained on, and what says so."""
    own = getattr(policy, "env_id", None)
    if own is not None:
        return str(own), "the file"
    if training is not None and training.env_id is not None:
        return training.env_id, "args.yml"
    if path is not None:
        for name in (path.stem, path.resolve().parent.name):
            named = re.search(r"(?:^|[-_])((?:[A-Za-z]\w*/)?[A-Z]\w*(?:-\w+)*-v\d{1,3})(?:$|[-_])", name)
            if named is not None:
                return named[1], "its name"
    return None, None
