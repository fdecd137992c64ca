"""What failed episodes count for: guidance itself may be the cause, so they are not left out but count at their worst.

- `WorstCase`: the episodes of a stage with the failed ones at their worst.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from legible.play.failures import TooManyFailuresError

if TYPE_CHECKING:
    from legible.evaluation.units import UnitResult


def mean_return(episodes: UnitResult) -> float:
    """The mean of the returns: what failed episodes are judged by unless something else is asked for."""
    return float(episodes.returns.mean())


class WorstCase:
    """The worst that failed episodes can mean for a claim that one block of episodes is better than another.

    Parameters
    ----------
    results
        All episodes of the stage.
    value
        What makes an episode good.
    """

    def __init__(self, results: Sequence[UnitResult], value: Callable[[UnitResult], float] = mean_return) -> None:
        self._results, self._value = results, value

    @cached_property
    def _extremes(self) -> tuple[UnitResult, UnitResult]:
        """The worst and the best episode of the stage."""
        played = type(self._results[0]).concatenate([result.played for result in self._results])
        if not len(played):
            raise TooManyFailuresError("every episode failed, so that there is nothing to compare.")
        values = np.array([self._value(played[i : i + 1]) for i in range(len(played))])
        low, high = int(np.argmin(values)), int(np.argmax(values))
        return played[low : low + 1], played[high : high + 1]

    def of(self, better: UnitResult, worse: UnitResult) -> tuple[UnitResult, UnitResult]:
        """Return both blocks, a failed episode of the first as the worst of the stage, of the second as the best."""
        if not better.failed.any() and not worse.failed.any():
            return better, worse
        lowest, highest = self._extremes
        return _filled(better, lowest), _filled(worse, highest)


def _filled(result: UnitResult, episode: UnitResult) -> UnitResult:
    """Put an episode where episodes failed."""
    kept = {"failed", "errors", "taken"}
    return replace(
        result,
        **{
            f.name: np.where(result.failed, getattr(episode, f.name)[0], getattr(result, f.name))
            for f in fields(result)
            if f.name not in kept
        },
    )
