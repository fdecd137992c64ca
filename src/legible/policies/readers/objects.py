"""Readers of what is already in memory: policies, models of Stable-Baselines3, modules of PyTorch, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from torch import nn

from legible.policies.encoding import Plain
from legible.policies.network import NetworkPolicy, layers_of_modules
from legible.policies.normalising import normalised, said_normalisation
from legible.policies.protocol import Policy, PolicyError, UnclearPolicyError
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.wrapped import (
    OUTPUTS,
    ActionFunctionPolicy,
    FunctionPolicy,
    ModuleFunction,
    Output,
    check_finite,
    kind_of_output,
)


def read_model(model: Any, options: LoadOptions) -> Policy:
    """Return the policy of a model of Stable-Baselines3, with the statistics of its ``VecNormalize``."""
    from legible.policies.sb3.models import normalisation_of_model, policy_of_model  # noqa: PLC0415 (slow import)

    what = "a model of Stable-Baselines3"
    options.refuse(what, "output", "activation", "encoding", "algorithm")
    own = normalisation_of_model(model)
    return normalised(policy_of_model(model), own, options, what)


def read_module(module: nn.Module, options: LoadOptions) -> Policy:
    """Return the policy that a module computes; a plain sequence of layers becomes a `NetworkPolicy`."""
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
    """Return the policy that a function computes."""
    options.refuse("a function", "activation", "encoding", "algorithm")
    return with_output(function, options, "the function")


def read_policy(policy: Policy, options: LoadOptions) -> Policy:
    """Return a policy as it is."""
    options.refuse("what is a policy already", "output", "activation", "normalisation", "encoding", "algorithm")
    return policy


def with_output(
    function: Callable[..., npt.ArrayLike], options: LoadOptions, whose: str
) -> FunctionPolicy | ActionFunctionPolicy:
    """Return the policy that a function computes, by what the caller says that it returns."""
    output = _output(options, whose)
    normalisation = said_normalisation(options)
    if isinstance(normalisation, Mapping):
        raise PolicyError(f"{whose} reads one array, but the normalisation statistics are for Dict observations")
    n_features = options.n_features
    if normalisation is not None:
        n_features = n_features or normalisation.n_features
    if output == "actions":
        width = None if n_features is None else _tried_width(function, n_features, whose)
        if width is None:
            raise UnclearPolicyError(
                f"cannot know how many numbers the actions of {whose} have. Say it with n_features=69 so that it can "
                "be tried",
                "n_features",
            )
        actions = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        return ActionFunctionPolicy(function, actions, n_features, normalisation)
    n_actions = options.n_actions
    if n_actions is None:
        if n_features is None:
            raise UnclearPolicyError(
                f"cannot know how many actions {whose} has. Say it with n_actions=5, or with n_features=69 so that it "
                "can be tried",
                "n_actions",
            )
        n_actions = _tried_width(function, n_features, whose)
    return FunctionPolicy(function, output, n_actions, n_features, normalisation)


def _tried_width(function: Callable[..., npt.ArrayLike], n_features: int, whose: str) -> int:
    answer = np.shape(function(np.zeros((1, n_features), dtype=np.float32)))
    if len(answer) != 2 or answer[0] != 1:
        raise PolicyError(
            f"{whose} must return scores of shape [n, actions], but for one observation it returns shape {answer}"
        )
    return int(answer[1])


def _output(options: LoadOptions, whose: str) -> Output:
    if options.output is None:
        raise UnclearPolicyError(
            f"cannot know what {whose} returns; say whether it is values (Q-values), logits, log-probabilities or "
            "probabilities of all actions (--policy-output)",
            "output",
        )
    if options.output not in OUTPUTS:
        raise PolicyError(f"{options.output!r} is no output of a policy; they are {', '.join(OUTPUTS)}")
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
FUNCTION_READER = PolicyReader(
    "function", "a function", lambda source: callable(source) and not isinstance(source, type), read_function
)
