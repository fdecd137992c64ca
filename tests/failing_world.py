"""The mirror world with episodes that fail: guided ones, unguided ones, or both, in one of several ways."""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

import time

import numpy as np

import mirror_world
from legible.environments import EnvironmentSpec


class FailingWorld(mirror_world.MirrorWorld):
    """Fails in the first step of episodes whose seed is a multiple of `every` (0: none).

    Going left to a goal on the left without luck means being guided: the unguided policy goes right. So "guided" and
    "unguided" episodes with the goal on the left can fail separately; "all" fail whatever their goal.
    """

    def __init__(self, who: str = "all", how: str = "raise", every: int = 0, noise: float = 1.0) -> None:
        super().__init__(noise)
        self.who, self.how, self.every = who, how, every

    def reset(self, *, seed: int | None = None, options: object = None):
        self.chosen = self.every > 0 and seed is not None and seed % self.every == 0
        if self.chosen and self.how == "hang at reset":
            time.sleep(600)
        found = super().reset(seed=seed)
        self.is_telling = self.goal < self.at and not found[0][4] > 1
        return found

    def step(self, action: np.int64):
        fails = self.who == "all" or (self.is_telling and (self.who == "guided") == (action == mirror_world.LEFT))
        if self.chosen and self.steps == 0 and fails:
            if self.how == "raise":
                raise RuntimeError("the motor is on fire")
            if self.how == "hang":
                time.sleep(600)
        observation, reward, *rest = super().step(action)
        bad = self.chosen and self.steps == 1 and fails and self.how == "nan"
        return observation, float("nan") if bad else reward, *rest


def failing(who: str = "all", how: str = "raise", every: int = 0) -> EnvironmentSpec:
    return EnvironmentSpec("failing_world:FailingWorld", {"who": who, "how": how, "every": every})
