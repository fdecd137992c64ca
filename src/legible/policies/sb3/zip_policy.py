"""Policies of Stable-Baselines3's ``.zip`` files, read without unpickling anything.

Such a file holds ``policy.pth`` (the tensors, which PyTorch reads without running code when asked to) and ``data``:
JSON in which whatever JSON cannot hold stands twice, as a pickle in base64 under ``":serialized:"`` and, for people, as
the text of its attributes. Only that text is read here; it says which policy class, spaces, activation and extractor
the network has. The shapes of the tensors say the rest. What neither says is asked for, never guessed.

The layout has been the same since version 1.0, with these differences:

- Before 1.8 an actor-critic network could begin with layers that actor and critic share
  (``mlp_extractor.shared_net``); they are read as the first layers of the actor.
- Spaces are Gym's before 2.0 and Gymnasium's since; the shape is called ``shape`` in the oldest and ``_shape`` in the
  others.

A feed-forward network with discrete actions becomes a `NetworkPolicy`, everything else an `ActorPolicy`: pictures
(``NatureCNN``), dictionaries (``CombinedExtractor``), continuous actions, several at once, action masks, memory, gSDE.

Not supported: custom policy classes and feature extractors, gSDE with a network of its own, spaces that do not start at
zero. ``load_policy(..., trust=True)`` hands such a file to Stable-Baselines3's own loader, which runs the code in it.

A zip does not say whether the policy was trained behind ``VecNormalize``. That of PPO and A2C betrays it once they have
been trained (``_last_original_obs`` is only set behind one), that of DQN and QR-DQN does not: keep the statistics
next to the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from legible.policies.actors.policy import ActorPolicy
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.protocol import PolicyError, ScoreKind, naming
from legible.policies.registry import LoadOptions
from legible.policies.sb3.actors import actor_policy
from legible.policies.sb3.archive import Contents, read_tensors
from legible.policies.sb3.description import DESIGNS, Algorithm, Between, activation_of, algorithm_of, options_of
from legible.policies.sb3.layers import Tensors, average_quantiles, check_ends, hidden_layers, q_layers
from legible.policies.sb3.spaces import encoding_of, has_plain_spaces, n_actions_of, space_of

_EXTRACTORS = ("", "pi_", "q_net.", "quantile_net.", "actor.")
# What stands before the name of the feature extractor that acts.


def read_sb3_zip(contents: Contents, algorithm: Algorithm | None, said: LoadOptions) -> NetworkPolicy | ActorPolicy:
    """Build the policy of a zip, without its normalisation and without unpickling anything.

    Parameters
    ----------
    contents
        The readable part of the zip.
    algorithm, said
        What the caller says about the policy, for what its file does not say.

    Raises
    ------
    UnclearPolicyError
        When something cannot be read that the caller does not say.
    PolicyError
        When the file is damaged, contradicts the caller or holds what is not supported.
    """
    with naming(contents.path):
        algorithm = algorithm_of(contents, algorithm)
        options = options_of(contents)
        activation = activation_of(contents, options, algorithm, said.activation)
        tensors = Tensors(contents, read_tensors(contents.path), biases_may_be_missing=algorithm == "ARS")
        metadata: dict[str, Any] = {"algorithm": algorithm}
        if contents.version is not None:
            metadata["stable_baselines3_version"] = contents.version
        for name in ("num_timesteps", "seed"):
            if isinstance(contents.data.get(name), int):
                metadata[name] = contents.data[name]
        reads_pictures = any(tensors.any_of(f"{prefix}features_extractor.cnn") for prefix in _EXTRACTORS)
        is_plain = algorithm not in ("MaskablePPO", "RecurrentPPO") and DESIGNS[algorithm] != "squashed actor"
        if is_plain and has_plain_spaces(contents) and not reads_pictures:
            return _plain(contents, algorithm, options, said, tensors, activation, metadata)
        if said.encoding is not None:
            raise PolicyError(f"{contents.path}: an encoding does not apply to it: it is more than a plain network")
        observations, actions = space_of(contents, "observation_space"), space_of(contents, "action_space")
        if isinstance(actions, spaces.Dict):
            contents.refuse("its action space is a Dict: such actions are not supported")
        return actor_policy(contents, algorithm, options, tensors, activation, observations, actions, metadata)


def _plain(
    contents: Contents,
    algorithm: Algorithm,
    options: Mapping[str, Any],
    said: LoadOptions,
    tensors: Tensors,
    activation: Between,
    metadata: dict[str, Any],
) -> NetworkPolicy:
    n_actions = n_actions_of(contents, said.n_actions)
    encoding = encoding_of(contents, said.encoding)
    if DESIGNS[algorithm] == "values":
        name = "q_net" if algorithm == "DQN" else "quantile_net"
        tensors.drop(f"{name}_target.")
        layers = q_layers(tensors, f"{name}.{name}", activation)
    elif algorithm == "ARS":
        layers = q_layers(tensors, "action_net", activation)
    elif DESIGNS[algorithm] == "actor-critic":
        tensors.drop("mlp_extractor.value_net.")
        tensors.drop("value_net.")
        shared = hidden_layers(tensors, "mlp_extractor.shared_net", activation)
        own = hidden_layers(tensors, "mlp_extractor.policy_net", activation)
        layers = (*shared, *own, Layer(*tensors.linear("action_net")))
    else:
        contents.refuse(f"{algorithm} has continuous actions, but its action space is Discrete")
    tensors.finish()
    if algorithm == "QRDQN":
        layers = average_quantiles(contents, options, layers, n_actions)
    check_ends(tensors, layers, encoding, n_actions)
    kind: ScoreKind = "log-probabilities" if DESIGNS[algorithm] == "actor-critic" else "values"
    return NetworkPolicy(layers, kind, encoding, metadata=metadata)
