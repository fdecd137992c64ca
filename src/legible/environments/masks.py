"""Action masks: the choices that an environment allows in a state.

- `MaskReader`: reads the mask of a step; `find_masks`: the reader of an environment, if it masks actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments.faults import reset_environment
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.spec import Env
from legible.features.sizes import choice_sizes

ENTRY = "action_mask"
"""The entry of a dictionary observation, or of infos, that holds a mask."""

PROBE_SEED = 1

_WORDS = {"method": "action_masks()", "info": f'info["{ENTRY}"]', "entry": f"the entry {ENTRY!r} of observations"}


@dataclass(frozen=True)
class MaskReader:
    """Reader of the choices that an environment allows."""

    # Where the mask is found: the method ``action_masks()`` as in sb3-contrib, the entry ``action_mask`` of infos, or
    # the entry of that name of a dictionary observation
    source: Literal["method", "info", "entry"]
    sizes: tuple[int, ...]  # number of values of each part of an action

    def __post_init__(self) -> None:
        if self.source not in _WORDS or not self.sizes or min(self.sizes) < 1:
            raise UnfitEnvironmentError(f"there are no action masks of {self.source!r} for parts of {self.sizes}.")

    @property
    def words(self) -> str:
        """Where the mask is found, in words."""
        return _WORDS[self.source]

    @property
    def width(self) -> int:
        """Number of entries of a mask: the values of all parts."""
        return sum(self.sizes)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env) -> NDArray[np.bool_]:
        """Return the mask of a step, ``bool[width]``, or raise unless it allows a value of each part."""
        if self.source == "method":
            given = env.get_wrapper_attr("action_masks")()
        else:
            holder = info if self.source == "info" else observation
            if ENTRY not in holder:
                raise UnfitEnvironmentError(f"{self.words} is missing in a step, but must be there in all of them.")
            given = holder[ENTRY]
        parts = given if isinstance(given, tuple | list) and np.ndim(given[0]) else (given,)
        mask = np.concatenate([np.asarray(part, np.bool_).ravel() for part in parts])
        if mask.size != self.width:
            raise UnfitEnvironmentError(
                f"{self.words} has {mask.size} entries, but the actions, of {len(self.sizes)} parts, need {self.width}."
            )
        if not all(part.any() for part in np.split(mask, np.cumsum(self.sizes)[:-1])):
            raise UnfitEnvironmentError(f"{self.words} allows no action in a state in which the episode goes on.")
        return mask


def find_masks(env: Env) -> MaskReader | None:
    """Return the reader of an environment's action masks, None without masks; the environment is reset once.

    Continuous actions cannot be masked.
    """
    sizes = choice_sizes(env.action_space)
    if not sizes:
        return None
    if env.has_wrapper_attr("action_masks"):
        return MaskReader("method", sizes)
    space = env.observation_space
    if isinstance(space, spaces.Dict) and ENTRY in space.spaces:
        if int(np.prod(space[ENTRY].shape or (1,))) == sum(sizes):
            return MaskReader("entry", sizes)
    elif ENTRY in reset_environment(env, PROBE_SEED)[1]:
        return MaskReader("info", sizes)
    return None
