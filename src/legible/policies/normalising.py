"""How a policy gets the statistics that its observations are normalised with.

- `said_normalisation`: the statistics that the caller named.
- `normalised`: a policy with its own statistics, or with those that were named; both must agree.
- `normalised_file`: a policy from a file, with what was named or what lies beside the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from gymnasium import spaces

from legible.policies.actors.observations import Statistics
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import OneHot
from legible.policies.network import NetworkPolicy
from legible.policies.normalisation import (
    Normalisation,
    find_normalisation,
    load_normalisation,
)
from legible.policies.protocol import Policy, PolicyError, UnclearPolicyError
from legible.policies.registry import LoadOptions
from legible.policies.vec_normalize import find_vec_normalize
from legible.policies.wrapped import FunctionPolicy

if TYPE_CHECKING:
    from legible.policies.sb3.models import ModelPolicy

    NormalisablePolicy: TypeAlias = NetworkPolicy | FunctionPolicy | ActorPolicy | ModelPolicy


def said_normalisation(options: LoadOptions) -> Statistics | None:
    """Return the statistics that the caller named, None when it named none or said that there are none."""
    said = options.normalisation
    if said is None or isinstance(said, Normalisation | Mapping):
        return said
    if isinstance(said, str) and said == "none":
        return None
    return load_normalisation(said)


def normalised_file(policy: NormalisablePolicy, path: Path, options: LoadOptions, *, trained_so: bool | None) -> Policy:
    """Give a policy from a file the statistics that were passed, or those that lie beside it."""
    if policy.normalisation is not None or options.normalisation is not None:
        return normalised(policy, policy.normalisation, options, str(path))
    beside = find_normalisation(path)
    if beside is None and trained_so is not False:
        beside = find_vec_normalize(path)
    if beside is not None:
        statistics = load_normalisation(beside)
        return policy if statistics is None else _with_statistics(policy, statistics, str(path))
    if trained_so:
        raise UnclearPolicyError(
            f"{path}: it was trained behind a VecNormalize (it keeps observations from before one), but the statistics "
            "of its observations are not there. Put vecnormalize.pkl beside it or give the file as normalisation; "
            "'none' if only rewards were normalised",
            "normalisation",
        )
    return policy


def normalised(
    policy: NormalisablePolicy, own: Statistics | None, options: LoadOptions, whose: str
) -> NormalisablePolicy:
    """Give a policy its own statistics, or those that were passed; both must agree."""
    said = said_normalisation(options)
    if own is not None and options.normalisation is not None and said != own:
        raise PolicyError(
            f"{whose}: it brings normalisation statistics of its own, and the normalisation that was given says "
            "otherwise"
        )
    statistics = own if own is not None else said
    if statistics is None or statistics == policy.normalisation:
        return policy
    return _with_statistics(policy, statistics, whose)


def _with_statistics(policy: NormalisablePolicy, statistics: Statistics, whose: str) -> NormalisablePolicy:
    if not isinstance(policy, NetworkPolicy | FunctionPolicy):
        _check_actor(policy, statistics, whose)
        return dataclasses.replace(policy, normalisation=statistics)
    if isinstance(policy, NetworkPolicy) and isinstance(policy.encoding, OneHot):
        raise PolicyError(f"{whose}: observations that are one-hot encoded cannot be normalised")
    if not isinstance(statistics, Normalisation):
        raise PolicyError(f"{whose}: the normalisation statistics are for Dict observations, but it reads one array")
    if statistics.n_features != policy.n_features:
        raise PolicyError(
            f"{whose}: the normalisation statistics are for {statistics.n_features} features, but the policy reads "
            f"{policy.n_features}"
        )
    return dataclasses.replace(policy, normalisation=statistics)


def _check_actor(policy: ActorPolicy | ModelPolicy, statistics: Statistics, whose: str) -> None:
    space = policy.observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {"observations": space}
    given = {"observations": statistics} if isinstance(statistics, Normalisation) else statistics
    for key, values in given.items():
        if key not in parts or not isinstance(parts[key], spaces.Box):
            raise PolicyError(
                f"{whose}: there are normalisation statistics of {key}, which it does not read as numbers"
            )
        width = int(np.prod(parts[key].shape or ()))
        if values.n_features != width:
            raise PolicyError(
                f"{whose}: the normalisation statistics of {key} are for {values.n_features} features, but the policy "
                f"reads {width}"
            )
