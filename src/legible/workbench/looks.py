"""Sequential decisions with looks that are fixed in advance, and the tests that they use.

A look is a number of episodes at which the results are judged. The error rate is split equally over all looks and all
questions that are asked together, so that every interval that is ever shown holds with 95 % jointly (union bound), no
matter when one stops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtri

from legible.evaluation.changed import changed_mean_p, changed_mean_test, largest_loss, resamples_for
from legible.evaluation.statistics import POWER
from legible.settings import FEWEST_CHANGES

ALPHA = 0.05
MOST_LOOKS = 6
FIRST_SEEDS = 250
"""Seeds of the first look at two policies."""
# More resamples than this change an end of an interval by less than its last printed digit.
_MOST_RESAMPLES = 8000


@dataclass(frozen=True)
class Plan:
    """Looks that are fixed before anything is played.

    Parameters
    ----------
    looks
        Numbers of episodes at which results are judged, ascending: of changed episodes, or of seeds.
    questions
        How many rules, figures or checks are judged together.
    alpha
        Probability that any interval of any look misses its true value.
    """

    looks: tuple[int, ...]
    questions: int = 1
    alpha: float = ALPHA

    @property
    def tail(self) -> float:
        """Level of each end of an interval: half of alpha, split over questions and looks."""
        return self.alpha / (2 * len(self.looks) * max(1, self.questions))

    @property
    def confidence(self) -> float:
        """Level of the interval of one question at one look."""
        return 1.0 - 2.0 * self.tail


def changed_looks(most: int) -> tuple[int, ...]:
    """Return the looks at a rule, in changed episodes: 200, 400, … up to a maximum, at most six.

    >>> changed_looks(1000)
    (200, 400, 800)
    """
    return tuple(n for n in (FEWEST_CHANGES * 2**k for k in range(MOST_LOOKS)) if n <= max(most, FEWEST_CHANGES))


def seed_looks(most: int) -> tuple[int, ...]:
    """Return the looks at two policies, in seeds: 250, 500, … and the maximum itself, at most six.

    >>> seed_looks(1200), seed_looks(100)
    ((250, 500, 1200), (100,))
    """
    looks = [FIRST_SEEDS * 2**k for k in range(MOST_LOOKS)]
    return (*(n for n in looks[: MOST_LOOKS - 1] if 2 * n <= most), most)


@dataclass(frozen=True)
class Interval:
    """A mean or a share with its confidence interval; `level` is the level of each end."""

    mean: float
    low: float
    high: float
    level: float

    @property
    def side(self) -> int:
        """1 if the interval lies above zero, −1 if below, else 0."""
        return int(self.low > 0.0) - int(self.high < 0.0)

    def lies_within(self, bound: float) -> bool:
        """Return whether the interval lies between −bound and bound."""
        return -bound < self.low and self.high < bound

    def scaled(self, factor: float) -> Interval:
        """Return the interval of a multiple."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.mean * factor, low, high, self.level)


class PlausibleExtremes(NamedTuple):
    """The largest loss and gain of an episode that are plausible, both at least 0."""

    loss: float
    gain: float


def largest_plausible(returns: ArrayLike, mean: float, random_mean: float = math.nan) -> PlausibleExtremes:
    """Return the largest loss and gain that are plausible: from a mean return down to the worst, and up to the best.

    A change may do harm so rarely that no loss was seen. Such a change seldom makes an episode worse than random play,
    or than the worst episode of all.

    `returns` are those of all episodes that were played, guided or not; `mean` is the mean return of the policy that is
    changed, and `random_mean` that of random play (NaN if it is unknown).

    >>> largest_plausible([80.0, 120.0], 100.0, 10.0)
    PlausibleExtremes(loss=90.0, gain=20.0)
    """
    known = np.append(np.asarray(returns, np.float64), random_mean)
    return PlausibleExtremes(
        loss=max(0.0, mean - float(np.nanmin(known))), gain=max(0.0, float(np.nanmax(known)) - mean)
    )


def _resamples(tail: float) -> int:
    return min(_MOST_RESAMPLES, resamples_for(1, tail))


def interval_of_changed(
    gains: ArrayLike, losses: ArrayLike, seeds: int, tail: float, rng_seed: int, invented: PlausibleExtremes
) -> Interval:
    """Return a confidence interval of the change of the mean return by a rule, over all seeds.

    Only the episodes that the rule changes are needed; all others have a difference of zero.

    Parameters
    ----------
    gains, losses
        ``[changed episodes]``: guided minus unguided return, and unguided minus guided. One is minus the other, except
        where an episode failed (raised an error): it counts as the worst result in `gains`, and as the best in
        `losses`.
    seeds
        Number of all episodes.
    tail
        Error probability of each end of the interval.
    rng_seed
        Seed of the bootstrap.
    invented
        One loss and one gain that are added as if they had been seen (`largest_plausible`), because rare ones can have
        been missed.
    """
    options = {"resamples": _resamples(tail), "rng_seed": rng_seed, "confidence": 1.0 - 2.0 * tail}
    # Each test gives a lower end: of the gain, and of the loss. The latter is minus the upper end of the gain.
    helps = changed_mean_test(gains, seeds, invented_loss=invented.loss, **options)  # type: ignore[arg-type]
    harms = changed_mean_test(losses, seeds, invented_loss=invented.gain, **options)  # type: ignore[arg-type]
    return Interval(helps.mean, helps.low, -harms.low, tail)


def interval_of_differences(
    differences: ArrayLike,
    tail: float,
    rng_seed: int,
    largest: float | None = None,
    differences_for_high: ArrayLike | None = None,
) -> Interval:
    """Return a confidence interval of the mean of paired differences, whether many or few of them are zero.

    All differences, zeros too, are resampled with one invented difference of the size `largest` on the side that
    contradicts the claim; see `legible.evaluation.changed`. So a loss that is too rare to be seen is not excluded:
    if all n differences are zero and `largest` is given, the lower end is the mean loss under the highest probability
    of such a loss that n episodes could still have missed.

    Parameters
    ----------
    differences
        ``[seeds]``: one difference per seed.
    tail
        Error probability of each end of the interval.
    rng_seed
        Seed of the bootstrap.
    largest
        Largest difference that is possible; by default the largest that was seen, on either side.
    differences_for_high
        ``[seeds]``: the differences for the upper end, if they are not `differences`. They differ where an episode
        failed (raised an error), which counts as the worst case for the claim that the end supports.
    """
    for_low = np.asarray(differences, np.float64)
    for_high = for_low if differences_for_high is None else np.asarray(differences_for_high, np.float64)
    invented = max(largest or 0.0, largest_difference(for_low), largest_difference(for_high))
    if invented == 0.0:  # all differences are zero, and no other is possible
        return Interval(0.0, 0.0, 0.0, tail)
    options = {
        "invented_loss": invented,
        "resamples": _resamples(tail),
        "rng_seed": rng_seed,
        "confidence": 1.0 - 2.0 * tail,
    }
    lower_test = changed_mean_test(for_low, len(for_low), **options)  # type: ignore[arg-type]
    # The upper end is minus the lower end of the negated differences.
    upper_test = changed_mean_test(-for_high, len(for_high), **options)  # type: ignore[arg-type]
    return Interval(lower_test.mean, lower_test.low, -upper_test.low, tail)


def interval_of_mean(values: ArrayLike, tail: float, rng_seed: int, largest: float) -> Interval:
    """Return an interval for the mean of values of episodes; `largest` is the largest distance between two values.

    One value as far below the mean as `largest` is invented for the lower end, and one above it for the upper end, so
    that results that are too rare to be seen are not excluded.

    >>> bounds = interval_of_mean([1.0] * 300, 0.025, 0, 2.0)
    >>> bounds.mean, 0.97 < bounds.low < 1.0
    (1.0, True)
    """
    sample = np.asarray(values, np.float64)
    centre = float(sample.mean())
    around = interval_of_differences(sample - centre, tail, rng_seed, largest)
    return Interval(centre, centre + around.low, centre + around.high, tail)


def difference_p(differences: ArrayLike, bound: float, tail: float, rng_seed: int, largest: float) -> float:
    """Return the p-value of the claim that the mean difference exceeds a bound, by the test of the interval."""
    above = np.asarray(differences, np.float64) - bound
    if not above.mean() > 0.0:
        return 1.0
    return changed_mean_p(above, invented_loss=max(0.0, largest + bound), resamples=_resamples(tail), rng_seed=rng_seed)


def largest_difference(differences: NDArray[np.float64]) -> float:
    """Return the largest absolute difference."""
    return max(largest_loss([differences]), largest_loss([-differences]))


def interval_of_share(yes: int, n: int, tail: float) -> Interval:
    """Return the exact interval of a share (Clopper and Pearson).

    >>> round(interval_of_share(0, 100, 0.05).high, 4)
    0.0295
    """
    low = float(betaincinv(yes, n - yes + 1, tail)) if yes else 0.0
    high = float(betaincinv(yes + 1, n - yes, 1.0 - tail)) if yes < n else 1.0
    return Interval(yes / n, low, high, tail)


def share_p(yes: int, n: int, bound: float) -> float:
    """Return the p-value of the claim that a share exceeds a bound: the chance of at least `yes` at the bound.

    >>> round(share_p(5, 5, 0.5), 5)
    0.03125
    """
    return float(betainc(yes, n - yes + 1, bound)) if yes else 1.0


def episodes_to_decide(episodes: int, error: float, distance: float, tail: float) -> int | None:
    """Return how many episodes would probably decide a claim; None if the estimate lies on the bound itself.

    `error` is the standard error of the estimate on the `episodes` so far, `distance` is that of the estimate from the
    bound of the claim, and `tail` the level of the test.
    """
    if not abs(distance) > 0.0:
        return None
    wanted = float(-ndtri(tail) + ndtri(POWER))
    needed = episodes * (wanted * error / distance) ** 2
    return max(episodes + 1, math.ceil(min(needed, 1e9)))
