"""Environments and policies with one fault each, as users write them."""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Line(gymnasium.Env[Any, Any]):
    """A walk on a line, pushed by wind; the right end pays 1."""

    observation_space: Any = spaces.Box(-10, 10, (3,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def see(self) -> Any:
        return np.array([self.at, self.wind, self.steps / 10], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at, self.wind, self.steps = self.np_random.uniform(-2, 2), 0.0, 0
        return self.see(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.wind = self.np_random.uniform(-0.5, 0.5)
        self.at += (1 if np.ravel(action)[0] > 0 else -1) + self.wind
        return self.see(), float(self.at > 5), bool(abs(self.at) > 5), self.steps >= 30, {}


class OldReset(Line):
    """Old Gym API: reset returns only an observation."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class OldResetOfTwo(OldReset):
    """Old Gym API with an observation of two numbers, which looks like (observation, info)."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)

    def see(self) -> Any:
        return super().see()[:2]


class OldStep(Line):
    """Old Gym API: step returns four values."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class OldSeed(OldStep):
    """Old Gym API: env.seed instead of reset(seed=…)."""

    def seed(self, seed: int | None = None) -> list[int | None]:
        return [seed]

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()[0]


class OldObject:
    """Old Gym API, and not even derived from gymnasium.Env."""

    observation_space, action_space = Line.observation_space, Line.action_space

    def reset(self) -> Any:
        return Line().reset()[0]

    def step(self, action: int) -> Any:
        return np.zeros(3), 0.0, True, {}


gymnasium.register("OldStep-v0", OldStep, max_episode_steps=20)


class RaisesInInit(Line):
    def __init__(self) -> None:
        raise FileNotFoundError(2, "No such file or directory", "level1.txt")


class RaisesInReset(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return {}["map"]


class RaisesInStep(Line):
    def step(self, action: Any) -> Any:
        raise ValueError("the pole\nis broken")


class NeedsArgument(Line):
    def __init__(self, size: int) -> None: ...


class NanReward(Line):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class LateInfiniteReward(Line):
    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, float("-inf") if self.steps == 3 else reward, *rest


class NoReward(Line):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, None, *rest


class NoInfo(Line):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], None


class NanObservation(Line):
    def see(self) -> Any:
        return np.array([self.at, np.nan, 0.0], np.float32)


class OtherShape(Line):
    def see(self) -> Any:
        return np.zeros(4, np.float32)


class OtherType(Line):
    def see(self) -> Any:
        return {"at": self.at}


class MissingEntry(Line):
    observation_space = spaces.Dict({"at": spaces.Box(-10, 10, (1,)), "goal": spaces.Box(-10, 10, (1,))})

    def see(self) -> Any:
        return {"at": np.array([self.at], np.float32)}


class Outside(Line):
    observation_space = spaces.Box(-1, 1, (3,), np.float32)


class OutsideOfCategories(Line):
    observation_space = spaces.Discrete(3)

    def see(self) -> Any:
        return 7


class NoObservationSpace(Line):
    observation_space = None


class NoActionSpace(Line):
    action_space = None


class Strict(Line):
    """Continuous actions, and an error for those outside."""

    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), "invalid action"
        return super().step(action)


class Aec:
    """As PettingZoo's environments in which agents take turns."""

    possible_agents = ("red", "blue")

    def agent_iter(self) -> Any: ...

    def reset(self) -> None: ...


class Parallel:
    """As PettingZoo's parallel environments."""

    possible_agents = ("red", "blue")

    def reset(self) -> None: ...


def make_vector() -> Any:
    return gymnasium.vector.SyncVectorEnv([Line, Line])


def make_number() -> int:
    return 3


# --- Policies --------------------------------------------------------------------------------------------------------


def good(observations: Any) -> Any:
    """Go to the right end."""
    return np.tile([0.0, 1.0], (len(observations), 1))


def unpacks(observation: Any) -> Any:
    """One observation at a time."""
    at, _, _ = observation
    return np.array([-at, at])


def decides(observation: Any) -> Any:
    """One observation at a time, and the number of an action."""
    return int(observation[0] > 0)


def columns(observation: Any) -> Any:
    """One observation at a time, without an error for a batch."""
    return np.array([-observation[0], observation[0]])


def lists(observation: Any) -> Any:
    """One observation at a time, and a list that NumPy makes no array of for a batch."""
    return [observation[0], 0.0]


def not_numbers(observations: Any) -> Any:
    return np.full((len(observations), 2), np.nan)


def sevens(observations: Any) -> Any:
    """Numbers of an action that does not exist."""
    return np.full(len(observations), 7)


def numbers(observations: Any) -> Any:
    """Numbers of actions instead of scores."""
    return np.ones(len(observations), np.int64)


def three(observations: Any) -> Any:
    return np.zeros((len(observations), 3))


def raises(observations: Any) -> Any:
    raise RuntimeError("weights are not loaded")


def nothing(observations: Any) -> Any:
    return None


def far(observations: Any) -> Any:
    """Continuous actions outside of the space."""
    return np.full((len(observations), 1), 5.0)


class Illegal:
    """A policy object that chooses an action that does not exist."""

    n_actions, n_features, kind, recurrent, stochastic = 2, 3, "none", False, False
    observation_space, action_space = Line.observation_space, Line.action_space

    def scores(self, observations: Any) -> Any:
        raise NotImplementedError

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Any:
        return np.full(len(observation), 7), state


illegal = Illegal()
