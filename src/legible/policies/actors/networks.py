"""Parts of networks as PyTorch modules with their weights.

- `linear`, `convolution`: one layer.
- `sequence`: fully connected layers and the modules between them.
- `FixedBatchNorm`: a batch normalisation with fixed statistics.
- `Flatten`, `NatureCnn`, `Combined`: the feature extractors of Stable-Baselines3.
- `lstm`: memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from legible.policies.activations import Activation, TensorFunction
from legible.policies.actors.observations import Tensors
from legible.policies.network import Layer

Array = npt.NDArray[np.float32]


class Activated(nn.Module):
    """An activation function as a module."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Apply the function, which may overwrite its argument."""
        function: TensorFunction | None = self.activation.function()
        return values if function is None else function(values)


class FixedBatchNorm(nn.Module):
    """A batch normalisation with fixed statistics, as between the layers of CrossQ."""

    def __init__(self, mean: Array, var: Array, scale: Array, bias: Array, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        for name, values in (("mean", mean), ("var", var), ("scale", scale), ("bias", bias)):
            self.register_buffer(name, torch.from_numpy(np.array(values)))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Normalise."""
        mean, var, scale, bias = (self.get_buffer(name) for name in ("mean", "var", "scale", "bias"))
        return scale * ((values - mean[None]) / (var[None] + self.epsilon).sqrt()) + bias


def linear(weight: Array, bias: Array) -> nn.Linear:
    """Return a fully connected layer with these weights."""
    module = nn.Linear(weight.shape[1], weight.shape[0])
    _fill(module, weight, bias)
    return module


def convolution(weight: Array, bias: Array, stride: int, padding: int = 0) -> nn.Conv2d:
    """Return a convolution with these weights."""
    module = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2:], stride, padding)
    _fill(module, weight, bias)
    return module


def sequence(parts: Sequence[Layer | nn.Module]) -> nn.Sequential:
    """Return layers and the modules between them as one module."""
    modules: list[nn.Module] = []
    for part in parts:
        if isinstance(part, Layer):
            modules.append(linear(part.weight, part.bias))
            if part.activation.name != "identity":
                modules.append(Activated(part.activation))
        else:
            modules.append(part)
    return nn.Sequential(*modules)


class Flatten(nn.Module):
    """Extractor that flattens observations."""

    def forward(self, observations: Tensors) -> torch.Tensor:
        """Flatten all but the first dimension."""
        assert isinstance(observations, torch.Tensor)
        return observations.flatten(start_dim=1)


class NatureCnn(nn.Module):
    """Extractor with three convolutions and one layer, as in the Nature paper on DQN."""

    strides = (4, 2, 1)

    def __init__(self, convolutions: Sequence[tuple[Array, Array]], last: tuple[Array, Array]) -> None:
        super().__init__()
        modules: list[nn.Module] = []
        for (weight, bias), stride in zip(convolutions, self.strides, strict=True):
            modules += [convolution(weight, bias, stride), nn.ReLU()]
        self.layers = nn.Sequential(*modules, nn.Flatten(), linear(*last), nn.ReLU())

    def forward(self, observations: Tensors) -> torch.Tensor:
        """Return the features of images."""
        features: torch.Tensor = self.layers(observations)
        return features


class Combined(nn.Module):
    """Extractor that concatenates the features of the entries of a dictionary."""

    def __init__(self, extractors: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.keys = tuple(extractors)
        self.extractors = nn.ModuleList(extractors.values())

    def forward(self, observations: Tensors) -> torch.Tensor:
        """Return the features of all entries."""
        assert isinstance(observations, Mapping)
        parts = [extract(observations[key]) for key, extract in zip(self.keys, self.extractors, strict=True)]
        return torch.cat(parts, dim=1)


def lstm(tensors: Sequence[Sequence[Array]]) -> nn.LSTM:
    """Return an LSTM with the weights of its layers in PyTorch's order: input, hidden, and the biases of both."""
    module = nn.LSTM(tensors[0][0].shape[1], tensors[0][1].shape[1], num_layers=len(tensors))
    with torch.no_grad():
        for number, values in enumerate(tensors):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            for name, array in zip(names, values, strict=True):
                getattr(module, f"{name}_l{number}").copy_(torch.from_numpy(np.array(array)))
    return module


def _fill(module: nn.Linear | nn.Conv2d, weight: Array, bias: Array) -> None:
    assert module.bias is not None
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.array(weight)))
        module.bias.copy_(torch.from_numpy(np.array(bias)))
