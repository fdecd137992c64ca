"""Losses that are too rare for a sample: how rare they may be, and how rare they would have to be.

No test on n episodes sees what happens in fewer than about 1 in n of them. A gain of 1 per episode is cancelled by a
loss of 1,000 in 1 of 1,000 episodes, which 300 episodes usually do not contain.

- `RareLosses`: the break-even rate of a gain, next to the rate that the sample excludes; `judge_rare_losses` makes it.
- `WorstLoss`: the worst paired loss that a study has seen, whatever rule set caused it.

Rates are shares of the episodes that guidance changed: the others lose nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, log1p

from legible.formatting import number

LEVEL = 0.95
"""Level of the one-sided bound of the rate of rare losses."""
LARGE_SHARE = 0.25
"""Losses of at least this share of the worst one count as losses of its size."""


@dataclass(frozen=True)
class RareLosses:
    """The effect that rare losses would have on a gain."""

    size: float  # size of the loss: the worst one seen in the study, or the worst one that is possible
    break_even: float  # share of the changed episodes with such a loss that would cancel the gain; 0 without a gain
    excluded: float  # smallest share that the sample excludes (Clopper-Pearson, one-sided 95 %)
    # Number of changed episodes with a loss of about this size, and of all changed episodes.
    seen: int
    changed: int
    is_known: bool = False  # whether `size` is a bound that the user gave, instead of the worst loss seen
    # Whether the gain is not confirmed, but would be if no loss were worse than the losses in its own sample: a gain,
    # unless rare losses cancel it.
    is_gain_otherwise: bool = False

    @property
    def is_excluded(self) -> bool:
        """True if the sample excludes that rare losses cancel the gain."""
        return self.excluded < self.break_even

    @property
    def episodes_needed(self) -> int:
        """Number of changed episodes without such a loss that would exclude break-even; 0 without a gain."""
        if not 0.0 < self.break_even < 1.0:
            return 0
        return math.ceil(math.log(1.0 - LEVEL) / float(log1p(-self.break_even)))

    def sentence(self) -> str:
        """Return, in words, the losses that would cancel the gain, and those that the sample excludes."""
        if not self.size or not self.break_even:
            return ""
        worst = "the worst possible one" if self.is_known else "the worst seen in this study"
        if self.break_even > 0.5:
            return f"Losses of {number(self.size)} ({worst}) in half of the changed episodes would not cancel the gain."
        one_in, excluded_one_in = (number(math.floor(1 / rate)) for rate in (self.break_even, self.excluded))
        text = (
            f"A loss of {number(self.size)} ({worst}) in 1 of {one_in} changed episodes would cancel the gain; the "
            f"{number(self.changed)} changed episodes show that it is rarer than 1 in {excluded_one_in}."
        )
        if self.is_excluded:
            return text
        return f"{text} {number(self.episodes_needed)} changed episodes without such a loss would settle it."


def judge_rare_losses(changed: ArrayLike, worst_loss: float = 0.0, *, is_known: bool = False) -> RareLosses:
    """Return how frequent large losses would have to be to cancel a gain, and whether the sample excludes that.

    Guidance may cause losses so rarely that the sample holds none, yet so large that they cancel the mean gain.

    Parameters
    ----------
    changed
        Guided minus unguided return of the episodes that guidance changed, one number each.
    worst_loss
        Size of the worst loss seen in the study, or known to be possible; at least the worst loss of these episodes is
        used.
    is_known
        Whether `worst_loss` is known to be the worst one possible.

    >>> losses = judge_rare_losses([1.0] * 300, 1000.0)
    >>> round(1 / losses.break_even), round(1 / losses.excluded), losses.is_excluded, losses.episodes_needed
    (1001, 101, False, 2998)
    """
    sample = np.asarray(changed, np.float64)
    n = sample.size
    size = max(float(worst_loss), float(-sample.min(initial=0.0)))
    is_large = sample <= -LARGE_SHARE * size if size else np.zeros(n, np.bool_)
    large_seen = int(is_large.sum())
    # Upper confidence limit of the share of large losses (Clopper-Pearson): larger shares are excluded.
    excluded = 1.0 if large_seen == n else float(betaincinv(large_seen + 1, n - large_seen, LEVEL))
    # With losses of this size in a share r of the episodes the mean is (1 − r) · mean_of_others − r · size: find the r
    # for which it is zero.
    mean_of_others = float(sample[~is_large].mean()) if large_seen < n else 0.0
    break_even = mean_of_others / (mean_of_others + size) if mean_of_others > 0.0 else 0.0
    return RareLosses(size, break_even, excluded, large_seen, n, is_known)


class WorstLoss:
    """The worst paired loss that a study has seen.

    Parameters
    ----------
    known
        The worst loss that is possible, if the user says so; then nothing else counts.
    """

    def __init__(self, known: float = 0.0) -> None:
        self.is_known = known > 0.0
        self._size = known

    def add(self, differences: ArrayLike) -> None:
        """Take note of paired differences, guided minus unguided."""
        sample = np.asarray(differences, np.float64)
        if not self.is_known and sample.size:
            self._size = max(self._size, -float(np.nanmin(sample, initial=0.0)))

    @property
    def size(self) -> float:
        """Size of the worst loss; 0 if none was seen."""
        return self._size
