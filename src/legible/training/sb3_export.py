"""Policies as zip files of Stable-Baselines3.

- `export_sb3`: a feed-forward network as a zip that ``DQN.load``, ``PPO.load``, ``SAC.load`` or ``TD3.load`` accepts.
- `check_exported`: raises for policies that cannot be exported.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.errors import LegibleError
from legible.policies import ActorPolicy, NetworkPolicy, OneHot, Plain, Policy, load_policy
from legible.training.errors import TrainingError
from legible.training.sb3 import ARGUMENT_NAMES
from legible.training.sb3_checkpoint import Model
from legible.training.starting import StartingPoint, environment_of_start, read_start

_COMPARED = 64  # states in which the model's actions must equal the policy's


def export_sb3(
    policy_path: str | os.PathLike[str] | NetworkPolicy | ActorPolicy, zip_path: str | os.PathLike[str]
) -> Path:
    """Write a policy as a zip that Stable-Baselines3 loads, and return the path of the zip.

    Load it with ``DQN.load`` if the policy has Q-values, with ``PPO.load`` if it has log-probabilities, or continuous
    actions that are clipped to their bounds, and with ``SAC.load`` (with noise) or ``TD3.load`` (without noise) if its
    continuous actions are scaled to their bounds. The zip has the spaces of the policy's environment if that can be
    made, otherwise plain ones of the right size. Policies hold no critics, so the critics in the zip are new: the model
    plays the same, but further training begins with untrained critics. The policy may also be given as an object.
    """
    target = Path(zip_path)
    if target.suffix != ".zip":
        raise TrainingError(
            f"{target}: a policy is written as .zip (for Stable-Baselines3) or .safetensors, not '{target.suffix}'."
        )
    is_in_memory = isinstance(policy_path, NetworkPolicy | ActorPolicy)
    policy = policy_path if is_in_memory else load_policy(policy_path)
    name = "the policy" if is_in_memory else str(policy_path)

    # Refuse everything that a zip would silently lose: rules, normalisation, anything but a plain network.
    if hasattr(policy, "network"):  # only guided policies have it
        raise TrainingError(
            f"{name}: a guided policy has rules, which a zip of Stable-Baselines3 cannot hold. Play it with 'legible "
            "play', turn it into a network with 'legible distil', or export its own network."
        )
    if not isinstance(policy, NetworkPolicy | ActorPolicy):
        raise TrainingError(f"{name}: only plain networks can be exported, not a {type(policy).__name__}.")
    if policy.normalisation is not None:
        raise TrainingError(
            f"{name}: this policy normalises observations, which a zip of Stable-Baselines3 cannot hold."
        )

    # Written under another name first, so that the zip is never half written.
    model = _model_of(policy)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.stem}.part.zip")
    model.save(unfinished)
    unfinished.replace(target)
    return target


def check_exported(policy: Policy) -> None:
    """Raise unless a policy can be written as a zip, ignoring its normalisation of observations."""
    _model_of(replace(policy, normalisation=None) if isinstance(policy, NetworkPolicy | ActorPolicy) else policy)


class _SpacesOnly(gymnasium.Env[Any, Any]):
    """An environment with spaces and nothing else, from which a model of Stable-Baselines3 can be made."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def _model_of(policy: Policy) -> Model:
    """Return a Stable-Baselines3 model that plays like a policy, with its networks and without an environment."""
    start = read_start(policy)  # its algorithm, shape and weights in the terms of Stable-Baselines3
    policy = start.policy
    assert isinstance(policy, NetworkPolicy | ActorPolicy)

    # Policies trained by legible carry their hyperparameters; others get a replay buffer that needs no memory.
    model_class, argument_names = ARGUMENT_NAMES[start.algorithm]
    seed, hyperparameters = policy.metadata.get("seed"), policy.metadata.get("hyperparameters")
    if not isinstance(hyperparameters, Mapping):
        hyperparameters = {"buffer_size": 1}
    observation_space, action_space = _spaces_of(policy, start)
    model: Model = model_class(
        "MlpPolicy",
        _SpacesOnly(observation_space, action_space),
        seed=seed if isinstance(seed, int) else None,
        device="cpu",
        policy_kwargs=dict(start.architecture),
        **{name: hyperparameters[name] for name in argument_names if name in hyperparameters},
    )
    start.fill(model.policy)

    # Continuous actions can be scaled, squashed or clipped in more ways than Stable-Baselines3 has, so compare.
    if isinstance(policy, ActorPolicy):
        space = copy.deepcopy(policy.observation_space)
        space.seed(0)
        observations = np.stack([np.asarray(space.sample()) for _ in range(_COMPARED)])
        actions_of_model, _ = model.predict(observations, deterministic=True)
        actions_of_policy = policy.predict(observations)[0]
        if not np.allclose(actions_of_model, actions_of_policy, rtol=1e-4, atol=1e-5):
            raise TrainingError("the policy: Stable-Baselines3 has no network with the same actions.")
    return model


def _spaces_of(
    policy: NetworkPolicy | ActorPolicy, start: StartingPoint
) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the observation space and the action space of a policy.

    They are the policy's own if it knows them, else those of the environment it was trained in, else plain ones of the
    same size.
    """
    if isinstance(policy, ActorPolicy):
        return policy.observation_space, policy.action_space

    # A network knows sizes only; the exact spaces come from its environment, if that is installed and can be made
    # without running code that a file names.
    with suppress(LegibleError), closing(environment_of_start(start).make()) as env:
        return env.observation_space, env.action_space

    actions = spaces.Discrete(policy.n_actions)
    match policy.encoding:
        case Plain():
            return spaces.Box(-np.inf, np.inf, (policy.n_features,), np.float32), actions
        case OneHot(sizes) if len(sizes) == 1:
            return spaces.Discrete(sizes[0]), actions
        case OneHot(sizes):
            return spaces.MultiDiscrete(list(sizes)), actions
