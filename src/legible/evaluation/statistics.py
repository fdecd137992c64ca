"""Tests on returns: pure functions over arrays, with degenerate samples handled on purpose.

- `welch`: one-sided, two independent samples with unequal variances (the paper's test).
- `paired`: one-sided, on differences of the same seeds, with the effect and its confidence interval.
- `Effect`: what a test says. `POWER`: of the smallest effect that it could have shown.
- `Standing`, `standing_of_changed`: how differences do that are mostly zero, roughly and quickly.
- `benjamini_hochberg`: q-values of many tests; `holm`: p-values that hold for all of a few tests together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from legible.errors import LegibleError

POWER = 0.8
"""With which probability an effect of the size that is called detectable is shown."""


def _sample(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the sample, or say why it cannot be tested."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or sample.size < 2:
        raise LegibleError(f"{name}: at least two episodes are needed to compare returns, got {sample.size}.")
    if not np.isfinite(sample).all():
        bad = int(np.argmin(np.isfinite(sample)))
        raise LegibleError(f"{name}: the return of episode {bad} is {sample[bad]}; returns must be finite numbers.")
    return sample


def standard_error(values: ArrayLike) -> float:
    """Standard error of the mean."""
    sample = _sample(values, "standard error")
    return float(sample.std(ddof=1) / np.sqrt(sample.size))


def mean_interval(mean: float, error: float, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of a mean by its standard error, with Student's t.

    >>> tuple(round(end, 2) for end in mean_interval(10.0, 1.0, 5))
    (7.22, 12.78)
    """
    if episodes < 2:
        return float("nan"), float("nan")
    reach = float(stats.t.ppf((1 + confidence) / 2, episodes - 1)) * error
    return mean - reach, mean + reach


def standard_error_of_difference(first: ArrayLike, second: ArrayLike) -> float:
    """Standard error of the difference between the means of two independent samples."""
    return float(np.hypot(standard_error(first), standard_error(second)))


def welch(guided: ArrayLike, base: ArrayLike) -> float:
    """Return the p-value of Welch's test that the guided mean is greater than the base mean.

    Two samples that do not vary at all are compared as they are: 0 when the guided one is greater, else 1.

    >>> welch([3.0, 4.0, 5.0], [1.0, 2.0, 3.0]) < 0.05
    True
    >>> welch([1.0, 1.0], [1.0, 1.0])
    1.0
    """
    first, second = _sample(guided, "guided"), _sample(base, "base")
    if np.ptp(first) == 0.0 and np.ptp(second) == 0.0:
        return 0.0 if first[0] > second[0] else 1.0
    return float(stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue)


@dataclass(frozen=True)
class Effect:
    """A difference on the same seeds, its standard error and 95 % confidence interval, and a one-sided p-value.

    `detectable` is the smallest effect that the test would have shown with a power of 80 %, `changed` how many of the
    `seeds` had another episode with guidance; None where the test does not tell.
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
    """Compare returns of the same seeds; `p` is one-sided, for a greater guided mean.

    >>> effect = paired([2.0, 3.0, 5.0], [1.0, 2.0, 3.0])
    >>> round(effect.mean, 3), effect.p < 0.05
    (1.333, True)
    """
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


@dataclass(frozen=True)
class Standing:
    """How guidance does so far: good for choosing, not for claims.

    Parameters
    ----------
    difference, error
        How much better the guided episodes are, and its standard error.
    z
        The difference in standard errors, by the episodes that guidance changed; without any there is nothing to gain.
    p
        One-sided.
    """

    difference: float
    error: float
    z: float
    p: float


def standing_of_changed(changed: NDArray[np.float64], seeds: int, invented_loss: float = 0.0) -> Standing:
    """Return the standing of differences by a t-test on those that are not zero for being unchanged.

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
    return Standing(difference, error, z, float(stats.t.sf(z, len(sample) - 1)))


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return q-values: rejecting all tests with q ≤ α keeps the false discovery rate at α.

    >>> benjamini_hochberg([0.01, 0.02, 0.9]).round(3).tolist()
    [0.03, 0.03, 0.9]
    """
    p = np.asarray(p_values, np.float64)
    return stats.false_discovery_control(p, method="bh") if p.size else p


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return corrected p-values: the chance that any test with one ≤ α is a false alarm is at most α.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return corrected
