"""From many decisions to the few in which another choice is better: few rollouts for many, more for the promising.

- `race_decisions`: looks at decisions in rungs; `DecisionRace`: what it measured.
- `Measure`: plays rollouts, whoever does.

1. Every choice of every decision gets a few rollouts.
2. Promising decisions get more, with what was done and the best other choices.
3. The most promising are measured on rollouts that none of these choices has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from legible.settings import MOST_ROLLOUTS, MistakeSettings

# Futures of a decision are numbered; each rung has its own.
SECOND_FUTURES, FINAL_FUTURES = MOST_ROLLOUTS, 2 * MOST_ROLLOUTS
# How far from zero, in standard errors, the best gain must be for the second rung and for the last.
SECOND_RUNG_Z, LAST_RUNG_Z = 1.0, 2.5
# The share of the decisions that may enter the second rung, and the last.
SECOND_SHARE, FINAL_SHARE = 0.25, 0.1
FEWEST_IN_RUNG = 20
OTHERS_IN_SECOND = 2


class Measure(Protocol):
    """Plays rollouts."""

    def __call__(
        self, numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int
    ) -> NDArray[np.float64]:
        """Return the returns ``[decisions, choices, rollouts]`` of rollouts ``first … first + count - 1``.

        Parameters
        ----------
        numbers
            The decisions.
        choices
            ``int64[decisions, choices]``, the choices of each.
        first, count
            Which of the decision's futures; the same for all choices.
        """


@dataclass(frozen=True)
class DecisionRace:
    """What was measured.

    Parameters
    ----------
    returns
        Of the first rung, ``[decisions, choices, rollouts]``; NaN where a decision failed.
    numbers
        The decisions that came into the last rung.
    better
        The choice that seemed best in each of them.
    differences
        ``[decisions, rollouts]`` of the last rung: what that choice returned beyond what was done.
    """

    returns: NDArray[np.float64]
    numbers: NDArray[np.intp]
    better: NDArray[np.int64]
    differences: NDArray[np.float64]


def race_decisions(measure: Measure, choices: NDArray[np.int64], settings: MistakeSettings) -> DecisionRace:
    """Look at decisions.

    Parameters
    ----------
    measure
        Plays rollouts.
    choices
        ``int64[decisions, choices]``, what was done first.
    settings
        How many rollouts.
    """
    every = np.arange(len(choices))
    first = measure(every, choices, 0, settings.rollouts)
    gains = first[:, 1:] - first[:, :1]
    promising = _best(_standing(gains), SECOND_RUNG_Z, SECOND_SHARE)
    best = np.argsort(-np.nan_to_num(gains[promising].mean(axis=2), nan=-np.inf), axis=1, kind="stable")
    chosen = 1 + best[:, :OTHERS_IN_SECOND]
    some = np.hstack([choices[promising, :1], np.take_along_axis(choices[promising], chosen, axis=1)])
    second = measure(promising, some, SECOND_FUTURES, settings.second_rollouts)
    before = np.take_along_axis(gains[promising], chosen[:, :, None] - 1, axis=1)
    together = np.concatenate([before, second[:, 1:] - second[:, :1]], axis=2)
    kept = _best(_standing(together), LAST_RUNG_Z, FINAL_SHARE, of=len(choices))
    column = np.nan_to_num(together[kept].mean(axis=2), nan=-np.inf).argmax(axis=1)
    better = some[kept, 1 + column]
    numbers = promising[kept]
    last = measure(numbers, np.stack([some[kept, 0], better], axis=1), FINAL_FUTURES, settings.final_rollouts)
    differences = last[:, 1] - last[:, 0]
    well = ~np.isnan(differences).any(axis=1)
    return DecisionRace(first, numbers[well], better[well], differences[well])


def _standing(gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many standard errors the best other choice of each decision is above zero; −∞ where a decision failed."""
    mean = gains.mean(axis=2)
    error = gains.std(axis=2, ddof=1) / np.sqrt(gains.shape[2])
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(error > 0, mean / error, np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0)))
    return np.asarray(np.where(np.isnan(mean), -np.inf, above).max(axis=1, initial=-np.inf), np.float64)


def _best(standing: NDArray[np.float64], least: float, share: float, of: int | None = None) -> NDArray[np.intp]:
    """The decisions that stand above a limit: the best of them, in their order, at most a share of all."""
    most = max(FEWEST_IN_RUNG, round(share * (len(standing) if of is None else of)))
    order = np.argsort(-standing, kind="stable")[:most]
    return np.sort(order[standing[order] > least])
