"""Whole episodes of anything that chooses actions, and what was seen in them.

- `slots`: places in which episodes run side by side.
- `choosing`: how scores become actions.
- `episodes`: plays a list of seeds.
- `recording`: episodes step by step, and again by their actions.
- `experiences`: what a policy saw and did, as columns; `collect`.
- `stages`: the stages of a study that play episodes, each with seeds of its own.
"""

from __future__ import annotations

from legible.engines.threads import one_thread
from legible.play.choosing import (
    Chooser,
    PolicyChooser,
    Scores,
    check_exploration,
    check_policy,
    choose_actions,
    choose_row,
)
from legible.play.episodes import Episodes, MissingCostError, StepRecord, episode_seeds, play_episodes
from legible.play.experiences import Experiences, collect
from legible.play.recording import Recorder, Recording, Steps, replay
from legible.play.slots import (
    DEFAULT_BATCH,
    BatchSlots,
    EpisodeFailedError,
    Observations,
    SingleSlots,
    Slots,
    make_slots,
)
from legible.play.stages import STAGE_EPISODES, STAGES, Known, Stage, declare_stage, stage_seeds

__all__ = [
    "DEFAULT_BATCH",
    "STAGES",
    "STAGE_EPISODES",
    "BatchSlots",
    "Chooser",
    "EpisodeFailedError",
    "Episodes",
    "Experiences",
    "Known",
    "MissingCostError",
    "Observations",
    "PolicyChooser",
    "Recorder",
    "Recording",
    "Scores",
    "SingleSlots",
    "Slots",
    "Stage",
    "StepRecord",
    "Steps",
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
    "replay",
    "stage_seeds",
]
