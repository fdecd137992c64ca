"""Games in arrays: the state of PAC-Man, its settings, and the batch that both environments share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.streams import check_seed, key_of_seed, next_key
from legible_envs.pacman import kernel
from legible_envs.pacman.features import pacman_features
from legible_envs.pacman.maze import Cell, Maze, load_maze, maze_tables


class PacmanError(LegibleError):
    """A setting, an action or a state that PAC-Man does not have."""


@dataclass(frozen=True)
class GhostState:
    """The position of a ghost (in cells; half cells while scared), its heading and its remaining scared time."""

    x: float
    y: float
    heading: int = kernel.STOP
    timer: int = 0


@dataclass(frozen=True)
class PacmanState:
    """The whole state of a game. Two games with equal states, given equal actions, go the same way."""

    pacman: Cell
    ghosts: tuple[GhostState, ...]
    food: frozenset[Cell]
    capsules: frozenset[Cell]
    steps: int = 0
    stream: int = 0
    facing: int = kernel.STOP


@dataclass(frozen=True)
class PacmanSettings:
    """Everything that makes one PAC-Man game differ from another.

    Parameters
    ----------
    maze
        A level ("small", "medium", "original"), the path of a ``.lay`` or ``.board`` file, or a maze's text.
    capsules
        Whether the maze's capsules are put out.
    attack, flee
        Probability with which a ghost goes straight for Pac-Man, and straight away from him while it is scared.
    illegal_move_penalty
        What a move into a wall costs beyond the step itself.
    step_cap
        Steps after which an episode is cut off.
    """

    maze: str | Path | Maze = "small"
    capsules: bool = True
    attack: float = 0.2
    flee: float = 0.2
    illegal_move_penalty: float = 0.0
    step_cap: int = 400

    def __post_init__(self) -> None:
        for name in ("attack", "flee"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise PacmanError(f"{name} is a probability between 0 and 1, got {value}.")
        if not 0.0 <= self.illegal_move_penalty < np.inf:
            raise PacmanError(f"illegal_move_penalty must be 0 or a positive number, got {self.illegal_move_penalty}.")
        if isinstance(self.step_cap, bool) or int(self.step_cap) != self.step_cap or not 1 <= self.step_cap < 2**31:
            raise PacmanError(f"step_cap must be a whole number of at least 1, got {self.step_cap}.")

    def load_maze(self) -> Maze:
        """Read the maze, with or without its capsules."""
        maze = load_maze(self.maze)
        return maze if self.capsules else replace(maze, capsules=frozenset())

    def rules(self) -> kernel.Rules:
        """Return the numbers that the kernel needs."""
        return kernel.Rules(float(self.attack), float(self.flee), float(self.illegal_move_penalty), int(self.step_cap))


class Games:
    """A batch of games in arrays: what both environments share."""

    def __init__(self, n: int, settings: PacmanSettings) -> None:
        self.maze = settings.load_maze()
        self.tables = maze_tables(self.maze)
        self.rules = settings.rules()
        self.feature_space: FeatureSpace = pacman_features(len(self.maze.ghosts))
        self.capsules = np.array(sorted(self._cell(c) for c in self.maze.capsules), np.int16)
        ghosts = tuple(GhostState(float(x), float(y)) for x, y in self.maze.ghosts)
        start = PacmanState(self.maze.pacman, ghosts, self.maze.food, self.maze.capsules)
        self._start_agents, self._start_pellets = self._rows(start)
        self.agents = np.tile(self._start_agents, (n, 1))
        self.pellets = np.tile(self._start_pellets, (n, 1))
        self.keys: NDArray[np.uint64] = np.random.SeedSequence().generate_state(n, np.uint64).astype(np.uint64)
        self.observations = np.zeros((n, len(self.feature_space)), np.float32)
        self.rewards = np.zeros(n, np.float64)
        self._draws = np.zeros(len(self.maze.ghosts))

    def _cell(self, cell: Cell) -> int:
        x, y = cell
        inside = 0 <= x < self.maze.width and 0 <= y < self.maze.height
        number = int(self.tables.cell_at[x, y]) if inside else -1
        if number < 0:
            raise PacmanError(f"{cell} is a wall or lies outside the maze.")
        return number

    def _rows(self, state: PacmanState) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Turn a state into a row of `agents` and one of `pellets`."""
        ghosts = [column for ghost in state.ghosts for column in self._ghost_columns(ghost)]
        own = [self._cell(state.pacman), state.facing, len(state.food), state.steps, kernel.PLAYING]
        pellets = np.zeros(len(self.tables.x), np.uint8)
        pellets[[self._cell(cell) for cell in state.food]] = kernel.FOOD
        pellets[[self._cell(cell) for cell in state.capsules]] = kernel.CAPSULE
        return np.array([*own, *ghosts], np.int32), pellets

    def _ghost_columns(self, ghost: GhostState) -> tuple[int, int, int, int]:
        for name, value in (("x", ghost.x), ("y", ghost.y)):
            if not np.isfinite(value) or 2 * value != round(2 * value):
                raise PacmanError(f"a ghost's {name} must be a whole or half cell, got {value}.")
        if ghost.heading not in range(5) or ghost.timer not in range(kernel.FRIGHT + 1):
            raise PacmanError(f"a ghost's heading is 0…4 and its timer 0…{kernel.FRIGHT}, got {ghost}.")
        x, y = round(2 * ghost.x), round(2 * ghost.y)
        if x % 2 or y % 2:
            axis = ((kernel.EAST, kernel.WEST), (kernel.NORTH, kernel.SOUTH))[y % 2]
            if (x % 2 and y % 2) or ghost.timer == 0 or ghost.heading not in axis:
                raise PacmanError(f"only a scared ghost on its way can be between two cells, got {ghost}.")
        self._cell((x // 2, y // 2))
        self._cell((-(-x // 2), -(-y // 2)))
        return x, y, ghost.heading, ghost.timer

    def state(self, i: int) -> PacmanState:
        """Read the state of game i."""
        agents, pellets, tables = self.agents[i], self.pellets[i], self.tables

        def cells(kind: int) -> frozenset[Cell]:
            return frozenset((int(tables.x[c]), int(tables.y[c])) for c in np.flatnonzero(pellets == kind))

        ghosts = agents[kernel.GHOSTS :].reshape(-1, kernel.GHOST_COLUMNS).tolist()
        pac = agents[kernel.PACMAN]
        return PacmanState(
            pacman=(int(tables.x[pac]), int(tables.y[pac])),
            ghosts=tuple(GhostState(x / 2, y / 2, heading, timer) for x, y, heading, timer in ghosts),
            food=cells(kernel.FOOD),
            capsules=cells(kernel.CAPSULE),
            steps=int(agents[kernel.STEPS]),
            stream=int(self.keys[i]),
            facing=int(agents[kernel.FACING]),
        )

    def set_state(self, i: int, state: PacmanState) -> None:
        """Put game i into a state, in which it goes on playing; raise for a state that cannot occur in this maze."""
        # All ghosts are there, some food is left, and capsules lie only where the maze has them.
        if len(state.ghosts) != len(self.maze.ghosts):
            raise PacmanError(f"this maze has {len(self.maze.ghosts)} ghosts, the state has {len(state.ghosts)}.")
        if not state.food:
            raise PacmanError("a state without food is over and cannot be set.")
        misplaced = sorted(state.capsules - self.maze.capsules) or sorted(state.food & state.capsules)
        if misplaced:
            raise PacmanError(f"there can be no capsule at {misplaced[0]}; this maze has {sorted(self.maze.capsules)}.")

        # Numbers in their ranges.
        if not 0 <= state.steps < self.rules.step_cap:
            raise PacmanError(
                f"steps must be at least 0 and below the cap of {self.rules.step_cap}, got {state.steps}."
            )
        if state.facing not in range(5) or not 0 <= state.stream < 2**64:
            raise PacmanError(
                f"facing is 0…4 and stream an unsigned 64-bit number, got {state.facing}, {state.stream}."
            )

        # The game can be won.
        pacman = self._cell(state.pacman)
        unreachable = [cell for cell in state.food if self.tables.distance[pacman, self._cell(cell)] < 0]
        if unreachable:
            raise PacmanError(f"Pac-Man at {state.pacman} cannot reach the food at {unreachable[0]}.")
        self.agents[i], self.pellets[i] = self._rows(state)
        self.keys[i] = state.stream
        self.observe(np.array([i]))

    def start(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        """Begin new episodes where `mask` is set; without a seed the game's own stream moves on."""
        rows = np.flatnonzero(mask)
        for i in rows.tolist():
            seed = seeds[i]
            self.keys[i] = next_key(self.keys[i]) if seed is None else key_of_seed(np.uint64(check_seed(seed) % 2**64))
        self.agents[rows] = self._start_agents
        self.pellets[rows] = self._start_pellets
        self.observe(rows)

    def observe(self, rows: NDArray[np.intp]) -> None:
        """Fill `observations` for some of the games."""
        kernel.observe_batch(self.tables, self.agents, self.pellets, self.capsules, rows, self.observations)

    def step(self, actions: NDArray[np.int64], restart: NDArray[np.bool_]) -> None:
        """Play a round in every game, or start a new episode where `restart` is set."""
        kernel.step_batch(
            self.tables,
            self.rules,
            self.agents,
            self.pellets,
            self.keys,
            self.capsules,
            self._start_agents,
            self._start_pellets,
            actions,
            restart,
            self.observations,
            self.rewards,
            self._draws,
        )

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All that the course of the games depends on, and what they show."""
        return self.agents, self.pellets, self.keys, self.observations

    @property
    def status(self) -> NDArray[np.int32]:
        """The status of every game: playing, won, lost or cut off."""
        return self.agents[:, kernel.STATUS]

    def observation_box(self) -> spaces.Space[NDArray[np.float32]]:
        """Bounds of the observation: flags 0…1, lengths, coordinates and counts as the maze allows."""
        high = np.ones(len(self.feature_space), np.float32)
        low = np.zeros(len(self.feature_space), np.float32)
        longest = max(int(self.tables.distance.max()) + 1, self.maze.width, self.maze.height)
        for i, feature in enumerate(self.feature_space.features):
            if feature.kind == "numeric" and not feature.name.endswith(".timer"):
                high[i] = longest
                low[i] = min(feature.sentinels, default=0.0)
        return cast("spaces.Space[NDArray[np.float32]]", spaces.Box(low, high, dtype=np.float32))
