"""Changes that guidance would make in recorded episodes, without playing them.

- `first_changes`: the first step of every recorded episode in which each treatment would act differently.
- `changed_steps`: all steps in which each treatment would change the action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.recorded import RecordedEpisodes
from legible.evaluation.units import UNGUIDED, CountingChooser, Setup, Treatment
from legible.guidance import GuidedChooser
from legible.imports import njit
from legible.rules import RuleSet
from legible.streams import policy_keys

NEVER = -1
Choose = Callable[[int], tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]]
"""Returns what a treatment, given by its number, chooses in all rows, where it triggers, and what it changes."""


class Changes(NamedTuple):
    """Changes by treatments in recorded episodes, ``int64[treatments, episodes]`` each.

    `first` is the first step with a different action, or −1: then guidance leaves the episode unchanged to the bit.
    `fired` and `changed` are the numbers of steps before it in which a treatment would trigger, and in which it would
    change the action of the policy.
    """

    first: NDArray[np.int64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]


def first_changes(
    setup: Setup, recorded: RecordedEpisodes, seeds: Sequence[int], played: RuleSet | Treatment | None = None
) -> Changes:
    """Return, for each rule set and recorded episode, the first step in which the rule set would act differently.

    Up to that step a guided episode equals the recorded one, so nothing has to be played to find it: actions are chosen
    again for the recorded states. The choice sees the same observations, scores, random keys and steps as in play, so
    random actions (`epsilon`, `epsilon_when_guided`) and sampled ones are the same, too. A recorded episode that failed
    may go differently with other guidance: it counts as changed from its first step.

    Parameters
    ----------
    setup
        The treatments (rule sets, or other guidance) to examine, and the settings of play.
    recorded, seeds
        The episodes, recorded step by step, and the seed of each.
    played
        Guidance that the recorded episodes were played with; None: unguided.

    Returns
    -------
    Three arrays ``int64[treatments, episodes]``: the first step that differs (−1: none), and the numbers of steps
    before it in which rules triggered and in which they changed the action.
    """
    # The guidance of the recorded episodes, if any, gets the last number.
    all_treatments = setup.treatments if played is None else (*setup.treatments, played)
    starts = recorded.starts  # the first row of every episode, and the number of rows
    chooser, steps, keys, choose = _chooser_in_rows(replace(setup, treatments=all_treatments), recorded, seeds)
    unguided_choices = choose(UNGUIDED)[0]
    recorded_choices = unguided_choices if played is None else choose(len(setup.treatments))[0]
    # Both branches below write their results into these arrays.
    shape = (len(setup.treatments), len(seeds))
    changes = Changes(np.full(shape, NEVER, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
    if isinstance(chooser, GuidedChooser):  # rules: one compiled loop for all rule sets
        chooser.first_changes(
            recorded.observations, recorded.scores, keys, steps, unguided_choices, recorded_choices, starts, changes
        )
    else:  # other guidance: one treatment after the other
        for treatment, rows_to_fill in enumerate(zip(*changes, strict=True)):  # its row in each of the three arrays
            choices, fired, changed = choose(treatment)
            differs = (choices != recorded_choices).any(axis=1)
            _first_and_counts(differs, fired, changed, starts, *rows_to_fill)
    changes.first[:, recorded.failed] = 0
    return changes


def changed_steps(setup: Setup, recorded: RecordedEpisodes, seeds: Sequence[int]) -> NDArray[np.bool_]:
    """Return in which recorded steps each treatment would change the action, ``bool[treatments, steps]``."""
    choose = _chooser_in_rows(setup, recorded, seeds)[-1]
    return np.stack([choose(treatment)[2] for treatment in range(len(setup.treatments))])


def _chooser_in_rows(
    setup: Setup, recorded: RecordedEpisodes, seeds: Sequence[int]
) -> tuple[CountingChooser, NDArray[np.int64], NDArray[np.uint64], Choose]:
    """Return what chooses actions again in all recorded steps, with the step and the random key of every row.

    Rows hold the steps of all episodes, one after the other. The last of the four results is a function that returns
    the choices of a treatment in all rows, and where it triggers and where it changes the action.
    """
    starts = recorded.starts
    episodes = np.repeat(np.arange(len(seeds)), np.diff(starts))  # of every row
    steps = np.arange(starts[-1]) - starts[episodes]
    keys = policy_keys(seeds)[episodes]
    # A chooser without episodes of its own, which is only asked what it would choose.
    chooser = setup.chooser(np.empty(0, np.int64), ())

    def choose(treatment: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        treatments = np.full(len(steps), treatment, np.int64)
        return chooser.choose(recorded.observations, recorded.scores, treatments, keys, steps)

    return chooser, steps, keys, choose


@njit(cache=True, nogil=True)
def _first_and_counts(
    differs: NDArray[np.bool_],
    fired: NDArray[np.bool_],
    changed: NDArray[np.bool_],
    starts: NDArray[np.int64],
    first: NDArray[np.int64],
    fired_before: NDArray[np.int64],
    changed_before: NDArray[np.int64],
) -> None:
    """Write the first step that differs in every episode, and the numbers of steps before it that fired and changed."""
    for episode in range(first.size):
        for row in range(starts[episode], starts[episode + 1]):
            if differs[row]:
                first[episode] = row - starts[episode]
                break
            fired_before[episode] += fired[row]
            changed_before[episode] += changed[row]
