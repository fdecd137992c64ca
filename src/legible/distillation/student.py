"""The network that learns, as a PyTorch module and as a policy.

- `Student`: its inputs, its outputs with gradients, and its current policy.
- `why_not_distilled`: the reason why a policy cannot be distilled.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import nn

from legible.play import Observations
from legible.policies import ActorPolicy, Layer, NetworkPolicy, Policy
from legible.policies.actors.heads import Bits, Categories, Certain, Gaussian, QValues
from legible.policies.actors.networks import sequence
from legible.policies.actors.observations import batch_of, normalised_batch, tensors_of
from legible.policies.policy_file import why_not_saved

Outputs = Literal["values", "log-probabilities", "actions"]
"""Kinds of outputs: Q-values, log-probabilities of choices, or continuous actions."""


def why_not_distilled(policy: Policy) -> str | None:
    """Return the reason why a policy cannot be distilled, None where it can."""
    if not isinstance(policy, NetworkPolicy | ActorPolicy):
        return "it is no network (but a function, a table or code), so there are no weights to start from"
    return why_not_saved(policy)


class Student:
    """A network that learns, with the weights of a policy as the start."""

    def __init__(self, policy: NetworkPolicy | ActorPolicy) -> None:
        self._policy = policy
        if isinstance(policy, NetworkPolicy):
            self._parts = nn.ModuleList([sequence(policy.layers)])
        else:
            assert isinstance(policy.head, nn.Module)
            self._parts = nn.ModuleList([copy.deepcopy(policy.body), copy.deepcopy(policy.head)])
        self._parts.requires_grad_(True)

    @property
    def kind(self) -> Outputs:
        """The kind of outputs."""
        if isinstance(self._policy, NetworkPolicy):
            return "values" if self._policy.kind == "values" else "log-probabilities"
        if isinstance(self._policy.head, QValues):
            return "values"
        return "log-probabilities" if isinstance(self._policy.head, Categories | Bits) else "actions"

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that learn, without the parameters for the spread of actions."""
        head = self._parts[-1]
        outputs = head.mean if isinstance(head, Gaussian) else head
        modules: list[nn.Module] = [*self._parts[:-1], outputs]
        return [parameter for module in modules for parameter in module.parameters()]

    def inputs(self, observations: Observations) -> torch.Tensor:
        """Return the input of the first layer for observations ``float32[n, features]``."""
        policy = self._policy
        if isinstance(policy, NetworkPolicy):
            if policy.normalisation is not None:
                observations = policy.normalisation.apply(observations)
            return torch.from_numpy(np.array(policy.encoding.encode(observations)))
        shape = policy.observation_space.shape or ()
        batch, _ = batch_of(observations.reshape(len(observations), *shape), policy.observation_space)
        ready = normalised_batch(batch, policy.normalisation)
        read: torch.Tensor = policy.extractor(
            tensors_of(ready, policy.observation_space, scale_images=policy.scale_images)
        )
        return read

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return Q-values, log-probabilities of all choices, or actions before they are scaled to their bounds."""
        if isinstance(self._policy, NetworkPolicy):
            values: torch.Tensor = self._parts[0](inputs)
            return values if self.kind == "values" else values.log_softmax(dim=1)
        body, head = self._parts
        latent = body(inputs)
        if isinstance(head, Gaussian):
            mean: torch.Tensor = head.mean(latent)
            return mean.tanh() if head.squashed else mean
        if isinstance(head, Certain):
            actions: torch.Tensor = head.net(latent)
            return actions
        assert isinstance(head, QValues | Categories | Bits)
        return head.scores(latent, None)

    def as_outputs(self, actions: NDArray[Any]) -> NDArray[np.float32]:
        """Return the outputs for continuous actions ``[n, parts]``."""
        policy = self._policy
        assert isinstance(policy, ActorPolicy)
        assert isinstance(policy.action_space, spaces.Box)
        low, high = (bound.ravel() for bound in (policy.action_space.low, policy.action_space.high))
        outputs = 2.0 * (actions - low) / (high - low) - 1.0 if policy.squashed else actions
        return np.asarray(outputs, np.float32)

    @property
    def spread(self) -> NDArray[np.float32]:
        """Half the width of each output of a network of continuous actions; 1 where it has no bounds."""
        space = self._policy.action_space
        assert isinstance(space, spaces.Box)
        if isinstance(self._policy, ActorPolicy) and self._policy.squashed:
            return np.ones(int(np.prod(space.shape)), np.float32)
        half = (space.high - space.low).ravel() / 2.0
        return np.where(np.isfinite(half) & (half > 0), half, 1.0).astype(np.float32)

    def policy(self) -> NetworkPolicy | ActorPolicy:
        """Return the current policy."""
        policy = self._policy
        if isinstance(policy, NetworkPolicy):
            linear = [module for module in self._parts[0].modules() if isinstance(module, nn.Linear)]
            pairs = zip(linear, policy.layers, strict=True)
            layers = tuple(
                Layer(module.weight.detach().numpy(), module.bias.detach().numpy(), layer.activation)
                for module, layer in pairs
            )
            return replace(policy, layers=layers)
        body, head = copy.deepcopy(self._parts)
        return replace(policy, body=body, head=head)  # type: ignore[arg-type]  # a deep copy is what it was

    def weights(self) -> list[NDArray[np.float32]]:
        """Return a copy of the weights."""
        return [parameter.detach().numpy().copy() for parameter in self.parameters]

    def load(self, weights: list[NDArray[np.float32]]) -> None:
        """Set the weights that `weights` returned."""
        with torch.no_grad():
            for parameter, values in zip(self.parameters, weights, strict=True):
                parameter.copy_(torch.from_numpy(np.array(values)))
