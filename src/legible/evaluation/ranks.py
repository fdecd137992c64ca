"""Figures that are means of a range of ranks (median, worst tenth), and their test on pairs of episodes.

The effect is the difference of the guided and the unguided figure, never the figure of the differences: half of the
pairs may gain while the median falls. Whole pairs are resampled, which preserves their correlation.

- `Ranks`: a range of ranks; `MEDIAN`, `WORST_TENTH`.
- `rank_test`: tests guided against unguided episodes with the same seeds.
- `rank_interval`: the confidence interval of a figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from legible.evaluation.statistics import POWER, Effect
from legible.imports import njit
from legible.streams import GOLDEN, check_seed, key_of_seed, mix


class Ranks(NamedTuple):
    """A range of ranks for a number of episodes: from the first, counted from 0, up to but not including the last."""

    first: Callable[[int], int]
    last: Callable[[int], int]

    def figure(self, values: NDArray[np.float64]) -> float:
        """Return the mean of the values with these ranks, in ascending order."""
        n = len(values)
        return float(np.sort(values)[self.first(n) : self.last(n)].mean())


MEDIAN = Ranks(lambda n: (n - 1) // 2, lambda n: n // 2 + 1)
WORST_TENTH = Ranks(lambda _: 0, lambda n: math.ceil(n / 10))


def _largest_drop(before: NDArray[np.float64], after: NDArray[np.float64], least: float) -> float:
    """Return the largest drop, but no less than `least`; if nothing drops, the largest change."""
    return max(0.0, least, float((before - after).max())) or float(np.abs(after - before).max())


def rank_test(
    guided: NDArray[np.float64],
    base: NDArray[np.float64],
    changed: NDArray[np.bool_],
    ranks: Ranks,
    *,
    invented_loss: float,
    resamples: int,
    rng_seed: int,
    alpha: float = 0.05,
    relevant: float = 0.0,
    confidence: float = 0.95,
) -> Effect:
    """Return the effect of guidance on a rank statistic of the returns, such as the median, tested by a bootstrap.

    Whole pairs of episodes with the same seed are resampled. p is the share of resamples in which guidance raises the
    statistic by no more than `relevant`; 1 if it does not in the sample, or if nothing changed. One invented pair is
    resampled with the others, to account for harm that is too rare to be seen: a median episode made worse by the
    largest loss, but not worse than the worst episode.

    Parameters
    ----------
    guided, base
        Returns (or other values) of the guided and the unguided episodes, one per seed, in the same order.
    changed
        Which episodes guidance changed; p is 1 if none.
    ranks
        The statistic: the mean of the values in a range of ranks.
    invented_loss
        A loss that is treated as if it had been seen: usually the largest one of all rule sets that are tested
        together. At least the largest loss of these episodes is used; without any loss, the largest change.
    resamples, rng_seed
        Number of bootstrap resamples, and the seed that they are drawn with.
    alpha
        Significance level that `Effect.detectable`, the smallest detectable effect, refers to.
    relevant
        Smallest effect of interest: p is for the hypothesis that the effect is no larger.
    confidence
        Level of the confidence interval.

    >>> base = np.arange(40.0)
    >>> effect = rank_test(base + 5, base, base >= 0, MEDIAN, invented_loss=1.0, resamples=2000, rng_seed=0)
    >>> effect.mean, effect.p < 0.05
    (5.0, True)
    """
    n, n_changed = len(base), int(changed.sum())
    mean = ranks.figure(guided) - ranks.figure(base)
    if not n_changed:
        return Effect(mean, error=0.0, low=mean, high=mean, p=1.0, detectable=None, changed=0, seeds=n)

    # Effects in the resamples, and for the upper end of the interval the same with guided and unguided exchanged, where
    # the invented pair is a gain.
    loss = _largest_drop(base, guided, invented_loss)
    differences = np.sort(_with_invented_pair(guided, base, loss, ranks, resamples, rng_seed))
    gain = _largest_drop(guided, base, invented_loss)
    exchanged = np.sort(_with_invented_pair(base, guided, gain, ranks, resamples, rng_seed))
    tail = (1.0 - confidence) / 2.0
    error = float(differences.std(ddof=1))
    # The smallest detectable effect: the distance to the limit at `alpha`, plus that for the usual power.
    to_significance = mean - min(_quantile(differences, alpha), mean)
    p = 1.0
    if mean > relevant:  # the sample counts as a resample without the effect, so that p is never 0
        p = (1 + int(np.count_nonzero(differences <= relevant))) / (1 + resamples)
    return Effect(
        mean=mean,
        error=error,
        low=min(_quantile(differences, tail), mean),
        high=max(-_quantile(exchanged, tail), mean),
        p=p,
        detectable=relevant + to_significance + float(ndtri(POWER)) * error,
        changed=n_changed,
        seeds=n,
    )


def rank_interval(
    values: NDArray[np.float64], ranks: Ranks, *, resamples: int, rng_seed: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the bootstrap confidence interval of a figure."""
    found = np.sort(_resampled_figures(values[:, None], ranks, resamples, rng_seed)[:, 0])
    tail = (1.0 - confidence) / 2.0
    return _quantile(found, tail), -_quantile(-found[::-1], tail)


def _quantile(ascending: NDArray[np.float64], tail: float) -> float:
    """Return the value that at most a share `tail` of the resamples does not exceed, counted as for p."""
    return float(ascending[max(0, math.floor(tail * (1 + len(ascending))) - 1)])


def _with_invented_pair(
    better: NDArray[np.float64], worse: NDArray[np.float64], loss: float, ranks: Ranks, resamples: int, rng_seed: int
) -> NDArray[np.float64]:
    """Return resampled differences of the figures, with one invented pair that lost."""
    median, worst = float(np.median(worse)), float(min(better.min(), worse.min()))
    pairs = np.stack([np.append(better, max(median - loss, worst)), np.append(worse, median)], axis=1)
    figures = _resampled_figures(pairs, ranks, resamples, rng_seed)
    differences: NDArray[np.float64] = figures[:, 0] - figures[:, 1]
    return differences


def _resampled_figures(
    columns: NDArray[np.float64], ranks: Ranks, resamples: int, rng_seed: int
) -> NDArray[np.float64]:
    """Return the figures of the columns in every resample of the rows."""
    n = len(columns)
    order = np.argsort(columns, axis=0, kind="stable")
    key = key_of_seed(np.uint64(check_seed(rng_seed) % 2**64))
    return _figures_of_resamples(columns, order, ranks.first(n), ranks.last(n), resamples, np.uint64(key))


@njit(cache=True)
def _figures_of_resamples(
    columns: NDArray[np.float64], order: NDArray[np.int64], first: int, last: int, resamples: int, key: np.uint64
) -> NDArray[np.float64]:
    """Return, for each bootstrap resample and column, the mean of the values with ranks in a range.

    Parameters
    ----------
    columns
        Values of the episodes, ``float64[n, columns]``, such as guided and unguided returns. Rows are resampled whole.
    order
        For every column its row numbers in ascending order of the values, ``int64[n, columns]``.
    first, last
        The range of ranks, counted from 0; `last` is not part of it.
    resamples, key
        Number of resamples, and the key of the random numbers.

    Returns
    -------
    ``float64[resamples, columns]``.
    """
    n, width = columns.shape
    figures, times_drawn = np.empty((resamples, width)), np.empty(n, np.int64)
    size, counter = np.uint64(n), np.uint64(key)
    for resample in range(resamples):
        # Draw n rows with replacement: the upper half of a random 64-bit number, scaled to 0 … n - 1.
        times_drawn[:] = 0
        for _ in range(n):
            counter += GOLDEN
            times_drawn[((mix(counter) >> np.uint64(32)) * size) >> np.uint64(32)] += 1
        # Walk through the values in ascending order. A row that was drawn k times takes the next k ranks; those within
        # the range count.
        for column in range(width):
            rank, total, place = 0, 0.0, 0
            while rank < last:
                row = order[place, column]
                next_rank = rank + times_drawn[row]
                ranks_in_range = min(next_rank, last) - max(rank, first)
                if ranks_in_range > 0:
                    total += ranks_in_range * columns[row, column]
                rank, place = next_rank, place + 1
            figures[resample, column] = total / (last - first)
    return figures
