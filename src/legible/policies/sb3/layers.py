"""From the tensors of a policy of Stable-Baselines3 to layers of a network.

- `Tensors`: the tensors by name, each checked when it is taken.
- `hidden_layers`, `q_layers`: the layers of a sequence of modules.
- `average_quantiles`, `average_layer`: the last layer of QR-DQN as one of Q-values.
- `check_ends`: whether the layers fit each other and the spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from legible.policies.activations import Activation
from legible.policies.encoding import Encoding
from legible.policies.network import Layer
from legible.policies.protocol import PolicyError
from legible.policies.sb3.archive import Contents
from legible.policies.sb3.description import Between

_TENSOR_NAME = re.compile(r"(\d+)\.(weight|bias|ra_mean)")


class Tensors:
    """The tensors of a policy by name, each checked when it is taken; what is not taken in the end is an error."""

    def __init__(
        self, contents: Contents, tensors: dict[str, torch.Tensor], *, biases_may_be_missing: bool = False
    ) -> None:
        self.contents = contents
        self.biases_may_be_missing = biases_may_be_missing
        self._left = tensors

    def drop(self, prefix: str) -> None:
        """Leave out the tensors that have no part in choosing actions."""
        self._left = {name: tensor for name, tensor in self._left.items() if not name.startswith(prefix)}

    def take(self, name: str, dimensions: int) -> npt.NDArray[np.float32]:
        """Return one tensor as an array."""
        tensor = self._left.pop(name, None)
        where = f"{self.contents.path}: tensor {name!r} of policy.pth"
        if tensor is None:
            raise PolicyError(f"{where} is missing")
        if tensor.dtype != torch.float32:
            raise PolicyError(f"{where} has type {tensor.dtype}, but weights are torch.float32")
        if tensor.ndim != dimensions:
            raise PolicyError(f"{where} has shape {tuple(tensor.shape)}, but {dimensions} dimensions are expected")
        values: npt.NDArray[np.float32] = tensor.detach().numpy()
        if not np.isfinite(values).all():
            raise PolicyError(f"{where} is not finite: it holds NaN or infinity")
        return values

    def has(self, name: str) -> bool:
        """Return whether there is a tensor of this name."""
        return name in self._left

    def any_of(self, prefix: str) -> bool:
        """Return whether there is a tensor whose name begins so."""
        return any(name.startswith(prefix) for name in self._left)

    def linear(self, name: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return weight and bias of a fully connected layer; one without a bias has zeros."""
        weight = self.take(f"{name}.weight", 2)
        if self.biases_may_be_missing and not self.has(f"{name}.bias"):
            return weight, np.zeros(len(weight), np.float32)
        bias = self.take(f"{name}.bias", 1)
        if len(weight) != len(bias):
            raise PolicyError(
                f"{self.contents.path}: tensor '{name}.bias' has {len(bias)} numbers for the {len(weight)} rows of "
                f"'{name}.weight'"
            )
        return weight, bias

    def places(self, prefix: str) -> list[int]:
        """Return the places that have a tensor in the sequence of modules called `prefix`, in order."""
        inner = (name.removeprefix(f"{prefix}.") for name in self._left if name.startswith(f"{prefix}."))
        return sorted({int(found[1]) for name in inner if (found := _TENSOR_NAME.fullmatch(name)) is not None})

    def finish(self) -> None:
        """Complain about tensors that were not taken: the network is more than it seemed."""
        if self._left:
            name = sorted(self._left)[0]
            if "features_extractor" in name:
                self.contents.refuse(
                    f"tensor {name!r} belongs to a feature extractor of its own, which is not supported"
                )
            self.contents.refuse(f"tensor {name!r} has no place in a plain feed-forward network")


def hidden_layers(tensors: Tensors, prefix: str, activation: Between, last: int | None = None) -> list[Layer]:
    """Take the layers of a sequence of modules linear, activation, linear, activation …, before the place `last`."""
    layers: list[Layer] = []
    for place in (place for place in tensors.places(prefix) if last is None or place < last):
        if place % 2:
            continue
        if place != 2 * len(layers):
            tensors.contents.refuse(f"tensor '{prefix}.{place}.weight' is out of place in a plain feed-forward network")
        weight, bias = tensors.linear(f"{prefix}.{place}")
        if activation != "prelu":
            layers.append(Layer(weight, bias, activation))
            continue
        name = f"{prefix}.{place + 1}.weight"
        slope = tensors.take(name, 1)
        if len(slope) != 1:
            tensors.contents.refuse(f"tensor '{name}' holds {len(slope)} slopes of a PReLU, where one is supported")
        layers.append(Layer(weight, bias, Activation("leaky_relu", (("negative_slope", float(slope[0])),))))
    return layers


def q_layers(tensors: Tensors, prefix: str, activation: Between) -> tuple[Layer, ...]:
    """Take the layers of a sequence of modules that ends with a layer."""
    places = tensors.places(prefix)
    if not places:
        raise PolicyError(
            f"{tensors.contents.path}: policy.pth has no tensor '{prefix}.0.weight': it holds another network"
        )
    hidden = hidden_layers(tensors, prefix, activation, last=places[-1])
    if places[-1] != 2 * len(hidden):
        tensors.contents.refuse(
            f"tensor '{prefix}.{places[-1]}.weight' is out of place in a plain feed-forward network"
        )
    head = Layer(*tensors.linear(f"{prefix}.{places[-1]}"))
    return (*hidden, head)


def average_quantiles(
    contents: Contents, options: Mapping[str, Any], layers: tuple[Layer, ...], n_actions: int
) -> tuple[Layer, ...]:
    """Average the quantiles inside the last layer: the mean of linear functions is linear, and cheaper."""
    head = layers[-1]
    name = f"{contents.path}: the last layer of the quantile network"
    n_quantiles, rest = divmod(head.n_outputs, n_actions)
    if rest or not n_quantiles:
        raise PolicyError(f"{name} has {head.n_outputs} outputs, which is no multiple of {n_actions} actions")
    for written in (options.get("n_quantiles"), contents.data.get("n_quantiles")):
        if written not in (None, n_quantiles):
            raise PolicyError(f"{name} has {n_quantiles} quantiles an action, but the file says {written}")
    return (*layers[:-1], average_layer(head, n_quantiles))


def average_layer(head: Layer, n_quantiles: int) -> Layer:
    """Return the layer that gives the mean of the quantiles that a layer gives for every action."""
    weight = head.weight.reshape(n_quantiles, -1, head.n_inputs).mean(axis=0, dtype=np.float64)
    bias = head.bias.reshape(n_quantiles, -1).mean(axis=0, dtype=np.float64)
    return Layer(weight.astype(np.float32), bias.astype(np.float32))


def check_ends(tensors: Tensors, layers: tuple[Layer, ...], encoding: Encoding, n_actions: int) -> None:
    """Check that the layers fit each other and the spaces."""
    path = tensors.contents.path
    width = encoding.width
    for number, layer in enumerate(layers):
        if layer.n_inputs != width:
            source = "the observation space gives" if number == 0 else f"layer {number - 1} gives"
            raise PolicyError(
                f"{path}: layer {number} of the network reads {layer.n_inputs} values, but {source} {width}"
            )
        width = layer.n_outputs
    if width != n_actions:
        raise PolicyError(f"{path}: the network has {width} outputs, but the action space has {n_actions} actions")
