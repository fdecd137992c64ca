"""Many small networks of one shape as batched matrices: parameters, forward and backward passes, initialisation.

The parameters of N networks lie in one tensor ``[N, stride]``, a row a network, so that norms, clipping and Adam are
one pass over one array. `layer_views` shows the same memory as matrices ``[N, in, out]`` and biases ``[N, 1, out]``.
The backward pass is written out: it needs no graph of operations, allocates the same tensors in every call and can be
captured in a CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from legible.policies import Activation, Layer

_ALIGNMENT = 32  # floats: rows of parameters start on a boundary of 128 bytes


@dataclass(frozen=True)
class NetworkShape:
    """Widths of a feed-forward network, from the observation to the output; ReLU between the layers.

    >>> shape = NetworkShape((69, 256, 256, 5))
    >>> shape.n_parameters, shape.stride, shape.offsets
    (84997, 85024, ((0, 17664), (17920, 83456), (83712, 84992)))
    """

    widths: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """Number of parameters of one network."""
        return sum(n_in * n_out + n_out for n_in, n_out in pairwise(self.widths))

    @property
    def stride(self) -> int:
        """`n_parameters`, rounded up so that every network starts on a boundary; the rest is zero and stays so."""
        return -(-self.n_parameters // _ALIGNMENT) * _ALIGNMENT

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """Return where the matrix and the bias of every layer begin in a row of parameters."""
        places, at = [], 0
        for n_in, n_out in pairwise(self.widths):
            places.append((at, at + n_in * n_out))
            at += n_in * n_out + n_out
        return tuple(places)


class LayerViews(NamedTuple):
    """The layers of N networks: views into their parameters."""

    weights: list[Tensor]
    biases: list[Tensor]


def layer_views(parameters: Tensor, shape: NetworkShape, first: int = 0) -> LayerViews:
    """Show rows of parameters as the matrices and biases of a network that begins at column `first`."""
    n = parameters.shape[0]
    weights, biases = [], []
    for (n_in, n_out), (weight, bias) in zip(pairwise(shape.widths), shape.offsets, strict=True):
        weights.append(parameters[:, first + weight : first + bias].view(n, n_in, n_out))
        biases.append(parameters[:, first + bias : first + bias + n_out].view(n, 1, n_out))
    return LayerViews(weights, biases)


def forward(layers: LayerViews, inputs: Tensor) -> list[Tensor]:
    """Return what goes into every layer and, last, what comes out: ``[N, rows, width]`` each."""
    values = [inputs]
    last = len(layers.weights) - 1
    for number, (weight, bias) in enumerate(zip(*layers, strict=True)):
        out = torch.baddbmm(bias, values[-1], weight)
        values.append(out if number == last else out.relu_())
    return values


def backward(layers: LayerViews, values: Sequence[Tensor], output_gradient: Tensor, gradients: LayerViews) -> None:
    """Fill the gradients of all parameters, given those of the output and what `forward` returned."""
    gradient = output_gradient
    for number in range(len(layers.weights) - 1, -1, -1):
        torch.bmm(values[number].transpose(1, 2), gradient, out=gradients.weights[number])
        torch.sum(gradient, dim=1, keepdim=True, out=gradients.biases[number])
        if number:
            gradient = torch.bmm(gradient, layers.weights[number].transpose(1, 2))
            gradient.masked_fill_(values[number] <= 0, 0.0)


def default_parameters(shape: NetworkShape, seed: int) -> NDArray[np.float32]:
    """Parameters as PyTorch's ``nn.Linear`` begins with, which is how Stable-Baselines3 begins a Q-network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        modules = [nn.Linear(n_in, n_out) for n_in, n_out in pairwise(shape.widths)]
    return _row(shape, modules)


def orthogonal_parameters(shape: NetworkShape, seed: int, last_gain: float) -> NDArray[np.float32]:
    """Orthogonal matrices of gain √2 (`last_gain` for the last layer) and biases of zero: actor-critic networks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        modules = [nn.Linear(n_in, n_out) for n_in, n_out in pairwise(shape.widths)]
        for module in modules:
            nn.init.orthogonal_(module.weight, last_gain if module is modules[-1] else math.sqrt(2))
            nn.init.zeros_(module.bias)
    return _row(shape, modules)


def _row(shape: NetworkShape, modules: Sequence[nn.Linear]) -> NDArray[np.float32]:
    return row_of_layers(shape, [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in modules])


def row_of_layers(
    shape: NetworkShape, layers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]
) -> NDArray[np.float32]:
    """Pack matrices ``[out, in]`` and biases, PyTorch's layout, into a row of parameters."""
    row = np.zeros(shape.stride, np.float32)
    for (weight, bias), (at_weight, at_bias) in zip(layers, shape.offsets, strict=True):
        row[at_weight:at_bias] = weight.T.ravel()
        row[at_bias : at_bias + len(bias)] = bias
    return row


def layers_of_row(shape: NetworkShape, row: NDArray[np.float32]) -> tuple[Layer, ...]:
    """Unpack a row of parameters into the layers of a policy, with ReLU between them."""
    layers = []
    last = len(shape.offsets) - 1
    widths = list(pairwise(shape.widths))
    for number, ((n_in, n_out), (at_weight, at_bias)) in enumerate(zip(widths, shape.offsets, strict=True)):
        weight = row[at_weight:at_bias].reshape(n_in, n_out).T
        activation = Activation("identity" if number == last else "relu")
        layers.append(Layer(weight, row[at_bias : at_bias + n_out], activation))
    return tuple(layers)
