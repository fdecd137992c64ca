"""What guidance would change in episodes of the unguided policy, without playing them.

- `first_changes`: the first step of every recorded episode in which each treatment would act otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.evaluation.recorded import RecordedEpisodes
from legible.evaluation.units import Setup
from legible.guidance import CountingChooser
from legible.streams import policy_keys

NEVER = -1


class Changes(NamedTuple):
    """What treatments would change in recorded episodes, ``int64[treatments, episodes]`` each.

    `first` is the first step in which the action would be another one, or −1: then guidance leaves the episode as it
    is, to the bit. `fired` is the number of steps before it in which a treatment would step in.
    """

    first: NDArray[np.int64]
    fired: NDArray[np.int64]


def first_changes(setup: Setup, recorded: RecordedEpisodes, seeds: Sequence[int]) -> Changes:
    """Run the chooser that plays guided episodes over the rows of unguided ones.

    It sees the same observations, scores, random keys and steps as it would in play. So random actions (`epsilon`),
    sampled ones, and those that guidance spares the policy (`epsilon_when_guided`) are right, too. An unguided episode
    that failed may go any way with guidance: it counts as changed from its first step.

    Parameters
    ----------
    setup
        The treatments, and how episodes are played.
    recorded
        The episodes.
    seeds
        Theirs.
    """
    starts = recorded.starts
    lengths = np.diff(starts)
    episodes = np.repeat(np.arange(len(seeds)), lengths)
    steps = np.arange(starts[-1]) - starts[episodes]
    keys = policy_keys(seeds)[episodes]
    chooser = setup.chooser(np.empty(0, np.int64), ())

    def look(treatment: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _look(chooser, recorded, treatment, keys, steps, starts)

    # The compiled loops let other threads run.
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(look, range(len(setup.treatments))))
    shape = (len(setup.treatments), len(seeds))
    first = np.array([one[0] for one in found], np.int64).reshape(shape)
    first[:, recorded.failed] = 0
    return Changes(first, np.array([one[1] for one in found], np.int64).reshape(shape))


def _look(
    chooser: CountingChooser,
    recorded: RecordedEpisodes,
    treatment: int,
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    treatments = np.full(len(steps), treatment, np.int64)
    _, fired, changed = chooser.choose(recorded.observations, recorded.scores, treatments, keys, steps)
    return _first_and_count(changed, fired, starts)


@njit(cache=True, nogil=True)
def _first_and_count(
    changed: NDArray[np.bool_], fired: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every episode the first step that is changed, or −1, and the number of steps before it that fired."""
    first = np.full(starts.size - 1, NEVER, np.int64)
    count = np.zeros(starts.size - 1, np.int64)
    for e in range(first.size):
        for row in range(starts[e], starts[e + 1]):
            if changed[row]:
                first[e] = row - starts[e]
                break
            count[e] += fired[row]
    return first, count
