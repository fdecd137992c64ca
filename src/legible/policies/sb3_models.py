"""Models of Stable-Baselines3 that are already in memory, and zips that its own loader opens because they are trusted.

Nothing here is imported unless such a model turns up. A plain feed-forward network becomes a `NetworkPolicy`,
everything else a copy of the model's own policy: training the model further changes neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from legible.imports import needs_extra, optional_package
from legible.policies.encoding import Encoding, OneHot, Plain
from legible.policies.network import Layer, NetworkPolicy, layers_of_modules
from legible.policies.normalisation import Normalisation, normalisation_of_vec_normalize
from legible.policies.protocol import PolicyError, ScoreKind
from legible.policies.sb3_zip import ALGORITHMS, Algorithm, algorithm_of, read_contents, trained_normalised
from legible.policies.wrapped import FunctionPolicy, ModuleFunction, check_finite, device_of

with needs_extra("sb3", "a zip that Stable-Baselines3's own loader has to open"):
    from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
    from stable_baselines3.common.preprocessing import is_image_space
    from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
    from stable_baselines3.dqn.policies import DQNPolicy

Sb3Model: TypeAlias = Any
"""A model or a policy of Stable-Baselines3."""


def load_trusted_zip(path: Path, algorithm: Algorithm | None) -> tuple[Sb3Model, bool | None]:
    """Open a zip with Stable-Baselines3's own loader, which runs the code in it.

    Returns
    -------
    model
        The model.
    normalised
        Whether it was trained behind ``VecNormalize``, None when the zip does not show it.
    """
    contents = read_contents(path)
    name = algorithm_of(contents, algorithm, any_policy_class=True)
    package = "sb3_contrib" if name == "QRDQN" else "stable_baselines3"
    loader = getattr(optional_package(package, "sb3", f"the {name} policy in {path}"), name)
    try:
        return loader.load(path, device="cpu"), trained_normalised(contents)
    except Exception as error:
        # The loader runs the code in the file: it can fail in any way.
        raise PolicyError(f"{path}: Stable-Baselines3 cannot load it as {name}: {error}") from error


def policy_of_model(model: Sb3Model) -> NetworkPolicy | FunctionPolicy:
    """Return the policy of a model of Stable-Baselines3, without its normalisation.

    Raises
    ------
    PolicyError
        When its algorithm, its observations or its actions are not supported, or its weights are not finite.
    """
    policy, name = (model, None) if isinstance(model, BasePolicy) else (model.policy, _algorithm_name(model))
    if not isinstance(policy.action_space, spaces.Discrete) or policy.action_space.start != 0:
        raise PolicyError(f"{type(model).__name__}: actions must be Discrete and start at 0, not {policy.action_space}")
    device_of(policy)
    head = _head_of(policy)
    check_finite(head.network)
    layers = _plain_layers(policy, head)
    encoding = _encoding_of(policy.observation_space)
    if layers is None or encoding is None:
        return _wrapped(policy, head)
    metadata = {} if name is None else {"algorithm": name, "num_timesteps": int(model.num_timesteps)}
    return NetworkPolicy(layers, head.kind, encoding, metadata=metadata)


def normalisation_of_model(model: Sb3Model) -> Normalisation | None:
    """Return the statistics of the ``VecNormalize`` around a model's environment, None when there is none."""
    around = None if isinstance(model, BasePolicy) else model.get_vec_normalize_env()
    return None if around is None else normalisation_of_vec_normalize(around, type(model).__name__)


@dataclass(frozen=True)
class _Head:
    """Where the scores of a kind of policy come from."""

    kind: ScoreKind
    network: nn.Module
    modules: Sequence[nn.Module]
    extractor: nn.Module
    n_quantiles: int | None = None


def _algorithm_name(model: Sb3Model) -> Algorithm:
    for ancestor in type(model).__mro__:
        if (
            ancestor.__module__.split(".")[0] in ("stable_baselines3", "sb3_contrib")
            and ancestor.__name__ in ALGORITHMS
        ):
            return ancestor.__name__
    raise PolicyError(
        f"{type(model).__name__} is a model of Stable-Baselines3, but only those of {', '.join(ALGORITHMS)} can be "
        "used; wrap others in a function and pass that with output=..."
    )


def _head_of(policy: BasePolicy) -> _Head:
    if isinstance(policy, DQNPolicy):
        return _Head("values", policy.q_net, tuple(policy.q_net.q_net), policy.q_net.features_extractor)
    if isinstance(policy, ActorCriticPolicy) and not hasattr(policy, "lstm_actor"):
        extractor = policy.mlp_extractor
        modules = () if type(extractor) is not MlpExtractor else (*extractor.policy_net, policy.action_net)
        return _Head("log-probabilities", policy, modules, policy.pi_features_extractor)
    network = getattr(policy, "quantile_net", None)
    if network is not None:
        modules = tuple(network.quantile_net)
        return _Head("values", network, modules, network.features_extractor, int(network.n_quantiles))
    raise PolicyError(f"{type(policy).__name__}: only the policies of {', '.join(ALGORITHMS)} can be used")


def _plain_layers(policy: BasePolicy, head: _Head) -> tuple[Layer, ...] | None:
    """Return the layers of a policy that is nothing but layers, None for any other."""
    stock = type(policy).__module__.split(".")[0] in ("stable_baselines3", "sb3_contrib")
    if not stock or type(head.extractor) is not FlattenExtractor or not head.modules:
        return None
    layers = layers_of_modules(head.modules)
    if layers is None or head.n_quantiles is None:
        return layers
    last = layers[-1]
    weight = last.weight.reshape(head.n_quantiles, -1, last.n_inputs).mean(axis=0, dtype=np.float64)
    bias = last.bias.reshape(head.n_quantiles, -1).mean(axis=0, dtype=np.float64)
    return (*layers[:-1], Layer(weight, bias))


def _encoding_of(space: spaces.Space[Any]) -> Encoding | None:
    if isinstance(space, spaces.Box | spaces.MultiBinary) and not is_image_space(space):
        return Plain(math.prod(space.shape))
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return OneHot((int(space.n),))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not np.any(space.start):
        return OneHot(tuple(space.nvec))
    return None


def _wrapped(policy: BasePolicy, head: _Head) -> FunctionPolicy:
    space = policy.observation_space
    if not isinstance(space, spaces.Box):
        raise PolicyError(f"{type(policy).__name__}: observations in {space} are not supported")
    function = ModuleFunction(head.network, _Compute(tuple(space.shape), head.n_quantiles, head.kind))
    n_actions = int(cast(spaces.Discrete, policy.action_space).n)
    return FunctionPolicy(function, head.kind, n_actions, math.prod(space.shape))


@dataclass(frozen=True)
class _Compute:
    """Ask the network of a policy for the scores of flat observations."""

    shape: tuple[int, ...]
    n_quantiles: int | None
    kind: ScoreKind

    def __call__(self, network: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        observations = batch.reshape(-1, *self.shape)
        if self.kind == "log-probabilities":
            distribution = cast(ActorCriticPolicy, network).get_distribution(observations).distribution
            return cast(torch.distributions.Categorical, distribution).logits
        answer: torch.Tensor = network(observations)
        return answer if self.n_quantiles is None else answer.mean(dim=1)
