"""Whole episodes of anything that chooses actions, and what was seen in them."""

from __future__ import annotations

from legible.play.episodes import (
    DEFAULT_BATCH,
    DRAWS_A_STEP,
    BatchSlots,
    Chooser,
    EpisodeFailedError,
    Episodes,
    Observations,
    PolicyChooser,
    Scores,
    SingleSlots,
    Slots,
    StepRecord,
    check_exploration,
    check_policy,
    choose_actions,
    choose_row,
    episode_seeds,
    make_slots,
    one_thread,
    play_episodes,
)
from legible.play.experiences import Experiences, collect

__all__ = [
    "DEFAULT_BATCH",
    "DRAWS_A_STEP",
    "BatchSlots",
    "Chooser",
    "EpisodeFailedError",
    "Episodes",
    "Experiences",
    "Observations",
    "PolicyChooser",
    "Scores",
    "SingleSlots",
    "Slots",
    "StepRecord",
    "check_exploration",
    "check_policy",
    "choose_actions",
    "choose_row",
    "collect",
    "episode_seeds",
    "make_slots",
    "one_thread",
    "play_episodes",
]
