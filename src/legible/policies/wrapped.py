"""Policies around what somebody else computes: a function, or any PyTorch module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import nn

from legible.policies.normalisation import Normalisation
from legible.policies.predicting import ScoredPrediction
from legible.policies.protocol import Observations, PolicyError, ScoreKind, Scores, as_observations, as_scores

Output = Literal["values", "logits", "log-probabilities", "probabilities", "actions"]
"""What a function or a module gives back for an observation: something for every action, or continuous actions."""

OUTPUTS: tuple[str, ...] = get_args(Output)

_SUM_TOLERANCE = 1e-3


def kind_of_output(output: Output) -> ScoreKind:
    """Return what scores made from such an output mean."""
    return "values" if output == "values" else "log-probabilities"


@dataclass(frozen=True, eq=False)
class FunctionPolicy(ScoredPrediction):
    """A policy that is any function from observations to scores.

    Parameters
    ----------
    function
        Takes ``float32[n, features]`` and returns ``float[n, actions]``.
    output
        What it returns; logits and probabilities are turned into log-probabilities.
    n_actions
        Number of actions.
    n_features
        Width of the observations, None when any width will do.
    normalisation
        Statistics to normalise observations with before the function sees them.
    metadata
        Anything else worth keeping.

    Examples
    --------
    >>> policy = FunctionPolicy(lambda observations: observations @ np.eye(2), "logits", n_actions=2)
    >>> policy.kind
    'log-probabilities'
    >>> np.exp(policy.scores(np.zeros((1, 2), dtype=np.float32)))
    array([[0.5, 0.5]])
    """

    function: Callable[[Observations], npt.ArrayLike]
    output: Output
    n_actions: int
    n_features: int | None = None
    normalisation: Normalisation | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scored = [output for output in OUTPUTS if output != "actions"]
        if self.output not in scored:
            raise PolicyError(f"output is one of {', '.join(scored)}, not {self.output!r}")

    @property
    def kind(self) -> ScoreKind:
        """What the scores mean."""
        return kind_of_output(self.output)

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, actions]`` of the observations ``float32[n, features]``."""
        batch = as_observations(observations, self.n_features)
        if self.normalisation is not None:
            batch = self.normalisation.apply(batch)
        raw = as_scores(_as_floats(self.function(batch)), len(batch), self.n_actions)
        return as_scores(_scores_of_output(raw, self.output), len(batch), self.n_actions)


@dataclass(frozen=True, eq=False)
class ActionFunctionPolicy:
    """A policy that is any function from observations to continuous actions.

    Parameters
    ----------
    function
        Takes ``float32[n, features]`` and returns ``float[n, numbers]``, as the environment takes them.
    action_space
        The actions.
    n_features
        Width of the observations, None when any width will do.
    normalisation
        Statistics to normalise observations with before the function sees them.
    """

    function: Callable[[Observations], npt.ArrayLike]
    action_space: spaces.Box
    n_features: int | None = None
    normalisation: Normalisation | None = None
    recurrent = False
    stochastic = False
    n_actions = 0

    @property
    def kind(self) -> ScoreKind:
        """``"none"``: it has no scores."""
        return "none"

    @property
    def observation_space(self) -> spaces.Box | None:
        """The observations, None when their width is not known."""
        return None if self.n_features is None else spaces.Box(-np.inf, np.inf, (self.n_features,), np.float32)

    def scores(self, observations: Observations) -> Scores:  # noqa: ARG002 (there are none)
        """Refuse: there is no score for every action."""
        raise PolicyError("this policy gives continuous actions; it has no score for every action")

    def predict(
        self,
        observation: npt.ArrayLike,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002 (Stable-Baselines3's signature)
        deterministic: bool = True,  # noqa: ARG002 (there is nothing to draw)
    ) -> tuple[npt.NDArray[Any], Any]:
        """Return the actions of an observation, or of a batch of them, within the bounds of the action space."""
        array = np.asarray(observation, np.float32)
        width = self.n_features or array.shape[-1]
        single = array.size == width and (array.ndim <= 1 or array.shape[0] != 1)
        batch = as_observations(array.reshape(-1, width), self.n_features)
        if self.normalisation is not None:
            batch = self.normalisation.apply(batch)
        raw = _as_floats(self.function(batch)).reshape(len(batch), *self.action_space.shape)
        if np.isnan(raw).any():
            raise PolicyError("the policy gives NaN: an observation is not finite, or too large for it")
        actions = np.clip(raw, self.action_space.low, self.action_space.high)
        return (actions[0] if single else actions), state


@dataclass(frozen=True, eq=False)
class ModuleFunction:
    """A PyTorch module as a function on arrays, in evaluation mode and on the device where its parameters are.

    The module is copied, so training the original further changes nothing here.
    """

    module: nn.Module
    compute: Callable[[nn.Module, torch.Tensor], torch.Tensor] = nn.Module.__call__

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", copy.deepcopy(self.module).eval())
        object.__setattr__(self, "_device", device_of(self.module))
        check_finite(self.module)
        types = {tensor.dtype for tensor in self.module.parameters() if tensor.is_floating_point()}
        object.__setattr__(self, "_dtype", types.pop() if len(types) == 1 else torch.float32)

    def __call__(self, observations: Observations) -> npt.NDArray[Any]:
        """Return what the module makes of the observations."""
        with torch.inference_mode():
            batch = torch.tensor(observations, device=self.__dict__["_device"], dtype=self.__dict__["_dtype"])
            answer = self.compute(self.module, batch)
            if not isinstance(answer, torch.Tensor):
                raise PolicyError(
                    f"{type(self.module).__name__} returns a {type(answer).__name__}; a policy's module must return "
                    "one tensor of shape [n, actions]"
                )
            result: npt.NDArray[Any] = (
                answer.detach().cpu().to(torch.promote_types(answer.dtype, torch.float32)).numpy()
            )
            return result


def device_of(module: nn.Module) -> torch.device:
    """Return the device where all parameters and buffers of a module are, or say that they are on several."""
    places: dict[torch.device, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor):
            places.setdefault(tensor.device, name)
    if len(places) > 1:
        where = ", ".join(f"{name} on {device}" for device, name in places.items())
        raise PolicyError(f"the module is spread over several devices ({where}); move it to one of them first")
    return next(iter(places), torch.device("cpu"))


def check_finite(module: nn.Module) -> None:
    """Say which parameter of a module is NaN or infinite, if one is."""
    for name, tensor in module.named_parameters():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise PolicyError(f"tensor {name!r} of {type(module).__name__} is not finite: it holds NaN or infinity")


def _as_floats(raw: npt.ArrayLike | torch.Tensor) -> Scores:
    if isinstance(raw, torch.Tensor):
        raw = raw.detach().cpu().numpy()
    scores = np.asarray(raw)
    if np.issubdtype(scores.dtype, np.floating):
        return scores
    if np.issubdtype(scores.dtype, np.integer) or scores.dtype == np.bool_:
        return scores.astype(np.float64)
    raise PolicyError(f"a policy's scores must be numbers, not {scores.dtype}")


def _scores_of_output(raw: Scores, output: Output) -> Scores:
    if output == "values":
        return raw
    if output == "logits":
        shifted = raw - raw.max(axis=1, keepdims=True, initial=-np.inf)
        scores: Scores = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return scores
    probabilities = raw if output == "probabilities" else np.exp(raw)
    far = (probabilities < 0).any(axis=1) | (np.abs(probabilities.sum(axis=1) - 1) > _SUM_TOLERANCE)
    if far.any():
        raise PolicyError(
            f"output={output!r} was promised, but row {int(far.argmax())} of the batch is no distribution: its "
            f"probabilities are {probabilities[far.argmax()]}; perhaps the output is 'logits' or 'values'"
        )
    if output == "log-probabilities":
        return raw
    with np.errstate(divide="ignore"):
        logarithms: Scores = np.log(raw)
    return logarithms
