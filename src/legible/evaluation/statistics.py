"""Tests on returns: pure functions over arrays that also handle degenerate samples.

- `welch`: one-sided test of two independent samples with unequal variances (the paper's test).
- `paired`: one-sided test of differences with the same seeds, with the effect and its confidence interval.
- `unpaired`: the same for independent samples (Welch).
- `Effect`: the result of a test. `POWER`: the power that defines the smallest detectable effect.
- `Standing`, `standing_of_changed`: quick estimates for differences that are mostly zero.
- `benjamini_hochberg`: q-values of many tests; `holm`: p-values corrected for a few tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from legible.errors import LegibleError

POWER = 0.8
"""Probability that an effect of the detectable size is shown."""


def _sample(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the sample, or raise an error if it cannot be tested."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or sample.size < 2:
        raise LegibleError(f"{name}: at least two episodes are needed to compare returns, got {sample.size}.")
    if not np.isfinite(sample).all():
        bad = int(np.argmin(np.isfinite(sample)))
        raise LegibleError(f"{name}: the return of episode {bad} is {sample[bad]}; returns must be finite numbers.")
    return sample


def standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean."""
    sample = _sample(values, "standard error")
    return float(sample.std(ddof=1) / np.sqrt(sample.size))


def mean_interval(mean: float, error: float, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of a mean from its standard error, with Student's t.

    >>> tuple(round(end, 2) for end in mean_interval(10.0, 1.0, 5))
    (7.22, 12.78)
    """
    if episodes < 2:
        return float("nan"), float("nan")
    reach = float(stdtrit(episodes - 1, (1 + confidence) / 2)) * error
    return mean - reach, mean + reach


def welch(guided: ArrayLike, base: ArrayLike) -> float:
    """Return the p-value of Welch's test that the guided mean is greater than the base mean.

    For two constant samples p is 0 if the guided one is greater, else 1.

    >>> welch([3.0, 4.0, 5.0], [1.0, 2.0, 3.0]) < 0.05
    True
    >>> welch([1.0, 1.0], [1.0, 1.0])
    1.0
    """
    from scipy import stats  # noqa: PLC0415 (it takes half a second)

    first, second = _sample(guided, "guided"), _sample(base, "base")
    if np.ptp(first) == 0.0 and np.ptp(second) == 0.0:
        return 0.0 if first[0] > second[0] else 1.0
    return float(stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue)


@dataclass(frozen=True)
class Effect:
    """A difference on the same seeds, its standard error and 95 % confidence interval, and a one-sided p-value.

    `detectable` is the smallest effect that the test would have shown with a power of 80 %, `changed` the number of
    `seeds` whose episode guidance changed; None where the test does not provide them.
    """

    mean: float
    error: float
    low: float
    high: float
    p: float
    detectable: float | None = None
    changed: int | None = None
    seeds: int | None = None


def paired(guided: ArrayLike, base: ArrayLike, confidence: float = 0.95) -> Effect:
    """Compare returns with the same seeds; `p` is one-sided, for a greater guided mean.

    >>> effect = paired([2.0, 3.0, 5.0], [1.0, 2.0, 3.0])
    >>> round(effect.mean, 3), effect.p < 0.05
    (1.333, True)
    """
    from scipy import stats  # noqa: PLC0415 (it takes half a second)

    first, second = _sample(guided, "guided"), _sample(base, "base")
    if first.shape != second.shape:
        raise LegibleError(f"pairs are needed: {first.size} guided and {second.size} base episodes.")
    difference = first - second
    mean = float(difference.mean())
    if np.ptp(difference) == 0.0:
        return Effect(mean, 0.0, mean, mean, 0.0 if mean > 0.0 else 1.0)
    interval = stats.ttest_rel(first, second).confidence_interval(confidence)
    p = float(stats.ttest_rel(first, second, alternative="greater").pvalue)
    return Effect(mean, standard_error(difference), float(interval.low), float(interval.high), p)


def unpaired(guided: ArrayLike, base: ArrayLike, confidence: float = 0.95) -> Effect:
    """Compare returns of independent episodes with Welch's test; `p` is one-sided, for a greater guided mean.

    >>> effect = unpaired([2.0, 3.0, 5.0], [1.0, 2.0, 3.0])
    >>> round(effect.mean, 3), effect.low < 0.0 < effect.p
    (1.333, True)
    """
    from scipy import stats  # noqa: PLC0415 (it takes half a second)

    first, second = _sample(guided, "guided"), _sample(base, "base")
    mean = float(first.mean() - second.mean())
    if np.ptp(first) == 0.0 and np.ptp(second) == 0.0:
        return Effect(mean, 0.0, mean, mean, 0.0 if mean > 0.0 else 1.0)
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
    error = math.hypot(standard_error(first), standard_error(second))
    return Effect(mean, error, float(interval.low), float(interval.high), welch(first, second))


@dataclass(frozen=True)
class Standing:
    """A quick estimate of the effect of guidance: for choosing, not for claims."""

    # How much better the guided episodes are, and its standard error.
    difference: float
    error: float
    # The difference in standard errors, on the episodes that guidance changed, and its one-sided p-value.
    z: float
    p: float


def standing_of_changed(changed: NDArray[np.float64], seeds: int, invented_loss: float = 0.0) -> Standing:
    """Return the standing of differences by a t-test on the changed episodes.

    >>> standing = standing_of_changed(np.array([1.0, 3.0]), 4)
    >>> standing.difference, round(standing.z, 6)
    (1.0, 2.0)
    """
    everything = np.zeros(seeds)
    everything[: len(changed)] = changed
    difference, error = float(everything.mean()), standard_error(everything)
    sample = np.append(changed, -invented_loss) if invented_loss and len(changed) else changed
    if len(sample) < 2:
        return Standing(difference, error, -math.inf, 1.0)
    mean, spread = float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(len(sample))
    z = mean / spread if spread > 0.0 else math.copysign(math.inf, mean) if mean else 0.0
    return Standing(difference, error, z, float(stdtr(len(sample) - 1, -z)))


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return q-values: rejecting all tests with q ≤ α keeps the false discovery rate at α.

    >>> benjamini_hochberg([0.01, 0.02, 0.9]).round(3).tolist()
    [0.03, 0.03, 0.9]
    """
    from scipy import stats  # noqa: PLC0415 (it takes half a second)

    p = np.asarray(p_values, np.float64)
    return stats.false_discovery_control(p, method="bh") if p.size else p


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return corrected p-values: rejecting all tests with p ≤ α keeps the family-wise error rate at α.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return corrected
