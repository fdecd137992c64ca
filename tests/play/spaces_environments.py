"""Tiny environments of all spaces, and models of Stable-Baselines3 that act in them without training."""

from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces


class Walk(gym.Env):
    """Twelve steps on a line; the reward depends on place and action, so that every action matters."""

    observation_space: spaces.Space = spaces.Box(-20.0, 20.0, (3,))
    action_space: spaces.Space = spaces.MultiDiscrete([3, 2])
    length = 12

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self.steps, self.place = 0, self.np_random.uniform(-3, 3, 3)
        return self.seen(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        move = np.resize(np.asarray(action, np.float64).ravel(), 3) - 0.5
        self.place = np.clip(0.9 * self.place + move, -20, 20)
        self.steps += 1
        reward = float(np.cos(self.place).sum())
        return self.seen(), reward, self.steps >= self.length, False, {"is_success": reward > 0}

    def seen(self) -> Any:
        return self.place.astype(np.float32)


class Buttons(Walk):
    """Several switches at once."""

    action_space = spaces.MultiBinary(3)


class Matrix(Walk):
    """Observations in two dimensions, continuous actions with different bounds."""

    observation_space = spaces.Box(-20.0, 20.0, (3, 2))
    action_space = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([2.0, 0.5], np.float32))

    def seen(self):
        return np.stack([self.place, -self.place], axis=1).astype(np.float32)


class Picture(Walk):
    """Small pictures whose channels come last."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = spaces.Discrete(4)

    def seen(self):
        shades = np.abs(np.sin(np.outer(np.arange(36), self.place) + 1)) * 255
        return np.broadcast_to(shades[:, None, :], (36, 36, 3)).astype(np.uint8)


class ChannelsFirst(Picture):
    """Small pictures whose channels come first."""

    observation_space = spaces.Box(0, 255, (3, 36, 36), np.uint8)

    def seen(self):
        return super().seen().transpose(2, 0, 1)


def brightness(observation, info, env):
    """Return features of an image, for rules."""
    return {"brightness": float(observation.mean()), "top": float(observation[0].mean())}


class Goal(Walk):
    """A goal dictionary, as hindsight experience replay wants it."""

    box = spaces.Box(-20.0, 20.0, (3,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (3,))

    def __init__(self) -> None:
        # Wrappers of sb3-contrib change the space in place.
        self.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), self.box))

    def seen(self):
        return {"observation": self.place.copy(), "achieved_goal": self.place.copy(), "desired_goal": np.ones(3)}

    def compute_reward(self, achieved_goal, desired_goal, info):  # noqa: ARG002 (the signature of a goal environment)
        return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)


class Numbers(Walk):
    """Whole numbers, counted from 5 in actions."""

    observation_space = spaces.MultiDiscrete([4, 3])
    action_space = spaces.Discrete(3, start=5)

    def seen(self):
        return np.abs(self.place[:2] * 7).astype(np.int64) % np.array([4, 3])


class Masked(Walk):
    """The allowed actions depend on the place; any other action is an error."""

    action_space = spaces.Discrete(4)

    def action_masks(self):
        return np.array([self.place[0] > 0, self.place[1] > 0, self.place[2] > 0, (self.place <= 0).all()])

    def step(self, action):
        assert self.action_masks()[action]
        return super().step(action)


class MaskedParts(Walk):
    """The same for actions in parts."""

    def action_masks(self):
        return np.array([True, self.place[0] > 0, self.place[1] > 0, self.place[2] <= 0, self.place[2] > 0])

    def step(self, action):
        assert self.action_masks()[[action[0], 3 + action[1]]].all()
        return super().step(action)


class Pair(Walk):
    """A tuple of observations."""

    observation_space = spaces.Tuple((spaces.Discrete(5), spaces.Box(-20.0, 20.0, (3,))))

    def seen(self):
        return self.steps % 5, self.place.astype(np.float32)


class Words(Walk):
    """Texts, which no policy reads."""

    observation_space = spaces.Text(10)

    def seen(self):
        return "left"


class Graphs(Walk):
    """Graphs, which no policy reads."""

    observation_space = spaces.Graph(spaces.Box(-1, 1, (2,)), None)

    def seen(self):
        return spaces.GraphInstance(np.zeros((1, 2)), None, None)


class Lists(Walk):
    """Actions of any length, which no policy takes."""

    action_space = spaces.Sequence(spaces.Discrete(2))


def make_model(algorithm: str, env: gym.Env, **settings: Any) -> Any:
    """Return an untrained model with weights large enough that observations matter."""
    kind = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    if len(env.observation_space.shape or ()) == 3:
        policy = "CnnPolicy"
    if algorithm == "RecurrentPPO":
        policy = policy.replace("Policy", "LstmPolicy")
    if algorithm in ("DQN", "SAC", "TD3"):
        settings = {"buffer_size": 64, **settings}
    model = kind(policy, env, device="cpu", seed=0, **settings)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.policy.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
    return model
