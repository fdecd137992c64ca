"""Observations and actions of any environment in the form that rules need, or why there is none; and as they are.

- `ObservationEncoder`: observations as rows of float32, for rules.
- `count_actions`, `first_action`: how many actions there are, and what number the environment gives to the first.
- `stack_observations`, `map_arrays`: observations of any space as arrays with a row for each.
- `choice_sizes`, `as_taken`: the choices that an action is made of, and actions with the environment's numbers.
- `check_playable`: whether policies can act on such observations and with such actions.
- `UnfitEnvironmentError`: an environment that legible cannot work with.
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
"""Observations of any space with a row for each: an array, or a dictionary or tuple of them as the space has it."""

_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class UnfitEnvironmentError(LegibleError):
    """An environment that cannot be made, or that legible cannot work with."""


@dataclass(frozen=True)
class ObservationEncoder:
    """Turns observations into rows of float32: a box is flattened, a discrete value stays the number it is."""

    width: int
    categorical: bool

    @classmethod
    def of(cls, space: spaces.Space[Any]) -> ObservationEncoder:
        """Choose the encoding for an observation space, or say why there is none."""
        match space:
            case spaces.Box() if 0 in space.shape:
                raise UnfitEnvironmentError(f"observations are empty: a Box of shape {space.shape}.")
            case spaces.Box():
                return cls(int(np.prod(space.shape)), categorical=False)
            case spaces.Discrete():
                return cls(1, categorical=True)
            case spaces.MultiDiscrete():
                return cls(int(space.nvec.size), categorical=True)
            case spaces.MultiBinary():
                return cls(int(np.prod(space.shape)), categorical=True)
            case spaces.Dict() | spaces.Tuple():
                raise UnfitEnvironmentError(
                    f"observations are a {type(space).__name__} space; flatten them first, as for the policy, "
                    "with the wrapper gymnasium.wrappers:FlattenObservation, minigrid.wrappers:FlatObsWrapper or one "
                    "of your own (--wrap)."
                )
        raise UnfitEnvironmentError(
            f"observations are a {type(space).__name__} space; Box, Discrete, MultiDiscrete or MultiBinary is needed."
        )

    def encode(self, observations: Sequence[Any] | NDArray[Any]) -> NDArray[np.float32]:
        """Return ``float32[n, width]``."""
        try:
            return np.asarray(observations, np.float32).reshape(len(observations), self.width)
        except (TypeError, ValueError) as error:
            raise UnfitEnvironmentError(
                f"the environment gave an observation that its own space, {self.width} numbers wide, does not hold: "
                f"{error}."
            ) from error


def count_actions(space: spaces.Space[Any]) -> int:
    """Return the number of actions, or say why the action space is none that rules can speak of."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    raise UnfitEnvironmentError(
        f"actions are a {type(space).__name__} space; rules choose among the actions of a Discrete space."
    )


def first_action(space: spaces.Space[Any]) -> int:
    """The number that the environment gives to its first action (``Discrete(n, start=…)``)."""
    return int(getattr(space, "start", 0))


def stack_observations(space: spaces.Space[Any], observations: Sequence[Any]) -> Batch:
    """Return observations of any space with a row for each: an array in the type of the space, or several by entry.

    What is no array, such as a text, becomes an entry of an array of objects.

    Examples
    --------
    >>> stack_observations(spaces.Dict({"place": spaces.Discrete(9)}), [{"place": 3}, {"place": 5}])
    {'place': array([3, 5])}
    """
    match space:
        case spaces.Dict():
            return {
                key: stack_observations(part, [each[key] for each in observations])
                for key, part in space.spaces.items()
            }
        case spaces.Tuple():
            return tuple(
                stack_observations(part, [each[place] for each in observations])
                for place, part in enumerate(space.spaces)
            )
        case _ if not isinstance(space, _ARRAYS):
            objects = np.empty(len(observations), object)
            for row, observation in enumerate(observations):
                objects[row] = observation
            return objects
    try:
        return np.asarray(observations, space.dtype).reshape(len(observations), *(space.shape or ()))
    except (TypeError, ValueError) as error:
        raise UnfitEnvironmentError(
            f"the environment gave an observation that its own space, {space}, does not hold: {error}."
        ) from error


def map_arrays(function: Callable[..., Any], *batches: Batch) -> Batch:
    """Apply a function to the arrays of batches that are made alike, entry by entry.

    Examples
    --------
    >>> map_arrays(lambda array: array[:1], {"place": np.array([3, 5])})
    {'place': array([3])}
    """
    if isinstance(batches[0], dict):
        return {key: map_arrays(function, *(batch[key] for batch in batches)) for key in batches[0]}
    if isinstance(batches[0], tuple):
        return tuple(map_arrays(function, *parts) for parts in zip(*batches, strict=True))
    return function(*batches)


def choice_sizes(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return among how many values each part of an action is chosen; nothing for continuous actions.

    Examples
    --------
    >>> choice_sizes(spaces.Discrete(4)), choice_sizes(spaces.MultiDiscrete([3, 2])), choice_sizes(spaces.Box(0, 1))
    ((4,), (3, 2), ())
    """
    match space:
        case spaces.Discrete():
            return (int(space.n),)
        case spaces.MultiDiscrete():
            return tuple(int(n) for n in space.nvec.ravel())
        case spaces.MultiBinary():
            return (2,) * int(np.prod(space.shape))
    return ()


def as_taken(space: spaces.Space[Any], actions: NDArray[Any]) -> NDArray[Any]:
    """Return a batch of actions whose values are counted from 0 with the numbers that the environment gives to them.

    Rows with a number for each part take the shape of the space.
    """
    if actions.ndim == 2 and len(space.shape or ()) > 1:
        actions = actions.reshape(len(actions), *(space.shape or ()))
    return (
        actions + getattr(space, "start", 0) if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else actions
    )


def check_playable(observation_space: spaces.Space[Any] | None, action_space: spaces.Space[Any]) -> None:
    """Raise unless policies can act on such observations (None: they are not looked at) and with such actions."""
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
