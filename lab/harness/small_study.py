"""The small study that the harness uses: a policy that walks well to the right and badly to the left.

- `SETTINGS`: few episodes, in small units, so that every stage has several.
- `make_study`: a study of the tests' mirror world; it passes through all stages and ends with a guided policy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legible.environments import EnvironmentSpec
from legible.settings import (
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    MistakeSettings,
    PlaySettings,
    ReferenceSettings,
    SearchSettings,
    StudySettings,
)
from legible.study import Study

SETTINGS = StudySettings(
    episodes=60,
    sources="mined,searched,yours",
    mining=MiningSettings(lime_states=10, lime_samples=200),
    play=PlaySettings(batch=8, unit_episodes=20),
    evaluation=EvaluationSettings(episodes=40, confirmation_episodes=40),
    search=SearchSettings(budget=10_000, most_conditions=1, proposed=3),
    improvement=ImprovementSettings(episodes=40, final_episodes=40),
    references=ReferenceSettings(episodes=20),
    mistakes=MistakeSettings(when="always", steps=20_000, episodes=40, rollouts=8, second_rollouts=8, final_rollouts=8),
)


def make_study(folder: Path, policy: Path, **options: Any) -> Study:
    """Make or resume the study in a folder."""
    import mirror_world

    world = EnvironmentSpec("mirror_world:MirrorWorld")
    return Study(folder, world, policy, relations=mirror_world.mirror(), settings=SETTINGS, **options)
