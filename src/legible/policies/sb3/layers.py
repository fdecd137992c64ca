"""Network layers from the tensors of a policy of Stable-Baselines3.

- `ZipTensors`: the tensors by name, each checked when it is taken.
- `hidden_layers`, `q_layers`: the layers of a sequence of modules.
- `average_quantiles`, `average_layer`: convert the last layer of QR-DQN to Q-values.
- `check_ends`: check that the layers fit each other and the spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from legible.policies.activations import Activation
from legible.policies.encoding import Encoding
from legible.policies.network import Layer
from legible.policies.protocol import PolicyError
from legible.policies.sb3.archive import Contents
from legible.policies.sb3.description import Between
from legible.policies.tensors import Tensors


class ZipTensors(Tensors):
    """The tensors of the policy in a zip; every tensor must be taken or dropped."""

    def __init__(self, contents: Contents, tensors: dict[str, torch.Tensor], *, needs_biases: bool = True) -> None:
        super().__init__(tensors, "policy.pth", exact=True, needs_biases=needs_biases)
        self.contents = contents

    def finish(self) -> None:
        """Refuse the policy if a tensor was not taken."""
        if self.left:
            name, problem = sorted(self.left)[0], "has no place in a plain feed-forward network"
            if "features_extractor" in name:
                problem = "belongs to a custom feature extractor"
            self.contents.refuse(f"tensor {name!r} {problem}")


def hidden_layers(tensors: ZipTensors, prefix: str, activation: Between, last: int | None = None) -> list[Layer]:
    """Take the layers of a sequence linear, activation, linear, activation …, before the position `last`."""
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
            tensors.contents.refuse(f"tensor '{name}' holds {len(slope)} slopes of a PReLU; only one is supported")
        layers.append(Layer(weight, bias, Activation("leaky_relu", (("negative_slope", float(slope[0])),))))
    return layers


def q_layers(tensors: ZipTensors, prefix: str, activation: Between) -> tuple[Layer, ...]:
    """Take the layers of a sequence of modules that ends with a linear layer, or of a single linear layer."""
    if tensors.has(f"{prefix}.weight"):
        return (Layer(*tensors.linear(prefix)),)
    places = tensors.places(prefix)
    if not places:
        raise PolicyError(
            f"{tensors.contents.path}: policy.pth has no tensor '{prefix}.0.weight': it holds another network"
        )
    name = f"{prefix}.{places[-1]}"
    hidden = hidden_layers(tensors, prefix, activation, last=places[-1])
    if places[-1] != 2 * len(hidden):
        tensors.contents.refuse(f"tensor '{name}.weight' is out of place in a plain feed-forward network")
    return (*hidden, Layer(*tensors.linear(name)))


def average_quantiles(
    contents: Contents, options: Mapping[str, Any], layers: tuple[Layer, ...], n_actions: int
) -> tuple[Layer, ...]:
    """Return the layers with the quantiles averaged inside the last one: the mean of linear functions is linear."""
    head = layers[-1]
    name = f"{contents.path}: the last layer of the quantile network"
    n_quantiles, rest = divmod(head.n_outputs, n_actions)
    if rest or not n_quantiles:
        raise PolicyError(f"{name} has {head.n_outputs} outputs, which is no multiple of {n_actions} actions")
    for written in (options.get("n_quantiles"), contents.data.get("n_quantiles")):
        if written not in (None, n_quantiles):
            raise PolicyError(f"{name} has {n_quantiles} quantiles per action, but the file says {written}")
    return (*layers[:-1], average_layer(head, n_quantiles))


def average_layer(head: Layer, n_quantiles: int) -> Layer:
    """Return a layer that outputs the mean of the quantiles of each action."""
    weight = head.weight.reshape(n_quantiles, -1, head.n_inputs).mean(axis=0, dtype=np.float64)
    bias = head.bias.reshape(n_quantiles, -1).mean(axis=0, dtype=np.float64)
    return Layer(weight.astype(np.float32), bias.astype(np.float32))


def check_ends(tensors: ZipTensors, layers: tuple[Layer, ...], encoding: Encoding, n_actions: int) -> None:
    """Raise an error if the layers do not fit each other or the spaces."""
    path = tensors.contents.path
    width = encoding.width
    for number, layer in enumerate(layers):
        if layer.n_inputs != width:
            source = "the observation space has" if number == 0 else f"layer {number - 1} has"
            outputs = "values" if number == 0 else "outputs"
            raise PolicyError(f"{path}: layer {number} has {layer.n_inputs} inputs, but {source} {width} {outputs}")
        width = layer.n_outputs
    if width != n_actions:
        raise PolicyError(f"{path}: the network has {width} outputs, but the action space has {n_actions} actions")
