"""Attach observation statistics to policies.

- `given_normalisation`: the statistics that the caller passed.
- `normalised`: a policy with its own statistics or the ones passed; both must agree.
- `normalised_file`: a policy from a file, with the statistics passed or found next to the file.
- `frame_padding`: the padding of stacked frames before the first observation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces
from torch import nn

from legible.policies.actors.heads import Categories, QValues
from legible.policies.actors.networks import Combined, Flatten, sequence
from legible.policies.actors.observations import Statistics
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import OneHot, Plain
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

_GOAL_ENTRIES = ("observation", "desired_goal")


def given_normalisation(options: LoadOptions) -> Statistics | None:
    """Return the statistics that the caller passed, None for none."""
    given = options.normalisation
    if given is None or isinstance(given, Normalisation | Mapping):
        return given
    return None if isinstance(given, str) and given == "none" else load_normalisation(given)


def normalised_file(
    policy: NormalisablePolicy, path: Path, options: LoadOptions, *, trained_normalised: bool | None, frames: int = 1
) -> NormalisablePolicy:
    """Return the policy of a file with its observation statistics, or unchanged if it needs none.

    The statistics are those that the policy holds or the caller passed, otherwise those of a file next to the policy.

    - `policy`: the policy as read from its file.
    - `path`: the policy's file.
    - `options`: the caller's options; ``options.normalisation`` are the statistics that the caller passed, if any.
    - `trained_normalised`: whether the policy was trained on normalised observations; None if the file does not say.
    - `frames`: number of observations stacked into one input. Statistics may cover a single observation.
    """
    # Statistics in the file or from the caller; if there are both, they must be the same.
    if policy.normalisation is not None or options.normalisation is not None:
        return normalised(policy, policy.normalisation, options, str(path), frames)
    # A file like driver.normalisation.npz belongs to driver.zip. A vecnormalize.pkl in the folder may belong to another
    # policy, so it is ignored if this one was certainly trained without normalisation.
    statistics_file = find_normalisation(path)
    if statistics_file is None and trained_normalised is not False:
        statistics_file = find_vec_normalize(path)
    if statistics_file is not None:
        statistics = load_normalisation(statistics_file)  # None: only rewards were normalised
        return policy if statistics is None else _with_statistics(policy, statistics, str(path), frames)
    if trained_normalised:
        raise UnclearPolicyError(
            f"{path}: the policy was trained with VecNormalize, but its statistics are missing. Put vecnormalize.pkl "
            "next to it, or name the file (--normalisation FILE; none if only rewards were normalised)",
            "normalisation",
        )
    return policy


def normalised(
    policy: NormalisablePolicy, own: Statistics | None, options: LoadOptions, whose: str, frames: int = 1
) -> NormalisablePolicy:
    """Return a policy with its own statistics or the ones that were passed; both must agree."""
    given = given_normalisation(options)
    if own is not None and options.normalisation is not None and given != own:
        raise PolicyError(f"{whose}: the normalisation passed contradicts the statistics that it holds")
    statistics = own if own is not None else given
    if statistics is None or statistics == policy.normalisation:
        return policy
    return _with_statistics(policy, statistics, whose, frames)


def _with_statistics(
    policy: NormalisablePolicy, statistics: Statistics, whose: str, frames: int = 1
) -> NormalisablePolicy:
    """Return a copy of a policy that normalises its observations with these statistics, or raise an error.

    - `statistics`: mean and variance of every number of an observation; a mapping from entry to these for Dict
      observations.
    - `whose`: the name of the policy's file or object, for error messages.
    - `frames`: number of observations stacked into one input. Statistics of a single observation are repeated.
    """
    # Policies trained with HER have statistics per entry of the dictionary, even if they read one array.
    if isinstance(statistics, Mapping) and set(_GOAL_ENTRIES) <= set(statistics):
        policy, statistics = _with_goal_entries(policy, statistics)
    statistics = _stacked(statistics, acting(policy).observation_space, frames)

    # Policies that declare an observation space: the statistics must fit it, entry by entry for dictionaries.
    if not isinstance(policy, NetworkPolicy | FunctionPolicy):
        space = policy.observation_space
        parts = space.spaces if isinstance(space, spaces.Dict) else {"observations": space}
        by_entry = {"observations": statistics} if isinstance(statistics, Normalisation) else statistics
        for entry, values in by_entry.items():
            if entry not in parts or not isinstance(parts[entry], spaces.Box):
                raise PolicyError(f"{whose}: there are normalisation statistics for {entry}, which is no numeric input")
            width = int(np.prod(parts[entry].shape or ()))
            _check_width(values, width, f"{whose}: the normalisation statistics of {entry}")
        return dataclasses.replace(policy, normalisation=statistics)

    # Policies of flat observations: only the width can be wrong.
    if isinstance(policy, NetworkPolicy) and isinstance(policy.encoding, OneHot):
        raise PolicyError(f"{whose}: one-hot encoded observations cannot be normalised")
    if not isinstance(statistics, Normalisation):
        raise PolicyError(f"{whose}: the normalisation statistics are for Dict observations, but it reads one array")
    _check_width(statistics, policy.n_features, f"{whose}: the normalisation statistics")
    return dataclasses.replace(policy, normalisation=statistics)


def _with_goal_entries(
    policy: NormalisablePolicy, statistics: Mapping[str, Normalisation]
) -> tuple[NormalisablePolicy, Mapping[str, Normalisation]]:
    """Return a policy that reads observation and goal as a dictionary, and the statistics of these two entries.

    With HER (hindsight experience replay), Stable-Baselines3 1.0 normalised the entries "observation" and
    "desired_goal" of the dictionary and then joined them into one array for the network. So the statistics fit only the
    dictionary, and the policy has to read it. Policies with another input are returned unchanged.
    """
    by_entry = {key: statistics[key] for key in _GOAL_ENTRIES}
    width = sum(entry.n_features for entry in by_entry.values())
    is_flat = isinstance(policy, ActorPolicy) and isinstance(policy.extractor, Flatten)
    is_plain = isinstance(policy, NetworkPolicy) and isinstance(policy.encoding, Plain)
    if not (is_flat or is_plain) or policy.n_features != width:
        return policy, statistics

    # The same network behind an extractor that flattens and joins the two entries.
    space = spaces.Dict()
    # Assigned afterwards: the constructor would sort the keys, but they have the order of the array.
    space.spaces = {
        key: spaces.Box(-np.inf, np.inf, (entry.n_features,), np.float32) for key, entry in by_entry.items()
    }
    extractor = Combined({key: Flatten() for key in by_entry})
    if isinstance(policy, ActorPolicy):
        return dataclasses.replace(policy, observation_space=space, extractor=extractor), by_entry
    assert isinstance(policy, NetworkPolicy)
    network, n_actions = sequence(policy.layers), policy.n_actions
    head = QValues(network) if policy.kind == "values" else Categories(network, (n_actions,), single=True)
    origin: dict[str, Any] = {"env_id": policy.env_id, "metadata": policy.metadata}
    return ActorPolicy(space, spaces.Discrete(n_actions), extractor, nn.Identity(), head, **origin), by_entry


def _check_width(statistics: Normalisation, width: int | None, what: str) -> None:
    if statistics.n_features != width:
        raise PolicyError(f"{what} are for {statistics.n_features} features, but the policy reads {width}")


def _stacked(statistics: Statistics, space: spaces.Space[Any] | None, frames: int) -> Statistics:
    """Return statistics of single observations repeated for stacked ones; return others unchanged."""
    if isinstance(statistics, Mapping):
        parts = space.spaces if isinstance(space, spaces.Dict) else {}
        stacked = {key: _stacked(each, parts.get(key), frames) for key, each in statistics.items()}
        return {key: each for key, each in stacked.items() if isinstance(each, Normalisation)}
    if space is None or len(space.shape or ()) != 1 or space.shape != (frames * statistics.n_features,):
        return statistics
    mean, var = (np.tile(values, frames) for values in (statistics.mean, statistics.var))
    return dataclasses.replace(statistics, mean=mean, var=var)


def frame_padding(statistics: Statistics | None, frames: int) -> list[float] | dict[str, list[float]] | None:
    """Return the observation that normalises to zero, to pad stacked frames with; None for zeros.

    Stable-Baselines3 normalises single observations and then stacks them, with zeros at the start of an episode.
    Statistics that differ between frames were taken of stacked observations, and need no padding.
    """
    if isinstance(statistics, Mapping):
        parts = {key: frame_padding(each, frames) for key, each in statistics.items()}
        return {key: part for key, part in parts.items() if isinstance(part, list)} or None
    if statistics is None or frames < 2 or statistics.n_features % frames:
        return None
    means, spreads = (values.reshape(frames, -1) for values in (statistics.mean, statistics.var))
    alike = (means == means[0]).all() and (spreads == spreads[0]).all()
    return [float(value) for value in means[0]] if alike else None
