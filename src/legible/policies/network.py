"""A policy that is a plain feed-forward network: all that the safe loaders build and `save_policy` writes."""

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

from legible.policies.activations import Activation, TensorFunction
from legible.policies.encoding import Encoding, OneHot
from legible.policies.normalisation import Normalisation
from legible.policies.predicting import ScoredPrediction
from legible.policies.protocol import Observations, PolicyError, ScoreKind, Scores, as_observations, as_scores

if TYPE_CHECKING:
    from gymnasium import spaces

_ROWS_AT_ONCE = 1024
# Larger batches go through in pieces of this many rows, whose hidden layers stay in the processor's cache.


@dataclass(frozen=True, eq=False)
class Layer:
    """One fully connected layer, ``activation(weight @ x + bias)``.

    Parameters
    ----------
    weight
        ``float32[out, in]``
    bias
        ``float32[out]``
    activation
        What follows it; the identity by default, as after the last layer of most networks.
    """

    weight: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
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
        """Width of what goes in."""
        return int(self.weight.shape[1])

    @property
    def n_outputs(self) -> int:
        """Width of what comes out."""
        return int(self.weight.shape[0])


@dataclass(frozen=True, eq=False)
class NetworkPolicy(ScoredPrediction):
    """A feed-forward network with its normalisation, its observation encoding and the meaning of its output.

    Parameters
    ----------
    layers
        The fully connected layers, first to last.
    kind
        ``"values"``: the output is the scores. ``"log-probabilities"``: the output is logits and the scores are their
        log-softmax.
    encoding
        How an observation becomes the input of the first layer.
    normalisation
        Statistics to normalise observations with before anything else, None when the policy was trained without.
    action_names
        A name for every action, None when they have none.
    env_id
        The environment that the policy was made for, None when it is not known.
    metadata
        Anything else worth keeping (algorithm, seed, steps): plain data that JSON can hold.

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
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))
        if self.action_names is not None:
            object.__setattr__(self, "action_names", tuple(self.action_names))
        self._check()
        steps = tuple(
            (torch.from_numpy(layer.weight.copy()), torch.from_numpy(layer.bias.copy()), layer.activation.function())
            for layer in self.layers
        )
        object.__setattr__(self, "_steps", steps)

    def _check(self) -> None:
        if not self.layers:
            raise PolicyError("a network needs at least one layer")
        width = self.encoding.width
        for number, layer in enumerate(self.layers):
            if layer.n_inputs != width:
                raise PolicyError(f"layer {number} reads {layer.n_inputs} values, but {width} come in")
            for name in ("weight", "bias"):
                if not np.isfinite(getattr(layer, name)).all():
                    raise PolicyError(f"{name} of layer {number} is not finite: it holds NaN or infinity")
            width = layer.n_outputs
            if not width:
                raise PolicyError(f"layer {number} has no outputs")
        if self.kind not in ("values", "log-probabilities"):
            raise PolicyError(f"kind is 'values' or 'log-probabilities', not {self.kind!r}")
        if self.normalisation is not None and self.normalisation.n_features != self.n_features:
            raise PolicyError(
                f"the normalisation statistics are for {self.normalisation.n_features} features, but the policy reads "
                f"{self.n_features}"
            )
        if self.action_names is not None and len(self.action_names) != self.n_actions:
            raise PolicyError(f"{len(self.action_names)} action names given for {self.n_actions} actions")

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
        """The observations: whole numbers where they are one-hot encoded, else a box without bounds."""
        from gymnasium import spaces  # noqa: PLC0415 (most that use a policy never ask)

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
        # Tensors and read-only views are rebuilt where the policy arrives, not sent there.
        values = [getattr(self, each.name) for each in fields(self)]
        return type(self), (*values[:-1], dict(self.metadata))


def layers_of_modules(modules: Sequence[nn.Module]) -> tuple[Layer, ...] | None:
    """Return what a sequence of PyTorch modules computes as layers, None when it is more than layers can say.

    Dropout counts as nothing, which it is outside training, and so does flattening what is flat.
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
            try:
                activation = Activation.of(module)
            except PolicyError:
                return None
            if not layers or layers[-1].activation.name != "identity":
                return None
            layers[-1] = Layer(layers[-1].weight, layers[-1].bias, activation)
    return tuple(layers) or None
