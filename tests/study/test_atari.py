"""A game of the Arcade Learning Environment, seen by a convolutional network in stacked frames, told by its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.settings import PlaySettings, StudySettings
from legible.study import Study
from seen_worlds import Scored

UP, DOWN = 1, 2
CHICKEN, CARS = 14, slice(108, 118)  # bytes of Freeway's memory
HEIGHT, WIDTH = 210, 160
FRAMES = ("gymnasium.wrappers:FrameStackObservation(stack_size=2)",)


def chicken(observation: Any, info: Any, env: Any) -> dict[str, float]:
    """What rules see: how far up the chicken is, and where the car of its lane is."""
    memory = env.unwrapped.ale.getRAM()
    lane = min(9, max(0, (int(memory[CHICKEN]) - 16) // 16))
    return {"chicken.height": float(memory[CHICKEN]), "car.place": float(memory[CARS][lane])}


class FreewayNetwork(Scored):
    """Looks for the chicken in its column: goes up, but down where it is far up."""

    n_actions, n_features = 3, 2 * HEIGHT * WIDTH
    action_space = gymnasium.spaces.Discrete(3)
    observation_space = gymnasium.spaces.Box(0, 255, (2, HEIGHT, WIDTH), np.uint8)

    def __init__(self) -> None:
        # Patches of 10 rows and 8 columns of the newer frame; the chicken walks in the patches 5 and 6 of every row.
        self._patches = torch.nn.Conv2d(2, 1, (10, 8), stride=(10, 8), bias=False)
        self._layer = torch.nn.Linear(21 * 20, 1, bias=False)
        weights = torch.zeros(21, 20)
        weights[2:9, 5:7], weights[9:19, 5:7] = 1.0, -1.0
        with torch.no_grad():
            self._patches.weight.copy_(torch.stack([torch.zeros(10, 8), torch.ones(10, 8)])[None])
            self._layer.weight.copy_(weights.reshape(1, -1))

    def scores(self, observations: Any) -> np.ndarray[Any, Any]:
        bright = torch.relu(torch.as_tensor(np.asarray(observations)).float() - 220.0)
        with torch.inference_mode():
            far_up = self._layer(self._patches(bright).flatten(1))[:, 0] > 0.0
        return np.stack([np.zeros(len(far_up)), ~far_up.numpy(), far_up.numpy()], axis=1).astype(np.float32)


def test_rules_about_what_a_network_sees_in_pictures(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    spec = EnvironmentSpec("ALE/Freeway-v5", {"obs_type": "grayscale", "max_episode_steps": 60, "frameskip": 4}, FRAMES)
    settings = StudySettings(episodes=6, play=PlaySettings(batch=6, unit_episodes=6))
    study = Study(
        tmp_path, spec, FreewayNetwork(), features=f"{__name__}:chicken", settings=settings, engine=InProcess()
    )
    mining = study.mine()
    seen = study.experiences
    assert seen.observations.shape[1] == 2  # features, and no pictures
    assert seen.observations[seen.actions == DOWN, 0].min() > seen.observations[seen.actions == UP, 0].mean()
    assert mining.importance is not None
    assert mining.importance.method == "surrogate"
    # The fault is told by the rules: it goes down where the chicken is far up.
    assert any(found.rule.action == DOWN and 0 in found.rule.features for found in mining.rules)
