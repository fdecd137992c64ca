"""A line of nine places with action masks: a masked action is an error, so no play can take one unnoticed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LEFT, RIGHT, JUMP, REST = range(4)
START_PLACES, LAST = 4, 8


class MaskedWorld(gymnasium.Env[Any, Any]):
    """Walk to the last place. Jumping is allowed on even places only, resting only with some weight."""

    action_space = spaces.Discrete(4)

    def __init__(self, where: str = "method") -> None:
        self.where = where
        box = spaces.Box(-1, 10, (3,), np.float32)
        self.observation_space = (
            spaces.Dict({"action_mask": spaces.MultiBinary(4), "seen": box}) if where == "entry" else box
        )
        if where == "method":
            self.action_masks = self.mask

    def mask(self) -> Any:
        place = self.place
        return np.array([place > 0, place < LAST, place % 2 == 0 and place < LAST - 1, self.weight > 0])

    def _shown(self) -> Any:
        seen = np.array([self.place, self.weight, self.steps / 10], np.float32)
        return {"seen": seen, "action_mask": self.mask().astype(np.int8)} if self.where == "entry" else seen

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.mask().astype(np.int8)} if self.where == "info" else {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self.place, self.weight = int(self.np_random.integers(START_PLACES)), int(self.np_random.integers(3))
        self.steps = 0
        return self._shown(), self._info()

    def step(self, action: Any) -> Any:
        assert self.mask()[action], f"action {action} is masked"
        self.steps += 1
        self.place += {LEFT: -1, RIGHT: 1, JUMP: 2, REST: 0}[int(action)]
        self.weight = min(3, self.weight - (action == REST) + int(self.np_random.random() < 0.1))
        done = self.place == LAST
        return self._shown(), 9.0 if done else -1.0, done, self.steps >= 30, self._info()


def by_info() -> MaskedWorld:
    return MaskedWorld("info")


def by_entry() -> MaskedWorld:
    return MaskedWorld("entry")


def well(seen: Any) -> Any:
    """Scores of the best policy: jump where that is allowed, else go right."""
    return np.tile([0.0, 2.0, 3.0, 1.0], (len(seen), 1))


def badly(seen: Any) -> Any:
    """The same, but it goes back from place 3."""
    return np.where(seen[:, :1] == 3, [[5.0, 0.0, 0.0, 1.0]], well(seen))
