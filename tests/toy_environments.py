"""Small environments and policies whose every step can be worked out by hand."""

# ruff: noqa: ARG002 (signatures are those of Gymnasium and of policies)

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

A_NUMBER = 7


class Scripted(gymnasium.Env):
    """The last digits of the seed say how long an episode is: seed 1203 lasts three steps, reward 1.0, 2.0, 3.0."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, *, ends: str = "terminated") -> None:
        self.observation_space = spaces.Box(0, np.inf, (2,))
        self.action_space = spaces.Discrete(2)
        self.ends = ends
        self.closed = False
        self.seeds_seen: list[int | None] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds_seen.append(seed)
        self.seed, self.steps = seed, 0
        return np.array([seed, 0], np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == self.seed % 100
        info = {"is_success": self.seed >= 1000} if over and self.ends == "terminated" else {}
        observation = np.array([self.seed, self.steps], np.float32)
        return observation, self.steps, over and self.ends == "terminated", over and self.ends == "truncated", info

    def close(self) -> None:
        self.closed = True


class Noisy(gymnasium.Env):
    """Everything is drawn from the environment's own generator: observations, rewards, the end and the success."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.normal(size=3), {}

    def step(self, action):
        reward = self.np_random.normal() + float(action)
        over = bool(self.np_random.random() < 0.1)
        return self.np_random.normal(size=3), reward, over, False, {"is_success": bool(self.np_random.random() < 0.5)}


class Shifted(gymnasium.Env):
    """Neither observations (3, 4, 5) nor actions (−2, −1, 0, 1) start at zero; the reward is the action's number."""

    def __init__(self) -> None:
        self.observation_space = spaces.Discrete(3, start=3)
        self.action_space = spaces.Discrete(4, start=-2)
        self.actions: list[int] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.int64(3), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(int(action))
        self.steps += 1
        return np.int64(3 + self.steps % 3), float(action), self.steps == 4, False, {}


class Faulty(Scripted):
    """Goes wrong in the third step (or at the start) of an episode whose seed is above 500."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        if seed > 500 and self.fault == "reset":
            raise RuntimeError("out of cheese")
        return super().reset(seed=seed)

    def step(self, action):
        result = super().step(action)
        if self.seed <= 500 or self.steps < 3:
            return result
        observation, reward, *rest = result
        match self.fault:
            case "nan" | "inf" | "-inf":
                return observation, float(self.fault), *rest
            case "wide":
                return np.zeros(3, np.float32), reward, *rest
            case "four":
                return observation, reward, *rest[1:]
            case "step":
                raise ZeroDivisionError("division by zero")
        return result


class Spaces(gymnasium.Env):
    """Has the spaces it is given; one step and it is over."""

    def __init__(self, observation_space: spaces.Space | None = None, action_space: spaces.Space | None = None) -> None:
        self.observation_space = observation_space or spaces.Box(0, 1, (2,))
        self.action_space = action_space or spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, False, {}


def not_an_environment() -> dict[str, Any]:
    return {"reset": None}


def broken_factory() -> gymnasium.Env:
    raise KeyError("map")


gymnasium.register("toy/Scripted-v0", entry_point=Scripted)
gymnasium.register("toy/Limited-v0", entry_point=Scripted, max_episode_steps=2)


class Rowwise:
    """A policy that looks at each row alone, so that its scores do not depend on the batch they came in."""

    kind = "values"

    def __init__(self, n_features: int, n_actions: int, *, seed: int = 0, kind: str = "values") -> None:
        self.n_features, self.n_actions, self.kind = n_features, n_actions, kind
        self.weights = np.random.default_rng(seed).normal(size=(n_features, n_actions)).astype(np.float32)

    def scores(self, observations: np.ndarray) -> np.ndarray:
        values = np.stack([(observations * column).sum(axis=1) for column in self.weights.T], axis=1)
        if self.kind == "values":
            return values
        values = values - values.max(axis=1, keepdims=True)
        return values - np.log(np.exp(values).sum(axis=1, keepdims=True))


class Constant:
    """A policy that gives every row the same scores."""

    def __init__(self, *scores: float, n_features: int | None = None, kind: str = "values") -> None:
        self.row = np.array(scores, np.float32)
        self.n_features, self.n_actions, self.kind = n_features, len(scores), kind

    def scores(self, observations: np.ndarray) -> np.ndarray:
        return np.tile(self.row, (len(observations), 1))
