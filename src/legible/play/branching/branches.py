"""`Branches`: starts of episodes that continue from points of others, for `legible.play.play_episodes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from legible.play.acting import ActingChooser
from legible.play.branching.points import Future
from legible.play.branching.ways import Branching, States
from legible.play.choosing import Chooser


@dataclass(frozen=True)
class Branches:
    """Starts of episodes at points of others: pass it to `play_episodes` as `starts`, with a seed for every episode.

    With the same future, the seeds of the recorded episodes are used. With new futures they seed the environment and
    the policy from the point on.
    """

    # A branching of the slots in which the episodes are played, and the result of `Branching.visit`
    branching: Branching
    states: States
    # The number of each episode's state, and the number of steps before its start
    state_of: NDArray[np.intp]
    steps: NDArray[np.int64]
    # Return and cost of these steps; 0 by default, so that only the rest counts. If they are the sequential sums of the
    # recorded steps, the return equals the return of the whole episode to the bit.
    returns: NDArray[np.float64] = None  # type: ignore[assignment]
    costs: NDArray[np.float64] = None  # type: ignore[assignment]
    future: Future = "same"

    def __post_init__(self) -> None:
        for name in ("returns", "costs"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros(len(self.steps)))

    def start(self, rows: NDArray[np.intp], episodes: NDArray[np.int64], seeds: Sequence[int], choose: Chooser) -> None:
        """Bring rows to the starts of the episodes with these numbers."""
        states = self.states[self.state_of[episodes]]
        self.branching.start(rows, states, future=self.future, seeds=seeds if self.future == "new" else None)
        if states.memory is not None:
            cast("ActingChooser", choose).recall(rows, states.memory)
