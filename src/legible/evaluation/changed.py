"""Test for paired differences that are mostly zero: whether the mean is above zero, or a smallest effect of interest.

Guidance changes few episodes, and a rare large loss may not be among the episodes that were played. A t-test is then
anti-conservative, and a bootstrap cannot contain values that were not seen. The test here computes the probability of a
t-value as large as the observed one among changes that resemble the observed ones but have mean zero:

1. one invented loss, as large as the largest seen in any rule set, is added to the observed changes;
2. they are weighted by exp(θ · change), with the θ that makes their weighted mean zero (exponential tilting): of all
   weights with this mean they are the closest to equal ones;
3. p is the probability that as many draws with these weights have a t-value of at least the observed one.

For changes of only two sizes this is the exact binomial test. The interval holds every mean that the test does not
reject. Resamples are drawn once, with equal weights, and weighted by their likelihood, so that the same resamples serve
for every mean, and small p-values are precise.

- `changed_mean_test`: the test, with effect, interval and smallest detectable effect; `changed_mean_p`: its p-value.
- `mcnemar_test`: the test for success of episodes.
- `largest_loss`: the size of the invented loss. `resamples_for`: the number of resamples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betainccinv, betaincinv, ndtri

from legible.errors import LegibleError
from legible.evaluation.statistics import POWER, Effect
from legible.imports import njit
from legible.streams import GOLDEN, check_seed, key_of_seed, mix

_RESAMPLES_A_TEST = 20
_FOR_THE_UPPER_END = 2000
_ROUNDING = 1e-9
_LEAST = float(np.finfo(np.float64).tiny)


def largest_loss(differences: Iterable[ArrayLike]) -> float:
    """Return the size of the largest loss in the differences of all rule sets; 0 without a loss.

    >>> largest_loss([[3.0, -2.0], [5.0], []])
    2.0
    """
    return max((0.0, *(-float(np.min(d)) for d in map(np.asarray, differences) if d.size)))


def resamples_for(tests: int, alpha: float = 0.05) -> int:
    """Return the number of resamples that each of several tests at a level needs to resolve small p-values.

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
    relevant: float = 0.0,
    confidence: float = 0.95,
) -> Effect:
    """Test whether guidance raises the mean return, on the episodes that it changed.

    Parameters
    ----------
    changed
        Guided minus unguided return, for the episodes that guidance changed.
    seeds
        Total number of paired episodes; the unchanged ones have a difference of exactly zero.
    invented_loss
        A loss that is treated as if it had been seen: `largest_loss` of all rule sets that are tested together. At
        least the largest loss of these episodes; without any loss, the largest change.
    resamples, rng_seed
        Number of resamples (`resamples_for`), and their seed.
    alpha
        Significance level, for `Effect.detectable`. With m tests and Benjamini-Hochberg a lone effect has to pass
        alpha / m.
    relevant
        Smallest effect of interest, at least 0: p is for the hypothesis that the effect is no larger.
    confidence
        Level of the interval. Its lower end is above `relevant` exactly when p is below (1 - confidence) / 2.

    Returns
    -------
    The effect on the mean over all seeds; p is 1 if nothing was changed.

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
        detectable = relevant + share * (needed + float(ndtri(POWER)) * float(sample.std(ddof=1)) / math.sqrt(n))
    return Effect(
        mean=mean,
        error=_error(sample, seeds),
        low=low,
        high=high,
        p=_p_above(relevant, helps.p, mean_changed, n, seeds),
        detectable=detectable,
        changed=n,
        seeds=seeds,
    )


def changed_mean_p(changed: ArrayLike, *, invented_loss: float, resamples: int, rng_seed: int) -> float:
    """Return only the p-value of `changed_mean_test`, which is faster."""
    sample = _changed_sample(changed, max(2, np.size(changed)))
    return _Tilted(sample, invented_loss, resamples, rng_seed).p(0.0) if sample.size else 1.0


def _over_all_seeds(mean: float, limits: tuple[float, float], n: int, seeds: int, tail: float) -> tuple[float, float]:
    """Return the interval of the mean over all seeds, from mean and interval of the n changed episodes.

    The share of changed episodes is an estimate, too. Its error is multiplied by the mean at the limit (method of
    variance estimates recovery), so that the interval stays on its side of zero.
    """
    share = n / seeds
    of_share = float(-ndtri(tail)) * math.sqrt(share * (1.0 - share) / seeds)
    low, high = limits
    return (
        share * mean - math.hypot(share * (mean - low), of_share * low),
        share * mean + math.hypot(share * (high - mean), of_share * high),
    )


def _p_above(relevant: float, p: Callable[[float], float], mean: float, n: int, seeds: int) -> float:
    """Return the p-value of an effect over all seeds of at most `relevant`.

    `p` gives the p-value for a mean of the n changed episodes, whose observed mean is `mean`. The result is the tail at
    which the lower end of the interval over all seeds equals `relevant`.
    """
    if relevant <= 0.0:
        return p(0.0)
    if n / seeds * mean <= relevant:
        return 1.0

    def lower_end(limit: float) -> float:
        return _over_all_seeds(mean, (limit, mean), n, seeds, min(max(p(limit), _LEAST), 0.5))[0]

    if lower_end(mean) <= relevant:  # barely above it
        return max(0.5, p(mean))
    from scipy import optimize  # noqa: PLC0415 (importing it takes longer than reading a study)

    limit = optimize.brentq(lambda limit: lower_end(limit) - relevant, 0.0, mean, xtol=_ROUNDING * mean)
    return p(float(limit))


def mcnemar_test(
    changed: ArrayLike, seeds: int, *, alpha: float = 0.05, relevant: float = 0.0, confidence: float = 0.95
) -> Effect:
    """Test whether guidance raises the share of episodes that succeed, by McNemar's exact test.

    Parameters
    ----------
    changed
        Guided minus unguided success of the changed episodes: 1, 0 or -1. Zeros carry no information.
    seeds, alpha, relevant, confidence
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
    low = 2.0 * float(betaincinv(gained, lost + 1, tail)) - 1.0 if gained else -1.0
    high = 2.0 * float(betainccinv(gained + 1, lost, tail)) - 1.0 if lost else 1.0
    low, high = _over_all_seeds(mean, (low, high), n, seeds, tail)
    return Effect(
        mean=(gained - lost) / seeds,
        error=_error(sample, seeds),
        low=low,
        high=high,
        p=_p_above(relevant, lambda m: float(betainc(gained, lost + 1, (1.0 + m) / 2.0)), mean, n, seeds)
        if gained
        else 1.0,
        detectable=relevant + (float(-ndtri(alpha)) + float(ndtri(POWER))) * math.sqrt(n) / seeds,
        changed=sample.size,
        seeds=seeds,
    )


def _changed_sample(changed: ArrayLike, seeds: int) -> NDArray[np.float64]:
    sample = np.ascontiguousarray(changed, np.float64)
    if sample.ndim != 1 or sample.size > seeds:
        raise LegibleError(f"there are {sample.size} changed episodes, more than the {seeds} episodes in total.")
    if seeds < 2:
        raise LegibleError(f"at least two episodes are needed to compare returns, got {seeds}.")
    if not np.isfinite(sample).all():
        bad = int(np.argmin(np.isfinite(sample)))
        raise LegibleError(f"the difference of changed episode {bad} is {sample[bad]}; it must be a finite number.")
    return sample


def _error(sample: NDArray[np.float64], seeds: int) -> float:
    """Return the standard error of the mean over all seeds, including those with a difference of zero."""
    squares = float(sample @ sample) - float(sample.sum()) ** 2 / seeds
    return math.sqrt(max(0.0, squares) / (seeds - 1) / seeds)


class _Tilted:
    """Changes, one invented loss, and their resamples, which can be weighted for any mean."""

    def __init__(self, sample: NDArray[np.float64], invented_loss: float, resamples: int, rng_seed: int) -> None:
        loss = max(0.0, float(invented_loss), -float(sample.min())) or float(np.abs(sample).max())
        self._sample = sample
        # The mean of equal numbers may differ from them due to rounding.
        self._centre = float(sample.mean() if np.ptp(sample) > 0.0 else sample[0])
        # Relative to the mean, so that sums of squares lose no precision.
        self._support = np.append(sample, -loss) - self._centre
        self._spread = float(np.abs(sample - self._centre).max()) and float(sample.std())
        key = key_of_seed(np.uint64(check_seed(rng_seed) % 2**64))
        self._means, self._spreads = _resample(self._support, sample.size, resamples, np.uint64(key))

    def p(self, mean: float) -> float:
        """Return the probability of a t-value of at least the observed one if the changes had this mean."""
        distance = mean - self._centre
        if distance >= self._support.max():
            return 1.0
        if distance <= self._support.min():
            return 0.0 if distance < 0.0 else 1.0
        return float(_tail(self._support, self._means, self._spreads, self._sample.size, self._spread, distance))

    def lower_limit(self, level: float) -> float:
        """Return the mean at which p equals the level; smaller means are rejected."""
        low, high = float(self._support.min()) + self._centre, self._centre
        if low >= high:
            return high
        if low < 0.0 < high:  # put the limit on the side of zero that agrees with p
            low, high = (0.0, high) if self.p(0.0) < level else (low, 0.0)
        if self.p(high) <= level:
            return high
        from scipy import optimize  # noqa: PLC0415 (importing it takes longer than reading a study)

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
    """Return means and standard deviations of n draws from the support with equal probabilities."""
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
    """Return the θ for which weights exp(θ · value) have mean zero, and the logarithm of the mean weight.

    Newton's method within a bracket that is bisected; the weighted mean grows with θ.
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
    """Return the probability of a t-value of at least the observed one if the true mean is `mean`.

    `support` are the observed values, shifted to a mean of 0; `means` and `spreads` belong to resamples of them. Each
    resample is weighted by its likelihood ratio under weights that give the values this mean. The tail with small
    ratios is summed.
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
