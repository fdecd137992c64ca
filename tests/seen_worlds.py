"""Worlds whose observations are not flat vectors of features, and policies with a fault that features can name.

Every step shows a thing at a column; going to its side earns 1, to the other costs 1. The policies go the right way,
but not to the right where the thing is high up.

- `PictureWorld`: a picture with one bright pixel; `PictureNetwork`: a small fixed convolutional network.
- `GoalWorld`: a dictionary with a goal, as in robotics; `GoalPolicy`: reads the dictionary.
- `thing_in_picture`, `thing_of_environment`, and some that go wrong: feature functions for rules.
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's, Stable-Baselines3's and that of feature functions)

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

LEFT, RIGHT = 0, 1
SIZE, HIGH, STEPS = 12, 3, 12


class _World(gymnasium.Env[Any, np.int64]):
    """A thing at a random place in every step."""

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._move()
        return self._show(), self._info()

    def _move(self) -> None:
        self.row, self.column = (int(place) for place in self.np_random.integers(SIZE, size=2))

    def _info(self) -> dict[str, Any]:
        return {"row": self.row, "column": self.column, "words": "a thing"}

    def _show(self) -> Any:
        raise NotImplementedError

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        right = int(action) == (RIGHT if self.column >= SIZE // 2 else LEFT)
        self._steps += 1
        self._move()
        return self._show(), 1.0 if right else -1.0, self._steps >= STEPS, False, self._info()


class PictureWorld(_World):
    """The thing is a bright pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)

    def _show(self) -> NDArray[np.uint8]:
        picture = np.zeros((SIZE, SIZE, 1), np.uint8)
        picture[self.row, self.column] = 255
        return picture


class GoalWorld(_World):
    """The thing is a goal; what was achieved is always the middle."""

    def __init__(self) -> None:
        super().__init__()
        box = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Dict({"achieved_goal": box, "desired_goal": box, "lamp": spaces.Discrete(3)})

    def _show(self) -> dict[str, Any]:
        goal = np.array([self.column, self.row], np.float32) / (SIZE - 1)
        return {"achieved_goal": np.full(2, 0.5, np.float32), "desired_goal": goal, "lamp": self.row % 3}


class Scored:
    """The base of the policies: scores of actions, and ``predict`` from them."""

    n_actions, kind, recurrent, stochastic = 2, "values", False, False
    action_space = spaces.Discrete(2)

    def scores(self, observations: Any) -> NDArray[np.float32]:
        raise NotImplementedError

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[Any], Any]:
        return self.scores(observation).argmax(axis=1), state


class PictureNetwork(Scored):
    """One convolution that blurs, and one layer that weighs every place."""

    n_features = SIZE * SIZE
    observation_space = PictureWorld().observation_space

    def __init__(self) -> None:
        self._blur = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False)
        self._layer = torch.nn.Linear(SIZE * SIZE, 1, bias=False)
        kernel, weights = torch.full((1, 1, 3, 3), 0.01), -torch.ones(SIZE, SIZE)
        kernel[0, 0, 1, 1] = 1.0
        weights[HIGH:, SIZE // 2 :] = 1.0
        with torch.no_grad():
            self._blur.weight.copy_(kernel)
            self._layer.weight.copy_(weights.reshape(1, -1))

    def scores(self, observations: Any) -> NDArray[np.float32]:
        pictures = torch.as_tensor(np.asarray(observations)).float().permute(0, 3, 1, 2) / 255.0
        with torch.inference_mode():
            right = self._layer(torch.relu(self._blur(pictures)).flatten(1))
        return torch.cat([-right, right], dim=1).numpy()


class GoalPolicy(Scored):
    """Goes to the side of the goal, but not to the right where the goal is high up."""

    n_features = None
    observation_space = GoalWorld().observation_space

    def scores(self, observations: Any) -> NDArray[np.float32]:
        goal = np.asarray(observations["desired_goal"])
        right = (goal[:, 0] > 0.5) & (goal[:, 1] * (SIZE - 1) > HIGH - 0.5)
        return np.stack([~right, right], axis=1).astype(np.float32)


def dark_or_bright(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores of the network of pictures for flat ones."""
    return PictureNetwork().scores(observations.reshape(-1, SIZE, SIZE, 1))


def thing_in_picture(observation: Any, info: Any, env: Any) -> dict[str, float]:
    """Return the place of the bright pixel."""
    row, column = np.unravel_index(int(np.argmax(observation)), (SIZE, SIZE))
    return {"thing.row": float(row), "thing.column": float(column)}


def thing_of_environment(observation: Any, info: Any, env: Any) -> list[float]:
    """Return the same, read from the environment."""
    return [env.unwrapped.row, env.unwrapped.column]


thing_of_environment.feature_names = ("row", "column")  # type: ignore[attr-defined]


def sometimes_nan(observation: Any, info: Any, env: Any) -> dict[str, float]:
    """Return no number in later steps."""
    return {"row": float("nan") if env.unwrapped._steps > 1 else 0.0}


def sometimes_wider(observation: Any, info: Any, env: Any) -> dict[str, float]:
    """Return another number of features in later steps."""
    return {"row": 0.0, **({"column": 0.0} if env.unwrapped._steps > 1 else {})}


def names_twice(observation: Any, info: Any, env: Any) -> list[float]:
    """Return features that have the same name."""
    return [0.0, 1.0]


names_twice.feature_names = ("row", "row")  # type: ignore[attr-defined]


def raises(observation: Any, info: Any, env: Any) -> dict[str, float]:
    """Raise an error."""
    return {"row": 1.0 / 0.0}


def nothing(observation: Any, info: Any, env: Any) -> None:
    """Return nothing, by mistake."""
