"""What guidance would change in recorded episodes, without playing them.

- `first_changes`: the first step of every recorded episode in which each treatment would act otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.evaluation.recorded import RecordedEpisodes
from legible.evaluation.units import Setup, Treatment
from legible.rules import RuleSet
from legible.streams import policy_keys

NEVER = -1


class Changes(NamedTuple):
    """What treatments would change in recorded episodes, ``int64[treatments, episodes]`` each.

    `first` is the first step in which the action would be another one, or −1: then guidance leaves the episode as it
    is, to the bit. `fired` and `changed` are the numbers of steps before it in which a treatment would step in, and in
    which that would make the action another one than the policy's own.
    """

    first: NDArray[np.int64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]


def first_changes(
    setup: Setup, recorded: RecordedEpisodes, seeds: Sequence[int], played: RuleSet | Treatment | None = None
) -> Changes:
    """Run the chooser that plays guided episodes over the rows of recorded ones.

    It sees the same observations, scores, random keys and steps as it would in play. So random actions (`epsilon`),
    sampled ones, and those that guidance spares the policy (`epsilon_when_guided`) are right, too. A recorded episode
    that failed may go any way with other guidance: it counts as changed from its first step.

    Parameters
    ----------
    setup
        The treatments, and how episodes are played.
    recorded
        The episodes.
    seeds
        Theirs.
    played
        What they were guided with; None: nothing.
    """
    starts = recorded.starts
    lengths = np.diff(starts)
    episodes = np.repeat(np.arange(len(seeds)), lengths)
    steps = np.arange(starts[-1]) - starts[episodes]
    keys = policy_keys(seeds)[episodes]
    everything = setup.treatments if played is None else (*setup.treatments, played)
    chooser = replace(setup, treatments=everything).chooser(np.empty(0, np.int64), ())

    def choose(treatment: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        treatments = np.full(len(steps), treatment, np.int64)
        return chooser.choose(recorded.observations, recorded.scores, treatments, keys, steps)

    taken = None if played is None else choose(len(setup.treatments))[0]

    def look(treatment: int) -> Changes:
        choices, fired, changed = choose(treatment)
        differs = changed if taken is None else (choices != taken).any(axis=1)
        return Changes(*_first_and_counts(differs, fired, changed, starts))

    # The compiled loops let other threads run.
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(look, range(len(setup.treatments))))
    shape = (len(setup.treatments), len(seeds))
    first, fired, changed = (np.array([one[i] for one in found], np.int64).reshape(shape) for i in range(3))
    first[:, recorded.failed] = 0
    return Changes(first, fired, changed)


@njit(cache=True, nogil=True)
def _first_and_counts(
    differs: NDArray[np.bool_], fired: NDArray[np.bool_], changed: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For every episode the first step that differs, or −1, and how many steps before it fired, and were changed."""
    first = np.full(starts.size - 1, NEVER, np.int64)
    fired_before = np.zeros(starts.size - 1, np.int64)
    changed_before = np.zeros(starts.size - 1, np.int64)
    for e in range(first.size):
        for row in range(starts[e], starts[e + 1]):
            if differs[row]:
                first[e] = row - starts[e]
                break
            fired_before[e] += fired[row]
            changed_before[e] += changed[row]
    return first, fired_before, changed_before
