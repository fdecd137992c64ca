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
from legible.play.stages import STAGE_EPISODES, STAGES, Known, Stage, declare_stage, stage_seeds

__all__ = [
    "DEFAULT_BATCH",
    "DRAWS_A_STEP",
    "STAGES",
    "STAGE_EPISODES",
    "BatchSlots",
    "Chooser",
    "EpisodeFailedError",
    "Episodes",
    "Experiences",
    "Known",
    "Observations",
    "PolicyChooser",
    "Scores",
    "SingleSlots",
    "Slots",
    "Stage",
    "StepRecord",
    "check_exploration",
    "check_policy",
    "choose_actions",
    "choose_row",
    "collect",
    "declare_stage",
    "episode_seeds",
    "make_slots",
    "one_thread",
    "play_episodes",
    "stage_seeds",
]
