"""Small worlds with facts that a user wants first: a walker that must not dither, a drift that a limit hides."""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.environments import EnvironmentSpec
from legible.policies import Policy, load_policy


class Walk(gymnasium.Env[np.ndarray, np.int64]):
    """Three steps to the right earn 10; ten steps end the walk."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def _observe(self) -> np.ndarray:
        return np.array([self.at, self.np_random.normal()], np.float32)

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self.at, self.steps = 0, 0
        return self._observe(), {}

    def step(self, action: np.int64):
        self.at, self.steps = self.at + int(action), self.steps + 1
        there = self.at == 3
        return self._observe(), 10.0 * there + 0.1 * self.np_random.normal(), there, self.steps == 10, {}


def hesitant(right: float = 0.45) -> Policy:
    """A policy that walks right with some probability, whatever it sees: greedily it stays where it is."""
    logits = np.log([1.0 - right, right])
    return load_policy(lambda rows: np.tile(logits, (len(rows), 1)), output="logits", n_features=2, n_actions=2)


class Drift(Walk):
    """Every step earns 1; the state drifts, and the episode ends when it is above 40."""

    def step(self, action: np.int64):
        self.at += 1
        return self._observe(), 1.0, self.at > 40, False, {}


gymnasium.register("hidden/Drift-v0", "hidden_worlds:Drift", max_episode_steps=20)
DRIFT, WALK = EnvironmentSpec("hidden_worlds:hidden/Drift-v0"), EnvironmentSpec("hidden_worlds:Walk")
