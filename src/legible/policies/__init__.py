"""Policies: the protocol that the library relies on, and loaders that never run code from a file.

- `Policy`: the protocol. Observations in, a score for every action out, higher is better.
- `ActingPolicy`: the protocol of policies that choose actions in any space; `acting` turns any policy into one.
- `load_policy`: load a policy from a file, an address such as ``zoo:NAME``, a model, a module or a function.
- `describe_policy`, `PolicyDescription`: the contents of a policy file.
- `save_policy`: write a ``.safetensors`` file.
- `NetworkPolicy`, `Layer`, `Activation`, `Plain`, `OneHot`: an immutable feed-forward network.
- `ActorPolicy`: images, dictionaries, continuous and multi-part actions, masks, memory.
- `FunctionPolicy`: a policy around any function.
- `Normalisation`, `load_normalisation`, `save_normalisation`: observation statistics.
- `register_reader`, `PolicyReader`, `LoadOptions`, `policy_readers`: the readers behind `load_policy`.
- `PolicyError`, `UnclearPolicyError`: errors; the second names the missing argument.

Names are imported on first use: the protocol alone does not need PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.policies.activations import ACTIVATION_NAMES, Activation
    from legible.policies.actors.policy import ActorPolicy
    from legible.policies.describing import PolicyDescription, describe_policy
    from legible.policies.encoding import Encoding, OneHot, Plain
    from legible.policies.loading import load_policy
    from legible.policies.network import Layer, NetworkPolicy
    from legible.policies.normalisation import Normalisation, load_normalisation, save_normalisation
    from legible.policies.policy_file import save_policy
    from legible.policies.predicting import acting
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
    from legible.policies.wrapped import FunctionPolicy, Output

__all__, __getattr__, __dir__ = lazy_exports(__name__)
