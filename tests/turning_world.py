"""A world in which turning twice in a row costs, for tests of rules with a memory.

In strong gusts, turning earns 1, but right after a turn it costs ⅔. The policy turns in every strong gust. That is the
best of all thresholds for gusts; better would be to go on after a turn, and only a memory can say so.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.features import Action, Feature, FeatureSpace

GO_ON, TURN = 0, 1
STRONG, STEPS = 0.7, 40


class TurningWorld(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Gusts come and go; see the module."""

    feature_space = FeatureSpace(
        (Feature("gust", words="the strength of the gust"), Feature("light", words="the light")),
        (Action("GoOn", "go on"), Action("Turn", "turn")),
    )

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps, self._turned = 0, False
        return self._look(), {}

    def _look(self) -> NDArray[np.float32]:
        self._seen = self.np_random.random(2).astype(np.float32)
        return self._seen

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        reward = 0.0
        if action == TURN:
            reward = -1.0 if self._seen[0] <= STRONG else -2 / 3 if self._turned else 1.0
        self._turned = bool(action == TURN)
        self._steps += 1
        return self._look(), reward, self._steps >= STEPS, False, {}


def turns_in_gusts(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """The policy: scores of going on and of turning."""
    strong = observations[:, 0] > STRONG
    return np.stack([~strong, strong], axis=1).astype(np.float32)
