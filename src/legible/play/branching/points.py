"""Points of recorded episodes.

- `Point`: a decision of a recorded episode, from which can be gone on.
- `Future`: what is random from there on.
- `BranchingError`: a state that cannot be reached again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from legible.environments import UnfitEnvironmentError

Future = Literal["same", "new"]
"""What is random from a point on: what it was in the recorded episode, or something else, decided by a seed."""


class BranchingError(UnfitEnvironmentError):
    """A state that cannot be reached again."""


@dataclass(frozen=True, eq=False)
class Point:
    """A decision of a recorded episode.

    Parameters
    ----------
    seed
        Of the episode.
    step
        Which of its decisions, from 0.
    actions
        What was done in the episode, a row a step, at least up to the decision; as slots take it. Points of one
        episode share it.
    observation
        What was seen at the decision, as slots show it. If given, it is compared, to the bit.
    """

    seed: int
    step: int
    actions: NDArray[Any]
    observation: Any = None

    def __post_init__(self) -> None:
        if not 0 <= self.step <= len(self.actions):
            raise BranchingError(
                f"step {self.step} of the episode with seed {self.seed} lies beyond its {len(self.actions)} actions."
            )
