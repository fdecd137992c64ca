"""Episodes that fail, and how many of them a stage may have.

An episode fails when its environment raises an error, gives a reward that is no finite number, hangs or dies.

- `FailureLimit`: the failed episodes of a stage; `TooManyFailuresError` says which, and why, when they are too many.
- `is_of_episode`, `reason_of`: whether a failed unit can be put down to some of its episodes, and why it failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from legible.engines import Failed, UnitFailedError
from legible.environments import UnfitEnvironmentError
from legible.play.episodes import MissingCostError
from legible.settings import MOST_FAILED

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
