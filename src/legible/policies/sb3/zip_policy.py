"""Policies of Stable-Baselines3's ``.zip`` files, read without unpickling anything.

Such a file holds ``policy.pth`` (the tensors, which PyTorch can read without running code) and ``data``: JSON in which
each object that JSON cannot hold is stored twice, as a pickle in base64 under ``":serialized:"`` and as the text of its
attributes. Only the text is read here: it names the policy class, spaces, activation and extractor. The shapes of the
tensors give the rest. Anything else is asked for, never guessed.

The layout has been stable since version 1.0, with these differences:

- Before 1.8 an actor-critic network could begin with layers that actor and critic share
  (``mlp_extractor.shared_net``); they become the first layers of the actor.
- Spaces are Gym's before 2.0 and Gymnasium's since; the shape is called ``shape`` in the oldest files, then ``_shape``.

A feed-forward network with discrete actions becomes a `NetworkPolicy`. Everything else becomes an `ActorPolicy`: images
(``NatureCNN``), dictionaries (``CombinedExtractor``), continuous and multi-part actions, action masks, memory, gSDE.

Not supported: custom policy classes and feature extractors, gSDE with a separate network, spaces that do not start at
zero. ``load_policy(..., trust=True)`` opens such a file with Stable-Baselines3's own loader, which runs its code.

A zip does not say whether the policy was trained with ``VecNormalize``. PPO and A2C reveal it once they have been
trained (``_last_original_obs`` is set), DQN and QR-DQN do not: keep the statistics next to the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from legible.policies.activations import Activation
from legible.policies.actors.heads import Bits, Categories, Certain, Gaussian, Head, QValues
from legible.policies.actors.networks import Array, Combined, FixedBatchNorm, Flatten, NatureCnn, linear, lstm, sequence
from legible.policies.actors.policy import ActorPolicy
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.protocol import PolicyError, ScoreKind, naming
from legible.policies.registry import LoadOptions
from legible.policies.sb3.archive import Contents, read_tensors
from legible.policies.sb3.description import (
    DESIGNS,
    Algorithm,
    Between,
    activation_of,
    algorithm_of,
    options_of,
)
from legible.policies.sb3.layers import ZipTensors, average_quantiles, check_ends, hidden_layers, q_layers
from legible.policies.sb3.spaces import encoding_of, has_plain_spaces, n_actions_of, space_of

_EXTRACTOR_PREFIXES = ("", "pi_", "q_net.", "quantile_net.", "actor.")
_CLIP_MEAN, _BATCH_NORM_EPSILON = 2.0, 0.001  # the defaults of SAC's and CrossQ's policy classes


def read_sb3_zip(
    contents: Contents, algorithm: Algorithm | None, caller_options: LoadOptions
) -> NetworkPolicy | ActorPolicy:
    """Return the policy of a zip of Stable-Baselines3, without observation statistics and without unpickling anything.

    - `contents`: the part of the zip that can be read without running code.
    - `algorithm`: the algorithm that the caller named, None to read it from the zip.
    - `caller_options`: the caller's answers to other questions that the zip may leave open: activation, encoding,
      number of actions.
    """
    with naming(contents.path):  # puts the path in front of errors
        algorithm = algorithm_of(contents, algorithm)
        options = options_of(contents)
        activation = activation_of(contents, options, algorithm, caller_options.activation)
        needs_biases = algorithm != "ARS"  # its linear policies have none by default
        tensors = ZipTensors(contents, read_tensors(contents.path), needs_biases=needs_biases)
        uses_sde = bool(contents.data.get("use_sde") or options.get("use_sde"))
        builder = _Builder(contents, algorithm, options, tensors, activation, uses_sde)

        metadata: dict[str, Any] = {"algorithm": algorithm}
        if contents.version is not None:
            metadata["stable_baselines3_version"] = contents.version
        for name in ("num_timesteps", "seed"):
            if isinstance(contents.data.get(name), int):
                metadata[name] = contents.data[name]

        # Fully connected layers between flat observations and discrete actions make a plain network, which can also be
        # saved and analysed layer by layer. Everything else needs the full actor.
        reads_images = any(tensors.any_of(f"{prefix}features_extractor.cnn") for prefix in _EXTRACTOR_PREFIXES)
        is_plain = algorithm not in ("MaskablePPO", "RecurrentPPO") and DESIGNS[algorithm] != "squashed actor"
        if is_plain and has_plain_spaces(contents) and not reads_images:
            return builder.network_policy(caller_options, metadata)
        if caller_options.encoding is not None:
            raise PolicyError(f"{contents.path}: encoding does not apply: the policy is more than a plain network")
        observation_space, action_space = (space_of(contents, key) for key in ("observation_space", "action_space"))
        if isinstance(action_space, spaces.Dict):
            contents.refuse("its action space is a Dict")
        return builder.actor_policy(observation_space, action_space, metadata)


@dataclass(frozen=True)
class _Builder:
    """Builder of one policy, which takes the tensors of its parts."""

    contents: Contents
    algorithm: Algorithm
    options: Mapping[str, Any]
    tensors: ZipTensors
    activation: Between
    sde: bool  # whether the policy explores with gSDE

    def extractor(self, prefix: str, space: spaces.Space[Any]) -> nn.Module:
        """Return the feature extractor."""
        if isinstance(space, spaces.Dict):
            parts = space.spaces.items()
            return Combined({key: self.extractor(f"{prefix}.extractors.{key}", part) for key, part in parts})
        if not self.tensors.has(f"{prefix}.cnn.0.weight"):
            return Flatten()
        convolutions = [
            (self.tensors.take(f"{prefix}.cnn.{place}.weight", 4), self.tensors.take(f"{prefix}.cnn.{place}.bias", 1))
            for place in (0, 2, 4)
        ]
        return NatureCnn(convolutions, self.tensors.linear(f"{prefix}.linear.0"))

    def memory(self) -> nn.LSTM:
        """Return the LSTM of the actor."""
        taken: list[list[Array]] = []
        while not taken or self.tensors.has(f"lstm_actor.weight_ih_l{len(taken)}"):
            weights = [self.tensors.take(f"lstm_actor.weight_{part}_l{len(taken)}", 2) for part in ("ih", "hh")]
            biases = [self.tensors.take(f"lstm_actor.bias_{part}_l{len(taken)}", 1) for part in ("ih", "hh")]
            taken.append([*weights, *biases])
        return lstm(taken)

    def actor_critic_head(self, space: spaces.Space[Any]) -> Head:
        """Return the head of PPO and its relatives."""
        net = linear(*self.tensors.linear("action_net"))
        maskable = self.algorithm == "MaskablePPO"
        if isinstance(space, spaces.Discrete):
            return Categories(net, (int(space.n),), single=True, maskable=maskable)
        if isinstance(space, spaces.MultiDiscrete):
            return Categories(net, tuple(space.nvec.tolist()), single=False, maskable=maskable)
        if isinstance(space, spaces.MultiBinary):
            if maskable:
                return Categories(net, (2,) * int(np.prod(space.shape)), single=False, maskable=True)
            return Bits(net)
        log_std = torch.from_numpy(self.tensors.take("log_std", 2 if self.sde else 1).copy())
        use_expln = bool(self.options.get("use_expln"))
        return Gaussian(net, log_std, squashed=self.squashes(space), state_dependent=self.sde, use_expln=use_expln)

    def squashed_head(self) -> Head:
        """Return the head of SAC and its relatives."""
        if not self.sde:
            mean, log_std = (linear(*self.tensors.linear(f"actor.{name}")) for name in ("mu", "log_std"))
            return Gaussian(mean, log_std, squashed=True)
        # With gSDE the mean is a layer, usually followed by a bound on its outputs (clip_mean), as in a sequence.
        is_bounded = self.tensors.has("actor.mu.0.weight")
        largest_mean = float(self.options.get("clip_mean", _CLIP_MEAN))
        bound = Activation("hardtanh", (("min_val", -largest_mean), ("max_val", largest_mean)))
        mean_layer = self.tensors.layer("actor.mu.0", bound) if is_bounded else self.tensors.layer("actor.mu")
        spreads = torch.from_numpy(self.tensors.take("actor.log_std", 2).copy())
        use_expln = bool(self.options.get("use_expln"))
        return Gaussian(sequence([mean_layer]), spreads, squashed=True, state_dependent=True, use_expln=use_expln)

    def squashed_body(self) -> nn.Module:
        """Return the hidden layers of SAC and its relatives; CrossQ has batch normalisations between them."""
        prefix = "actor.latent_pi"
        if not any(self.tensors.has(f"{prefix}.{place}.ra_mean") for place in self.tensors.places(prefix)):
            return sequence(hidden_layers(self.tensors, prefix, self.activation))
        parts: list[Layer | nn.Module] = []
        epsilon = float(self.options.get("batch_norm_eps", _BATCH_NORM_EPSILON))
        for place in self.tensors.places(prefix):
            name = f"{prefix}.{place}"
            if self.tensors.has(f"{name}.ra_mean"):
                mean, var, scale, bias = (
                    self.tensors.take(f"{name}.{part}", 1) for part in ("ra_mean", "ra_var", "scale", "bias")
                )
                self.tensors.drop(f"{name}.steps")
                parts.append(FixedBatchNorm(mean, var, scale, bias, epsilon))
            else:
                assert self.activation != "prelu"
                parts.append(Layer(*self.tensors.linear(name), self.activation))
        return sequence(parts)

    def q_network(self) -> tuple[Layer, ...]:
        """Return the layers of DQN or QR-DQN."""
        name = "q_net" if self.algorithm == "DQN" else "quantile_net"
        return q_layers(self.tensors, f"{name}.{name}", self.activation)

    def actor_layers(self) -> list[Layer]:
        """Return the hidden layers of PPO and its relatives."""
        shared = hidden_layers(self.tensors, "mlp_extractor.shared_net", self.activation)
        return [*shared, *hidden_layers(self.tensors, "mlp_extractor.policy_net", self.activation)]

    def network_policy(self, caller_options: LoadOptions, metadata: Mapping[str, Any]) -> NetworkPolicy:
        """Return the policy of fully connected layers from flat observations to discrete actions.

        - `caller_options`: the caller's encoding and number of actions, for zips that do not show them.
        - `metadata`: the metadata of the policy: algorithm, version and so on.
        """
        contents, algorithm, tensors, design = self.contents, self.algorithm, self.tensors, DESIGNS[self.algorithm]
        n_actions = n_actions_of(contents, caller_options.n_actions)
        encoding = encoding_of(contents, caller_options.encoding)

        # Which tensors make the layers depends on the design of the algorithm: Q-values, a linear policy (ARS) or an
        # actor with a critic. Target networks and critics are dropped; every other tensor must be used.
        layers: tuple[Layer, ...]
        if design == "values":
            tensors.drop("q_net_target.", "quantile_net_target.")
            layers = self.q_network()
        elif algorithm == "ARS":
            layers = q_layers(tensors, "action_net", self.activation)
        elif design == "actor-critic":
            tensors.drop("mlp_extractor.value_net.", "value_net.")
            layers = (*self.actor_layers(), Layer(*tensors.linear("action_net")))
        else:
            contents.refuse(f"{algorithm} has continuous actions, but its action space is Discrete")
        tensors.finish()

        # QR-DQN has several quantiles of the return per action; their mean is the Q-value.
        if algorithm == "QRDQN":
            layers = average_quantiles(contents, self.options, layers, n_actions)
        check_ends(tensors, layers, encoding, n_actions)
        kind: ScoreKind = "log-probabilities" if design == "actor-critic" else "values"
        return NetworkPolicy(layers, kind, encoding, metadata=metadata)

    def actor_policy(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], metadata: Mapping[str, Any]
    ) -> ActorPolicy:
        """Return the policy of a zip that is more than a plain network: images, other actions, masks or memory.

        - `observation_space`, `action_space`: the spaces in the zip.
        - `metadata`: the metadata of the policy: algorithm, version and so on.
        """
        # The design is the kind of network: "values" for DQN, "actor-critic" for PPO, and so on.
        contents, algorithm, tensors, design = self.contents, self.algorithm, self.tensors, DESIGNS[self.algorithm]
        if algorithm == "CrossQ" and self.activation == "prelu":
            contents.refuse("PReLU between the layers of CrossQ is not supported")
        _check_action_space(contents, algorithm, action_space)

        # For each design of network, take the tensors of the parts that choose actions, and drop critics and target
        # networks. Extractor: from observations to features; body: hidden layers; head: from those to actions.
        squashed = self.squashes(action_space)  # whether a tanh bounds the actions
        memory = None
        body: nn.Module = nn.Identity()
        head: Head
        if design == "values":
            tensors.drop("q_net_target.", "quantile_net_target.")
            assert isinstance(action_space, spaces.Discrete)
            name = "q_net" if algorithm == "DQN" else "quantile_net"
            extractor = self.extractor(f"{name}.features_extractor", observation_space)
            layers = self.q_network()
            if algorithm == "QRDQN":
                layers = average_quantiles(contents, self.options, layers, int(action_space.n))
            head = QValues(sequence(layers))
        elif design == "actor-critic":
            tensors.drop("mlp_extractor.value_net.", "value_net.", "vf_features_extractor.", "lstm_critic.", "critic.")
            prefix = "pi_features_extractor" if tensors.any_of("pi_features_extractor.") else "features_extractor"
            extractor = self.extractor(prefix, observation_space)
            tensors.drop("features_extractor.")
            memory = self.memory() if algorithm == "RecurrentPPO" else None
            body = sequence(self.actor_layers())
            head = self.actor_critic_head(action_space)
        elif design == "squashed actor":
            tensors.drop("critic.", "critic_target.")
            extractor = self.extractor("actor.features_extractor", observation_space)
            body = self.squashed_body()
            head = self.squashed_head()
        else:  # deterministic actors: TD3, DDPG and ARS
            tensors.drop("critic.", "critic_target.", "actor_target.")
            extractor = self.extractor("actor.features_extractor", observation_space)
            layers = q_layers(tensors, "action_net" if algorithm == "ARS" else "actor.mu", self.activation)
            if squashed:
                layers = (*layers[:-1], Layer(layers[-1].weight, layers[-1].bias, Activation("tanh")))
            head = QValues(sequence(layers)) if isinstance(action_space, spaces.Discrete) else Certain(sequence(layers))

        # Every tensor must be used by now. Playing one observation shows whether the parts fit each other.
        tensors.finish()
        scale_images = bool(self.options.get("normalize_images", True))
        fields: dict[str, Any] = {"squashed": squashed, "scale_images": scale_images, "metadata": metadata}
        policy = ActorPolicy(observation_space, action_space, extractor, body, head, memory, **fields)
        try:
            policy.try_once()
        except (RuntimeError, ValueError, AssertionError) as error:
            raise PolicyError(
                f"{contents.path}: the tensors of policy.pth do not fit each other or its spaces: {str(error)[:300]}"
            ) from error
        return policy

    def squashes(self, action_space: spaces.Space[Any]) -> bool:
        """Return whether the head gives continuous actions between −1 and 1."""
        if not isinstance(action_space, spaces.Box):
            return False
        if self.algorithm == "ARS":
            if self.tensors.has("action_net.weight"):  # early releases: a layer without a squashing one behind it
                return False
            is_linear = "ARSLinearPolicy" in str(self.contents.text_of("policy_class").get("__init__", ""))
            return bool(self.options.get("squash_output", not is_linear))
        return DESIGNS[self.algorithm] != "actor-critic" or (self.sde and bool(self.options.get("squash_output")))


def _check_action_space(contents: Contents, algorithm: Algorithm, action_space: spaces.Space[Any]) -> None:
    fits: tuple[type[spaces.Space[Any]], ...]
    if DESIGNS[algorithm] == "values":
        fits = (spaces.Discrete,)
    elif algorithm == "ARS":
        fits = (spaces.Discrete, spaces.Box)
    elif DESIGNS[algorithm] != "actor-critic":
        fits = (spaces.Box,)
    else:
        fits = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        fits = fits if algorithm == "MaskablePPO" else (*fits, spaces.Box)
    if not isinstance(action_space, fits):
        names = ", ".join(space.__name__ for space in fits)
        contents.refuse(f"the actions of {algorithm} are {names}, but its action space is {action_space}")
