"""Models of Stable-Baselines3 in memory, and trusted zips that its own loader opens.

This module is imported only for such a model. A plain feed-forward network becomes a `NetworkPolicy`, everything else a
copy of the model's policy: training the model further changes neither.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import nn

from legible.imports import needs_extra, optional_package
from legible.policies.actors.observations import Statistics, batch_of, normalised_batch
from legible.policies.actors.policy import SpacePolicy
from legible.policies.encoding import Encoding, OneHot, Plain
from legible.policies.network import Layer, NetworkPolicy, layers_of_modules
from legible.policies.protocol import Observations, PolicyError, ScoreKind, Scores, as_scores
from legible.policies.sb3.archive import read_contents
from legible.policies.sb3.description import ALGORITHMS, Algorithm, algorithm_of, trained_normalised
from legible.policies.sb3.layers import average_layer
from legible.policies.vec_normalize import normalisation_of_vec_normalize
from legible.policies.wrapped import FunctionPolicy, ModuleFunction, check_finite, device_of

with needs_extra("sb3", "a zip that Stable-Baselines3's own loader has to open"):
    from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
    from stable_baselines3.common.preprocessing import is_image_space
    from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
    from stable_baselines3.dqn.policies import DQNPolicy

Sb3Model: TypeAlias = Any
"""A model or a policy of Stable-Baselines3."""


def load_trusted_zip(path: Path, algorithm: Algorithm | None) -> tuple[Sb3Model, bool | None]:
    """Return the model of a zip, and whether it was trained with ``VecNormalize`` (None if unknown).

    Stable-Baselines3's own loader opens the zip and runs the code in it.
    """
    contents = read_contents(path)
    name = algorithm_of(contents, algorithm, any_policy_class=True)
    package = "stable_baselines3" if name in ("DQN", "PPO", "A2C", "SAC", "TD3", "DDPG") else "sb3_contrib"
    loader = getattr(optional_package(package, "sb3", f"the {name} policy in {path}"), name)
    try:
        return loader.load(path, device="cpu"), trained_normalised(contents)
    except Exception as error:
        # The loader runs the code in the file: it can fail in any way.
        raise PolicyError(f"{path}: Stable-Baselines3 cannot load it as {name}: {error}") from error


def policy_of_model(model: Sb3Model) -> NetworkPolicy | FunctionPolicy | ModelPolicy:
    """Return the policy of a model of Stable-Baselines3, or of its ``policy``, without its observation statistics.

    It has the plainest form that fits: fully connected layers (`NetworkPolicy`), a function from flat observations to
    scores (`FunctionPolicy`), or a copy that acts by its own ``predict`` (`ModelPolicy`). The model is not changed.
    """
    policy = model if isinstance(model, BasePolicy) else model.policy
    if np.any(getattr(policy.action_space, "start", 0)):
        raise PolicyError(f"{type(model).__name__}: actions must be numbered from 0, not {policy.action_space}")
    device_of(policy)  # raises an error if it is not on one device
    check_finite(policy)
    # The source of the scores; None for continuous actions, dictionaries and memory.
    head = _head_of(policy)
    layers = None if head is None else _plain_layers(policy, head)
    # How a network encodes flat observations; None for pictures, dictionaries and the like.
    encoding = _encoding_of(policy.observation_space)
    # Everything that is not a function from flat observations to scores acts by its own `predict`.
    if head is None or (layers is None and encoding is None) or is_image_space(policy.observation_space):
        copied = _copied(policy)
        return ModelPolicy(copied, _head_of(copied))
    # Scores of flat observations by a network that is more than fully connected layers.
    if layers is None or encoding is None:
        space = policy.observation_space
        if not isinstance(space, spaces.Box):
            raise PolicyError(f"{type(policy).__name__}: observations in {space} are not supported")
        function = ModuleFunction(head.network, _Compute(tuple(space.shape), head.n_quantiles, head.kind))
        return FunctionPolicy(
            function, head.kind, int(cast(spaces.Discrete, policy.action_space).n), math.prod(space.shape)
        )
    # A plain network. A subclass of the user has the name of the algorithm that it is based on.
    names = (base.__name__ for base in type(model).__mro__ if _is_stock(base) and base.__name__ in ALGORITHMS)
    name = None if isinstance(model, BasePolicy) else next(names, None)
    metadata = {} if name is None else {"algorithm": name, "num_timesteps": int(model.num_timesteps)}
    return NetworkPolicy(layers, head.kind, encoding, metadata=metadata)


@dataclass(frozen=True, eq=False, repr=False)
class ModelPolicy(SpacePolicy):
    """A policy of Stable-Baselines3 that acts by its own ``predict``: continuous or several actions, masks, memory."""

    policy: BasePolicy
    head: _Head | None = None  # source of the scores, None without scores
    normalisation: Statistics | None = None  # observation statistics, applied before the policy
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Space of the observations."""
        return self.policy.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Space of the actions."""
        return self.policy.action_space

    @property
    def recurrent(self) -> bool:
        """True if the policy has memory."""
        return hasattr(self.policy, "lstm_actor")

    @property
    def stochastic(self) -> bool:
        """True if actions can be sampled."""
        return hasattr(self.policy, "action_dist") or hasattr(getattr(self.policy, "actor", None), "action_dist")

    @property
    def kind(self) -> ScoreKind:
        """Meaning of the scores, ``"none"`` without scores."""
        return "none" if self.head is None else self.head.kind

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, actions]`` of a batch of observations."""
        if self.head is None:
            raise PolicyError(f"{type(self.policy).__name__} of {self.action_space} has no score for every action")
        batch, _ = batch_of(observations, self.observation_space)
        ready, _ = self.policy.obs_to_tensor(cast(Any, normalised_batch(batch, self.normalisation)))
        with torch.inference_mode():
            return as_scores(self.head.scores(ready).cpu().numpy(), len(observations), self.n_actions)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True, **masks: Any
    ) -> tuple[npt.NDArray[Any], Any]:
        """Return the action or actions of the policy's own ``predict``, which also takes ``action_masks``."""
        if self.normalisation is not None:
            batch, single = batch_of(observation, self.observation_space)
            ready = normalised_batch(batch, self.normalisation)
            actions, state = self.policy.predict(cast(Any, ready), state, episode_start, deterministic, **masks)
            return (actions[0] if single else actions), state
        return self.policy.predict(observation, state, episode_start, deterministic, **masks)


def normalisation_of_model(model: Sb3Model) -> Statistics | None:
    """Return the statistics of the ``VecNormalize`` around a model's environment, None without one."""
    around = None if isinstance(model, BasePolicy) else model.get_vec_normalize_env()
    return None if around is None else normalisation_of_vec_normalize(around)


@dataclass(frozen=True)
class _Head:
    """Source of the scores of a policy."""

    kind: Literal["values", "log-probabilities"]
    network: nn.Module
    modules: Sequence[nn.Module]
    extractor: nn.Module
    n_quantiles: int | None = None

    def scores(self, observations: Any) -> torch.Tensor:
        """Return the scores of preprocessed observations."""
        if self.kind == "log-probabilities":
            distribution = cast(ActorCriticPolicy, self.network).get_distribution(observations).distribution
            return cast(torch.distributions.Categorical, distribution).logits
        answer: torch.Tensor = self.network(observations)
        return answer if self.n_quantiles is None else answer.mean(dim=1)


def _is_stock(kind: type) -> bool:
    """Return whether a class belongs to Stable-Baselines3 or sb3-contrib."""
    return kind.__module__.split(".")[0] in ("stable_baselines3", "sb3_contrib")


def _head_of(policy: BasePolicy) -> _Head | None:
    """Return the source of a policy's scores, None without scores."""
    if not isinstance(policy.action_space, spaces.Discrete) or isinstance(policy.observation_space, spaces.Dict):
        return None
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
    return None


def _plain_layers(policy: BasePolicy, head: _Head) -> tuple[Layer, ...] | None:
    """Return the layers of a plain feed-forward policy, None for others."""
    if not _is_stock(type(policy)) or type(head.extractor) is not FlattenExtractor or not head.modules:
        return None
    layers = layers_of_modules(head.modules)
    if layers is None or head.n_quantiles is None:
        return layers
    return (*layers[:-1], average_layer(layers[-1], head.n_quantiles))


def _encoding_of(space: spaces.Space[Any]) -> Encoding | None:
    if isinstance(space, spaces.Box | spaces.MultiBinary) and not is_image_space(space):
        return Plain(math.prod(space.shape))
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return OneHot((int(space.n),))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not np.any(space.start):
        return OneHot(tuple(space.nvec))
    return None


def _copied(policy: BasePolicy) -> BasePolicy:
    """Return a copy that training the original does not change."""
    try:
        return copy.deepcopy(policy).eval()
    except RuntimeError:
        # PyTorch pickles the noise of gSDE but cannot copy it, because it is no leaf of a graph.
        copied: BasePolicy = pickle.loads(pickle.dumps(policy))
        return copied.eval()


@dataclass(frozen=True)
class _Compute:
    """Function that returns the scores of flat observations."""

    shape: tuple[int, ...]
    n_quantiles: int | None
    kind: Literal["values", "log-probabilities"]

    def __call__(self, network: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        head = _Head(self.kind, network, (), network, self.n_quantiles)
        return head.scores(batch.reshape(-1, *self.shape))
