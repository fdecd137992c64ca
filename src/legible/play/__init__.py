"""Whole episodes of anything that chooses actions, and what was seen in them.

- `slots`: places in which episodes run side by side.
- `choosing`: how scores become actions; `acting`: actions of any space, masks, policies that remember.
- `episodes`: plays a list of seeds.
- `fixed_rows`: a policy that sees batches of one size, so that scores depend on the state alone.
- `branching`: an environment is brought into a state that was visited, and goes on from there.
- `recording`: episodes step by step, and again by their actions.
- `experiences`: what a policy saw and did, as columns; `collect`.
- `returns`: episodes and mean returns of any policy in any environment.
- `row_policy`: policies in environments that show rows of features.
- `trained_environments`: the environment as a policy was trained in it.
- `stages`: the stages of a study that play episodes, each with seeds of its own.
- `failures`: episodes that fail, and how many a stage may have; `runner`: units whose episodes may fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.engines.threads import one_thread
    from legible.play.acting import ActingChooser, RandomChooser, check_acting, check_studied
    from legible.play.branching import (
        WAYS,
        Branches,
        Branching,
        BranchingError,
        FoundWay,
        Future,
        Point,
        States,
        Way,
        copies_rows,
        find_way,
        make_branching,
    )
    from legible.play.choosing import (
        Chooser,
        PolicyChooser,
        Scores,
        check_exploration,
        check_policy,
        choose_actions,
        choose_row,
        why_no_study,
    )
    from legible.play.episodes import Episodes, MissingCostError, Starts, StepRecord, episode_seeds, play_episodes
    from legible.play.experiences import Experiences, collect
    from legible.play.fixed_rows import FixedRowsPolicy, with_fixed_rows
    from legible.play.recording import Recorder, Recording, Steps, replay
    from legible.play.returns import PolicyReturn, evaluate_policy, play_policy
    from legible.play.row_policy import RowPolicy, on_rows, reads_features
    from legible.play.slots import (
        DEFAULT_BATCH,
        MASKED,
        BatchSlots,
        EpisodeFailedError,
        Observations,
        SingleSlots,
        Slots,
        SpaceSlots,
        make_slots,
        make_space_slots,
    )
    from legible.play.stages import STAGE_EPISODES, STAGES, Known, Stage, declare_stage, stage_seeds
    from legible.play.trained_environments import environment_for

__all__, __getattr__, __dir__ = lazy_exports(__name__)
