"""Reader of CleanRL's ``.cleanrl_model`` files.

Each script of CleanRL has one network, which is recognised by the names of its tensors. Supported are ``dqn``, ``c51``
and ``ppo``, their variants for Atari, and ``ppo``, ``ddpg``, ``td3`` and ``sac`` for continuous actions.

``ppo_continuous_action`` normalises observations in a wrapper and does not save the statistics: pass them if you have
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from legible.policies.actors.heads import Categories, Certain, Gaussian, Head, QValues
from legible.policies.actors.networks import Flatten, NatureCnn, linear, sequence
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import Plain
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.normalising import normalised_file
from legible.policies.protocol import Policy, PolicyError, naming
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.tensors import Tensors
from legible.policies.torch_file import checked_state, read_saved

_SMALLEST_LOG_STD, _LARGEST_LOG_STD = -5.0, 2.0


def is_own(source: Any) -> bool:
    """Return whether this is a file of CleanRL, by its name."""
    return isinstance(source, Path) and source.suffix == ".cleanrl_model" and source.is_file()


def read(path: Path, options: LoadOptions) -> Policy:
    """Read the network whose tensors a file holds."""
    options.refuse("a file of CleanRL", "output", "activation", "encoding", "algorithm")
    raw = path.read_bytes()
    saved = read_saved(raw, path, "the file")
    arguments: Mapping[str, Any] = {}
    if isinstance(saved, dict) and "model_weights" in saved:
        arguments = saved["args"] if isinstance(saved.get("args"), dict) else {}
        saved = saved["model_weights"]
    elif isinstance(saved, tuple | list) and saved:
        saved = saved[0]  # the actor; the others are critics
    tensors = Tensors(checked_state(saved, raw, path, "the file"))
    try:
        with naming(path):
            policy = _policy_of(tensors, arguments)
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:
        raise PolicyError(f"{path}: its tensors do not fit each other: {str(error)[:200]}") from error
    return normalised_file(policy, path, options, trained_normalised=False)


def _policy_of(tensors: Tensors, arguments: Mapping[str, Any]) -> NetworkPolicy | ActorPolicy:
    """Return the policy of a CleanRL file. The file does not name its algorithm; the names of its tensors show it.

    - `tensors`: the tensors of the network by name; each is removed when it is used.
    - `arguments`: the arguments of the training script, empty if the file has none.
    """
    metadata = {key: arguments[key] for key in ("env_id", "exp_name", "seed", "total_timesteps") if key in arguments}
    env_id = arguments.get("env_id")
    common_fields: dict[str, Any] = {
        "env_id": env_id if isinstance(env_id, str) else None,
        "metadata": {"library": "CleanRL", **metadata},
    }
    # PPO with continuous actions: a Gaussian around the mean, with one spread for each number of the action.
    # `_checked_actor` makes the policy and plays one observation, to see that the tensors fit each other.
    if tensors.has("actor_mean.0.weight"):
        layers = _layers(tensors, "actor_mean", "tanh")
        log_std = torch.from_numpy(tensors.take("actor_logstd").reshape(-1).copy())
        head = Gaussian(sequence(layers), log_std, squashed=False)
        return _checked_actor(_unbounded(layers[0].n_inputs), _unbounded(len(log_std)), head, **common_fields)
    # DDPG, TD3 and SAC.
    if tensors.has("fc1.weight"):
        return _squashed_actor(tensors, common_fields)
    # PPO with discrete actions.
    if tensors.has("actor.0.weight"):
        layers = _layers(tensors, "actor", "tanh")
        return NetworkPolicy(layers, "log-probabilities", Plain(layers[0].n_inputs), **common_fields)
    # The rest keep their layers in `network`: Atari begins with a convolution (4 dimensions), DQN and C51 do not.
    if not tensors.has("network.0.weight"):
        raise PolicyError(
            f"its tensors ({', '.join(list(tensors.left)[:6])}) are none of CleanRL's dqn, c51, ppo, ddpg, td3 or sac "
            "networks"
        )
    if tensors.dimensions("network.0.weight") == 4:
        return _atari_policy(tensors, common_fields)
    layers = _layers(tensors, "network", "relu")
    if not tensors.has("atoms"):  # DQN: one Q-value per action
        return NetworkPolicy(layers, "values", Plain(layers[0].n_inputs), **common_fields)
    # C51: for each action, the probabilities of fixed levels of the return ("atoms"); their mean is the Q-value.
    return_levels = tensors.take("atoms")
    actions = spaces.Discrete(layers[-1].n_outputs // len(return_levels))
    values = QValues(nn.Sequential(sequence(layers), _ExpectedValue(return_levels)))
    return _checked_actor(_unbounded(layers[0].n_inputs), actions, values, **common_fields)


def _squashed_actor(tensors: Tensors, named: Mapping[str, Any]) -> ActorPolicy:
    """Return an actor of DDPG, TD3 or SAC: tanh, scaled to bounds that are among the tensors."""
    scale, bias = (tensors.take(f"action_{name}").reshape(-1) for name in ("scale", "bias"))
    actions = spaces.Box(bias - scale, bias + scale, bias.shape, np.float32)
    hidden = [tensors.layer(name, "relu") for name in ("fc1", "fc2")]
    head: Head
    if tensors.has("fc_mean.weight"):
        mean, log_std = (linear(*tensors.linear(name)) for name in ("fc_mean", "fc_logstd"))
        head = Gaussian(mean, nn.Sequential(log_std, _Spread()), squashed=True)
    else:
        head = Certain(sequence([tensors.layer("fc_mu", "tanh")]))
    return _checked_actor(_unbounded(hidden[0].n_inputs), actions, head, body=sequence(hidden), squashed=True, **named)


def _atari_policy(tensors: Tensors, named: Mapping[str, Any]) -> ActorPolicy:
    """Return a network for Atari: three convolutions, a layer, and a last layer of values or of an actor."""
    convolutions = [
        (tensors.take(f"network.{place}.weight", 4), tensors.take(f"network.{place}.bias", 1)) for place in (0, 2, 4)
    ]
    hidden = tensors.layer("network.7", "relu")
    side = math.isqrt(hidden.n_inputs // convolutions[-1][0].shape[0])
    size = 8 * side + 28  # the smallest image that the convolutions of NatureCnn reduce to side × side
    space = spaces.Box(0, 255, (convolutions[0][0].shape[1], size, size), np.uint8)
    is_actor = tensors.has("actor.weight")
    last = tensors.layer("actor" if is_actor else "network.9")
    net: nn.Module = linear(last.weight, last.bias)
    n_actions = last.n_outputs
    if tensors.has("atoms") and not is_actor:
        atoms = tensors.take("atoms")
        net, n_actions = nn.Sequential(net, _ExpectedValue(atoms)), n_actions // len(atoms)
    head = Categories(net, (n_actions,), single=True) if is_actor else QValues(net)
    extractor = NatureCnn(convolutions, (hidden.weight, hidden.bias))
    return _checked_actor(space, spaces.Discrete(n_actions), head, extractor=extractor, **named)


class _ExpectedValue(nn.Module):
    """Mean of the return distribution that C51 learns for each action."""

    def __init__(self, atoms: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        super().__init__()
        self.register_buffer("atoms", torch.from_numpy(atoms.copy()))

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        atoms = self.get_buffer("atoms")
        return (logits.view(len(logits), -1, len(atoms)).softmax(dim=2) * atoms).sum(dim=2)


class _Spread(nn.Module):
    """Bounds of CleanRL's SAC for the log standard deviation: a tanh between −5 and 2."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return _SMALLEST_LOG_STD + 0.5 * (_LARGEST_LOG_STD - _SMALLEST_LOG_STD) * (values.tanh() + 1)


def _layers(tensors: Tensors, prefix: str, activation: str) -> tuple[Layer, ...]:
    """Return the layers of a sequence; the last has no activation."""
    return tuple(tensors.layers(tensors.names_of_layers(prefix), activation))


def _unbounded(width: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (width,), np.float32)


def _checked_actor(
    observations: spaces.Box,
    actions: spaces.Space[Any],
    head: Head,
    *,
    extractor: nn.Module | None = None,
    body: nn.Module | None = None,
    **fields: Any,
) -> ActorPolicy:
    policy = ActorPolicy(observations, actions, extractor or Flatten(), body or nn.Identity(), head, **fields)
    policy.try_once()
    return policy


READER = PolicyReader("cleanrl", "a .cleanrl_model file of CleanRL", is_own, read)
