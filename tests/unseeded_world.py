"""A world whose episodes do not depend on the seed."""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

import gymnasium
import numpy as np
from gymnasium import spaces

GENERATOR = np.random.default_rng()
"""Source of all numbers. A test that judges a whole study replaces it by a generator with a fixed seed."""


class UnseededWorld(gymnasium.Env[np.ndarray, np.int64]):
    """Every step shows and earns random numbers that do not depend on the seed of the episode."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: object = None):
        self._steps = 0
        return GENERATOR.normal(size=2).astype(np.float32), {}

    def step(self, action: np.int64):
        self._steps += 1
        return GENERATOR.normal(size=2).astype(np.float32), float(GENERATOR.normal()), self._steps >= 5, False, {}
