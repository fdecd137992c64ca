"""Toy worlds of steering whose best repair is known, with actions that are not Discrete.

A car drives along a road. At every step something may be ahead: ``side`` says where (-1 on the left, 1 on the
right), ``near`` whether it is close, ``wind`` is noise that means nothing. Near things must be steered away from,
far ones passed straight on; a step that does so earns 1, any other costs 1, with some noise. The flawed policies steer
left when something is near on the right, but straight on when it is near on the left.

- `Steering`: steers by a number between -1 and 1, `STEERING_MIRROR` is its relation.
- `Driving`: chooses one of three directions and a gear at once (MultiDiscrete); fast is right when nothing is near.
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.environments import EnvironmentSpec
from legible.features import Feature, FeatureSpace
from legible.policies import Policy

STEPS = 12
FEATURES = (
    Feature("side", words="the side of the thing ahead, to the right"),
    Feature("near", "categorical", values={0: "nothing is near", 1: "something is near"}),
    Feature("wind", words="the wind"),
)
STEER = {"steer": {"left": [-1, -0.3], "straight": [-0.3, 0.3], "right": [0.3, 1]}}
DRIVE = {"steer": ["left", "straight", "right"], "gear": ["slow", "fast"]}


def _named(groups: dict[str, Any]) -> FeatureSpace:
    data = FeatureSpace(FEATURES).to_dict()
    return FeatureSpace.from_dict({"features": data["features"], "groups": groups})


STEERING_MIRROR = """
[[relation]]
name = "mirror"
words = "the same situation with left and right exchanged"
actions = { negate = "steer" }
negate = "side"
"""
DRIVING_MIRROR = """
[[relation]]
name = "mirror"
words = "the same situation with left and right exchanged"
actions = { swap = ["steer.left", "steer.right"], same = ["steer.straight", "gear"] }
negate = "side"
"""


class _Road(gymnasium.Env[Any, Any]):
    """The base of both worlds."""

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)

    def _observe(self) -> np.ndarray:
        side, near = self.np_random.choice([-1.0, 1.0]), float(self.np_random.random() < 0.5)
        self.seen = np.array([side, near, self.np_random.normal()], np.float32)
        return self.seen

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def _step(self, right: bool):
        self.steps += 1
        reward = (1.0 if right else -1.0) + 0.2 * float(self.np_random.normal())
        return self._observe(), reward, self.steps >= STEPS, False, {}


def _wanted(seen: np.ndarray) -> np.ndarray:
    """-1, 0 or 1: where to steer."""
    return np.where(seen[..., 1] == 1, -np.sign(seen[..., 0]), 0.0)


class Steering(_Road):
    """Steers by a number."""

    feature_space = _named(STEER)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action: np.ndarray):
        steered = float(action[0])
        where = 0.0 if abs(steered) <= 0.3 else np.sign(steered)
        return self._step(bool(where == _wanted(self.seen)))


class UncutSteering(Steering):
    """The same with names for regions only: what the policy does decides where they are cut."""

    feature_space = _named({"steer": list(STEER["steer"])})


class Driving(_Road):
    """Chooses a direction and a gear."""

    feature_space = _named(DRIVE)
    action_space = spaces.MultiDiscrete([3, 2])

    def step(self, action: np.ndarray):
        steered, gear = int(action[0]) - 1, int(action[1])
        right = steered == _wanted(self.seen) and gear == (self.seen[1] == 0)
        return self._step(bool(right))


class RoadPolicy:
    """A policy that acts on observations, as Stable-Baselines3's models do."""

    recurrent = stochastic = False
    kind, n_actions, n_features = "none", 0, 3
    observation_space = _Road.observation_space

    def __init__(self, action_space: spaces.Space[Any], *, flawed: bool) -> None:
        self.action_space, self.flawed = action_space, flawed

    def scores(self, observations):
        raise NotImplementedError  # a policy of kind "none" has no scores

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        seen = np.asarray(observation, np.float32)
        where = _wanted(seen)
        if self.flawed:
            where = np.where(where > 0, 0.0, where)
        if isinstance(self.action_space, spaces.Box):
            # How hard it steers follows the wind a little.
            numbers = 0.6 * where * (1 + 0.1 * np.tanh(seen[..., 2]))
            return numbers[..., None].astype(np.float32), state
        return np.stack([where + 1, seen[..., 1] == 0], axis=-1).astype(np.int64), state


MIRRORS = {Steering: STEERING_MIRROR, UncutSteering: STEERING_MIRROR, Driving: DRIVING_MIRROR}


def policy(world: type[_Road], *, flawed: bool = True) -> Policy:
    made: Any = RoadPolicy(world.action_space, flawed=flawed)
    return made


def spec(world: type[_Road]) -> EnvironmentSpec:
    return EnvironmentSpec(f"{__name__}:{world.__name__}")
