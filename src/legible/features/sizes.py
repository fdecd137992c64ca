"""`choice_sizes`: the number of values of each part of an action."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def choice_sizes(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the number of values of each part of an action; nothing for continuous actions.

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
