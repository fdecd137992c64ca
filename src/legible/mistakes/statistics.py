"""Figures about decisions that hold although the decisions were chosen.

- `gain_of`: mean, interval and p-value of paired differences; `Gain`.
- `false_coverage`: which gains are proven, and the level of their intervals after that choice.
- `per_episode`, `share_of`: from the decisions of a random sample to episodes, with intervals that resample episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from legible.evaluation.statistics import benjamini_hochberg

RESAMPLES = 2000
_SAME_DIGITS = 9


@dataclass(frozen=True)
class Gain:
    """What another choice is worth.

    Parameters
    ----------
    mean
        Of the differences.
    error
        Standard error of the mean, for the test and the interval.
    n
        How many differences there were.
    """

    mean: float
    error: float
    n: int

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval that covers the true gain with a probability of ``level``."""
        if self.error == 0.0:
            return self.mean, self.mean
        reach = float(stats.t.ppf((1 + level) / 2, self.n - 1)) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def p(self) -> float:
        """Two-sided p-value of no gain; at most ``1 - level`` exactly where the interval of a level leaves 0 out."""
        if self.mean == 0.0:
            return 1.0
        return 0.0 if self.error == 0.0 else float(2 * stats.t.sf(abs(self.mean / self.error), self.n - 1))


def gain_of(differences: NDArray[np.float64]) -> Gain:
    """Return the gain of paired differences of returns, at least two.

    Where most differences are the same number, rare ones that have not been seen may be quite another, and a standard
    error would be too small, zero at worst. There one invented difference counts as well, as far from the mean as the
    farthest that was seen, and at least as far as zero is.
    """
    n, mean = len(differences), float(differences.mean())
    squares = float(((differences - mean) ** 2).sum())
    largest = float(np.abs(differences).max())
    # Sums of rewards may differ in the last bits and be the same number.
    _, counts = np.unique(np.round(differences / (largest or 1.0), _SAME_DIGITS), return_counts=True)
    if 2 * counts.max() > n:
        squares += max(float(np.abs(differences - mean).max()), abs(mean)) ** 2
        return Gain(mean, float(np.sqrt(squares / n / n)), n)
    return Gain(mean, float(np.sqrt(squares / (n - 1) / n)), n)


def false_coverage(
    p_values: NDArray[np.float64], alpha: float, choose: Callable[[NDArray[np.intp]], NDArray[np.intp]]
) -> tuple[NDArray[np.intp], NDArray[np.intp], float]:
    """Find which of many effects are proven, and the level of intervals for those of them that are listed.

    Benjamini and Hochberg's procedure keeps the share of false ones below `alpha`; intervals at the level that is
    returned miss in at most that share (their false-coverage rate), although the effects were chosen. If fewer are
    listed than are proven, that is a stricter choice, and those that would not pass it are taken out until all do.

    Parameters
    ----------
    p_values
        Of all effects that were measured.
    alpha
        The share.
    choose
        Which of the proven ones are listed.

    Returns
    -------
    The numbers of all that are proven, of those that are listed, and the level.
    """
    m = len(p_values)
    proven = np.flatnonzero(benjamini_hochberg(p_values) <= alpha)
    limit = np.inf
    while True:
        listed = choose(proven[p_values[proven] <= limit])
        threshold = len(listed) * alpha / m if m else 0.0
        if not len(listed) or (p_values[listed] <= threshold).all():
            return proven, listed, 1 - threshold
        limit = min(threshold, np.nextafter(limit, 0))


@dataclass(frozen=True)
class Estimated:
    """A figure with its interval."""

    mean: float
    low: float
    high: float


def per_episode(
    values: NDArray[np.float64],
    episodes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    alpha: float,
    seed: int,
) -> Estimated:
    """Return the sum of a figure of decisions over an episode, from a random sample of all decisions.

    Parameters
    ----------
    values
        The figure at each decision of the sample.
    episodes
        The episode of each of them.
    lengths
        The decisions of every episode.
    alpha, seed
        One minus the level of the interval, and of the resampling of whole episodes.
    """
    sums, counts = _by_episode(values, episodes, len(lengths))

    def estimate(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return (weights @ sums) / np.maximum(weights @ counts, 1) * (weights @ lengths) / weights.sum(axis=1)

    mean = float(estimate(np.ones((1, len(lengths))))[0])
    resampled = estimate(_weights(len(lengths), seed))
    low, high = np.quantile(resampled, [alpha / 2, 1 - alpha / 2]).tolist()
    return Estimated(mean, low, high)


def share_of(
    proven: NDArray[np.bool_], episodes: NDArray[np.int64], n_episodes: int, *, alpha: float, seed: int
) -> Estimated:
    """Return the share of the decisions of a random sample that are proven mistakes.

    The interval is the wider of two: one that resamples episodes, since decisions of one episode belong together, and
    Wilson's, which says something also where none was found.
    """
    n, found = len(proven), int(proven.sum())
    sums, counts = _by_episode(proven.astype(np.float64), episodes, n_episodes)
    weights = _weights(n_episodes, seed)
    resampled = (weights @ sums) / np.maximum(weights @ counts, 1)
    low, high = np.quantile(resampled, [alpha / 2, 1 - alpha / 2]).tolist()
    wilson = stats.binomtest(found, n).proportion_ci(1 - alpha, method="wilson")
    return Estimated(found / n, min(low, float(wilson.low)), max(high, float(wilson.high)))


def _by_episode(
    values: NDArray[np.float64], episodes: NDArray[np.int64], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    counts = np.bincount(episodes, minlength=n).astype(np.float64)
    return np.bincount(episodes, values, n).astype(np.float64), counts


@lru_cache(maxsize=4)
def _weights(n: int, seed: int) -> NDArray[np.float64]:
    """How often each of n episodes is drawn in each resample."""
    rng = np.random.default_rng([seed, n])
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
