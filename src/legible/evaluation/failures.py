"""Episodes that fail: how many a stage may have, and what they count for.

An episode fails when its environment raises an error, gives a reward that is no finite number, hangs or dies. Guidance
itself may be the cause, so failed episodes are not just left out: they count at their worst.

- `FailureLimit`: the failed episodes of a stage; `TooManyFailuresError` says which, and why, when they are too many.
- `WorstCase`: the episodes of a stage with the failed ones at their worst.
- `is_of_episode`, `reason_of`: whether a failed unit can be put down to some of its episodes, and why it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from legible.engines import Failed, UnitFailedError
from legible.environments import UnfitEnvironmentError
from legible.play import MissingCostError
from legible.settings import MOST_FAILED

if TYPE_CHECKING:
    from legible.evaluation.units import UnitResult

SHOWN_SEEDS = 5


class TooManyFailuresError(UnitFailedError):
    """More episodes of a stage failed than are allowed."""


@dataclass(frozen=True)
class FailedEpisode:
    """An episode that failed: whether it was guided, its seed, and the reason."""

    guided: bool
    seed: int
    error: str


@dataclass
class FailureLimit:
    """The failed episodes of a stage, and how many there may be.

    Parameters
    ----------
    most_failed
        The share of the episodes of the stage that may fail.
    stage
        What the stage is called.
    episodes
        How many episodes it has, where that is known; otherwise as many as are expected.
    """

    most_failed: float = MOST_FAILED
    stage: str = ""
    episodes: int = 0
    found: list[FailedEpisode] = field(default_factory=list)
    _expected: int = 0

    def expect(self, more: int) -> None:
        """Learn that more episodes are to be played."""
        self._expected += more
        self.episodes = max(self.episodes, self._expected)

    def add(self, *failed: FailedEpisode) -> None:
        """Count failed episodes; raises an error when they are more than the share."""
        self.found += failed
        if len(self.found) > self.most_failed * self.episodes:
            raise TooManyFailuresError(self._message())

    def _message(self) -> str:
        where = f" of {self.stage}" if self.stage else ""
        sides = (
            ("unguided", [one for one in self.found if not one.guided]),
            ("guided", [one for one in self.found if one.guided]),
        )
        told = "; ".join(f"{side}: {_some_seeds(failed)} ({failed[0].error})" for side, failed in sides if failed)
        return (
            f"{len(self.found)} of the {self.episodes} episodes{where} failed, more than the share of "
            f"{self.most_failed:g} that may: {told}. What was played is kept. Allow more failures (--most-failed) to "
            "go on with them at their worst; or mend the environment, or give slow episodes more time (--time-limit), "
            "and use another folder."
        )


def _some_seeds(failed: Sequence[FailedEpisode]) -> str:
    seeds = list(dict.fromkeys(one.seed for one in failed))
    more = ", …" if len(seeds) > SHOWN_SEEDS else ""
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds[:SHOWN_SEEDS]))}{more}"


def is_of_episode(failed: Failed) -> bool:
    """Whether some episode of a unit is why the unit failed, and not what all its episodes were given."""
    wrong = failed.exception
    return wrong is None or (isinstance(wrong, UnfitEnvironmentError) and not isinstance(wrong, MissingCostError))


def reason_of(failed: Failed) -> str:
    """Why a unit failed, in words without a full stop."""
    return (failed.error if failed.exception is None else str(failed.exception)).rstrip(".")


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
