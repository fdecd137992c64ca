"""A probe beyond the time limit: episodes that reach it are played on, to see how they would have ended.

A time limit can hide failures: a cart that drifts slowly scores the maximum as long as the episode is short. The probe
is reported on its own and enters no other figure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from legible.display import Displayed
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation.endings import share_endings
from legible.evaluation.figures import share_figure
from legible.evaluation.units import UNGUIDED, cut_into_units
from legible.formatting import number, percent
from legible.play.failures import FailureLimit

if TYPE_CHECKING:
    from legible.study.study import Study

TIMES_LONGER = 4
MOST_PROBED = 60
"""Episodes that are played on; a share of one in two is then known to about ±13 points."""
MIN_ENDED = 0.05
"""Share of episodes that end early if played on, from whose lower end on the time limit hides something."""
MIN_TRUNCATED = 0.5
"""Share of episodes that reach the limit from which on the probe is played."""


@dataclass(frozen=True, repr=False)
class TimeLimitProbe(Displayed):
    """Endings of episodes that reach the time limit, if they are played on.

    Parameters
    ----------
    truncated
        Share of the policy's episodes that reach the limit.
    limit, longer
        The time limit in steps, and the one of the probe; 0 where the limit cannot be lifted.
    episodes, ended
        Episodes that were played on, and how many of them ended before the longer limit.
    length
        Mean length of the episodes that ended.
    ending
        How most of them ended, as a clause; "" if that is unknown.
    """

    truncated: float
    limit: int = 0
    longer: int = 0
    episodes: int = 0
    ended: int = 0
    length: float = 0.0
    ending: str = ""

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {"time limit": self.limit or "unknown", "played on": self.episodes, "ended early": self.ended}

    @property
    def hides_endings(self) -> bool:
        """Return whether clearly more than a few of the episodes that were played on ended early."""
        return bool(self.episodes) and share_figure(self.ended, self.episodes).low >= MIN_ENDED

    def sentence(self) -> str:
        """Return the result in words; "" where nothing was played on."""
        if not self.episodes:
            return ""
        played = f"{self.episodes} episodes that reach the time limit of {number(self.limit)} steps"
        if not self.ended:
            return f"Played on, none of {played} ends before {number(self.longer)} steps."
        when = f"after {number(round(self.length))} steps on average"
        how = f", most often {self.ending}" if self.ending else ""
        return (
            f"The time limit hides how episodes end: of {played}, {self.ended} end before {number(self.longer)} steps "
            f"if played on ({percent(self.ended / self.episodes)}, {when}){how}."
        )


def probe_time_limit(study: Study) -> TimeLimitProbe:
    """Play some episodes that reached the time limit again with a limit `TIMES_LONGER`; return how they end then.

    Nothing is played if few unguided episodes reach the limit, or if the environment takes no longer one.
    """
    base = study.improvement.final_blocks.base.played
    truncated = float(base.truncated.mean())
    limit, with_longer_limit = _lifted(study.environment) if truncated >= MIN_TRUNCATED else (0, None)
    if with_longer_limit is None:
        return TimeLimitProbe(truncated, limit)
    blocks, settings = study.improvement.final_blocks, study.settings
    most = min(MOST_PROBED, settings.references.episodes)
    seeds = [blocks.seeds[i] for i in np.flatnonzero(blocks.base.truncated & ~blocks.base.failed)[:most]]
    play = replace(settings.play, step_limit=max(settings.play.step_limit, TIMES_LONGER * limit))
    setup = replace(study.setup(), environment=with_longer_limit, play=play)
    units = cut_into_units([UNGUIDED] * len(seeds), seeds, settings.play.unit_episodes)
    failures = FailureLimit(settings.most_failed, "the probe beyond the time limit", len(seeds))
    result = study.runner("time limit", of=len(seeds))(setup, units, failures=failures).played
    ended = ~result.truncated
    length = float(result.lengths[ended].mean()) if ended.any() else 0.0
    named = [share for share in share_endings(result[ended]) if share.kind != "other"]
    ending = named[0].words if named else ""  # the most frequent one
    return TimeLimitProbe(truncated, limit, TIMES_LONGER * limit, len(result), int(ended.sum()), length, ending)


def _lifted(spec: EnvironmentSpec) -> tuple[int, EnvironmentSpec | None]:
    """Return the time limit in steps (0: none), and the environment with a longer one, where the limit is a wrapper."""
    env = spec.make()
    limit = None if env.spec is None else env.spec.max_episode_steps
    env.close()
    if limit is None:
        return 0, None
    longer = replace(spec, arguments={**spec.arguments, "max_episode_steps": TIMES_LONGER * limit})
    try:
        env = longer.make()
    except LegibleError:
        return limit, None
    env.close()
    return limit, longer
