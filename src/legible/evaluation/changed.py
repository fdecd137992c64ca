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
_UPPER_END_RESAMPLES = 2000
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
    """Return the effect of guidance on the mean return, with its one-sided p-value and confidence interval.

    The same seeds were played with and without guidance. Most episodes are identical, so only the changed ones are
    passed, and their mean is scaled to all seeds.

    Parameters
    ----------
    changed
        Guided minus unguided return of the episodes that guidance changed, ``float64[changed episodes]``.
    seeds
        Total number of paired episodes; the unchanged ones have a difference of exactly zero.
    invented_loss
        A loss that is treated as if it had been seen, because a rare large loss can be missing from the sample: usually
        the largest loss of all rule sets that are tested together. At least the largest loss of these episodes is used;
        without any loss, the largest change.
    resamples, rng_seed
        Number of bootstrap resamples, and the seed that they are drawn with.
    alpha
        Significance level that `Effect.detectable`, the smallest detectable effect, refers to. With m tests and the
        correction of Benjamini and Hochberg, a lone effect has to pass alpha / m.
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
    # The test on the changes, and the same test with all signs flipped: minus its lower limit is the upper limit.
    helps = _Tilted(sample, invented_loss, resamples, rng_seed)
    harms = _Tilted(-sample, invented_loss, min(resamples, _UPPER_END_RESAMPLES), rng_seed)
    # The interval of the mean change, then that of the mean over all seeds, whose share of changes is uncertain, too.
    tail = (1.0 - confidence) / 2.0
    changed_limits = (helps.lower_limit(tail), -harms.lower_limit(tail))
    low, high = _over_all_seeds(mean_changed, changed_limits, n, seeds, tail)
    # The smallest detectable effect: the distance to the limit at `alpha`, plus that for the usual power.
    detectable = None
    if n > 1:
        to_significance = mean_changed - helps.lower_limit(alpha)
        to_power = float(ndtri(POWER)) * float(sample.std(ddof=1)) / math.sqrt(n)
        detectable = relevant + share * (to_significance + to_power)
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
    """Return the effect of guidance on the share of episodes that succeed, by McNemar's exact test.

    Parameters
    ----------
    changed
        Guided minus unguided success of the changed episodes, one number each: 1, 0 or -1. Zeros carry no information.
    seeds
        Total number of paired episodes; those that are not passed did not change.
    alpha
        Significance level that `Effect.detectable`, the smallest detectable effect, refers to.
    relevant
        Smallest effect of interest, at least 0: p is for the hypothesis that the effect is no larger.
    confidence
        Level of the confidence interval.

    >>> effect = mcnemar_test([1, 1, 1, 1, -1, 0], 12)
    >>> effect.mean, effect.p == 6 / 32
    (0.25, True)
    """
    sample = _changed_sample(changed, seeds)
    gained, lost = int(np.count_nonzero(sample > 0.0)), int(np.count_nonzero(sample < 0.0))
    n = gained + lost
    if not n:
        return Effect(0.0, 0.0, 0.0, 0.0, 1.0, None, sample.size, seeds)
    # Exact binomial (Clopper-Pearson) limits of the share of gains among gains and losses. A share s of gains is a mean
    # change of 2s - 1 per pair that differs.
    tail, mean = (1.0 - confidence) / 2.0, (gained - lost) / n
    low = 2.0 * float(betaincinv(gained, lost + 1, tail)) - 1.0 if gained else -1.0
    high = 2.0 * float(betainccinv(gained + 1, lost, tail)) - 1.0 if lost else 1.0
    # The limits above are for pairs that differ; scale them to all seeds.
    low, high = _over_all_seeds(mean, (low, high), n, seeds, tail)

    def binomial_p(mean_change: float) -> float:
        """Return the probability of at least as many gains if pairs that differ had this mean change."""
        return float(betainc(gained, lost + 1, (1.0 + mean_change) / 2.0))

    return Effect(
        mean=(gained - lost) / seeds,
        error=_error(sample, seeds),
        low=low,
        high=high,
        p=_p_above(relevant, binomial_p, mean, n, seeds) if gained else 1.0,
        # Under the hypothesis of no effect, every pair that differs is a gain or a loss with equal probability, so the
        # standard error of the mean is sqrt(n) / seeds.
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
    """Return the θ for which the mean of the values, weighted by exp(θ · value), is zero (exponential tilting).

    The second number is the logarithm of the mean weight, with which weights become likelihood ratios. The root is
    found by Newton's method; the weighted mean grows with θ, so a bracket of θ is known, and a step that leaves it is
    replaced by bisection. `values` must have both signs.
    """
    scale = np.abs(values).max()
    scaled = values / scale
    theta, low, high, is_converged = 0.0, -np.inf, np.inf, False
    while True:
        # Exponents relative to the largest one, so that no weight overflows.
        exponents = theta * scaled
        largest = exponents.max()
        weights = np.exp(exponents - largest)
        total = weights.sum()
        if is_converged:
            return theta / scale, largest + np.log(total / values.size)
        # The weighted mean is the function whose root is sought, the weighted variance its derivative.
        mean = (weights * scaled).sum() / total
        variance = (weights * scaled * scaled).sum() / total - mean * mean
        if mean > 0.0:
            high = theta
        else:
            low = theta
        next_theta = theta - mean / variance if variance > 0.0 else np.nan
        if not low < next_theta < high:  # also if it is NaN
            if low == -np.inf:  # no lower bound yet: go further down
                next_theta = 2.0 * theta - 1.0
            elif high == np.inf:  # no upper bound yet: go further up
                next_theta = 2.0 * theta + 1.0
            else:
                next_theta = (low + high) / 2.0
        is_converged = abs(next_theta - theta) <= 1e-12 * (1.0 + abs(theta))
        theta = next_theta


@njit(cache=True)
def _tail(
    support: NDArray[np.float64],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
    n: int,
    spread: float,
    mean: float,
) -> float:
    """Return the probability of a t-value of at least the observed one if the true mean were `mean`.

    The probability is estimated by importance sampling: resamples were drawn with equal probabilities, and each one is
    weighted by the likelihood ratio of drawing it from a distribution with mean `mean` on the same values.

    Parameters
    ----------
    support
        The observed values and one invented loss, shifted so that the observed mean is 0, ``float64[n + 1]``.
    means, spreads
        Mean and standard deviation of each resample of the support, ``float64[resamples]`` each.
    n
        Number of values in a resample.
    spread
        Standard deviation of the observed values.
    mean
        The hypothetical true mean, on the shifted scale.
    """
    theta, log_mean_weight = _tilting(support - mean)
    # Sum the tail whose resamples have small weights (the upper one for θ <= 0): that estimate varies less.
    sums_upper_tail = theta <= 0.0
    total = 0.0
    for i in range(means.size):
        # t = (mean of the sample - true mean) / standard deviation. To compare the resampled with the observed t-value
        # without a division by zero, both sides are multiplied by both standard deviations.
        resampled, observed = (means[i] - mean) * spread, -mean * spreads[i]
        if spread == 0.0 and spreads[i] == 0.0:  # neither varies: their means decide
            resampled, observed = means[i] - mean, -mean
        is_in_upper_tail = resampled >= observed - _ROUNDING * (abs(resampled) + abs(observed))
        if is_in_upper_tail == sums_upper_tail:
            total += np.exp(n * (theta * (means[i] - mean) - log_mean_weight))
    tail_share = total / means.size
    return min(1.0, tail_share if sums_upper_tail else max(0.0, 1.0 - tail_share))
