"""Environments that can be branched only in some ways, or not at all."""

# ruff: noqa: ARG002 (signatures are those of Gymnasium)

import os
import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Drift(gymnasium.Env):
    """A place that drifts at random; `generator` says where the random numbers come from."""

    def __init__(self, generator: str = "np_random") -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.generator = generator

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.own = random.Random(seed)
        self.place, self.steps = 0.0, 0
        return self._seen(), {}

    def _draw(self) -> float:
        if self.generator == "outside":
            return float.fromhex("0x0." + os.urandom(6).hex() + "p+0")
        return self.own.random() if self.generator == "own" else float(self.np_random.random())

    def _seen(self) -> Any:
        return np.array([self.place, self.steps], np.float64)

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.place += self._draw() * (1 if action else -1)
        return self._seen(), self.place, self.steps >= 80, False, {}


class Fragile(Drift):
    """Ends the process in the first step after it was copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        copied = type(self)(self.generator)
        copied.__dict__.update(self.__dict__)
        copied.step = lambda _: os._exit(3)
        return copied


class Shared(Drift):
    """Copies share their state with the original."""

    def __init__(self) -> None:
        super().__init__()
        self.box: dict[str, float] = {}

    def step(self, action: Any) -> Any:
        self.place = self.box.get("place", 0.0)
        answer = super().step(action)
        self.box["place"] = self.place
        return answer

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.box.clear()
        return super().reset(seed=seed)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = type(self)()
        copied.__dict__.update(self.__dict__)
        copied._np_random = np.random.default_rng()
        copied._np_random.bit_generator.state = self.np_random.bit_generator.state
        return copied


class Cloned(Drift):
    """Has `clone_state` and `restore_state` as Atari's environments do, and an emulator that cannot be reseeded."""

    ale = object()

    def clone_state(self, include_rng: bool = False) -> Any:
        return self.place, self.steps, self.own.getstate() if include_rng else None

    def restore_state(self, state: Any) -> None:
        self.place, self.steps, numbers = state
        self.own.setstate(numbers)
