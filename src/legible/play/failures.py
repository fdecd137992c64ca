"""Failed episodes and their limit.

An episode fails if its environment raises an error, gives a reward that is not finite, hangs or dies.

- `FailureLimit`: counts the failed episodes of a stage; raises `TooManyFailuresError` if there are too many.
- `is_episode_failure`: whether an episode caused the failure of a unit; `failure_reason`: the reason of the failure.
"""

from __future__ import annotations

import math
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
    """The failed episodes of a stage, and their maximum share."""

    most_failed: float = MOST_FAILED  # the share of the episodes of the stage that may fail
    # Name of the stage, and number of its episodes, if known; otherwise the number expected so far
    stage: str = ""
    episodes: int = 0
    found: list[FailedEpisode] = field(default_factory=list)
    _expected: int = 0

    def expect(self, more: int) -> None:
        """Count episodes that will be played."""
        self._expected += more
        self.episodes = max(self.episodes, self._expected)

    def add(self, *failed: FailedEpisode) -> None:
        """Count failed episodes; raise an error with seeds and reasons if they exceed the maximum share."""
        self.found += failed
        if len(self.found) <= self.most_failed * self.episodes:
            return
        where = f" of {self.stage}" if self.stage else ""
        reasons = []
        for name, guided in (("unguided", False), ("guided", True)):
            failed_episodes = [episode for episode in self.found if episode.guided == guided]
            if failed_episodes:
                seeds = list(dict.fromkeys(episode.seed for episode in failed_episodes))
                ellipsis = ", …" if len(seeds) > SHOWN_SEEDS else ""
                shown = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds[:SHOWN_SEEDS]))}{ellipsis}"
                reasons.append(f"{name}: {shown} ({failed_episodes[0].error})")

        # Advise twice the present share, rounded up to tenths, because more episodes can fail later; at most 0.9. If
        # more than that have failed already, continuing is not advised.
        share = len(self.found) / max(self.episodes, 1)
        new_share = min(0.9, math.ceil(10 * (2 * share)) / 10)
        how_to_continue = (
            f" To continue in this folder instead, allow more failures with --set most_failed={new_share:g}; failed "
            "episodes then count as the worst ones."
        )
        raise TooManyFailuresError(
            f"{len(self.found)} of the {self.episodes} episodes{where} failed, more than the allowed share of "
            f"{self.most_failed:g}. The first errors are: {'; '.join(reasons)}. Correct them, or give slow episodes "
            "more time with --set time_limit=60, and begin in a new folder."
            f"{how_to_continue if share < new_share else ''}"
        )


def is_episode_failure(failed: Failed) -> bool:
    """Return whether an episode caused the failure of a unit, and not something that all its episodes share."""
    wrong = failed.exception
    return wrong is None or (isinstance(wrong, UnfitEnvironmentError) and not isinstance(wrong, MissingCostError))


def failure_reason(failed: Failed) -> str:
    """Return the reason of a unit's failure, without a full stop."""
    return (failed.error if failed.exception is None else str(failed.exception)).rstrip(".")
