"""The test for paired differences that are mostly zero: whether the mean of the changed episodes is above zero.

Guidance changes few episodes, and a harm that is rare and large may not be among those that were seen: a t-test is
sure too soon, and resampling what was seen cannot know of what was not. The test here asks how probable a t-value as
large as the observed one is among changes that resemble the observed ones but have mean zero:

1. one invented loss, as large as the largest seen in any rule set, joins the observed changes;
2. they are weighted by exp(θ · change), with the θ that makes their weighted mean zero (exponential tilting): of all
   weights with this mean they are the nearest to equal ones;
3. p is the probability that as many draws with these weights have a t-value of at least the observed one.

For changes of only two sizes this is the exact binomial test. The interval holds every mean that the test does not
reject. Resamples are drawn once, with equal weights, and weighed by their likelihood, so that one set of them serves
for every mean, and p is precise however small it is.

- `changed_mean_test`: the test, with effect, interval and the smallest effect that it could have shown;
  `changed_mean_p`: its p-value alone.
- `mcnemar_test`: the same for episodes that succeed or fail.
- `largest_loss`: the size of the invented loss. `resamples_for`: how many resamples some tests need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from legible.errors import LegibleError
from legible.evaluation.statistics import POWER, Effect
from legible.streams import GOLDEN, check_seed, key_of_seed, mix

_RESAMPLES_A_TEST = 20
_FOR_THE_UPPER_END = 2000
_ROUNDING = 1e-9
_LEAST = float(np.finfo(np.float64).tiny)


def largest_loss(differences: Iterable[ArrayLike]) -> float:
    """Return the size of the largest loss in the differences of all rule sets; 0 where nothing was lost.

    >>> largest_loss([[3.0, -2.0], [5.0], []])
    2.0
    """
    return max((0.0, *(-float(np.min(d)) for d in map(np.asarray, differences) if d.size)))


def resamples_for(tests: int, alpha: float = 0.05) -> int:
    """Return how many resamples each of many tests at a level needs, so that small p-values can be distinguished.

    >>> resamples_for(20)
    8000
    """
    return math.ceil(_RESAMPLES_A_TEST * max(1, tests) / alpha)


def changed_mean_test(
    changed: ArrayLike,
    seeds: int,
    *,
    invented_loss: float,
    resamples: int,
    rng_seed: int,
    alpha: float = 0.05,
    confidence: float = 0.95,
) -> Effect:
    """Test whether guidance raises the mean return, on the episodes that it changed.

    Parameters
    ----------
    changed
        Guided minus unguided return, for the episodes that guidance changed.
    seeds
        How many paired episodes they are among; all others have a difference of exactly zero.
    invented_loss
        A loss that is counted with as if it had been seen: `largest_loss` of all rule sets that are tested together.
        Where it is smaller than the largest loss of these episodes, that one counts; where no loss is known at all,
        the largest change.
    resamples
        How many are drawn: `resamples_for`.
    rng_seed
        Of the resamples.
    alpha
        The level at which the test is made, for `Effect.detectable`. With m tests and Benjamini-Hochberg alpha / m is
        what a lone effect has to pass.
    confidence
        Of the interval. Its lower end is above zero exactly when p is below (1 - confidence) / 2.

    Returns
    -------
    The effect on the mean over all seeds. Nothing changed: p is 1.

    >>> effect = changed_mean_test([1.0] * 8, 100, invented_loss=1.0, resamples=2000, rng_seed=0)
    >>> round(effect.mean, 2), abs(effect.p - 0.5**8) < 1e-3
    (0.08, True)
    """
    sample = _changed_sample(changed, seeds)
    n = sample.size
    if not n:
        return Effect(0.0, 0.0, 0.0, 0.0, 1.0, None, 0, seeds)
    share, mean_changed = n / seeds, float(sample.mean())
    mean = share * mean_changed
    tail = (1.0 - confidence) / 2.0
    helps = _Tilted(sample, invented_loss, resamples, rng_seed)
    harms = _Tilted(-sample, invented_loss, min(resamples, _FOR_THE_UPPER_END), rng_seed)
    low, high = _over_all_seeds(mean_changed, (helps.lower_limit(tail), -harms.lower_limit(tail)), n, seeds, tail)
    detectable = None
    if n > 1:
        needed = mean_changed - helps.lower_limit(alpha)
        detectable = share * (needed + float(stats.norm.ppf(POWER)) * float(sample.std(ddof=1)) / math.sqrt(n))
    return Effect(
        mean=mean,
        error=_error(sample, seeds),
        low=low,
        high=high,
        p=helps.p(0.0),
        detectable=detectable,
        changed=n,
        seeds=seeds,
    )


def changed_mean_p(changed: ArrayLike, *, invented_loss: float, resamples: int, rng_seed: int) -> float:
    """Return the p-value of `changed_mean_test` alone, which is quicker."""
    sample = _changed_sample(changed, max(2, np.size(changed)))
    return _Tilted(sample, invented_loss, resamples, rng_seed).p(0.0) if sample.size else 1.0


def _over_all_seeds(mean: float, limits: tuple[float, float], n: int, seeds: int, tail: float) -> tuple[float, float]:
    """Return the interval of the mean over all seeds, from mean and interval of the n changed episodes.

    The share of changed episodes is an estimate, too; it matters as much as the mean of the changed ones is at the
    limit (the method of variance estimates recovery), so that the interval keeps its side of zero.
    """
    share = n / seeds
    of_share = float(stats.norm.isf(tail)) * math.sqrt(share * (1.0 - share) / seeds)
    low, high = limits
    return (
        share * mean - math.hypot(share * (mean - low), of_share * low),
        share * mean + math.hypot(share * (high - mean), of_share * high),
    )


def mcnemar_test(changed: ArrayLike, seeds: int, *, alpha: float = 0.05, confidence: float = 0.95) -> Effect:
    """Test whether guidance raises the share of episodes that succeed, by McNemar's exact test.

    Parameters
    ----------
    changed
        Guided minus unguided success of the changed episodes: 1, 0 or -1. Only those that are not 0 tell.
    seeds, alpha, confidence
        As for `changed_mean_test`.

    >>> effect = mcnemar_test([1, 1, 1, 1, -1, 0], 12)
    >>> effect.mean, effect.p == 6 / 32
    (0.25, True)
    """
    sample = _changed_sample(changed, seeds)
    gained, lost = int(np.count_nonzero(sample > 0.0)), int(np.count_nonzero(sample < 0.0))
    n = gained + lost
    if not n:
        return Effect(0.0, 0.0, 0.0, 0.0, 1.0, None, sample.size, seeds)
    tail, mean = (1.0 - confidence) / 2.0, (gained - lost) / n
    low = 2.0 * float(stats.beta.ppf(tail, gained, lost + 1)) - 1.0 if gained else -1.0
    high = 2.0 * float(stats.beta.isf(tail, gained + 1, lost)) - 1.0 if lost else 1.0
    low, high = _over_all_seeds(mean, (low, high), n, seeds, tail)
    return Effect(
        mean=(gained - lost) / seeds,
        error=_error(sample, seeds),
        low=low,
        high=high,
        p=float(stats.binom.sf(gained - 1, n, 0.5)),
        detectable=(float(stats.norm.isf(alpha)) + float(stats.norm.ppf(POWER))) * math.sqrt(n) / seeds,
        changed=sample.size,
        seeds=seeds,
    )


def _changed_sample(changed: ArrayLike, seeds: int) -> NDArray[np.float64]:
    sample = np.ascontiguousarray(changed, np.float64)
    if sample.ndim != 1 or sample.size > seeds:
        raise LegibleError(f"{sample.size} changed episodes cannot be among {seeds} episodes.")
    if seeds < 2:
        raise LegibleError(f"at least two episodes are needed to compare returns, got {seeds}.")
    if not np.isfinite(sample).all():
        bad = int(np.argmin(np.isfinite(sample)))
        raise LegibleError(f"the difference of changed episode {bad} is {sample[bad]}; it must be a finite number.")
    return sample


def _error(sample: NDArray[np.float64], seeds: int) -> float:
    """Standard error of the mean over all seeds, most of which have a difference of zero."""
    squares = float(sample @ sample) - float(sample.sum()) ** 2 / seeds
    return math.sqrt(max(0.0, squares) / (seeds - 1) / seeds)


class _Tilted:
    """Changes, one invented loss, and their resamples, to be weighed for any mean."""

    def __init__(self, sample: NDArray[np.float64], invented_loss: float, resamples: int, rng_seed: int) -> None:
        loss = max(0.0, float(invented_loss), -float(sample.min())) or float(np.abs(sample).max())
        self._sample = sample
        # The mean of equal numbers may differ from them by rounding.
        self._centre = float(sample.mean() if np.ptp(sample) > 0.0 else sample[0])
        # Around the mean, so that sums of squares lose nothing to rounding.
        self._support = np.append(sample, -loss) - self._centre
        self._spread = float(np.abs(sample - self._centre).max()) and float(sample.std())
        key = key_of_seed(np.uint64(check_seed(rng_seed) % 2**64))
        self._means, self._spreads = _resample(self._support, sample.size, resamples, np.uint64(key))

    def p(self, mean: float) -> float:
        """The probability of a t-value of at least the observed one, if the changes had this mean."""
        distance = mean - self._centre
        if distance >= self._support.max():
            return 1.0
        if distance <= self._support.min():
            return 0.0 if distance < 0.0 else 1.0
        return float(_tail(self._support, self._means, self._spreads, self._sample.size, self._spread, distance))

    def lower_limit(self, level: float) -> float:
        """The mean at which p is the level: smaller ones are rejected."""
        low, high = float(self._support.min()) + self._centre, self._centre
        if low >= high:
            return high
        if low < 0.0 < high:  # so that the limit lies on the side of zero that p says
            low, high = (0.0, high) if self.p(0.0) < level else (low, 0.0)
        if self.p(high) <= level:
            return high
        return float(
            optimize.brentq(
                lambda mean: math.log(max(self.p(mean), _LEAST) / level),
                low,
                high,
                xtol=_ROUNDING * (self._centre - low),
            )
        )


@njit(cache=True)
def _resample(
    support: NDArray[np.float64], n: int, resamples: int, key: np.uint64
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations of n draws from the support, every value as probable as any other."""
    means, spreads = np.empty(resamples), np.empty(resamples)
    size, count = np.uint64(support.size), np.uint64(key)
    for b in range(resamples):
        total = squares = 0.0
        for _ in range(n):
            count += GOLDEN
            value = support[((mix(count) >> np.uint64(32)) * size) >> np.uint64(32)]
            total += value
            squares += value * value
        means[b] = total / n
        variance = squares / n - means[b] * means[b]
        spreads[b] = np.sqrt(variance) if variance > _ROUNDING * squares / n else 0.0
    return means, spreads


@njit(cache=True)
def _tilting(values: NDArray[np.float64]) -> tuple[float, float]:
    """The θ for which weights exp(θ · value) have mean zero, and the logarithm of the mean weight.

    Newton's steps, kept within bounds that halve: the weighted mean grows with θ.
    """
    scale = np.abs(values).max()
    scaled = values / scale
    theta, low, high, found = 0.0, -np.inf, np.inf, False
    while True:
        exponents = theta * scaled
        largest = exponents.max()
        weights = np.exp(exponents - largest)
        total = weights.sum()
        if found:
            return theta / scale, largest + np.log(total / values.size)
        mean = (weights * scaled).sum() / total
        variance = (weights * scaled * scaled).sum() / total - mean * mean
        if mean > 0.0:
            high = theta
        else:
            low = theta
        step = theta - mean / variance if variance > 0.0 else np.nan
        if not low < step < high:
            if low == -np.inf:
                step = 2.0 * theta - 1.0
            elif high == np.inf:
                step = 2.0 * theta + 1.0
            else:
                step = (low + high) / 2.0
        found = abs(step - theta) <= 1e-12 * (1.0 + abs(theta))
        theta = step


@njit(cache=True)
def _tail(
    support: NDArray[np.float64],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
    n: int,
    spread: float,
    mean: float,
) -> float:
    """The probability of a t-value of at least the observed one under the weights with this mean.

    The observed mean is 0. Each resample counts by how much more probable the weights make it; of the two tails the one
    is summed on which that is small.
    """
    theta, log_mean = _tilting(support - mean)
    total, upper = 0.0, theta <= 0.0
    for i in range(means.size):
        resampled, observed = (means[i] - mean) * spread, -mean * spreads[i]
        if spread == 0.0 and spreads[i] == 0.0:  # neither varies: their means decide
            resampled, observed = means[i] - mean, -mean
        if (resampled >= observed - _ROUNDING * (abs(resampled) + abs(observed))) == upper:
            total += np.exp(n * (theta * (means[i] - mean) - log_mean))
    share = total / means.size
    return min(1.0, share if upper else max(0.0, 1.0 - share))
