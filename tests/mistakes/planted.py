"""Decisions with known values: rollouts are drawn, not played, and a small world in which every value is known."""

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.features import FeatureSpace
from legible.mistakes import CHOICE_TAKEN
from legible.play import Experiences

MOST_BINARY = 250.0  # from every second game won to all of them, 500 each
Noise = Literal["normal", "binary", "rare losses", "skewed"]


class PlantedDecisions:
    """Decisions of which some are mistakes: the value of every choice is known, its returns are drawn.

    Parameters
    ----------
    seed
        Decides values and returns.
    noise
        What returns look like.
    share
        Of the decisions that are mistakes.
    worse
        By how much other choices are worse where there is no mistake, on average; 0: all are equally good.
    same
        What all mistakes cost; 0: they differ.
    """

    def __init__(
        self, seed: int, noise: Noise, share: float, worse: float = 30.0, n: int = 150, same: float = 0.0
    ) -> None:
        self._rng = np.random.default_rng([seed, 11])
        self.noise = noise
        self.values = np.zeros((n, 4))
        self.values[:, 1:] = -self._rng.exponential(1.0, (n, 3)) * worse
        mistakes = self._rng.random(n) < share
        self.values[mistakes, 1 + self._rng.integers(3, size=int(mistakes.sum()))] = self._rng.exponential(
            60.0, int(mistakes.sum())
        )
        if same:
            self.values[self.values > 0] = same
        self.choices = np.tile([CHOICE_TAKEN, 1, 2, 3], (n, 1))
        # Choice 0 is what was done; five decisions an episode.
        self.experiences = experiences_of(n, 5, np.zeros(n, np.int64))

    def gain(self, decision: int, better: int) -> float:
        """What a choice is worth beyond what was done."""
        return float(min(self.values[decision, better], MOST_BINARY if self.noise == "binary" else np.inf))

    def __call__(
        self, numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int
    ) -> NDArray[np.float64]:
        """Draw returns; all choices of a decision share much of what is random."""
        assert first >= 0
        shape = (len(numbers), choices.shape[1], count)
        means = np.take_along_axis(self.values[numbers], np.maximum(choices, 0), axis=1)[:, :, None]
        common = self._rng.normal(0, 50, (shape[0], 1, count))
        if self.noise == "binary":
            return 500.0 * (self._rng.random((shape[0], 1, count)) < np.clip(0.5 + means / 500, 0, 1))
        if self.noise == "rare losses":
            return means + common - 500 * ((self._rng.random(shape) < 0.03) - 0.03)
        if self.noise == "skewed":
            return means + common + 40 * (self._rng.exponential(1.0, shape) - 1)
        return means + common + self._rng.normal(0, 30, shape)


def experiences_of(n: int, length: int, actions: NDArray[np.int64], n_actions: int = 4) -> Experiences:
    """Experiences of n steps in episodes of one length; what is seen is the number of the step."""
    episodes = n // length
    return Experiences(
        observations=np.arange(n, dtype=np.float32)[:, None],
        actions=actions,
        scores=np.eye(n_actions, dtype=np.float32)[actions],
        episode_ids=np.repeat(np.arange(episodes), length),
        returns=np.arange(episodes, dtype=np.float64),
        lengths=np.full(episodes, length),
        seeds=np.arange(episodes) + 1000,
        success=np.full(episodes, np.nan),
        space=FeatureSpace.of(["place"], [f"a{i}" for i in range(n_actions)]),
    )


ROOMS = 6
# What each of three choices earns in each room, on average, and what the policy does there.
EARNS = np.array([[5, 1, 0], [0, 8, 2], [3, 3, 3], [1, 0, 20], [4, 4, 1], [0, 6, 6]], np.float64)
DOES = np.array([0, 1, 0, 0, 1, 2])


class Rooms(gymnasium.Env):
    """Six steps through rooms that are drawn; a choice earns what it earns there, and changes nothing else.

    The best a choice can gain is what it earns beyond what the policy's earns. In room 3 the policy's choice is a
    mistake that costs 19.
    """

    def __init__(self, noise: float = 1.0, coin: bool = True) -> None:
        self.observation_space = spaces.Box(0, 1, (ROOMS,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.noise, self.coin = noise, coin

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self.steps, self.room = 0, int(self.np_random.integers(ROOMS))
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.eye(ROOMS, dtype=np.float32)[self.room]

    def step(self, action: Any) -> Any:
        reward = EARNS[self.room, action]
        if self.noise:
            reward += self.noise * self.np_random.normal()
        self.steps += 1
        self.room = int(self.np_random.integers(ROOMS)) if self.coin else (self.room + 1) % ROOMS
        return self._seen(), float(reward), self.steps >= 6, False, {}


class RoomPolicy:
    """Does in each room what `DOES` says, or what is best."""

    n_actions, n_features, kind = 3, ROOMS, "values"

    def __init__(self, perfect: bool = False) -> None:
        self.does = EARNS.argmax(axis=1) if perfect else DOES

    def scores(self, observations: Any) -> Any:
        return np.eye(3)[self.does][np.asarray(observations).argmax(axis=1)]


class Stumbling(Rooms):
    """Raises an error when choice 1 is taken in the last room."""

    def step(self, action: Any) -> Any:
        if self.room == ROOMS - 1 and action == 1:
            raise RuntimeError("stumbled")
        return super().step(action)
