"""One gradient step of DQN for many policies, in PyTorch's operations: the reference, and the way on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lab.fleet.adam import Adam, adam_step
from lab.fleet.networks import LayerViews, NetworkShape, backward, forward, layer_views
from lab.fleet.replay import Replay


@dataclass(frozen=True)
class TrainableNetworks:
    """The networks that learn, ``[N, stride]`` each: parameters and Adam's moments."""

    shape: NetworkShape
    parameters: Tensor
    mean: Tensor
    square: Tensor

    @classmethod
    def of(cls, shape: NetworkShape, parameters: Tensor) -> TrainableNetworks:
        """Begin with these parameters and moments of zero."""
        return cls(shape, parameters, torch.zeros_like(parameters), torch.zeros_like(parameters))

    def layers(self) -> LayerViews:
        """Return the parameters as layers."""
        return layer_views(self.parameters, self.shape)


class GradientStep(Protocol):
    """One update of all networks on a batch of their own transitions each."""

    def __call__(self, places: Tensor, coefficients: Tensor) -> None:
        """Learn from the transitions at the slots ``int32[N, batch]``; `coefficients` is Adam's row for the update."""

    def best_actions(self, observations: Tensor, actions: Tensor) -> None:
        """Fill ``int64[N, rows]`` with the best actions in observations ``[N, rows, features]``."""


class TorchStep:
    """The update in PyTorch's operations: more than forty launches, against three of the fused one.

    Parameters
    ----------
    networks, replay, adam
        What learns, from what, and how.
    margin
        How far below the best allowed action forbidden ones must score, where the replay buffers hold which are which.

    Attributes
    ----------
    margin_weight
        Weight of the loss that holds this margin, a tensor of one number.
    """

    def __init__(self, networks: TrainableNetworks, replay: Replay, adam: Adam, margin: float | None = None) -> None:
        self._networks, self._replay, self._adam, self._margin = networks, replay, adam, margin
        self.margin_weight = torch.zeros(1, device=networks.parameters.device)
        self._layers = networks.layers()
        self.gradients = torch.zeros_like(networks.parameters)
        self._gradient_layers = layer_views(self.gradients, networks.shape)
        self._policies = torch.arange(len(self.gradients), device=self.gradients.device)[:, None]

    def __call__(self, places: Tensor, coefficients: Tensor) -> None:
        """Update all networks."""
        self.fill_gradients(places)
        networks = self._networks
        adam_step(self._adam, networks.parameters, self.gradients, networks.mean, networks.square, coefficients)

    def best_actions(self, observations: Tensor, actions: Tensor) -> None:
        """Fill ``int64[N, rows]`` with the best actions in observations ``[N, rows, features]``."""
        torch.argmax(self.scores(observations), dim=2, out=actions)

    def scores(self, observations: Tensor) -> Tensor:
        """Return the Q-values ``[N, rows, actions]``."""
        return forward(self._layers, observations)[-1]

    def fill_gradients(self, places: Tensor) -> None:
        """Compute the gradients of the mean Huber loss of every policy's batch."""
        replay = self._replay
        wide = places.long()
        inputs = replay.observations[self._policies, wide]
        actions = replay.actions.gather(1, wide).long().unsqueeze(2)
        targets = replay.targets.gather(1, wide).unsqueeze(2)
        values = forward(self._layers, inputs)
        errors = values[-1].gather(2, actions) - targets
        # The derivative of the Huber loss is the error, cut off at ±1; the loss is a mean over the batch.
        slopes = errors.clamp_(-1.0, 1.0).div_(places.shape[1])
        output_gradient = torch.zeros_like(values[-1]).scatter_(2, actions, slopes)
        if replay.allowed is not None and self._margin is not None:
            allowed = replay.allowed[self._policies, wide]
            held = margin_gradient(values[-1], allowed, self._margin)
            output_gradient += held * (self.margin_weight / places.shape[1])
        backward(self._layers, values, output_gradient, self._gradient_layers)


def margin_gradient(scores: Tensor, allowed: Tensor, margin: float) -> Tensor:
    """Return the gradient of every row's margin loss with respect to its scores, for one group of choices."""
    forbidden, worst = scores.masked_fill(allowed, -torch.inf).max(dim=-1, keepdim=True)
    best, chosen = scores.masked_fill(~allowed, -torch.inf).max(dim=-1, keepdim=True)
    slopes = (forbidden + margin > best).to(scores.dtype)
    return torch.zeros_like(scores).scatter_(-1, worst, slopes).scatter_add_(-1, chosen, -slopes)
