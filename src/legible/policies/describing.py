"""`describe_policy`: the contents of a policy file as a plain record."""

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
from legible.policies.protocol import Policy, ScoreKind, traits_of
from legible.policies.readers.hub import fetch
from legible.policies.registry import find_reader
from legible.policies.rl_zoo import ENVIRONMENT_NEEDS, Training, find_training, is_zoo_folder, policy_in_folder

_ENV_ID_IN_NAME = re.compile(r"(?:^|[-_])((?:[A-Za-z]\w*/)?[A-Z]\w*(?:-\w+)*-v\d{1,3})(?:$|[-_])")


@dataclass(frozen=True)
class PolicyDescription:
    """Contents of a policy file."""

    # The file or address, and the name of its reader
    source: str
    format: str
    # Algorithm and library version of the training; None if unknown
    algorithm: str | None
    library_version: str | None
    # The spaces as Gymnasium prints them; None if unknown
    observation_space: str | None
    action_space: str
    # Width of a flat observation, None for dictionaries; number of discrete actions, 0 for other actions
    n_features: int | None
    n_actions: int
    kind: ScoreKind  # meaning of the scores, ``"none"`` without scores
    # Whether the policy has memory, and whether it can sample actions
    recurrent: bool
    stochastic: bool
    # The training environment, and where its id was found; None if unknown
    env_id: str | None
    env_id_from: str | None
    # The current id of an outdated environment, and the changes since
    todays_env_id: str | None
    env_changes: tuple[str, ...]
    # The file with the observation statistics, "in the file" if the policy file holds them, None without statistics
    normalisation: str | None
    training: Training | None = None  # contents of the RL Zoo's files next to the policy
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        plain = dataclasses.asdict(dataclasses.replace(self, training=None, metadata={}))
        plain["metadata"] = dict(self.metadata)
        plain["training"] = None if self.training is None else dataclasses.asdict(self.training)
        return plain


def describe_policy(source: str | os.PathLike[str], policy: Policy | None = None, **options: Any) -> PolicyDescription:
    """Return what a policy file says: algorithm, spaces, kind of scores, training environment and settings.

    Parameters
    ----------
    source
        The file, the folder, or an address such as ``zoo:NAME`` or ``hf:USER/REPO``.
    policy
        The policy of `source`, if it is already loaded; otherwise it is loaded here.
    **options
        Arguments of `legible.policies.load_policy`.
    """
    located_source = located(source)  # a Path for an existing file, text for an address
    reader = find_reader(located_source)
    loaded = load_policy(source, **options) if policy is None else policy
    acting_policy = acting(loaded)  # with a `predict`, which policies that only have scores lack
    # The wrappers that the policy needs are left out of the metadata: `training` has them.
    metadata = {key: value for key, value in traits_of(loaded).metadata.items() if key != ENVIRONMENT_NEEDS}
    path = located_source if isinstance(located_source, Path) else None
    if reader.name == "hub":
        path = fetch(located_source)

    # The RL Zoo writes args.yml and config.yml next to its policies.
    training = None
    if path is not None and is_zoo_folder(path):
        training = find_training(policy_in_folder(path), anywhere=True)
    elif path is not None:
        training = find_training(path)

    # Where the environment's id is found, most reliable first: in the policy file, in args.yml, in the file's name.
    env_id, env_id_from = traits_of(loaded).env_id, "the file"
    if env_id is None and training is not None:
        env_id, env_id_from = training.env_id, "args.yml"
    if env_id is None and path is not None:
        ids = (_ENV_ID_IN_NAME.search(name) for name in (path.stem, path.resolve().parent.name))
        env_id, env_id_from = next((match[1] for match in ids if match is not None), None), "its name"
    renamed = None if env_id is None else todays_id(env_id)

    observation_space = acting_policy.observation_space
    return PolicyDescription(
        source=str(located_source),
        format=reader.name,
        algorithm=metadata.get("algorithm") or (None if training is None else training.algorithm),
        library_version=metadata.get("stable_baselines3_version"),
        observation_space=None if observation_space is None else str(observation_space),
        action_space=str(acting_policy.action_space),
        n_features=loaded.n_features,
        n_actions=loaded.n_actions,
        kind=acting_policy.kind,
        recurrent=acting_policy.recurrent,
        stochastic=acting_policy.stochastic,
        env_id=env_id,
        env_id_from=None if env_id is None else env_id_from,
        todays_env_id=None if renamed is None else renamed.env_id,
        env_changes=() if renamed is None else renamed.changes,
        normalisation=normalisation_source(loaded),
        training=training,
        metadata=metadata,
    )


def normalisation_source(policy: Policy) -> str | None:
    """Return the file of a policy's observation statistics, "in the file" if it holds them, None without any."""
    statistics = traits_of(policy).normalisation
    if isinstance(statistics, Mapping):
        statistics = next(iter(statistics.values()), None)
    return None if statistics is None else statistics.source or "in the file"
