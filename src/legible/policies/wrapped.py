"""Policies around any function or PyTorch module."""

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

from legible.errors import LegibleError, describe_error
from legible.features.sizes import choice_sizes
from legible.policies.actors.observations import Batch, batch_of
from legible.policies.normalisation import Normalisation
from legible.policies.predicting import ScoredPrediction
from legible.policies.protocol import (
    FALLBACK_SCORE,
    Observations,
    PolicyError,
    ScoreKind,
    Scores,
    as_observations,
    as_scores,
    naming_errors,
)

Output = Literal["values", "logits", "log-probabilities", "probabilities", "actions"]
"""Output of a function or a module: a number for every action, or actions."""

OUTPUTS: tuple[str, ...] = get_args(Output)

_SUM_TOLERANCE = 1e-3


def kind_of_output(output: Output) -> ScoreKind:
    """Return the kind of the scores that an output gives."""
    return "values" if output == "values" else "log-probabilities"


@dataclass(frozen=True, eq=False)
class FunctionPolicy(ScoredPrediction):
    """A policy around a function from observations to scores.

    >>> policy = FunctionPolicy(lambda observations: observations @ np.eye(2), "logits", n_actions=2)
    >>> policy.kind
    'log-probabilities'
    >>> np.exp(policy.scores(np.zeros((1, 2), dtype=np.float32)))
    array([[0.5, 0.5]])
    """

    # Takes ``float32[n, features]`` and returns ``float[n, actions]``
    function: Callable[[Observations], npt.ArrayLike]
    output: Output  # meaning of the output; logits and probabilities are converted to log-probabilities
    n_actions: int
    n_features: int | None = None  # width of the observations, None for any width
    normalisation: Normalisation | None = None  # observation statistics, applied before the function
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scored = [output for output in OUTPUTS if output != "actions"]
        if self.output not in scored:
            raise PolicyError(f"output must be one of {', '.join(scored)}, not {self.output!r}")

    @property
    def kind(self) -> ScoreKind:
        """Meaning of the scores."""
        return kind_of_output(self.output)

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, actions]`` of the observations ``float32[n, features]``."""
        batch = as_observations(observations, self.n_features)
        if self.normalisation is not None:
            batch = self.normalisation.apply(batch)
        raw = as_scores(call_function(self.function, batch, self.n_actions), len(batch), self.n_actions)
        return as_scores(_scores_of_output(raw, self.output), len(batch), self.n_actions)


@dataclass(frozen=True, eq=False)
class ActionFunctionPolicy:
    """A policy around a function from observations to actions: a script, a controller, the ``predict`` of a model.

    There are no scores. Guidance replaces the action. For discrete actions, the action returned counts as 1, `fallback`
    as ½ and all others as 0, so that `fallback` is taken where rules block the action returned.
    """

    # Returns actions of the environment. With `batched`, it takes ``float32[n, features]`` and returns n actions, else
    # one observation and one action.
    function: Callable[..., Any]
    action_space: spaces.Space[Any]
    n_features: int | None = None
    normalisation: Normalisation | None = None
    # Space of the observations; by default flat ones of `n_features` numbers
    observations: spaces.Space[Any] | None = None
    batched: bool = True  # whether the function takes batches
    # Action where rules block the one returned, by the value of each part, counted from 0; None if none is stated
    fallback: tuple[int, ...] | None = None
    recurrent = False
    stochastic = False
    actions_only = True

    def __post_init__(self) -> None:
        sizes = choice_sizes(self.action_space)
        if self.fallback is not None and (
            len(self.fallback) != len(sizes)
            or not all(0 <= value < size for value, size in zip(self.fallback, sizes, strict=True))
        ):
            raise PolicyError(f"the fallback {self.fallback} is no action of {self.action_space}, counted from 0")

    @property
    def n_actions(self) -> int:
        """Number of discrete actions, 0 for other actions."""
        return int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else 0

    @property
    def kind(self) -> ScoreKind:
        """``"values"`` for discrete actions: 1 for the action returned; ``"none"`` for others."""
        return "values" if self.n_actions else "none"

    @property
    def lacks_fallback(self) -> bool:
        """True if rules must not block actions, because it is not stated which of several others is then taken."""
        return self.fallback is None and any(size > 2 for size in choice_sizes(self.action_space))

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Space of the observations, None if their width is unknown."""
        if self.observations is not None:
            return self.observations
        return None if self.n_features is None else spaces.Box(-np.inf, np.inf, (self.n_features,), np.float32)

    def scores(self, observations: Observations) -> Scores:
        """Return 1 for the discrete action that the function returns, ½ for the fallback, 0 for others."""
        if not self.n_actions:
            raise PolicyError(f"this policy has actions of {self.action_space} and no score for every action")
        actions, _ = self.predict(observations)
        scores = np.zeros((len(actions), self.n_actions))
        if self.fallback is not None:
            scores[:, self.fallback[0]] = FALLBACK_SCORE
        scores[np.arange(len(actions)), actions] = 1.0
        return scores

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002 (Stable-Baselines3's signature)
        deterministic: bool = True,  # noqa: ARG002 (there is nothing to draw)
    ) -> tuple[npt.NDArray[Any], Any]:
        """Return the action for an observation or the actions for a batch: within bounds, and counted from 0."""
        space = self.observation_space
        if space is None:
            array = np.asarray(observation, np.float32)
            space = spaces.Box(-np.inf, np.inf, array.shape[-1:], np.float32)
        batch, single = batch_of(observation, space)
        if not isinstance(batch, Mapping):
            # A batch of one row, such as [1, features], is no single observation.
            batch = batch if self.normalisation is None else self.normalisation.apply(batch.astype(np.float32))
        actions = self._checked(self._call(batch, space))
        return (actions[0] if single else actions), state

    def _call(self, batch: Batch, space: spaces.Space[Any]) -> npt.NDArray[Any]:
        if self.batched:
            assert not isinstance(batch, Mapping)
            width = int(np.prod(self.action_space.shape or ()))
            answer = call_function(self.function, np.ascontiguousarray(batch, np.float32), width)
            return answer.reshape(len(batch), *(self.action_space.shape or ()))
        if isinstance(batch, Mapping):
            assert isinstance(space, spaces.Dict)
            typed = {key: rows.astype(space[key].dtype) for key, rows in batch.items()}
            rows: list[Any] = [dict(zip(typed, parts, strict=True)) for parts in zip(*typed.values(), strict=True)]
        else:
            rows = list(batch.astype(space.dtype))
        with naming_errors():
            answers = [as_numbers(self.function(row)).reshape(self.action_space.shape or ()) for row in rows]
        return np.stack(answers) if answers else np.zeros((0, *(self.action_space.shape or ())))

    def _checked(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return actions in the type of their space, counted from 0 and within bounds; raise if one makes no sense."""
        space = self.action_space
        if np.isnan(actions).any():
            raise PolicyError(f"{name_of(self.function)} returned NaN as an action. Correct the policy.")
        if isinstance(space, spaces.Box):
            return np.clip(actions, space.low, space.high).astype(space.dtype)
        whole = np.asarray(actions) - getattr(space, "start", 0)
        sizes = np.array(choice_sizes(space)).reshape(space.shape or ())
        wrong = (whole != np.floor(whole)) | (whole < 0) | (whole >= sizes)
        if wrong.any():
            row = int(wrong.reshape(len(wrong), -1).any(axis=1).argmax())
            action = ", ".join(f"{part:g}" for part in np.ravel(actions[row]))
            raise PolicyError(
                f"{name_of(self.function)} returned the action {action}, but the environment's actions are {space}. "
                "Correct the policy."
            )
        return whole.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ModuleFunction:
    """A copy of a PyTorch module as a function on arrays, in evaluation mode and on the device of its parameters."""

    module: nn.Module
    compute: Callable[[nn.Module, torch.Tensor], torch.Tensor] = nn.Module.__call__

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", copy.deepcopy(self.module).eval())
        object.__setattr__(self, "_device", device_of(self.module))
        check_finite(self.module)
        types = {tensor.dtype for tensor in self.module.parameters() if tensor.is_floating_point()}
        object.__setattr__(self, "_dtype", types.pop() if len(types) == 1 else torch.float32)

    def __call__(self, observations: Observations) -> npt.NDArray[Any]:
        """Return the output of the module."""
        with torch.inference_mode():
            batch = torch.tensor(observations, device=self.__dict__["_device"], dtype=self.__dict__["_dtype"])
            output = self.compute(self.module, batch)
            if not isinstance(output, torch.Tensor):
                raise PolicyError(
                    f"{type(self.module).__name__} returns a {type(output).__name__}, but a policy must return one "
                    "tensor of shape [n, actions]"
                )
            floats = output.detach().cpu().to(torch.promote_types(output.dtype, torch.float32))
            result: npt.NDArray[Any] = floats.numpy()
            return result


def call_function(function: Callable[..., npt.ArrayLike], batch: Observations, width: int | None = None) -> Scores:
    """Return the output of a policy's function for a batch as floats; raise an error that names its fault.

    `width` is the count of numbers that it must return for each observation, None if any will do. A common fault is a
    function that takes a single observation: the error then says how to make it take batches.
    """
    try:
        raw = function(batch)
        numbers = None if raw is None else as_numbers(raw)
    except LegibleError:
        raise
    except Exception as error:
        own_error = f"{name_of(function)} raised {describe_error(error)}. Correct the policy."
        raise PolicyError(_explain_single(function, batch) or own_error) from error
    if numbers is None:
        raise PolicyError(f"{name_of(function)} returned None; it must return scores of shape [n, actions].")
    floats: Scores = numbers if np.issubdtype(numbers.dtype, np.floating) else numbers.astype(np.float64)
    fits = floats.ndim >= 1 and len(floats) == len(batch) and (width is None or floats.size == len(batch) * width)
    explanation = "" if fits else _explain_single(function, batch)
    if explanation:
        raise PolicyError(explanation)
    not_a_number = np.isnan(floats)
    if not_a_number.any() and len(floats) == len(batch):
        row = int(not_a_number.reshape(len(batch), -1).any(axis=1).argmax())
        shown = np.array2string(batch[row], threshold=8, edgeitems=2)
        raise PolicyError(f"{name_of(function)} returned NaN for the observation {shown}. Correct the policy.")
    return floats


def name_of(function: Any) -> str:
    """Return the name of a policy's function for messages."""
    if isinstance(function, ModuleFunction):
        function = function.module
    name = getattr(function, "__qualname__", "<")  # names of lambdas and local functions contain "<"
    return "the function" if "<" in name else f"{function.__module__}:{name}"


def _explain_single(function: Any, batch: Observations) -> str:
    """Return what to do about a function that takes a single observation; "" if it does not."""
    try:
        answer = function(batch[0])
    except Exception:  # it fails with anything
        return ""
    if answer is None or np.ndim(answer) > 1:
        return ""
    call = f"[{getattr(function, '__name__', 'policy')}(one) for one in batch]"
    batched = f"np.stack({call})" if np.ndim(answer) else f"np.eye(n_actions)[{call}]"
    return (
        f"{name_of(function)} takes one observation at a time, but it must take a batch of shape [n, "
        f"{batch.shape[1]}] and return scores of shape [n, actions]. Vectorise it, or write def batched(batch): "
        f"return {batched}."
    )


def device_of(module: nn.Module) -> torch.device:
    """Return the device of all parameters and buffers of a module, or raise an error if there are several."""
    devices: dict[torch.device, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor):
            devices.setdefault(tensor.device, name)
    if len(devices) > 1:
        where = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise PolicyError(f"the module is spread over several devices ({where}); move it to one of them first")
    return next(iter(devices), torch.device("cpu"))


def check_finite(module: nn.Module) -> None:
    """Raise an error if a parameter of a module is NaN or infinite."""
    for name, tensor in module.named_parameters():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise PolicyError(f"tensor {name!r} of {type(module).__name__} is not finite: it holds NaN or infinity")


def as_numbers(raw: Any) -> npt.NDArray[Any]:
    """Return the output of a function as an array of numbers, or raise an error."""
    if isinstance(raw, torch.Tensor):
        raw = raw.detach().cpu().numpy()
    numbers = np.asarray(raw)
    if numbers.dtype == np.bool_:
        return numbers.astype(np.int64)
    if not np.issubdtype(numbers.dtype, np.number) or np.iscomplexobj(numbers):
        raise PolicyError(f"the output of a policy must be numbers, not {numbers.dtype}")
    return numbers


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
            f"the output is no distribution, although it was declared as {output!r}: in row {int(far.argmax())} of the "
            f"batch the probabilities are {probabilities[far.argmax()]}. Declare it as 'logits' or 'values'"
        )
    if output == "log-probabilities":
        return raw
    with np.errstate(divide="ignore"):
        logarithms: Scores = np.log(raw)
    return logarithms
