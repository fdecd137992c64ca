"""`intervals_for`: the intervals of feature values that rules are made of in a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.features import Intervals, deciles, round_cuts
from legible.play import Experiences
from legible.relations import share_cuts

if TYPE_CHECKING:
    from legible.study.study import Study


def intervals_for(study: Study, seen: Experiences) -> Intervals:
    """Return deciles of what was seen, rounded if the settings say so, with cuts that related features share."""
    intervals = deciles(seen.space, seen.observations)
    if study.settings.mining.plain_intervals:
        intervals = round_cuts(intervals, seen.space, seen.observations)
    return share_cuts(intervals, seen.space, study.relations)
