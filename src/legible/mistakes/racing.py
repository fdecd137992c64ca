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
    """Result of a race of decisions."""

    # Returns of the first rung, ``[decisions, choices, rollouts]``; NaN where a decision failed.
    returns: NDArray[np.float64]
    numbers: NDArray[np.intp]  # the decisions of the last rung
    better: NDArray[np.int64]  # the choice that looked best in each of them
    differences: NDArray[np.float64]  # additional returns of that choice in the last rung, ``[decisions, rollouts]``


def race_decisions(measure: Measure, choices: NDArray[np.int64], settings: MistakeSettings) -> DecisionRace:
    """Return the decisions in which another choice looks better, by rollouts: few for all, more for promising ones.

    A rollout returns to a decision, makes a choice there, and follows the policy to the end of the episode. `measure`
    plays them and gives their returns ``[decisions, choices, rollouts]``; each rung uses other futures, that is, other
    random numbers after the decision. `choices` are ``int64[decisions, choices]``, the choice taken first.
    """
    # First rung: all choices of all decisions. Gains are [decisions, other choices, rollouts].
    n_decisions = len(choices)
    first_returns = measure(np.arange(n_decisions), choices, first=0, count=settings.rollouts)
    gains = first_returns[:, 1:] - first_returns[:, :1]

    # Second rung: promising decisions, the choice taken and the best other choices. Their gains in both rungs count.
    promising = _best(gains, SECOND_RUNG_Z, max(FEWEST_IN_RUNG, round(SECOND_SHARE * n_decisions)))
    best_first = np.argsort(-_means(gains[promising]), axis=1, kind="stable")[:, :OTHERS_IN_SECOND]
    best_choices = np.take_along_axis(choices[promising], 1 + best_first, axis=1)
    raced_choices = np.hstack([choices[promising, :1], best_choices])
    second_returns = measure(promising, raced_choices, first=SECOND_FUTURES, count=settings.second_rollouts)
    first_gains = np.take_along_axis(gains[promising], best_first[:, :, None], axis=1)
    gains = np.concatenate([first_gains, second_returns[:, 1:] - second_returns[:, :1]], axis=2)

    # Last rung: the most promising ones, the choice taken and the best other choice. Only these rollouts are quoted.
    last_rows = _best(gains, LAST_RUNG_Z, max(FEWEST_IN_RUNG, round(FINAL_SHARE * n_decisions)))
    numbers = promising[last_rows]
    better = raced_choices[last_rows, 1 + _means(gains[last_rows]).argmax(axis=1)]
    taken_and_better = np.stack([raced_choices[last_rows, 0], better], axis=1)
    last_returns = measure(numbers, taken_and_better, first=FINAL_FUTURES, count=settings.final_rollouts)
    differences = last_returns[:, 1] - last_returns[:, 0]
    is_complete = ~np.isnan(differences).any(axis=1)
    return DecisionRace(first_returns, numbers[is_complete], better[is_complete], differences[is_complete])


def _means(gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean gain of each other choice at each decision; −∞ where a decision failed."""
    return np.nan_to_num(gains.mean(axis=2), nan=-np.inf)


def _best(gains: NDArray[np.float64], least: float, most: int) -> NDArray[np.intp]:
    """Return the decisions whose best other choice has a z above a limit, in their order; at most the `most` best."""
    mean = gains.mean(axis=2)
    error = gains.std(axis=2, ddof=1) / np.sqrt(gains.shape[2])
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(error > 0, mean / error, np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0)))
    best_z = np.where(np.isnan(mean), -np.inf, z).max(axis=1, initial=-np.inf)  # −∞ where a decision failed
    order = np.argsort(-best_z, kind="stable")[:most]
    return np.sort(order[best_z[order] > least])
