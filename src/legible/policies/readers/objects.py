"""Readers of objects in memory: policies, models of Stable-Baselines3, PyTorch modules, functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from torch import nn

from legible.policies.encoding import Plain
from legible.policies.network import NetworkPolicy, layers_of_modules
from legible.policies.normalisation import Normalisation
from legible.policies.normalising import given_normalisation, normalised
from legible.policies.protocol import Policy, PolicyError, UnclearPolicyError
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.wrapped import (
    OUTPUTS,
    ActionFunctionPolicy,
    FunctionPolicy,
    ModuleFunction,
    Output,
    as_numbers,
    call_function,
    check_finite,
    kind_of_output,
    name_of,
)


def read_model(model: Any, options: LoadOptions) -> Policy:
    """Return the policy of a model of Stable-Baselines3, with the statistics of its ``VecNormalize``."""
    from legible.policies.sb3.models import normalisation_of_model, policy_of_model  # noqa: PLC0415 (slow import)

    what = "a model of Stable-Baselines3"
    options.refuse(what, "output", "activation", "encoding", "algorithm")
    own_statistics = normalisation_of_model(model)
    return normalised(policy_of_model(model), own_statistics, options, what)


def read_module(module: nn.Module, options: LoadOptions) -> Policy:
    """Return the policy of a module; a plain sequence of layers becomes a `NetworkPolicy`."""
    options.refuse("a torch.nn.Module", "activation", "algorithm")
    name = type(module).__name__
    output = _output(options, name)
    layers = layers_of_modules(tuple(module)) if type(module) is nn.Sequential else None
    if layers is not None and output in ("values", "logits"):
        check_finite(module)
        encoding = options.encoding or Plain(layers[0].n_inputs)
        return normalised(NetworkPolicy(layers, kind_of_output(output), encoding), None, options, name)
    if options.encoding is not None:
        raise PolicyError(f"encoding does not apply to {name}: it is more than a sequence of layers")
    return with_output(ModuleFunction(module), options, name)


def read_function(function: Callable[..., npt.ArrayLike], options: LoadOptions) -> Policy:
    """Return the policy of a function."""
    options.refuse("a function", "activation", "encoding", "algorithm")
    return with_output(function, options, name_of(function))


def read_policy(policy: Policy, options: LoadOptions) -> Policy:
    """Return a policy unchanged."""
    options.refuse("a Policy", "output", "activation", "normalisation", "encoding", "algorithm")
    return policy


def read_predictor(model: Any, options: LoadOptions) -> Policy:
    """Return the policy of an object with ``predict``, which returns actions, or actions and a state."""
    name = type(model).__name__
    options.refuse(f"the predict of a {name}", "activation", "encoding", "algorithm")
    if options.output not in (None, "actions"):
        raise PolicyError(f"the predict of a {name} returns actions, not {options.output}")
    return with_output(PredictFunction(model), dataclasses.replace(options, output="actions"), name)


@dataclasses.dataclass(frozen=True)
class PredictFunction:
    """The ``predict`` of an object as a function from observations to actions, without the state that it returns."""

    model: Any

    def __call__(self, observations: Any) -> Any:
        """Return the actions."""
        answer = self.model.predict(observations)
        return answer[0] if isinstance(answer, tuple) else answer


def with_output(
    function: Callable[..., npt.ArrayLike], options: LoadOptions, whose: str
) -> FunctionPolicy | ActionFunctionPolicy:
    """Return the policy of a function, whose output is scores for every action or the actions themselves.

    - `function`: a function from ``float32[n, features]`` to ``[n, actions]`` or to n actions; with an action space
      also a function from one observation to one action.
    - `options`: the caller's options. ``output`` says what the function returns; without it, an action space makes the
      function be tried out. An `UnclearPolicyError` names the option that is missing.
    - `whose`: the name of the function, or of the file or object that holds it, for error messages.
    """
    normalisation = given_normalisation(options)
    if isinstance(normalisation, Mapping):
        raise PolicyError(f"{whose} reads one array, but the normalisation statistics are for Dict observations")
    n_features = options.n_features
    if normalisation is not None:
        n_features = n_features or normalisation.n_features

    # With an action space, try whether the function returns actions of it.
    if options.action_space is not None and options.output in (None, "actions"):
        controller = _controller(function, options, normalisation, whose)
        if controller is not None:
            return controller

    # Actions without a space must be continuous: one call shows how many numbers they have.
    output = _output(options, whose)
    if output == "actions":
        width = None if n_features is None else _tried_width(function, n_features, whose)
        if width is None:
            raise UnclearPolicyError(
                f"the actions of {whose} are unknown. Pass action_space, the environment's, or n_features, such as 69, "
                "to try it out if its actions are continuous",
                "action_space",
            )
        actions = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        return ActionFunctionPolicy(function, actions, n_features, normalisation)

    # Scores: the number of actions is given, or one call shows it if the number of features is known, or it is that of
    # the action space.
    if options.fallback is not None:
        raise PolicyError(f"fallback does not apply to {whose}: its {output} decide what is taken instead")
    n_actions = options.n_actions
    if n_actions is None and n_features is None and isinstance(options.action_space, spaces.Discrete):
        n_actions = int(options.action_space.n)
    if n_actions is None:
        if n_features is None:
            raise UnclearPolicyError(
                f"the number of actions of {whose} is unknown. Pass n_actions, or n_features to try it out", "n_actions"
            )
        n_actions = _tried_width(function, n_features, whose)
    return FunctionPolicy(function, output, n_actions, n_features, normalisation)


_TRIED_ROWS = (5, 7)  # no network has both numbers of outputs


def _controller(
    function: Callable[..., Any], options: LoadOptions, normalisation: Normalisation | None, whose: str
) -> ActionFunctionPolicy | None:
    """Return the policy of a function from observations to actions of the caller's action space.

    The function is tried out on an example observation: as a batch first, then alone. Returns None if it returns
    something else, such as scores, unless the caller said that it returns actions.

    - `function`: a function from a batch of observations to actions, or from one observation to one action.
    - `options`: the caller's options; ``options.action_space`` must be set. If ``options.output`` is "actions", a
      function that returns something else is an error.
    - `whose`: the name of the function, or of the file or object that holds it, for error messages.
    """
    action_space, observation_space = options.action_space, options.observation_space
    assert action_space is not None
    n_features = options.n_features
    if observation_space is not None and not isinstance(observation_space, spaces.Dict):
        n_features = int(np.prod(observation_space.shape or (1,)))
    if observation_space is None and n_features is None:
        raise UnclearPolicyError(f"the observations of {whose} are unknown. Pass observation_space", "action_space")

    # The action that is taken where a rule forbids the function's own: one number per part of the action.
    fallback = None
    if options.fallback is not None:
        if isinstance(action_space, spaces.Box):
            raise PolicyError(
                f"fallback does not apply to {whose}: the nearest region of {action_space} is taken instead"
            )
        fallback = tuple(int(value) for value in np.ravel(options.fallback))
    example = _example(observation_space) if observation_space is not None else np.zeros(n_features or 0, np.float32)
    common_fields: dict[str, Any] = {
        "normalisation": normalisation,
        "observations": observation_space,
        "fallback": fallback,
    }

    # Only flat observations can come as a batch of rows; others are passed one by one. Which of the two forms the
    # function takes is tried out: given the wrong one, it may raise any error.
    has_rows = not isinstance(observation_space, spaces.Dict) and len(np.shape(example)) <= 1
    problem = "it takes neither a batch nor one observation"
    for batched in [True, False] if has_rows else [False]:
        policy = ActionFunctionPolicy(function, action_space, n_features, batched=batched, **common_fields)
        try:
            shape = _shape_of_wrong_answer(function, example, action_space) if batched else None
            if shape is not None:
                problem = f"for {_TRIED_ROWS[0]} observations it returns shape {shape}"
                continue
            # The same observation twice: a function that remembers or draws random numbers cannot be studied.
            first, second = (policy.predict(example)[0] for _ in range(2))
        except Exception as error:
            if batched and options.output == "actions" and isinstance(error, PolicyError):
                raise  # it takes batches, so the error names its fault
            problem = str(error) if isinstance(error, PolicyError) else f"it raised {type(error).__name__}: {error}"
            continue
        if not np.array_equal(first, second):
            raise PolicyError(
                f"{whose} returns different actions for the same observation, because it has a memory or draws random "
                "numbers. Studies need a function of the observation; add the memory to the observation with a wrapper"
            )
        return policy
    if options.output == "actions":
        raise PolicyError(f"{whose} does not return actions of {action_space}: {problem[:300]}")
    return None


def _shape_of_wrong_answer(
    function: Callable[..., Any], example: Any, action_space: spaces.Space[Any]
) -> tuple[int, ...] | None:
    """Return the shape of a function's answer to a batch if it is not one action per observation; None if it is.

    Batches of two sizes show whether the first axis of the answer counts the observations.
    """
    batches = [np.tile(np.ravel(example).astype(np.float32), (rows, 1)) for rows in _TRIED_ROWS]
    shapes = [np.shape(as_numbers(function(batch))) for batch in batches]
    # Actions that are single numbers may come as [n] or as [n, 1].
    accepted = [(), (1,)] if action_space.shape == () else [action_space.shape or ()]
    is_right = any(shapes == [(rows, *shape) for rows in _TRIED_ROWS] for shape in accepted)
    return None if is_right else shapes[0]


def _example(space: spaces.Space[Any]) -> Any:
    """Return an observation of a space: zeros, within its bounds."""
    if isinstance(space, spaces.Dict):
        return {key: _example(part) for key, part in space.spaces.items()}
    zeros = np.zeros(space.shape or (), space.dtype)
    return (
        np.clip(zeros, space.low, space.high) if isinstance(space, spaces.Box) else zeros + getattr(space, "start", 0)
    )


def _tried_width(function: Callable[..., npt.ArrayLike], n_features: int, whose: str) -> int:
    answer = call_function(function, np.zeros((1, n_features), dtype=np.float32)).shape
    if len(answer) != 2 or answer[0] != 1:
        hint = ". For action numbers, return np.eye(n_actions)[numbers]" if answer == (1,) else ""
        raise PolicyError(
            f"{whose} must return scores of shape [n, actions], but for one observation it returns shape {answer}{hint}"
        )
    return int(answer[1])


def _output(options: LoadOptions, whose: str) -> Output:
    if options.output is None:
        raise UnclearPolicyError(
            f"the output of {whose} is unknown. Pass output (--policy-output): values (Q-values), logits, "
            "log-probabilities or probabilities of all actions, or actions",
            "output",
        )
    if options.output not in OUTPUTS:
        raise PolicyError(f"output must be one of {', '.join(OUTPUTS)}, not {options.output!r}")
    return options.output


def _is_sb3(source: object) -> bool:
    """Return whether an object is a model or a policy of Stable-Baselines3, without importing it."""
    bases = ("BaseAlgorithm", "BasePolicy")
    return any(
        ancestor.__name__ in bases and ancestor.__module__.startswith("stable_baselines3.common.")
        for ancestor in type(source).__mro__
    )


MODEL_READER = PolicyReader("sb3-model", "a model of Stable-Baselines3", _is_sb3, read_model)
MODULE_READER = PolicyReader(
    "torch-module", "a torch.nn.Module", lambda source: isinstance(source, nn.Module), read_module
)
POLICY_READER = PolicyReader(
    "policy", "a Policy", lambda source: isinstance(source, Policy) and not isinstance(source, type), read_policy
)
PREDICT_READER = PolicyReader(
    "predict",
    "an object with predict",
    lambda source: callable(getattr(source, "predict", None)) and not isinstance(source, type),
    read_predictor,
)
FUNCTION_READER = PolicyReader(
    "function", "a function", lambda source: callable(source) and not isinstance(source, type), read_function
)
READERS = (MODEL_READER, MODULE_READER, POLICY_READER, PREDICT_READER, FUNCTION_READER)
"""The readers of objects in order of precedence."""
