"""Observations and actions of any environment in the form that rules need, or why there is none.

- `ObservationEncoder`: observations of any supported space as rows of float32.
- `count_actions`, `first_action`: how many actions there are, and what number the environment gives to the first.
- `UnfitEnvironmentError`: an environment that legible cannot work with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.errors import LegibleError


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
                    "of your own (--wrap, or EnvironmentSpec(…, wrappers=…))."
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
