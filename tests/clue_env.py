"""Tiny environments: `Clue`, whose observation names the right action, and `Still`, which has only spaces."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Clue(gymnasium.Env):
    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(3)

    def _look(self) -> np.ndarray:
        self._right = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self._right]

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self._steps = 0
        return self._look(), {}

    def step(self, action):
        reward = float(action == self._right)
        self._steps += 1
        return self._look(), reward, False, self._steps == 6, {}


class Still(gymnasium.Env):
    """The spaces of PAC-Man small and nothing else."""

    observation_space = spaces.Box(-np.inf, np.inf, (69,), np.float32)
    action_space = spaces.Discrete(5)

    def reset(self, **_arguments):
        return np.zeros(69, np.float32), {}

    def step(self, _action):
        return np.zeros(69, np.float32), 0.0, False, False, {}
