"""Plain feed-forward networks as policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

from legible.display import Displayed
from legible.policies.activations import Activation, TensorFunction
from legible.policies.encoding import Encoding, OneHot
from legible.policies.normalisation import Normalisation
from legible.policies.predicting import ScoredPrediction
from legible.policies.protocol import Observations, PolicyError, ScoreKind, Scores, as_observations, as_scores

if TYPE_CHECKING:
    from gymnasium import spaces

_ROWS_AT_ONCE = 1024  # the hidden layers of this many rows stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Layer:
    """One fully connected layer, ``activation(weight @ x + bias)``."""

    weight: npt.NDArray[np.float32]  # ``float32[out, in]``
    bias: npt.NDArray[np.float32]  # ``float32[out]``
    activation: Activation = field(default_factory=lambda: Activation("identity"))

    def __post_init__(self) -> None:
        for name in ("weight", "bias"):
            values = np.array(getattr(self, name), dtype=np.float32, order="C")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1]:
            raise PolicyError(f"a layer with weight {self.weight.shape} cannot have bias {self.bias.shape}")

    @property
    def n_inputs(self) -> int:
        """Width of the input."""
        return int(self.weight.shape[1])

    @property
    def n_outputs(self) -> int:
        """Width of the output."""
        return int(self.weight.shape[0])


@dataclass(frozen=True, eq=False, repr=False)
class NetworkPolicy(Displayed, ScoredPrediction):
    """A feed-forward network with its observation normalisation and encoding.

    Parameters
    ----------
    layers
        The fully connected layers, first to last.
    kind
        ``"values"``: the outputs are the scores. ``"log-probabilities"``: the outputs are logits, and the scores their
        log-softmax.
    encoding
        Encoding of an observation as the input of the first layer.
    normalisation
        Observation statistics, applied before the encoding; None if the policy was trained without.
    action_names
        A name for every action, None without names.
    env_id
        The environment that the policy was trained in, None if unknown.
    metadata
        Other entries (algorithm, seed, steps): plain data that JSON can hold.

    Examples
    --------
    >>> from legible.policies import Plain
    >>> layer = Layer(weight=[[1.0, 0.0], [0.0, 2.0]], bias=[0.0, 0.5])
    >>> policy = NetworkPolicy((layer,), "values", Plain(2))
    >>> policy.scores(np.array([[3.0, 1.0]], dtype=np.float32))
    array([[3. , 2.5]], dtype=float32)
    """

    layers: tuple[Layer, ...]
    kind: ScoreKind
    encoding: Encoding
    normalisation: Normalisation | None = None
    action_names: tuple[str, ...] | None = None
    env_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the fields, check that all parts fit each other, and prepare the layers for PyTorch."""
        # Copies that no other code can change; the dataclass is frozen, so fields are replaced this way.
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))
        if self.action_names is not None:
            object.__setattr__(self, "action_names", tuple(self.action_names))

        # Each layer must read as many values as the one before returns.
        if not self.layers:
            raise PolicyError("a network needs at least one layer")
        width = self.encoding.width
        for index, layer in enumerate(self.layers):
            if layer.n_inputs != width:
                raise PolicyError(f"layer {index} has {layer.n_inputs} inputs, but receives {width} values")
            for name in ("weight", "bias"):
                if not np.isfinite(getattr(layer, name)).all():
                    raise PolicyError(f"{name} of layer {index} is not finite: it holds NaN or infinity")
            width = layer.n_outputs
            if not width:
                raise PolicyError(f"layer {index} has no outputs")

        # The kind of the scores must be known, and statistics and names must have the network's sizes.
        if self.kind not in ("values", "log-probabilities"):
            raise PolicyError(f"kind must be 'values' or 'log-probabilities', not {self.kind!r}")
        if self.normalisation is not None and self.normalisation.n_features != self.n_features:
            raise PolicyError(
                f"the normalisation statistics are for {self.normalisation.n_features} features, but the policy reads "
                f"{self.n_features}"
            )
        if self.action_names is not None and len(self.action_names) != self.n_actions:
            raise PolicyError(f"there are {len(self.action_names)} action names for {self.n_actions} actions")

        # (weight, bias, activation) of each layer as PyTorch computes with them, made once.
        steps = tuple(
            (torch.from_numpy(layer.weight.copy()), torch.from_numpy(layer.bias.copy()), layer.activation.function())
            for layer in self.layers
        )
        object.__setattr__(self, "_steps", steps)

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        sizes = (self.n_features, *(len(layer.bias) for layer in self.layers))
        return {
            "layers": " → ".join(map(str, sizes)),
            "output": self.kind,
            **({"environment": self.env_id} if self.env_id else {}),
        }

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.layers[-1].n_outputs

    @property
    def n_features(self) -> int:
        """Number of features of an observation, before one-hot encoding."""
        return self.encoding.n_features

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of the observations: whole numbers if they are one-hot encoded, else a box without bounds."""
        from gymnasium import spaces  # noqa: PLC0415 (rarely needed)

        if not isinstance(self.encoding, OneHot):
            return spaces.Box(-np.inf, np.inf, (self.n_features,), np.float32)
        sizes = self.encoding.sizes
        return spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(list(sizes))

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float32[n, actions]`` of the observations ``float32[n, features]``."""
        batch = as_observations(observations, self.n_features)
        n_rows = len(batch)
        if n_rows <= _ROWS_AT_ONCE:
            return as_scores(self._forward(batch), n_rows, self.n_actions)
        scores = np.empty((n_rows, self.n_actions), dtype=np.float32)
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            scores[start : start + _ROWS_AT_ONCE] = self._forward(batch[start : start + _ROWS_AT_ONCE])
        return as_scores(scores, n_rows, self.n_actions)

    def _forward(self, batch: Observations) -> npt.NDArray[np.float32]:
        if self.normalisation is not None:
            batch = self.normalisation.apply(batch)
        batch = self.encoding.encode(batch)
        if not batch.flags.writeable:
            batch = batch.copy()  # PyTorch warns about memory it may not write to
        steps: tuple[tuple[torch.Tensor, torch.Tensor, TensorFunction | None], ...] = self.__dict__["_steps"]
        with torch.inference_mode():
            values = torch.from_numpy(batch)
            for weight, bias, activation in steps:
                values = F.linear(values, weight, bias)
                if activation is not None:
                    values = activation(values)
            if self.kind == "log-probabilities":
                # Not log_softmax: this is how torch.distributions does it, so the bits are Stable-Baselines3's own.
                values = values - values.logsumexp(dim=1, keepdim=True)
            result: npt.NDArray[np.float32] = values.numpy()
            return result

    def __reduce__(self) -> tuple[Any, ...]:
        # Tensors and read-only views are rebuilt when the policy is unpickled.
        values = [getattr(self, each.name) for each in fields(self)]
        return type(self), (*values[:-1], dict(self.metadata))


def layers_of_modules(modules: Sequence[nn.Module]) -> tuple[Layer, ...] | None:
    """Return fully connected PyTorch modules with activations between them as layers; None if they hold anything else.

    The modules have the order in which they are applied. Dropout, which does nothing outside training, and Flatten are
    skipped.
    """
    layers: list[Layer] = []
    for module in modules:
        if type(module) is nn.Linear and module.weight.dtype == torch.float32:
            weight = module.weight.detach().cpu().numpy()
            bias = np.zeros(len(weight)) if module.bias is None else module.bias.detach().cpu().numpy()
            layers.append(Layer(weight, bias))
        elif type(module) in (nn.Dropout, nn.Flatten):
            continue
        else:
            # Any other module must be the activation after the last layer, which has none yet.
            try:
                activation = Activation.of(module)
            except PolicyError:
                return None
            if not layers or layers[-1].activation.name != "identity":
                return None
            layers[-1] = Layer(layers[-1].weight, layers[-1].bias, activation)
    return tuple(layers) or None
