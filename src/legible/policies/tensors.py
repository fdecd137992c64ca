"""`Tensors`: the tensors of a network by name, each checked when it is taken."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from legible.policies.activations import Activation
from legible.policies.network import Layer
from legible.policies.protocol import PolicyError

Array = npt.NDArray[np.float32]

_PLACE = re.compile(r"(\d+)\.(weight|bias|ra_mean)")


class Tensors:
    """The tensors of a network by name, of PyTorch or arrays; each is removed and checked when it is taken.

    - `source`: the part of the file that holds them, for error messages.
    - `exact`: whether weights must be float32; by default, other floating-point numbers are converted.
    - `needs_biases`: whether layers must have a bias; by default, a missing one is zero.
    """

    def __init__(
        self,
        tensors: Mapping[str, torch.Tensor | npt.NDArray[np.generic]],
        source: str = "",
        *,
        exact: bool = False,
        needs_biases: bool = False,
    ) -> None:
        self.left = dict(tensors)
        self._of = f" of {source}" if source else ""
        self._exact, self._needs_biases = exact, needs_biases

    def has(self, name: str) -> bool:
        """Return whether there is a tensor with this name."""
        return name in self.left

    def any_of(self, *prefixes: str) -> bool:
        """Return whether there is a tensor with one of these prefixes."""
        return any(name.startswith(prefixes) for name in self.left)

    def dimensions(self, name: str) -> int:
        """Return the number of dimensions of a tensor, 0 if there is none with this name."""
        return self.left[name].ndim if name in self.left else 0

    def places(self, prefix: str) -> list[int]:
        """Return the sorted positions of the modules with tensors in the sequence `prefix`."""
        inner = (name.removeprefix(f"{prefix}.") for name in self.left if name.startswith(f"{prefix}."))
        return sorted({int(found[1]) for name in inner if (found := _PLACE.fullmatch(name)) is not None})

    def names_of_layers(self, prefix: str) -> list[str]:
        """Return the names of the layers in the sequence `prefix`, in order, such as ``actor.0`` and ``actor.2``."""
        return [f"{prefix}.{place}" for place in self.places(prefix)]

    def drop(self, *prefixes: str) -> None:
        """Drop the tensors with these prefixes, which have no part in choosing actions."""
        self.left = {name: tensor for name, tensor in self.left.items() if not name.startswith(prefixes)}

    def take(self, name: str, dimensions: int | None = None) -> Array:
        """Take one tensor as an array of finite numbers."""
        tensor = self.left.pop(name, None)
        what = f"tensor {name!r}{self._of}"
        if tensor is None:
            raise PolicyError(f"{what} is missing")
        is_torch = isinstance(tensor, torch.Tensor)
        is_floating = tensor.is_floating_point() if isinstance(tensor, torch.Tensor) else tensor.dtype.kind == "f"
        if not is_floating or (self._exact and tensor.dtype != (torch.float32 if is_torch else np.float32)):
            raise PolicyError(f"{what} has type {tensor.dtype}, but weights are torch.float32")
        if dimensions is not None and tensor.ndim != dimensions:
            raise PolicyError(f"{what} has shape {tuple(tensor.shape)}, but {dimensions} dimensions are expected")
        plain = tensor.detach().float().numpy() if isinstance(tensor, torch.Tensor) else tensor
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(plain, np.float32)
        if not np.isfinite(values).all():
            raise PolicyError(f"{what} is not finite: it holds NaN or infinity")
        return values

    def linear(self, name: str) -> tuple[Array, Array]:
        """Take weight and bias of a fully connected layer."""
        weight = self.take(f"{name}.weight", 2)
        if not self._needs_biases and not self.has(f"{name}.bias"):
            return weight, np.zeros(len(weight), np.float32)
        bias = self.take(f"{name}.bias", 1)
        if len(weight) != len(bias):
            raise PolicyError(
                f"tensor '{name}.bias' has {len(bias)} numbers for the {len(weight)} rows of '{name}.weight'"
            )
        return weight, bias

    def layer(self, name: str, activation: str | Activation = "identity") -> Layer:
        """Take a fully connected layer."""
        return Layer(*self.linear(name), Activation.of(activation))

    def layers(
        self, names: Sequence[str], activation: str | Activation, last: str | Activation = "identity"
    ) -> list[Layer]:
        """Take several fully connected layers; the activation after the last one differs."""
        return [self.layer(name, last if name == names[-1] else activation) for name in names]
