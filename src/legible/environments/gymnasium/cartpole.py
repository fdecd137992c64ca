"""`SeededCartPole`: Gymnasium's vector environment of CartPole with a seed for every episode.

Gymnasium's own class draws the starts of all episodes from one random stream, and it starts finished episodes again in
the next step. An episode then depends on when its neighbours end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray


class SeededCartPole(CartPoleVectorEnv):
    """CartPole in batches: the same seed and actions give the same episode as in the single environment, to the bit."""

    state: Any
    metadata = CartPoleVectorEnv.metadata | {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(self, num_envs: int, *, autoreset_mode: str, **options: Any) -> None:
        if AutoresetMode(autoreset_mode) is not AutoresetMode.DISABLED:
            raise ValueError(f"SeededCartPole does not start finished episodes: autoreset_mode={autoreset_mode!r}.")
        super().__init__(num_envs, **options)
        self.state = np.zeros((4, num_envs))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start the episodes that ``options["reset_mask"]`` marks, each from its own seed."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        for row in np.flatnonzero(mask).tolist():
            # As in the single environment's `reset`: four numbers from a new generator.
            self.state[:, row] = np_random(seed[row])[0].uniform(low=-0.05, high=0.05, size=(4,))
        self.steps[mask] = 0
        return self.state.T.astype(np.float32), {}

    def step(self, action: NDArray[Any]) -> Any:
        """Take a step in every row, also in those whose episode is over: they are not started again."""
        self.prev_done[:] = False
        return super().step(action)
