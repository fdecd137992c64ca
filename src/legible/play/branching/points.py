"""Points of recorded episodes.

- `Point`: a decision of a recorded episode from which play can continue.
- `Future`: the random numbers from there on.
- `BranchingError`: a state that cannot be restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from legible.environments import UnfitEnvironmentError

Future = Literal["same", "new"]
"""Random numbers from a point on: the recorded episode's, or new ones from a seed."""


class BranchingError(UnfitEnvironmentError):
    """A state that cannot be restored."""


@dataclass(frozen=True, eq=False)
class Point:
    """A decision of a recorded episode."""

    # Seed of the episode, and number of the decision, from 0
    seed: int
    step: int
    # The actions of the episode, one row per step, at least up to the decision, in the format of the slots. Points of
    # one episode share the array.
    actions: NDArray[Any]
    # The observation at the decision, in the format of the slots. If given, it is compared, to the bit.
    observation: Any = None

    def __post_init__(self) -> None:
        if not 0 <= self.step <= len(self.actions):
            raise BranchingError(
                f"step {self.step} of the episode with seed {self.seed} lies beyond its {len(self.actions)} actions."
            )
