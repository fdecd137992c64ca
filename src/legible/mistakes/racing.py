"""Race of decisions: few rollouts for many decisions, more for promising ones.

- `race_decisions`: examines decisions in rungs; `DecisionRace`: the result.
- `Measure`: a function that plays rollouts.

1. Every choice of every decision gets a few rollouts.
2. Promising decisions get more, for the choice taken and the best other choices.
3. The most promising decisions are measured on held-out rollouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from legible.settings import MOST_ROLLOUTS, MistakeSettings

# Futures of a decision are numbered; each rung uses different ones, and so do the figures that are quoted.
SECOND_FUTURES, FINAL_FUTURES, SHOWN_FUTURES = (rung * MOST_ROLLOUTS for rung in (1, 2, 3))
# Minimum z of the best gain for the second rung, and for the last.
SECOND_RUNG_Z, LAST_RUNG_Z = 1.0, 2.5
# Maximum share of the decisions in the second rung, and in the last.
SECOND_SHARE, FINAL_SHARE = 0.25, 0.1
FEWEST_IN_RUNG = 20
OTHERS_IN_SECOND = 2


class Measure(Protocol):
    """Function that plays rollouts."""

    def __call__(
        self, numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int
    ) -> NDArray[np.float64]:
        """Return the returns ``[decisions, choices, rollouts]`` of rollouts ``first … first + count - 1``.

        Parameters
        ----------
        numbers
            Numbers of the decisions.
        choices
            ``int64[decisions, choices]``.
        first, count
            Range of the futures of a decision; the same for all choices.
        """


@dataclass(frozen=True)
class DecisionRace:
    """Result of a race of decisions.

    Parameters
    ----------
    returns
        Returns of the first rung, ``[decisions, choices, rollouts]``; NaN where a decision failed.
    numbers
        The decisions of the last rung.
    better
        The choice that looked best in each of them.
    differences
        Additional returns of that choice in the last rung, ``[decisions, rollouts]``.
    """

    returns: NDArray[np.float64]
    numbers: NDArray[np.intp]
    better: NDArray[np.int64]
    differences: NDArray[np.float64]


def race_decisions(measure: Measure, choices: NDArray[np.int64], settings: MistakeSettings) -> DecisionRace:
    """Examine decisions in three rungs; `choices` are ``int64[decisions, choices]``, the choice taken first."""
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
    is_complete = ~np.isnan(differences).any(axis=1)
    return DecisionRace(first, numbers[is_complete], better[is_complete], differences[is_complete])


def _standing(gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the z of the best other choice of each decision; −∞ where a decision failed."""
    mean = gains.mean(axis=2)
    error = gains.std(axis=2, ddof=1) / np.sqrt(gains.shape[2])
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(error > 0, mean / error, np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0)))
    return np.asarray(np.where(np.isnan(mean), -np.inf, above).max(axis=1, initial=-np.inf), np.float64)


def _best(standing: NDArray[np.float64], least: float, share: float, of: int | None = None) -> NDArray[np.intp]:
    """Return the decisions with a z above a limit, in their order; at most a share of all, the best ones."""
    most = max(FEWEST_IN_RUNG, round(share * (len(standing) if of is None else of)))
    order = np.argsort(-standing, kind="stable")[:most]
    return np.sort(order[standing[order] > least])
