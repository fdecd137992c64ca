"""How a policy gets the statistics that its observations are normalised with.

- `said_normalisation`: the statistics that the caller named.
- `normalised`: a policy with its own statistics, or with those that were named; both must agree.
- `normalised_file`: a policy from a file, with what was named or what lies next to the file.
- `frame_padding`: what stands for observations before the first where single ones are normalised and then stacked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces

from legible.policies.actors.observations import Statistics
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import OneHot
from legible.policies.network import NetworkPolicy
from legible.policies.normalisation import Normalisation, find_normalisation, load_normalisation
from legible.policies.predicting import acting
from legible.policies.protocol import PolicyError, UnclearPolicyError
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


def normalised_file(
    policy: NormalisablePolicy, path: Path, options: LoadOptions, *, trained_so: bool | None, frames: int = 1
) -> NormalisablePolicy:
    """Give a policy from a file the statistics that were passed, or those that lie next to it.

    Parameters
    ----------
    policy, path, options
        The policy, its file, and what the caller said.
    trained_so
        Whether it was trained with normalised observations; None when the file does not say.
    frames
        How many observations are stacked into one that the policy reads. Statistics may be those of a single one.
    """
    if policy.normalisation is not None or options.normalisation is not None:
        return normalised(policy, policy.normalisation, options, str(path), frames)
    beside = find_normalisation(path)
    if beside is None and trained_so is not False:
        beside = find_vec_normalize(path)
    if beside is not None:
        statistics = load_normalisation(beside)
        return policy if statistics is None else _with_statistics(policy, statistics, str(path), frames)
    if trained_so:
        raise UnclearPolicyError(
            f"{path}: it was trained behind a VecNormalize (it keeps observations from before one), but the statistics "
            "of its observations are not there. Put vecnormalize.pkl beside it or give the file as normalisation; "
            "'none' if only rewards were normalised",
            "normalisation",
        )
    return policy


def normalised(
    policy: NormalisablePolicy, own: Statistics | None, options: LoadOptions, whose: str, frames: int = 1
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
    return _with_statistics(policy, statistics, whose, frames)


def _with_statistics(
    policy: NormalisablePolicy, statistics: Statistics, whose: str, frames: int = 1
) -> NormalisablePolicy:
    statistics = _stacked(statistics, acting(policy).observation_space, frames)
    if not isinstance(policy, NetworkPolicy | FunctionPolicy):
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
                    f"{whose}: the normalisation statistics of {key} are for {values.n_features} features, but the "
                    f"policy reads {width}"
                )
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


def _stacked(statistics: Statistics, space: spaces.Space[Any] | None, frames: int) -> Statistics:
    """Return statistics of single observations as those of stacked ones; others as they are."""
    if isinstance(statistics, Mapping):
        parts = space.spaces if isinstance(space, spaces.Dict) else {}
        stacked = {key: _stacked(each, parts.get(key), frames) for key, each in statistics.items()}
        return {key: each for key, each in stacked.items() if isinstance(each, Normalisation)}
    if space is None or len(space.shape or ()) != 1 or space.shape != (frames * statistics.n_features,):
        return statistics
    mean, var = (np.tile(values, frames) for values in (statistics.mean, statistics.var))
    return dataclasses.replace(statistics, mean=mean, var=var)


def frame_padding(statistics: Statistics | None, frames: int) -> list[float] | dict[str, list[float]] | None:
    """Return what an observation before the first must be for its statistics to make it zero; None for zeros.

    Stable-Baselines3 normalises single observations and then stacks them, with zeros at the beginning of an episode.
    Statistics of what was stacked before would not be the same for every frame.
    """
    if isinstance(statistics, Mapping):
        parts = {key: frame_padding(each, frames) for key, each in statistics.items()}
        return {key: part for key, part in parts.items() if isinstance(part, list)} or None
    if statistics is None or frames < 2 or statistics.n_features % frames:
        return None
    means, spreads = (values.reshape(frames, -1) for values in (statistics.mean, statistics.var))
    alike = (means == means[0]).all() and (spreads == spreads[0]).all()
    return [float(value) for value in means[0]] if alike else None
