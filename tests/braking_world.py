"""A road on which braking all the time is best, and every return can be worked out by hand.

An episode lasts ten steps. Braking earns 1 a step and is safe: always braking returns 10. Going earns 2 a step, but
every second time it ends the episode: always going returns about 4. Waiting is safe and earns nothing. The observation
is a number without meaning.
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

from functools import partial

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.features import FeatureSpace
from legible.policies import Policy, load_policy

STEPS = 10
GO, BRAKE, WAIT = 0, 1, 2
SPACE = FeatureSpace.of(["light"], ["Go", "Brake", "Wait"])


class BrakingWorld(gymnasium.Env[np.ndarray, np.int64]):
    """The road; with `breaks` waiting raises an error."""

    feature_space = SPACE
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks

    def _look(self) -> np.ndarray:
        return self.np_random.random(1).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def step(self, action: np.int64):
        if self.breaks and action == WAIT:
            raise RuntimeError("the engine stalls")
        self.steps += 1
        crashed = self.np_random.random() < 0.5 and action == GO
        over = crashed or self.steps == STEPS
        info = {"is_success": not crashed} if over else {}
        return self._look(), (2.0, 1.0, 0.0)[int(action)], bool(over), False, info


def scores(observations: np.ndarray, share: float) -> np.ndarray:
    """Brake where the light is below a share, and go elsewhere."""
    brakes = observations[:, 0] < share
    return np.stack([~brakes, brakes, np.full(len(brakes), -1.0)], axis=1).astype(np.float32)


def braking_in_the_dark(share: float) -> Policy:
    """Return a policy that brakes where the light is below a share, and goes elsewhere."""
    return load_policy(partial(scores, share=share), output="values", n_features=1, n_actions=3)
