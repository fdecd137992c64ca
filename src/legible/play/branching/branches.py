"""Where episodes start that go on from points of others: `Branches`, for `legible.play.play_episodes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from legible.play.branching.points import Future
from legible.play.branching.ways import Branching, Remembering, States
from legible.play.choosing import Chooser


@dataclass(frozen=True)
class Branches:
    """Where episodes start: hand it to `play_episodes` as `starts`, with a seed for every episode.

    With the same future the seeds are those of the recorded episodes; with new ones they decide what is random from the
    point on, in the environment and in the policy.

    Parameters
    ----------
    branching
        Brings the slots there; of the slots that the episodes are played in.
    states
        What `Branching.visit` kept.
    state_of
        For every episode the number of its state.
    steps
        For every episode how many steps come before its start.
    returns, costs
        What they earned and cost; 0 by default, so that only the rest is counted. Handed in as the sum of the recorded
        steps, one after another, the episode's return is that of a whole episode to the bit.
    future
        "same" or "new".
    """

    branching: Branching
    states: States
    state_of: NDArray[np.intp]
    steps: NDArray[np.int64]
    returns: NDArray[np.float64] = None  # type: ignore[assignment]  # nothing before
    costs: NDArray[np.float64] = None  # type: ignore[assignment]
    future: Future = "same"

    def __post_init__(self) -> None:
        for name in ("returns", "costs"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros(len(self.steps)))

    def start(self, rows: NDArray[np.intp], episodes: NDArray[np.int64], seeds: Sequence[int], choose: Chooser) -> None:
        """Bring rows to where the episodes with these numbers start."""
        states = self.states[self.state_of[episodes]]
        self.branching.start(rows, states, future=self.future, seeds=seeds if self.future == "new" else None)
        if states.memory is not None:
            cast("Remembering", choose).recall(rows, states.memory)
