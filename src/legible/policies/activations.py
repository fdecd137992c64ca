"""Activation functions by name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

from legible.errors import did_you_mean
from legible.policies.protocol import PolicyError

Parameter: TypeAlias = float | str
TensorFunction: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class _Definition:
    """A PyTorch module, its function, and the defaults of its parameters."""

    def __init__(self, module: type[nn.Module], function: Callable[..., torch.Tensor], **defaults: Parameter) -> None:
        self.module, self.function, self.defaults = module, function, defaults


def _rrelu(values: torch.Tensor, *, lower: float, upper: float) -> torch.Tensor:
    # Outside training RReLU is not random: it uses the mean of its slopes.
    return F.leaky_relu(values, (lower + upper) / 2)


# The functions may work in place: networks keep no other reference to the values.
_DEFINITIONS: Mapping[str, _Definition] = {
    "celu": _Definition(nn.CELU, F.celu, alpha=1.0),
    "elu": _Definition(nn.ELU, F.elu, alpha=1.0),
    "gelu": _Definition(nn.GELU, F.gelu, approximate="none"),
    "hardshrink": _Definition(nn.Hardshrink, F.hardshrink, lambd=0.5),
    "hardsigmoid": _Definition(nn.Hardsigmoid, F.hardsigmoid),
    "hardswish": _Definition(nn.Hardswish, F.hardswish),
    "hardtanh": _Definition(nn.Hardtanh, F.hardtanh, min_val=-1.0, max_val=1.0),
    "identity": _Definition(nn.Identity, lambda values: values),
    "leaky_relu": _Definition(nn.LeakyReLU, F.leaky_relu, negative_slope=0.01),
    "logsigmoid": _Definition(nn.LogSigmoid, F.logsigmoid),
    "mish": _Definition(nn.Mish, F.mish),
    "relu": _Definition(nn.ReLU, torch.relu_),
    "relu6": _Definition(nn.ReLU6, F.relu6),
    "rrelu": _Definition(nn.RReLU, _rrelu, lower=1 / 8, upper=1 / 3),
    "selu": _Definition(nn.SELU, F.selu),
    "sigmoid": _Definition(nn.Sigmoid, torch.sigmoid_),
    "silu": _Definition(nn.SiLU, F.silu),
    "softplus": _Definition(nn.Softplus, F.softplus, beta=1.0, threshold=20.0),
    "softshrink": _Definition(nn.Softshrink, F.softshrink, lambd=0.5),
    "softsign": _Definition(nn.Softsign, F.softsign),
    "tanh": _Definition(nn.Tanh, torch.tanh_),
    "tanhshrink": _Definition(nn.Tanhshrink, F.tanhshrink),
}
_BY_MODULE: Mapping[type[nn.Module], str] = {known.module: name for name, known in _DEFINITIONS.items()}
_BY_MODULE_NAME: Mapping[str, str] = {known.module.__name__: name for name, known in _DEFINITIONS.items()}

_LONGEST_TEXT = 200

ACTIVATION_NAMES: tuple[str, ...] = tuple(sorted(_DEFINITIONS))
"""Every name that `Activation` knows."""


@dataclass(frozen=True)
class Activation:
    """An activation function and its parameters.

    >>> Activation.of("ReLU")
    Activation(name='relu', parameters=())
    >>> str(Activation.of("leaky_relu(negative_slope=0.2)"))
    'leaky_relu(negative_slope=0.2)'
    >>> Activation.of(torch.nn.Tanh) == Activation("tanh")
    True
    """

    name: str  # one of `ACTIVATION_NAMES`: PyTorch's names in lower case
    # Parameters that differ from PyTorch's defaults, as pairs of name and value
    parameters: tuple[tuple[str, Parameter], ...] = ()

    def __post_init__(self) -> None:
        """Check name and parameters, and drop parameters with PyTorch's default, so that equal functions are equal."""
        if self.name not in _DEFINITIONS:
            raise PolicyError(
                f"unknown activation {self.name!r}.{did_you_mean(self.name, ACTIVATION_NAMES)} "
                f"Known are: {', '.join(ACTIVATION_NAMES)}"
            )
        defaults = _DEFINITIONS[self.name].defaults
        checked: dict[str, Parameter] = {}
        for key, value in self.parameters:
            if key not in defaults:
                accepted = ", ".join(defaults) or "no parameters"
                raise PolicyError(f"activation {self.name!r} has no parameter {key!r}: it takes {accepted}")
            # The type of the default says what the parameter may be: a text or a finite number.
            default = defaults[key]
            is_finite = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
            if isinstance(default, str) and value in ("none", "tanh"):  # only GELU's `approximate` is a text
                checked[key] = str(value)
            elif isinstance(default, float) and is_finite:
                checked[key] = float(value)
            else:
                raise PolicyError(
                    f"activation {self.name!r}: {value!r} is no value for {key}; its default is {default!r}"
                )
        other_than_default = sorted((key, value) for key, value in checked.items() if value != defaults[key])
        # The dataclass is frozen: this is the way to replace a field.
        object.__setattr__(self, "parameters", tuple(other_than_default))

    @classmethod
    def of(cls, given: str | Activation | nn.Module | type[nn.Module]) -> Activation:
        """Return the activation for a name, a PyTorch module or a PyTorch class; raise `PolicyError` for others."""
        if isinstance(given, Activation):
            return given
        if isinstance(given, str):
            return cls._parse(given)
        if type(given) is nn.PReLU and given.num_parameters == 1:
            # With one learnt slope for the whole layer PReLU is LeakyReLU with that slope.
            return cls("leaky_relu", (("negative_slope", float(given.weight.detach())),))
        name = _BY_MODULE.get(given if isinstance(given, type) else type(given))
        if name is None:
            raise PolicyError(f"{given!r} is no known activation; known are: {', '.join(ACTIVATION_NAMES)}")
        keys = () if isinstance(given, type) else _DEFINITIONS[name].defaults
        return cls(name, tuple((key, getattr(given, key)) for key in keys))

    @classmethod
    def _parse(cls, text: str) -> Activation:
        try:
            if len(text) > _LONGEST_TEXT:
                raise ValueError("too long")  # the text may come from an untrusted file
            tree = ast.parse(text.strip(), mode="eval").body
            call = ast.Call(tree, [], []) if isinstance(tree, ast.Name) else tree
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
                values = tuple((str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in call.keywords)
                # PyTorch's class names are accepted, too: training scripts have them.
                return cls(_BY_MODULE_NAME.get(call.func.id, call.func.id.lower()), values)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
        raise PolicyError(
            f"cannot read activation {text[:_LONGEST_TEXT]!r}: write a name such as 'relu' or, with parameters, "
            "'leaky_relu(negative_slope=0.2)'"
        )

    def function(self) -> TensorFunction | None:
        """Return the function on tensors, which may overwrite its argument; None for the identity."""
        if self.name == "identity":
            return None
        known = _DEFINITIONS[self.name]
        arguments = {**known.defaults, **dict(self.parameters)}
        if not arguments:
            return known.function
        return lambda values: known.function(values, **arguments)

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.parameters)})"
