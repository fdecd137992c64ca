"""From the tensors of a policy of Stable-Baselines3 to an actor of any spaces.

- `actor_policy`: the policy of pictures, dictionaries, continuous or several actions, masks or memory.
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
from legible.policies.network import Layer
from legible.policies.protocol import PolicyError
from legible.policies.sb3.archive import Contents
from legible.policies.sb3.description import DESIGNS, Algorithm, Between, uses_sde
from legible.policies.sb3.layers import Tensors, average_quantiles, hidden_layers, q_layers

_CLIP_MEAN = 2.0
_BATCH_NORM_EPSILON = 0.001
# The defaults of SAC's and CrossQ's policy classes.


@dataclass(frozen=True)
class _Builder:
    """Takes the tensors of one policy, part by part."""

    algorithm: Algorithm
    options: Mapping[str, Any]
    tensors: Tensors
    activation: Between
    sde: bool

    def extractor(self, prefix: str, space: spaces.Space[Any]) -> nn.Module:
        """Take what turns observations into features."""
        if isinstance(space, spaces.Dict):
            return Combined(
                {key: self.extractor(f"{prefix}.extractors.{key}", part) for key, part in space.spaces.items()}
            )
        if not self.tensors.has(f"{prefix}.cnn.0.weight"):
            return Flatten()
        convolutions = [
            (self.tensors.take(f"{prefix}.cnn.{place}.weight", 4), self.tensors.take(f"{prefix}.cnn.{place}.bias", 1))
            for place in (0, 2, 4)
        ]
        return NatureCnn(convolutions, self.tensors.linear(f"{prefix}.linear.0"))

    def memory(self) -> nn.LSTM:
        """Take the LSTM of the actor."""
        taken: list[list[Array]] = []
        while not taken or self.tensors.has(f"lstm_actor.weight_ih_l{len(taken)}"):
            weights = [self.tensors.take(f"lstm_actor.weight_{part}_l{len(taken)}", 2) for part in ("ih", "hh")]
            biases = [self.tensors.take(f"lstm_actor.bias_{part}_l{len(taken)}", 1) for part in ("ih", "hh")]
            taken.append([*weights, *biases])
        return lstm(taken)

    def actor_critic_head(self, space: spaces.Space[Any]) -> Head:
        """Take the last layer of PPO and its relatives, and what stands next to it for continuous actions."""
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
        return Gaussian(
            net,
            log_std,
            squashed=self.sde and bool(self.options.get("squash_output")),
            state_dependent=self.sde,
            use_expln=bool(self.options.get("use_expln")),
        )

    def squashed_head(self) -> Head:
        """Take the last layers of SAC and its relatives."""
        if not self.sde:
            mean, log_std = (linear(*self.tensors.linear(f"actor.{name}")) for name in ("mu", "log_std"))
            return Gaussian(mean, log_std, squashed=True)
        clip = float(self.options.get("clip_mean", _CLIP_MEAN))
        name = "actor.mu.0" if self.tensors.has("actor.mu.0.weight") else "actor.mu"
        limit = Activation("hardtanh", (("min_val", -clip), ("max_val", clip)))
        weight, bias = self.tensors.linear(name)
        centre = sequence([Layer(weight, bias, limit) if name == "actor.mu.0" else Layer(weight, bias)])
        written = torch.from_numpy(self.tensors.take("actor.log_std", 2).copy())
        use_expln = bool(self.options.get("use_expln"))
        return Gaussian(centre, written, squashed=True, state_dependent=True, use_expln=use_expln)

    def squashed_body(self) -> nn.Module:
        """Take the hidden layers of SAC and its relatives; CrossQ has batch normalisations between them."""
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


def actor_policy(
    contents: Contents,
    algorithm: Algorithm,
    options: Mapping[str, Any],
    tensors: Tensors,
    activation: Between,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    metadata: Mapping[str, Any],
) -> ActorPolicy:
    """Build the policy of a zip that is more than a plain network with discrete actions.

    Raises
    ------
    PolicyError
        When the tensors are not those of such a policy, or do not fit each other or the spaces.
    """
    if algorithm == "CrossQ" and activation == "prelu":
        contents.refuse("PReLU between the layers of CrossQ is not supported")
    builder = _Builder(algorithm, options, tensors, activation, uses_sde(contents, options))
    design = DESIGNS[algorithm]
    _check_spaces(contents, algorithm, action_space)
    squashed = _is_squashed(contents, algorithm, options, action_space)
    memory = None
    body: nn.Module = nn.Identity()
    if design == "values":
        name = "q_net" if algorithm == "DQN" else "quantile_net"
        tensors.drop(f"{name}_target.")
        assert isinstance(action_space, spaces.Discrete)
        extractor = builder.extractor(f"{name}.features_extractor", observation_space)
        layers = q_layers(tensors, f"{name}.{name}", activation)
        if algorithm == "QRDQN":
            layers = average_quantiles(contents, options, layers, int(action_space.n))
        head: Head = QValues(sequence(layers))
    elif design == "actor-critic":
        for critic in ("mlp_extractor.value_net.", "value_net.", "vf_features_extractor.", "lstm_critic.", "critic."):
            tensors.drop(critic)
        own = "pi_features_extractor" if tensors.any_of("pi_features_extractor.") else "features_extractor"
        extractor = builder.extractor(own, observation_space)
        tensors.drop("features_extractor.")
        memory = builder.memory() if algorithm == "RecurrentPPO" else None
        shared = hidden_layers(tensors, "mlp_extractor.shared_net", activation)
        body = sequence([*shared, *hidden_layers(tensors, "mlp_extractor.policy_net", activation)])
        head = builder.actor_critic_head(action_space)
    elif design == "squashed actor":
        for other in ("critic.", "critic_target."):
            tensors.drop(other)
        extractor = builder.extractor("actor.features_extractor", observation_space)
        body = builder.squashed_body()
        head = builder.squashed_head()
    else:
        for other in ("critic.", "critic_target.", "actor_target."):
            tensors.drop(other)
        extractor = builder.extractor("actor.features_extractor", observation_space)
        layers = q_layers(tensors, "action_net" if algorithm == "ARS" else "actor.mu", activation)
        if squashed:
            layers = (*layers[:-1], Layer(layers[-1].weight, layers[-1].bias, Activation("tanh")))
        head = QValues(sequence(layers)) if isinstance(action_space, spaces.Discrete) else Certain(sequence(layers))
    tensors.finish()
    policy = ActorPolicy(
        observation_space,
        action_space,
        extractor,
        body,
        head,
        memory,
        squashed=squashed,
        scale_images=bool(options.get("normalize_images", True)),
        metadata=metadata,
    )
    try:
        policy.try_once()
    except (RuntimeError, ValueError, AssertionError) as error:
        raise PolicyError(
            f"{contents.path}: the tensors of policy.pth do not fit each other or its spaces: {str(error)[:300]}"
        ) from error
    return policy


def _is_squashed(
    contents: Contents, algorithm: Algorithm, options: Mapping[str, Any], action_space: spaces.Space[Any]
) -> bool:
    """Whether continuous actions come out between −1 and 1."""
    if not isinstance(action_space, spaces.Box):
        return False
    if algorithm == "ARS":
        linear_policy = "ARSLinearPolicy" in str(contents.text_of("policy_class").get("__init__", ""))
        return bool(options.get("squash_output", not linear_policy))
    if DESIGNS[algorithm] == "actor-critic":
        return uses_sde(contents, options) and bool(options.get("squash_output"))
    return True


def _check_spaces(contents: Contents, algorithm: Algorithm, action_space: spaces.Space[Any]) -> None:
    design = DESIGNS[algorithm]
    fits: tuple[type[spaces.Space[Any]], ...]
    if design == "values":
        fits = (spaces.Discrete,)
    elif algorithm == "ARS":
        fits = (spaces.Discrete, spaces.Box)
    elif design != "actor-critic":
        fits = (spaces.Box,)
    elif algorithm == "MaskablePPO":
        fits = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    else:
        fits = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    if not isinstance(action_space, fits):
        names = ", ".join(space.__name__ for space in fits)
        contents.refuse(f"{algorithm} has actions that are {names}, but its action space is {action_space}")
