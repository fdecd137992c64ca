"""The small study that many tests look at: a network with a known flaw in the mirror world, by the paper's method."""

from pathlib import Path

import mirror_world
from legible.engines import InProcess
from legible.settings import (
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    PlaySettings,
    ReferenceSettings,
    StudySettings,
)
from legible.study import Study
from mirror_world import WORLD

SETTINGS = StudySettings(
    sources="mined,yours",
    episodes=60,
    mining=MiningSettings(lime_states=10, lime_samples=200),
    play=PlaySettings(batch=8, unit_episodes=40),
    evaluation=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40),
    improvement=ImprovementSettings(episodes=40, final_episodes=40),
    references=ReferenceSettings(episodes=20),
)


def small_study(folder: Path, policy: object, **changes: object) -> Study:
    """Make the study, or open the one that is in the folder."""
    arguments = {"relations": mirror_world.mirror(), "settings": SETTINGS, "engine": InProcess(), **changes}
    return Study(folder, WORLD, policy, **arguments)
