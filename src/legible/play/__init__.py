"""Playing whole episodes with any policy, and recording them.

- `slots`: environments that run in parallel; `vector_envs`: those of other packages' vector environments.
- `choosing`: from scores to actions; `acting`: actions of any space, action masks, recurrent policies.
- `episodes`: plays one episode per seed.
- `adapted`: policies as they play: on rows of features, with named choices, in batches of one size.
- `branching`: returns an environment to a visited state and continues from there.
- `recording`: episodes step by step, and their replay.
- `experiences`: recorded steps as columns; `collect`.
- `returns`: episodes and mean returns of any policy in any environment.
- `trained_environments`: the environment that a policy was trained in.
- `stages`: the stages of a study that play episodes, each with its own block of seeds.
- `failures`: failed episodes and their limit; `runner`: units whose episodes may fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.engines.threads import one_thread
    from legible.play.acting import ActingChooser, RandomChooser, check_can_be_studied, check_spaces_fit
    from legible.play.adapted import AdaptedPolicy, adapt_policy, choice_space, reads_features
    from legible.play.branching import (
        WAYS,
        Branches,
        Branching,
        BranchingError,
        BranchingMethod,
        Future,
        Point,
        States,
        Way,
        can_copy_rows,
        find_branching_method,
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
        explain_not_studied,
    )
    from legible.play.episodes import Episodes, MissingCostError, Starts, StepRecord, episode_seeds, play_episodes
    from legible.play.experiences import Experiences, collect
    from legible.play.recording import Recorder, Recording, Steps, replay
    from legible.play.returns import PolicyReturn, evaluate_policy, play_policy
    from legible.play.slots import (
        DEFAULT_BATCH,
        BatchSlots,
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
