"""Policies: what the rest of the library asks of one, and how to get one without running foreign code.

- `Policy`: the protocol. Observations in, a score for every action out, higher is better.
- `ActingPolicy`: the protocol of what chooses actions, of whatever spaces; `acting` makes any policy one.
- `load_policy`: from a file, an address such as ``zoo:NAME``, a model, a module or a function.
- `describe_policy`, `PolicyDescription`: what is in a policy's file.
- `save_policy`: to a ``.safetensors`` file.
- `NetworkPolicy`, `Layer`, `Activation`, `Plain`, `OneHot`: a feed-forward network as a frozen value.
- `ActorPolicy`: pictures, dictionaries, continuous and several actions, masks, memory.
- `ChoicePolicy`, `with_choices`: policies of continuous and several actions as scores of named choices.
- `FunctionPolicy`: a policy around any function.
- `Normalisation`, `load_normalisation`, `save_normalisation`, `convert_vec_normalize`: observation statistics.
- `register_reader`, `PolicyReader`, `LoadOptions`, `policy_readers`: the readers that `load_policy` asks, and new ones.
- `PolicyError`, `UnclearPolicyError`: what goes wrong, and what has to be said.

Names are imported when they are first used: the protocol alone does not need PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from legible.policies.protocol import (
    ActingPolicy,
    Observations,
    Policy,
    PolicyError,
    ScoreKind,
    Scores,
    UnclearPolicyError,
)
from legible.policies.registry import LoadOptions, PolicyReader, policy_readers, register_reader, remove_reader

if TYPE_CHECKING:
    from legible.policies.activations import ACTIVATION_NAMES, Activation
    from legible.policies.actors.policy import ActorPolicy
    from legible.policies.choices import ChoicePolicy, with_choices
    from legible.policies.describing import PolicyDescription, describe_policy
    from legible.policies.encoding import Encoding, OneHot, Plain
    from legible.policies.loading import load_policy
    from legible.policies.network import Layer, NetworkPolicy
    from legible.policies.normalisation import (
        Normalisation,
        convert_vec_normalize,
        load_normalisation,
        save_normalisation,
    )
    from legible.policies.policy_file import save_policy
    from legible.policies.predicting import acting
    from legible.policies.wrapped import FunctionPolicy, Output

__all__ = [
    "ACTIVATION_NAMES",
    "ActingPolicy",
    "Activation",
    "ActorPolicy",
    "ChoicePolicy",
    "Encoding",
    "FunctionPolicy",
    "Layer",
    "LoadOptions",
    "NetworkPolicy",
    "Normalisation",
    "Observations",
    "OneHot",
    "Output",
    "Plain",
    "Policy",
    "PolicyDescription",
    "PolicyError",
    "PolicyReader",
    "ScoreKind",
    "Scores",
    "UnclearPolicyError",
    "acting",
    "convert_vec_normalize",
    "describe_policy",
    "load_normalisation",
    "load_policy",
    "policy_readers",
    "register_reader",
    "remove_reader",
    "save_normalisation",
    "save_policy",
    "with_choices",
]

_NAMES = {
    "activations": ("ACTIVATION_NAMES", "Activation"),
    "actors.policy": ("ActorPolicy",),
    "choices": ("ChoicePolicy", "with_choices"),
    "describing": ("PolicyDescription", "describe_policy"),
    "encoding": ("Encoding", "OneHot", "Plain"),
    "loading": ("load_policy",),
    "network": ("Layer", "NetworkPolicy"),
    "normalisation": ("Normalisation", "convert_vec_normalize", "load_normalisation", "save_normalisation"),
    "policy_file": ("save_policy",),
    "predicting": ("acting",),
    "wrapped": ("FunctionPolicy", "Output"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
