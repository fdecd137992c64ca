"""The PAC-Man game in plain Python: slow, literal, and the oracle for anything faster.

Nothing is tabulated. Every observation searches the maze breadth-first from Pac-Man's cell, positions are tuples,
food and capsules are sets, and a state is an immutable value. The only randomness is one number in [0, 1) for each
ghost in each round, and the caller supplies it.

- `Ghost`, `State`: the situation as a value
- `Reference`: the game
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

Cell = tuple[int, int]

NORTH, SOUTH, EAST, WEST, STOP = range(5)
COMPASS = (NORTH, SOUTH, EAST, WEST)
STEP = {NORTH: (0, 1), SOUTH: (0, -1), EAST: (1, 0), WEST: (-1, 0), STOP: (0, 0)}
REVERSE = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST, STOP: STOP}

STEP_COST = 1.0
FOOD_REWARD = 10.0
WIN_REWARD = 500.0
LOSS_COST = 500.0
GHOST_REWARD = 200.0
SCARED_TIME = 40
CONTACT = 0.7


@dataclass(frozen=True)
class Ghost:
    """The position of a ghost, its heading (0 N, 1 S, 2 E, 3 W, 4 Stop) and its remaining scared time."""

    x: float
    y: float
    heading: int
    timer: int


@dataclass(frozen=True)
class State:
    """Everything that changes during an episode."""

    pacman: Cell
    ghosts: tuple[Ghost, ...]
    food: frozenset[Cell]
    capsules: frozenset[Cell]
    steps: int = 0


class Reference:
    """One game of PAC-Man on one maze.

    Parameters
    ----------
    maze
        The grid as text: ``%`` wall, ``.`` food, ``o`` capsule, ``P`` or ``0`` Pac-Man, ``G`` or ``1``-``4`` ghost,
        anything else empty. The last line is y = 0. Outside the grid everything is wall.
    attack, flee
        Probability with which an unscared / a scared ghost picks among its best directions.
    illegal_move_penalty
        Taken off the reward when Pac-Man runs into a wall, besides the cost of the step.
    step_cap
        The episode is truncated after this many steps.
    capsules
        Whether the capsules of the maze are used.
    """

    def __init__(
        self,
        maze: str,
        *,
        attack: float = 0.2,
        flee: float = 0.2,
        illegal_move_penalty: float = 0.0,
        step_cap: int = 400,
        capsules: bool = True,
    ) -> None:
        rows = maze.strip("\n").splitlines()
        self.width = len(rows[0])
        self.height = len(rows)
        cells = {(x, y): sign for y, row in enumerate(reversed(rows)) for x, sign in enumerate(row)}
        self._attack = attack
        self._flee = flee
        self._illegal_move_penalty = illegal_move_penalty
        self._step_cap = step_cap
        self._open = frozenset(cell for cell, sign in cells.items() if sign != "%")
        # By their digit, ``G`` counting as 1, and equal ones by (x, y).
        numbered = [(1 if sign == "G" else int(sign), cell) for cell, sign in cells.items() if sign in "G1234"]
        self._ghost_starts = [cell for _, cell in sorted(numbered)]
        self._start = State(
            pacman=next(cell for cell, sign in cells.items() if sign in "P0"),
            ghosts=tuple(Ghost(float(x), float(y), STOP, 0) for x, y in self._ghost_starts),
            food=frozenset(cell for cell, sign in cells.items() if sign == "."),
            capsules=frozenset(cell for cell, sign in cells.items() if sign == "o" and capsules),
        )
        self._state = self._start

    @property
    def state(self) -> State:
        """The situation now; assign one to continue from there."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def reset(self) -> list[float]:
        """Go back to the start; returns the observation."""
        self._state = self._start
        return self.observe()

    def step(self, action: int, uniforms: Sequence[float]) -> tuple[list[float], float, bool, bool]:
        """Play one round: Pac-Man, then the ghosts in order, until the level is won or lost.

        Parameters
        ----------
        action
            0 North, 1 South, 2 East, 3 West, 4 Stop.
        uniforms
            ``uniforms[g]`` in [0, 1) decides the direction of ghost ``g``.

        Returns
        -------
        tuple
            Observation, reward, terminated, truncated.
        """
        state, reward, terminated = self._move_pacman(self._state, action)
        for ghost_index in range(len(state.ghosts)):
            if terminated:
                break
            state, gain, terminated = self._move_ghost(state, ghost_index, uniforms[ghost_index])
            reward += gain
        state = replace(state, steps=state.steps + 1)
        truncated = not terminated and state.steps >= self._step_cap
        self._state = state
        return self.observe(), reward, terminated, truncated

    # ---- The rules --------------------------------------------------------------------------------------------

    def _move_pacman(self, state: State, action: int) -> tuple[State, float, bool]:
        """Pac-Man's part of the round: the state after it, its reward, and whether it ended the level."""
        reward = -STEP_COST
        destination = _neighbour(state.pacman, action)
        if destination in self._open:
            state = replace(state, pacman=destination)
        else:
            reward -= self._illegal_move_penalty

        won = False
        if state.pacman in state.food:
            reward += FOOD_REWARD
            state = replace(state, food=state.food - {state.pacman})
            if not state.food:
                reward += WIN_REWARD
                won = True
        if state.pacman in state.capsules:
            scared = tuple(replace(ghost, timer=SCARED_TIME) for ghost in state.ghosts)
            state = replace(state, capsules=state.capsules - {state.pacman}, ghosts=scared)

        lost = False
        for ghost_index in range(len(state.ghosts)):
            state, gain, caught = self._collide(state, ghost_index, won=won)
            reward += gain
            lost = lost or caught
        return state, reward, won or lost

    def _move_ghost(self, state: State, ghost_index: int, uniform: float) -> tuple[State, float, bool]:
        """One ghost's part of the round: the state after it, its reward, and whether it ended the level."""
        ghost = state.ghosts[ghost_index]
        x, y, heading = ghost.x, ghost.y, ghost.heading
        legal = self._legal_directions(ghost)
        if legal:
            heading = self._choose(ghost, legal, state.pacman, uniform)
            x, y = _moved(ghost, heading)
        # The snap comes after the half step: the other way round a ghost would leave its scared time between two
        # cells and, at full speed with only its heading allowed, run through the walls and never come back.
        if ghost.timer == 1:
            x, y = float(int(x + 0.5)), float(int(y + 0.5))
        timer = max(0, ghost.timer - 1)
        state = _with_ghost(state, ghost_index, Ghost(x, y, heading, timer))
        return self._collide(state, ghost_index, won=False)

    def _collide(self, state: State, ghost_index: int, *, won: bool) -> tuple[State, float, bool]:
        """Settle the contact with one ghost, if any: the state, the reward, and whether Pac-Man was caught."""
        ghost = state.ghosts[ghost_index]
        x, y = state.pacman
        if abs(ghost.x - x) + abs(ghost.y - y) > CONTACT:
            return state, 0.0, False
        if ghost.timer > 0:
            start_x, start_y = self._ghost_starts[ghost_index]
            home = Ghost(float(start_x), float(start_y), STOP, 0)
            return _with_ghost(state, ghost_index, home), GHOST_REWARD, False
        if won:
            return state, 0.0, False
        return state, -LOSS_COST, True

    def _legal_directions(self, ghost: Ghost) -> list[int]:
        """Return the directions open to the ghost in the order N, S, E, W; none when it is walled in."""
        if ghost.x != int(ghost.x) or ghost.y != int(ghost.y):
            return [ghost.heading]
        cell = (int(ghost.x), int(ghost.y))
        possible = [direction for direction in COMPASS if _neighbour(cell, direction) in self._open]
        onward = [direction for direction in possible if direction != REVERSE[ghost.heading]]
        return onward or possible

    def _choose(self, ghost: Ghost, legal: Sequence[int], pacman: Cell, uniform: float) -> int:
        """Invert the cumulative distribution of the ghost's choice at `uniform`."""
        scared = ghost.timer > 0
        distance = {}
        for direction in legal:
            x, y = _moved(ghost, direction)
            distance[direction] = abs(x - pacman[0]) + abs(y - pacman[1])
        wanted = max(distance.values()) if scared else min(distance.values())
        best = [direction for direction in legal if distance[direction] == wanted]
        p = self._flee if scared else self._attack

        chosen = legal[0]
        cumulative = 0.0
        for direction in legal:
            probability = (1 - p) / len(legal)
            if direction in best:
                probability += p / len(best)
            if probability > 0:
                # Kept when rounding leaves the total below the uniform: the last direction that can be taken at all.
                chosen = direction
            cumulative += probability
            if uniform < cumulative:
                break
        return chosen

    # ---- The observation --------------------------------------------------------------------------------------

    def observe(self) -> list[float]:
        """Observation of the state: 14 features, 24 for each ghost, 7 more."""
        state = self._state
        paths = self._paths(state.pacman)
        values = [*self._ghosts_nearby(), *_capsule_features(paths, state.capsules)]
        values += self._food_features(paths)
        for ghost in state.ghosts:
            values += self._ghost_features(paths, ghost)
        values += [float(_neighbour(state.pacman, direction) in self._open) for direction in COMPASS]
        values += [1.0, float(state.pacman[0]), float(state.pacman[1])]
        return values

    def _paths(self, origin: Cell) -> dict[Cell, tuple[int, int]]:
        """Path length and first step to every cell that can be reached, the closest first.

        Neighbours are tried in the order N, S, E, W, so that of several shortest paths the one whose first step comes
        first in that order is found, and of equally close cells the one with the earlier first step is listed first.
        """
        paths = {origin: (0, STOP)}
        queue = deque([origin])
        while queue:
            cell = queue.popleft()
            length, first = paths[cell]
            for direction in COMPASS:
                neighbour = _neighbour(cell, direction)
                if neighbour in self._open and neighbour not in paths:
                    paths[neighbour] = (length + 1, direction if cell == origin else first)
                    queue.append(neighbour)
        return paths

    def _ghosts_nearby(self) -> list[float]:
        x, y = self._state.pacman
        near = [ghost for ghost in self._state.ghosts if abs(ghost.x - x) + abs(ghost.y - y) <= 1]
        scared = sum(ghost.timer > 0 for ghost in near)
        return [float(len(near) - scared), float(scared)]

    def _food_features(self, paths: dict[Cell, tuple[int, int]]) -> list[float]:
        for cell, (length, first) in paths.items():
            if cell in self._state.food:
                return [float(length), *_one_hot(first, 5)]
        return [self._far(), *_one_hot(STOP, 5)]

    def _ghost_features(self, paths: dict[Cell, tuple[int, int]], ghost: Ghost) -> list[float]:
        x, y = self._state.pacman
        dx, dy = ghost.x - x, ghost.y - y
        same_place = abs(dx) <= CONTACT and abs(dy) <= CONTACT
        bearing = [0.0] * 8 if same_place else _one_hot(_sector(dx, dy), 8)
        length, first = self._path_to_ghost(paths, ghost)
        return [
            float(same_place),
            *bearing,
            *_one_hot(first, 5),
            length,
            *_one_hot(ghost.heading, 5),
            float(ghost.timer > 0),
            ghost.timer / SCARED_TIME,
            ghost.x,
            ghost.y,
        ]

    def _path_to_ghost(self, paths: dict[Cell, tuple[int, int]], ghost: Ghost) -> tuple[float, int]:
        for (x, y), (length, first) in paths.items():
            dx, dy = abs(ghost.x - x), abs(ghost.y - y)
            if dx <= CONTACT and dy <= CONTACT:
                return length + dx + dy, first
        return self._far(), STOP

    def _far(self) -> float:
        return float(max(self.width, self.height))


def _neighbour(cell: Cell, direction: int) -> Cell:
    dx, dy = STEP[direction]
    return cell[0] + dx, cell[1] + dy


def _moved(ghost: Ghost, direction: int) -> tuple[float, float]:
    """Return the position of the ghost after a move: half a cell on while scared, otherwise a whole one."""
    speed = 0.5 if ghost.timer > 0 else 1.0
    dx, dy = STEP[direction]
    return ghost.x + speed * dx, ghost.y + speed * dy


def _with_ghost(state: State, ghost_index: int, ghost: Ghost) -> State:
    ghosts = (*state.ghosts[:ghost_index], ghost, *state.ghosts[ghost_index + 1 :])
    return replace(state, ghosts=ghosts)


def _capsule_features(paths: dict[Cell, tuple[int, int]], capsules: frozenset[Cell]) -> list[float]:
    for cell, (length, first) in paths.items():
        if cell in capsules:
            return [*_one_hot(first, 5), float(length)]
    return [0.0] * 5 + [-1.0]


def _sector(dx: float, dy: float) -> int:
    """Eighth of the compass of an offset: 0 N, 1 NE, 2 E, ... 7 NW.

    The borders between sectors have an irrational slope, so no offset in half cells lies on one.
    """
    clockwise_from_north = math.degrees(math.atan2(dx, dy))
    return round(clockwise_from_north / 45) % 8


def _one_hot(index: int, size: int) -> list[float]:
    return [float(position == index) for position in range(size)]
