"""Statistics of decisions that are valid although the decisions were selected.

- `gain_of`: mean, interval and p-value of paired differences; `Gain`.
- `false_coverage`: which gains are proven, and the level of their intervals after that choice.
- `per_episode`, `share_of`: estimates from a random sample of decisions, with intervals that resample episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from legible.evaluation.statistics import benjamini_hochberg

RESAMPLES = 2000
_SAME_DIGITS = 9


@dataclass(frozen=True)
class Gain:
    """Gain of another choice: mean, standard error and number of the differences."""

    mean: float
    error: float
    n: int

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of the gain at a level."""
        if self.error == 0.0:
            return self.mean, self.mean
        reach = float(stdtrit(self.n - 1, (1 + level) / 2)) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def p(self) -> float:
        """Two-sided p-value of no gain; at most ``1 - level`` exactly where the interval excludes 0."""
        if self.mean == 0.0:
            return 1.0
        return 0.0 if self.error == 0.0 else float(2 * stdtr(self.n - 1, -abs(self.mean / self.error)))


def gain_of(differences: NDArray[np.float64]) -> Gain:
    """Return the gain of paired differences of returns, at least two.

    If most differences are equal, rare ones that were not seen may differ much, and the standard error would be too
    small, or zero. Then one invented difference is added, as far from the mean as the farthest one seen, and at least
    as far as zero.
    """
    n, mean = len(differences), float(differences.mean())
    squares = float(((differences - mean) ** 2).sum())
    largest = float(np.abs(differences).max())
    # Equal sums of rewards may differ in the last bits.
    _, counts = np.unique(np.round(differences / (largest or 1.0), _SAME_DIGITS), return_counts=True)
    if 2 * counts.max() > n:
        squares += max(float(np.abs(differences - mean).max()), abs(mean)) ** 2
        return Gain(mean, float(np.sqrt(squares / n / n)), n)
    return Gain(mean, float(np.sqrt(squares / (n - 1) / n)), n)


def false_coverage(
    p_values: NDArray[np.float64], alpha: float, choose: Callable[[NDArray[np.intp]], NDArray[np.intp]]
) -> tuple[NDArray[np.intp], NDArray[np.intp], float]:
    """Return the significant ones of many effects, those to list, and the level at which their intervals are valid.

    Benjamini and Hochberg's procedure keeps the false discovery rate below `alpha`: the expected share of false effects
    among the significant ones. In the same way, at most the share `alpha` of the listed intervals miss their effect
    (the false coverage rate), although the effects were selected: the intervals of k listed effects, of n in all, have
    the level 1 − k·alpha/n. A listed effect must also be significant at that level, p ≤ k·alpha/n; others are dropped,
    and the choice is made again.

    Parameters
    ----------
    p_values
        ``float64[effects]``: the p-values of all effects that were measured.
    alpha
        Limit of both rates.
    choose
        Function that returns the effects to list, given the numbers of significant ones.

    Returns
    -------
    proven, listed, level
        The numbers of all significant effects, the numbers of the listed ones, and the level of the intervals.
    """
    n_effects = len(p_values)
    proven = np.flatnonzero(benjamini_hochberg(p_values) <= alpha)
    limit = np.inf
    while True:
        listed = choose(proven[p_values[proven] <= limit])
        threshold = len(listed) * alpha / n_effects if n_effects else 0.0
        if not len(listed) or (p_values[listed] <= threshold).all():
            return proven, listed, 1 - threshold
        limit = min(threshold, np.nextafter(limit, 0))  # strictly lower each time, so that this ends


@dataclass(frozen=True)
class IntervalEstimate:
    """An estimate with its confidence interval."""

    mean: float
    low: float
    high: float


def per_episode(
    values: NDArray[np.float64], episodes: NDArray[np.int64], lengths: NDArray[np.int64], *, alpha: float, seed: int
) -> IntervalEstimate:
    """Return an estimate of the mean sum of values over an episode, with a confidence interval.

    It is computed from a random sample of all decisions: their mean value times the mean number of decisions.

    Parameters
    ----------
    values, episodes
        Value and episode number of each decision of the sample.
    lengths
        ``int64[episodes]``: the number of decisions of every episode.
    alpha
        One minus the level of the interval.
    seed
        Seed of the bootstrap, which resamples whole episodes, because decisions of one episode are not independent.
    """
    episode_sums, episode_counts = _by_episode(values, episodes, len(lengths))

    def estimate(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        # weights[resample, episode]: how often each episode is drawn. Mean value × mean length.
        return (
            (weights @ episode_sums)
            / np.maximum(weights @ episode_counts, 1)
            * (weights @ lengths)
            / weights.sum(axis=1)
        )

    mean = float(estimate(np.ones((1, len(lengths))))[0])
    resampled = estimate(_weights(len(lengths), seed))
    low, high = np.quantile(resampled, [alpha / 2, 1 - alpha / 2]).tolist()
    return IntervalEstimate(mean, low, high)


def share_of(
    proven: NDArray[np.bool_], episodes: NDArray[np.int64], n_episodes: int, *, alpha: float, seed: int
) -> IntervalEstimate:
    """Estimate the share of decisions that are proven mistakes, from a random sample.

    The interval is the wider of two: one that resamples episodes, since decisions of one episode are dependent, and
    Wilson's, which is also valid if none was found.
    """
    from scipy import stats  # noqa: PLC0415 (it takes half a second)

    n, found = len(proven), int(proven.sum())
    sums, counts = _by_episode(proven.astype(np.float64), episodes, n_episodes)
    weights = _weights(n_episodes, seed)
    resampled = (weights @ sums) / np.maximum(weights @ counts, 1)
    low, high = np.quantile(resampled, [alpha / 2, 1 - alpha / 2]).tolist()
    wilson = stats.binomtest(found, n).proportion_ci(1 - alpha, method="wilson")
    return IntervalEstimate(found / n, min(low, float(wilson.low)), max(high, float(wilson.high)))


def _by_episode(
    values: NDArray[np.float64], episodes: NDArray[np.int64], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    counts = np.bincount(episodes, minlength=n).astype(np.float64)
    return np.bincount(episodes, values, n).astype(np.float64), counts


@lru_cache(maxsize=4)
def _weights(n: int, seed: int) -> NDArray[np.float64]:
    """Return how often each of n episodes is drawn in each resample."""
    rng = np.random.default_rng([seed, n])
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
