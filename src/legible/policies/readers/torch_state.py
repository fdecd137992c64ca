"""Reader of plain PyTorch files: tensors with a TOML description of the network.

.. code-block:: toml

    output = "values"                # or "logits", or "actions"

    [[layers]]
    name = "fc1"                     # of the tensors fc1.weight and fc1.bias
    activation = "relu"

    [[layers]]
    name = "fc2"

Layers are listed in order; ``activation`` is optional. Layers with weights of four dimensions are convolutions, with a
``stride``; they need ``observation_shape = [4, 84, 84]``, and images ``divide_by = 255``. For ``output = "actions"``
the bounds are ``low`` and ``high``, one number per action. With ``squashed = true`` the last activation gives numbers
between −1 and 1 that are scaled to the bounds; otherwise actions are clipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from legible.errors import did_you_mean
from legible.files import read_toml
from legible.policies.activations import Activation
from legible.policies.actors.heads import Categories, Certain, QValues
from legible.policies.actors.networks import Activated, Flatten, convolution, sequence
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import Plain
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.normalising import normalised_file
from legible.policies.protocol import Policy, PolicyError, UnclearPolicyError, naming
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.tensors import Tensors
from legible.policies.torch_file import is_torchscript, read_state
from legible.policies.wrapped import kind_of_output

SUFFIXES = (".pt", ".pth", ".ckpt")
_MOST_BYTES = 2**20


def is_own(source: Any) -> bool:
    """Return whether this is a file of ``torch.save``, by its name, and no program."""
    return isinstance(source, Path) and source.suffix in SUFFIXES and source.is_file() and not is_torchscript(source)


def read(path: Path, options: LoadOptions) -> Policy:
    """Read the tensors of a file as the network that a TOML file describes."""
    options.refuse("a file of PyTorch's tensors", "output", "activation", "encoding", "algorithm")
    state = read_state(path.read_bytes(), path, "the file")
    described = Path(options.architecture) if options.architecture is not None else path.with_suffix(".toml")
    if options.architecture is None and not described.is_file():
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in list(state.items())[:8])
        raise UnclearPolicyError(
            f"{path}: the network of its tensors ({shapes}{' …' if len(state) > 8 else ''}) is unknown. Describe it in "
            f"{described.name} next to it: output, and the layers in order",
            "architecture",
        )
    policy = policy_of_state(state, read_architecture(described), path)
    return normalised_file(policy, path, options, trained_normalised=False)


@dataclass(frozen=True)
class LayerDescription:
    """One layer: the name of its tensors, activation, stride and padding."""

    name: str
    activation: str = "identity"
    stride: int = 1
    padding: int = 0


@dataclass(frozen=True)
class Architecture:
    """Description of the network in a file."""

    output: Literal["values", "logits", "actions"]
    layers: tuple[LayerDescription, ...]
    observation_shape: tuple[int, ...] | None = None
    divide_by: float = 1.0
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    squashed: bool = False


def read_architecture(path: Path) -> Architecture:
    """Read the description of a network."""
    if not path.is_file():
        raise PolicyError(f"{path}: no such file with a description of a network")
    document = read_toml(path, PolicyError, _MOST_BYTES)
    layers = document.pop("layers", None)
    if not isinstance(layers, list) or not layers or not all(isinstance(each, dict) for each in layers):
        raise PolicyError(f"{path}: layers are missing: write a [[layers]] table with a name for each, in order")
    return Architecture(
        layers=tuple(
            LayerDescription(**_checked(each, _OF_A_LAYER, ("name",), f"{path}: layers.{number}"))
            for number, each in enumerate(layers)
        ),
        **_checked(document, _OF_A_NETWORK, ("output",), str(path)),
    )


def _checked(
    table: Mapping[str, Any], known: Mapping[str, Callable[[Any], Any]], needed: tuple[str, ...], where: str
) -> dict[str, Any]:
    """Return the parsed entries of a table; raise an error for missing, unknown and invalid ones."""
    for name in needed:
        if name not in table:
            raise PolicyError(f"{where}: {name} is missing")
    for name in table:
        if name not in known:
            raise PolicyError(f"{where}: unknown entry {name!r}.{did_you_mean(name, known)}")
    read = {}
    for name, value in table.items():
        read[name] = known[name](value)
        if read[name] is None:
            raise PolicyError(f"{where}: {name} cannot be {str(value)[:100]!r}")
    return read


def _whole(smallest: int) -> Callable[[Any], int | None]:
    return lambda value: value if type(value) is int and smallest <= value <= 10_000 else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _all(one: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...] | None]:
    def read(values: Any) -> tuple[Any, ...] | None:
        taken = tuple(one(value) for value in values) if isinstance(values, list) and values else (None,)
        return None if None in taken else taken

    return read


_OF_A_LAYER: Mapping[str, Callable[[Any], Any]] = {
    "name": lambda value: value if isinstance(value, str) else None,
    "activation": lambda value: value if isinstance(value, str) else None,
    "stride": _whole(1),
    "padding": _whole(0),
}
_OF_A_NETWORK: Mapping[str, Callable[[Any], Any]] = {
    "output": lambda value: value if value in ("values", "logits", "actions") else None,
    "observation_shape": _all(_whole(1)),
    "divide_by": lambda value: _number(value) or None,  # 0 is refused
    "low": _all(_number),
    "high": _all(_number),
    "squashed": lambda value: value if isinstance(value, bool) else None,
}


def policy_of_state(
    state: Mapping[str, torch.Tensor], description: Architecture, path: Path
) -> NetworkPolicy | ActorPolicy:
    """Return the policy of tensors with a description."""
    with naming(path):
        parts = [_part(Tensors(state), layer) for layer in description.layers]
    last = next((part for part in reversed(parts) if isinstance(part, Layer)), None)
    if last is None or parts[-1] is not last:
        raise PolicyError(f"{path}: the last layer must be fully connected")
    dense = [part for part in parts if isinstance(part, Layer)]
    if len(dense) == len(parts) and description.output != "actions" and description.divide_by == 1.0:
        with naming(path):
            return NetworkPolicy(tuple(dense), kind_of_output(description.output), Plain(dense[0].n_inputs))
    return _actor(parts, description, last.n_outputs, path)


def _actor(layers: list[Layer | nn.Module], description: Architecture, n_outputs: int, path: Path) -> ActorPolicy:
    """Return the policy of a network with convolutions, scaled observations or continuous actions.

    - `layers`: the layers in order: convolutions first, then fully connected ones (`Layer`).
    - `n_outputs`: the number of outputs of the last layer: one per action, or one per number of a continuous action.
    """
    first_layer = layers[0]
    shape = description.observation_shape or ((first_layer.n_inputs,) if isinstance(first_layer, Layer) else None)
    if shape is None:
        raise PolicyError(f"{path}: observation_shape is missing; a network with convolutions needs it")
    convolutions = [layer for layer in layers if not isinstance(layer, Layer)]
    if layers[: len(convolutions)] != convolutions:
        raise PolicyError(f"{path}: a convolution follows a fully connected layer; put convolutions first")

    # The network: scaling, convolutions, then the fully connected layers.
    scale = [_Divide(description.divide_by)] if description.divide_by != 1.0 else []
    extractor = nn.Sequential(*scale, *convolutions, Flatten())
    network = sequence(layers[len(convolutions) :])

    # The outputs are the numbers of a continuous action, or one score per action.
    actions: spaces.Discrete | spaces.Box
    head: QValues | Categories | Certain
    if description.output == "actions":
        for bounds in (description.low, description.high):
            if bounds is not None and len(bounds) != n_outputs:
                raise PolicyError(f"{path}: there are {len(bounds)} bounds for the {n_outputs} numbers of an action")
        low = np.full(n_outputs, description.low or -np.inf, np.float32)
        high = np.full(n_outputs, description.high or np.inf, np.float32)
        actions, head = spaces.Box(low, high, (n_outputs,), np.float32), Certain(network)
    else:
        actions = spaces.Discrete(n_outputs)
        head = QValues(network) if description.output == "values" else Categories(network, (n_outputs,), single=True)

    # A divisor means that the observations are pictures of bytes, which are scaled before the first layer.
    is_scaled = description.divide_by != 1.0
    observations = spaces.Box(0, 255, shape, np.uint8) if is_scaled else spaces.Box(-np.inf, np.inf, shape)
    policy = ActorPolicy(
        observations, actions, extractor, nn.Identity(), head, squashed=description.squashed, scale_images=False
    )
    # Play one observation: PyTorch notices if the tensors do not fit each other.
    try:
        policy.try_once()
    except RuntimeError as error:
        raise PolicyError(f"{path}: the tensors do not fit each other or observations of shape {shape}") from error
    return policy


class _Divide(nn.Module):
    """Module that divides its input, as networks for images do."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values / self.by


def _part(tensors: Tensors, layer: LayerDescription) -> Layer | nn.Module:
    name = f"{layer.name}.weight"
    if not tensors.has(name):
        more = " …" if len(tensors.left) > 8 else ""
        raise PolicyError(f"there is no tensor {name!r}; there are {', '.join(list(tensors.left)[:8])}{more}")
    try:
        if tensors.dimensions(name) != 4:
            return tensors.layer(layer.name, layer.activation)
        weight = tensors.take(name)
        has_bias = tensors.has(f"{layer.name}.bias")
        bias = tensors.take(f"{layer.name}.bias", 1) if has_bias else np.zeros(len(weight), np.float32)
        activated = Activated(Activation.of(layer.activation))
        return nn.Sequential(convolution(weight, bias, layer.stride, layer.padding), activated)
    except (PolicyError, RuntimeError) as error:
        raise PolicyError(f"layer {layer.name!r}: {error}") from error


READER = PolicyReader(
    "torch", "tensors of PyTorch (.pt, .pth) with a TOML file that describes the network", is_own, read
)
