"""What studies to report on are made of: a policy that is blind in one direction, a world that cannot be drawn."""

from dataclasses import replace
from pathlib import Path

import mirror_world
from legible.engines import InProcess
from legible.policies import NetworkPolicy
from legible.settings import (
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    MistakeSettings,
    PlaySettings,
    ReferenceSettings,
    StudySettings,
)
from legible.study import Study
from legible_envs.pacman.features import pacman_features

SETTINGS = StudySettings(
    sources="mined,yours",
    episodes=80,
    mining=MiningSettings(lime_states=20, lime_samples=500),
    play=PlaySettings(batch=64, unit_episodes=200),
    evaluation=EvaluationSettings(
        rungs=2, race_seeds=128, confirmation_changes=200, confirmation_seeds=512, confirmation_episodes=60
    ),
    improvement=ImprovementSettings(episodes=400, final_episodes=100, most_candidates=3, beginnings=1),
    references=ReferenceSettings(episodes=20),
    mistakes=MistakeSettings(steps=300_000, episodes=40),
)
MIRROR_SETTINGS = replace(
    SETTINGS,
    episodes=60,
    mining=MiningSettings(lime_states=10, lime_samples=200),
    play=PlaySettings(batch=8, unit_episodes=40),
    evaluation=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40),
    improvement=ImprovementSettings(episodes=40, final_episodes=40),
)


def blind_to_the_east(policy: NetworkPolicy) -> NetworkPolicy:
    """The same policy, which does not see that ghosts are east of it: a weakness that is known beforehand."""
    weight = policy.layers[0].weight.copy()
    for i, name in enumerate(pacman_features(2).names):
        if name.startswith("ghost") and ("east" in name or name.endswith((".e", ".ne", ".se"))):
            weight[:, i] = 0.0
    return replace(policy, layers=(replace(policy.layers[0], weight=weight), *policy.layers[1:]))


def mirror_study(folder: Path, **changes: object) -> Study:
    arguments = {"relations": mirror_world.mirror(), "settings": MIRROR_SETTINGS, "engine": InProcess(), **changes}
    world = mirror_world.WORLD
    return Study(folder, world, mirror_world.policy(), **arguments)
