"""The Gymnasium environments: `PacmanEnv` for one game, `PacmanVectorEnv` for many, both over one kernel.

>>> import gymnasium, legible
>>> env = gymnasium.make("legible/PacmanSmall-v0")
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step(2)
>>> env.unwrapped.feature_space.names[:2], float(reward)
(('near.unscared', 'near.scared'), 9.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from legible.environments import LastStep
from legible.environments.array_envs import RENDER_MODES, ArrayEnv, ArrayVectorEnv, Drawing, SavedRows
from legible_envs.pacman import kernel
from legible_envs.pacman.games import Games, PacmanError, PacmanSettings, PacmanState
from legible_envs.pacman.maze import Maze
from legible_envs.pacman.render import Picture, to_text

FRAMES_PER_SECOND = 8


class _PacmanDrawing(Drawing):
    """The parts of a game that people see: its name, pictures and text."""

    error = PacmanError
    an_episode = "a game"
    games: Games

    @property
    def maze(self) -> Maze:
        """The maze that is played."""
        return self.games.maze

    def scene(self, i: int) -> PacmanState:
        """Return the state of game i."""
        return self.games.state(i)

    def to_text(self, scene: PacmanState) -> str:
        """Draw a state for a terminal."""
        return to_text(self.maze, scene)

    def new_picture(self) -> Picture:
        """Return what draws states as pixels."""
        return Picture(self.maze)


class PacmanEnv(_PacmanDrawing, ArrayEnv[PacmanState]):
    """One game of PAC-Man. For the arguments see `PacmanSettings`.

    ``info["is_success"]`` says at the end of an episode whether the level was won. `state` and `set_state` read and set
    the whole state.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = PacmanSettings(**settings)
        self.games = Games(1, self.settings)
        super().__init__(self.games, render_mode, caption=f"PAC-Man: {self.maze.name}")
        self._restart = np.zeros(1, np.bool_)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one round."""
        games = self.games
        if games.agents[0, kernel.STATUS] != kernel.PLAYING:
            raise PacmanError("the episode is over; call reset() before the next step().")
        games.step(self.check_actions(np.asarray(action).reshape(-1), 1, self.feature_space), self._restart)
        status = games.agents[0, kernel.STATUS]
        terminated, truncated = bool(status in {kernel.WON, kernel.LOST}), bool(status == kernel.CUT_OFF)
        info = {"is_success": bool(status == kernel.WON)} if terminated or truncated else {}
        if self.render_mode == "human":
            self.render()
        return games.observations[0].copy(), float(games.rewards[0]), terminated, truncated, info


class PacmanVectorEnv(_PacmanDrawing, ArrayVectorEnv[PacmanState]):
    """Many games of PAC-Man, stepped by one call of the kernel. For the arguments see `PacmanSettings`.

    Parameters
    ----------
    num_envs
        How many games.
    autoreset_mode
        When a game that is over starts again: at the next step (default), in the same step, or when you reset it. Until
        you do, stepping leaves it as it is, for nothing, and earns 0.
    copy
        Whether observations are copied out. Without copies the array you got is overwritten by the next step.
    """

    metadata = {**ArrayVectorEnv.metadata, "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        self.settings = PacmanSettings(**settings)
        self.games = Games(self.check_number(num_envs), self.settings)
        super().__init__(self.games, num_envs, render_mode, autoreset_mode, copy)
        self._over = np.zeros(num_envs, np.bool_)
        self._nowhere = np.zeros(num_envs, np.bool_)

    def set_state(self, i: int, state: PacmanState) -> NDArray[np.float32]:
        """Put game i into a state and return its observation."""
        observation = super().set_state(i, state)
        self._over[i] = False
        return observation

    def restore_rows(self, rows: NDArray[np.intp], saved: SavedRows) -> None:
        """Put games into copied states."""
        super().restore_rows(rows, saved)
        self._over[rows] = self.games.status[rows] != kernel.PLAYING

    def start(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        """Begin new games where `mask` is set."""
        super().start(mask, seeds)
        self._over[mask] = False

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play one round in every game."""
        games = self.games
        checked = self.check_actions(np.asarray(actions), self.num_envs, self.feature_space)
        games.step(checked, self._over if self.autoreset_mode is AutoresetMode.NEXT_STEP else self._nowhere)
        status = games.status.copy()  # one column of an array: comparing a copy is faster
        truncated = status == kernel.CUT_OFF
        over = status != kernel.PLAYING
        terminated = over & ~truncated
        rewards = games.rewards.copy()
        infos: dict[str, Any] = {}
        if over.any():
            infos = {"is_success": status == kernel.WON, "_is_success": over}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = self.restart_now(over, infos)
        self._over = np.zeros_like(over) if self.autoreset_mode is AutoresetMode.SAME_STEP else over
        return self.observations(), rewards, terminated, truncated, infos


def read_ending(last: LastStep) -> str | None:
    """Return how a game ended: won, caught by which ghost, or out of time; None while it is not over."""
    games: Games = last.env.games
    agents = games.agents[last.row].tolist()  # plain numbers are faster than an array's
    status = agents[kernel.STATUS]
    if status == kernel.WON:
        return "success: it eats all food"
    if status == kernel.CUT_OFF:
        return "time limit: time runs out with food left"
    x, y = 2 * games.tables.x[agents[kernel.PACMAN]], 2 * games.tables.y[agents[kernel.PACMAN]]
    for number, first in enumerate(range(kernel.GHOSTS, len(agents), kernel.GHOST_COLUMNS)):
        gap = abs(agents[first + kernel.X] - x) + abs(agents[first + kernel.Y] - y)
        if status == kernel.LOST and agents[first + kernel.TIMER] == 0 and gap <= kernel.CONTACT:
            return f"failure: ghost {number} catches it"
    return None


def read_terms(last: LastStep, total: float, steps: int) -> dict[str, float]:
    """Return the parts of the score of a game: food, steps, winning, being caught, and the rest."""
    games: Games = last.env.games
    agents = games.agents[last.row].tolist()
    eaten = len(games.maze.food) - agents[kernel.FOOD_LEFT]
    status = agents[kernel.STATUS]
    terms = {
        "food": kernel.FOOD_SCORE * eaten,
        "steps": -kernel.STEP_COST * steps,
        "winning": kernel.WIN_SCORE * bool(status == kernel.WON),
        "being caught": -kernel.LOSE_COST * bool(status == kernel.LOST),
    }
    rest = "ghosts eaten and illegal moves" if games.rules.illegal_move_penalty else "ghosts eaten"
    return {**terms, rest: total - sum(terms.values())}
