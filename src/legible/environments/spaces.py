"""Observations and actions of any space as arrays, for rules and for policies.

- `ObservationEncoder`: observations as rows of float32, for rules.
- `count_actions`, `first_action`: the number of actions, and the environment's number of the first.
- `stack_observations`, `map_arrays`: observations of any space as arrays with one row per observation.
- `to_environment_actions`: actions in the environment's numbers.
- `check_policy_spaces`: raises for spaces that policies do not support.
- `UnfitEnvironmentError`: an environment that legible cannot use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.errors import LegibleError

Batch: TypeAlias = Any
"""Observations of any space, one row per observation: an array, or a dictionary or tuple of arrays."""

_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class UnfitEnvironmentError(LegibleError):
    """An environment that cannot be made, or that legible cannot use."""


@dataclass(frozen=True)
class ObservationEncoder:
    """Encoding of observations as rows of float32: a box is flattened, a discrete value stays a number."""

    width: int
    categorical: bool

    @classmethod
    def of(cls, space: spaces.Space[Any]) -> ObservationEncoder:
        """Return the encoding for an observation space, or raise if there is none."""
        match space:
            case spaces.Box() if 0 in space.shape:
                raise UnfitEnvironmentError(f"observations are empty: a Box of shape {space.shape}.")
            case spaces.Box():
                return cls(int(np.prod(space.shape)), categorical=False)
            case spaces.Discrete():
                return cls(1, categorical=True)
            case spaces.MultiDiscrete() | spaces.MultiBinary():
                return cls(int(np.prod(space.shape)), categorical=True)
            case spaces.Dict() | spaces.Tuple():
                raise UnfitEnvironmentError(
                    f"observations are a {type(space).__name__} space, but rules need one row of numbers. Flatten them "
                    "with the wrapper that the policy was trained with, such as --wrap "
                    "gymnasium.wrappers:FlattenObservation, --wrap minigrid.wrappers:FlatObsWrapper or one of your own."
                )
        raise UnfitEnvironmentError(
            f"observations are a {type(space).__name__} space; Box, Discrete, MultiDiscrete or MultiBinary is needed."
        )

    def encode(self, observations: Sequence[Any] | NDArray[Any]) -> NDArray[np.float32]:
        """Return ``float32[n, width]``."""
        try:
            return np.asarray(observations, np.float32).reshape(len(observations), self.width)
        except (TypeError, ValueError) as error:
            wrong = next((one for one in observations if _size(one) != self.width), observations[0])
            raise UnfitEnvironmentError(observation_fault(wrong, f"{self.width} numbers")) from error


def observation_fault(observation: Any, expected: str) -> str:
    """Return the message about an observation that its space does not hold."""
    array = isinstance(observation, (np.ndarray, list, tuple))
    given = f"of shape {np.shape(observation)}" if array else f"of type {type(observation).__name__}"
    return (
        f"the environment gave an observation {given}, but its observation_space holds {expected}. Make both the same."
    )


def observation_entry(observation: Any, key: str | int) -> Any:
    """Return an entry of an observation that is a dictionary or a tuple, or raise if it is missing."""
    try:
        return observation[key]
    except (KeyError, IndexError, TypeError) as error:
        raise UnfitEnvironmentError(
            f"the environment gave an observation without the entry {key!r}, which its observation_space has. Make "
            "both the same."
        ) from error


def _size(observation: Any) -> int:
    """Return the count of numbers in an observation; -1 if it holds something else."""
    try:
        return np.asarray(observation, np.float32).size if observation is not None else -1
    except (TypeError, ValueError):
        return -1


def count_actions(space: spaces.Space[Any]) -> int:
    """Return the number of actions, or raise if the space is not ``Discrete``."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    raise UnfitEnvironmentError(
        f"actions are a {type(space).__name__} space; rules choose among the actions of a Discrete space."
    )


def first_action(space: spaces.Space[Any]) -> int:
    """Return the environment's number of its first action (``Discrete(n, start=…)``)."""
    return int(getattr(space, "start", 0))


def stack_observations(space: spaces.Space[Any], observations: Sequence[Any]) -> Batch:
    """Return observations as one array ``[n, ...]`` with the type of their space.

    Observations of Dict and Tuple spaces become a dictionary or a tuple of such arrays. Observations that are no
    arrays, such as texts, become entries of an array of objects.

    - `space`: the space of one observation.
    - `observations`: the n observations.

    >>> stack_observations(spaces.Dict({"place": spaces.Discrete(9)}), [{"place": 3}, {"place": 5}])
    {'place': array([3, 5])}
    """
    match space:
        case spaces.Dict():
            return {
                key: stack_observations(part, [observation_entry(observation, key) for observation in observations])
                for key, part in space.spaces.items()
            }
        case spaces.Tuple():
            return tuple(
                stack_observations(part, [observation_entry(observation, i) for observation in observations])
                for i, part in enumerate(space.spaces)
            )
        case _ if not isinstance(space, _ARRAYS):
            objects = np.empty(len(observations), object)
            for row, observation in enumerate(observations):
                objects[row] = observation
            return objects

    # Arrays of numbers. If they cannot be stacked, the error shows the first observation of a wrong size.
    try:
        return np.asarray(observations, space.dtype).reshape(len(observations), *(space.shape or ()))
    except (TypeError, ValueError) as error:
        width = int(np.prod(space.shape or ()))
        misfit = next((observation for observation in observations if _size(observation) != width), observations[0])
        raise UnfitEnvironmentError(observation_fault(misfit, f"{space!s:.80}")) from error


def map_arrays(function: Callable[..., Any], *batches: Batch) -> Batch:
    """Apply a function to the arrays of batches of the same structure, entry by entry.

    >>> map_arrays(lambda array: array[:1], {"place": np.array([3, 5])})
    {'place': array([3])}
    """
    if isinstance(batches[0], dict):
        return {key: map_arrays(function, *(batch[key] for batch in batches)) for key in batches[0]}
    if isinstance(batches[0], tuple):
        return tuple(map_arrays(function, *parts) for parts in zip(*batches, strict=True))
    return function(*batches)


def to_environment_actions(space: spaces.Space[Any], actions: NDArray[Any]) -> NDArray[Any]:
    """Return a batch of actions, whose values are counted from 0, in the environment's numbers.

    Rows with a number for each part take the shape of the space.
    """
    if actions.ndim == 2 and len(space.shape or ()) > 1:
        actions = actions.reshape(len(actions), *(space.shape or ()))
    is_shifted = isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))
    return actions + getattr(space, "start", 0) if is_shifted else actions


def check_policy_spaces(observation_space: spaces.Space[Any] | None, action_space: spaces.Space[Any]) -> None:
    """Raise unless policies support an observation space (None: not checked) and an action space."""
    parts = {} if observation_space is None else {"observations are": observation_space}
    if isinstance(observation_space, spaces.Dict):
        parts = {f"the entry {key!r} of the observations is": part for key, part in observation_space.spaces.items()}
    for what, part in parts.items():
        if not isinstance(part, _ARRAYS):
            raise UnfitEnvironmentError(
                f"{what} a {type(part).__name__} space; policies read Box, Discrete, MultiDiscrete and MultiBinary, "
                "or a Dict of these; a wrapper can turn others into one of them (--wrap)."
            )
    if not isinstance(action_space, _ARRAYS):
        raise UnfitEnvironmentError(
            f"actions are a {type(action_space).__name__} space; policies act in Discrete, MultiDiscrete, MultiBinary "
            "and Box; a wrapper can turn others into one of them (--wrap)."
        )
