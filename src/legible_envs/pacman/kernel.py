"""The rules of PAC-Man and its observation, compiled with numba, for whole batches of games.

One game is a row of three arrays:

- ``agents`` int32: Pac-Man's cell, his heading (for pictures only), food left, steps, status, and then for every ghost
  x, y (both counted in half cells, so that all positions are whole numbers), heading and scared timer;
- ``pellets`` uint8, a number for every cell: `FOOD`, `CAPSULE` or nothing;
- ``keys`` uint64: the random stream of the episode.

A ghost's random number depends on the key, the step and the ghost alone (a counter-based generator), so an episode is
a function of its seed and its actions, whatever happens in the rest of the batch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible.streams import next_key, uniform
from legible_envs.compiled import compiled, inlined
from legible_envs.pacman.maze import MAX_GHOSTS, Tables

# Columns of `agents`.
PACMAN, FACING, FOOD_LEFT, STEPS, STATUS, GHOSTS = 0, 1, 2, 3, 4, 5
X, Y, HEADING, TIMER, GHOST_COLUMNS = 0, 1, 2, 3, 4
# Values of STATUS.
PLAYING, WON, LOST, CUT_OFF = 0, 1, 2, 3
# Values in `pellets`.
FOOD, CAPSULE = 1, 2
# Directions and actions.
NORTH, SOUTH, EAST, WEST, STOP = 0, 1, 2, 3, 4

STEP_COST = 1.0
FOOD_SCORE = 10.0
WIN_SCORE = 500.0
GHOST_SCORE = 200.0
LOSE_COST = 500.0
FRIGHT = 40
# Contact is a Manhattan distance of at most 0.7 cells: one half cell, since positions are whole or half cells.
CONTACT = 1
# tan 67.5°, where a compass sector of 45° ends. It is irrational, so no bearing lies on the border of two sectors.
SECTOR_SLOPE = 1.0 + np.sqrt(2.0)

# Places in the observation: first what is near Pac-Man, then the same features for each ghost, then his surroundings.
# A first step takes five places: one for each direction, and one for "stay".
NEAR_UNSCARED, NEAR_SCARED, CAPSULE_STEP, CAPSULE_LENGTH, FOOD_LENGTH, FOOD_STEP = 0, 1, 2, 7, 8, 9
FIRST_GHOST = 14
# … of a ghost, counted from its first feature. A bearing takes eight places, a heading five.
HERE, BEARING, GHOST_STEP, GHOST_LENGTH, GHOST_HEADING = 0, 1, 9, 14, 15
SCARED, TIME_LEFT, GHOST_X, GHOST_Y = 20, 21, 22, 23
GHOST_FEATURES = 24
# … after the ghosts, counted from there: whether each direction is open, whether stopping is possible (always), place.
OPEN, CAN_STOP, PACMAN_X, PACMAN_Y = 0, 4, 5, 6


Agents: TypeAlias = NDArray[np.int32]
"""The row of numbers of one game: Pac-Man's cell, food left, status, and columns of every ghost."""
Pellets: TypeAlias = NDArray[np.uint8]
"""The pellets of one game, a number per cell."""
Observation: TypeAlias = NDArray[np.float32]
"""The features that one game shows."""


class Rules(NamedTuple):
    """Settings of a game that the kernel needs."""

    attack: float
    flee: float
    illegal_move_penalty: float
    step_cap: int


@compiled
def ghost_draw(key: np.uint64, step: int, ghost: int) -> float:
    """Return the random number in [0, 1) of a ghost in a step."""
    return uniform(key, np.uint64(step * MAX_GHOSTS + ghost))


@inlined
def _touch(tables: Tables, agents: Agents, g: int) -> float:
    """Let Pac-Man meet ghost g if they are in contact, and return the reward of that; `agents` is changed in place."""
    first = GHOSTS + g * GHOST_COLUMNS
    pac = agents[PACMAN]
    gap = abs(agents[first + X] - 2 * tables.x[pac]) + abs(agents[first + Y] - 2 * tables.y[pac])
    if gap > CONTACT:
        return 0.0
    if agents[first + TIMER] > 0:  # a scared ghost is eaten and returns to where it starts
        start = tables.ghost_start[g]
        agents[first + X] = 2 * tables.x[start]
        agents[first + Y] = 2 * tables.y[start]
        agents[first + HEADING] = STOP
        agents[first + TIMER] = 0
        return GHOST_SCORE
    if agents[STATUS] == WON:
        return 0.0
    agents[STATUS] = LOST
    return -LOSE_COST


@inlined
def _move_pacman(tables: Tables, rules: Rules, agents: Agents, pellets: Pellets, n_ghosts: int, action: int) -> float:
    """Move Pac-Man, let him eat what he finds, and return the reward of his half of a round.

    Parameters
    ----------
    tables, rules
        Look-up tables of the maze, in which cells are numbered; settings of the game.
    agents
        The game's row of numbers: Pac-Man's cell, the food left, the status, and four columns per ghost. Changed in
        place.
    pellets
        ``[cells]``: FOOD, CAPSULE or 0. Changed in place.
    n_ghosts
        Number of ghosts.
    action
        NORTH, SOUTH, EAST, WEST or STOP.
    """
    reward = -STEP_COST
    if action != STOP:
        cell = tables.neighbour[agents[PACMAN], action]
        agents[FACING] = action
        if cell >= 0:
            agents[PACMAN] = cell
        else:  # a wall
            reward -= rules.illegal_move_penalty
    pac = agents[PACMAN]
    if pellets[pac] == FOOD:
        reward += FOOD_SCORE
        agents[FOOD_LEFT] -= 1
        if agents[FOOD_LEFT] == 0:
            reward += WIN_SCORE
            agents[STATUS] = WON
    elif pellets[pac] == CAPSULE:  # it scares all ghosts
        for g in range(n_ghosts):
            agents[GHOSTS + g * GHOST_COLUMNS + TIMER] = FRIGHT
    pellets[pac] = 0
    for g in range(n_ghosts):
        reward += _touch(tables, agents, g)
    return reward


@inlined
def _legal_directions(tables: Tables, x: int, y: int, heading: int) -> int:
    """Return the directions open to a ghost at (x, y), in half cells, as a set of bits: bit d for direction d."""
    if (x & 1) or (y & 1):  # between two cells it goes on
        return 1 << heading
    cell = tables.cell_at[x >> 1, y >> 1]
    legal = 0
    for direction in range(4):
        if tables.neighbour[cell, direction] >= 0:
            legal |= 1 << direction
    # A ghost turns back in dead ends only. North/South and East/West differ in the last bit, so the reverse of a
    # heading is heading ^ 1.
    if heading != STOP and legal & ~(1 << (heading ^ 1)):
        legal &= ~(1 << (heading ^ 1))
    return legal


@inlined
def _choose(legal: int, x: int, y: int, speed: int, pac_x: int, pac_y: int, scared: bool, p: float, draw: float) -> int:
    """Return the direction that a ghost takes; STOP if it is walled in.

    With probability p it takes one of the best directions (towards Pac-Man, or away from him while it is scared),
    otherwise any legal one.

    Parameters
    ----------
    legal
        The legal directions as a set of bits: bit d for direction d.
    x, y, speed
        Where the ghost is and how far it moves, in half cells.
    pac_x, pac_y
        Where Pac-Man is, in half cells.
    scared
        Whether the ghost is scared.
    p
        Probability of a best direction.
    draw
        Random number in [0, 1) that decides.
    """
    # Find the best directions by the distance to Pac-Man after the move, again as a set of bits.
    n_legal = 0
    n_best = 0
    best = 0
    best_gap = 0
    last = STOP
    for direction in range(4):
        if not legal & (1 << direction):
            continue
        n_legal += 1
        last = direction
        move = speed if direction in (NORTH, EAST) else -speed
        dx = x - pac_x + (move if direction >= EAST else 0)
        dy = y - pac_y + (move if direction < EAST else 0)
        gap = abs(dx) + abs(dy)
        if scared:
            gap = -gap
        if n_best == 0 or gap < best_gap:
            best_gap = gap
            best = 1 << direction
            n_best = 1
        elif gap == best_gap:
            best |= 1 << direction
            n_best += 1
    if n_legal <= 1:
        return last
    # Take the direction at which the summed probabilities exceed the random number.
    total = 0.0
    for direction in range(4):
        if legal & (1 << direction):
            total += (1.0 - p) / n_legal
            if best & (1 << direction):
                total += p / n_best
            if draw < total:
                return direction
    return last


@inlined
def _move_ghost(tables: Tables, rules: Rules, agents: Agents, g: int, draw: float) -> float:
    """Move ghost g, and return the reward if it meets Pac-Man.

    `agents` is the game's row of numbers and is changed in place; positions of ghosts are in half cells. `draw` is a
    random number in [0, 1) that decides where the ghost goes.
    """
    first = GHOSTS + g * GHOST_COLUMNS  # the ghost's columns in `agents`
    x, y, timer = agents[first + X], agents[first + Y], agents[first + TIMER]
    pac = agents[PACMAN]
    # A scared ghost flees at half the speed.
    scared = timer > 0
    speed = 1 if scared else 2
    legal = _legal_directions(tables, x, y, agents[first + HEADING])
    p = rules.flee if scared else rules.attack
    heading = _choose(legal, x, y, speed, 2 * tables.x[pac], 2 * tables.y[pac], scared, p, draw)
    if heading != STOP:  # a ghost that is walled in stays
        move = speed if heading in (NORTH, EAST) else -speed
        if heading < EAST:
            y += move
        else:
            x += move
        agents[first + HEADING] = heading
    if timer == 1:  # fright ends: snap to int(x + 0.5), so that the ghost is on a cell when it is fast again
        x = (x + 1) & ~1
        y = (y + 1) & ~1
    agents[first + X] = x
    agents[first + Y] = y
    agents[first + TIMER] = max(0, timer - 1)
    return _touch(tables, agents, g)


@inlined
def play_round(
    tables: Tables, rules: Rules, agents: Agents, pellets: Pellets, draws: NDArray[np.float64], action: int
) -> float:
    """Play one step of one game, with a random number for every ghost, and return the reward."""
    n_ghosts = draws.size
    agents[STEPS] += 1
    reward = _move_pacman(tables, rules, agents, pellets, n_ghosts, action)
    for g in range(n_ghosts):
        if agents[STATUS] != PLAYING:
            break
        reward += _move_ghost(tables, rules, agents, g, draws[g])
    if agents[STATUS] == PLAYING and agents[STEPS] >= rules.step_cap:
        agents[STATUS] = CUT_OFF
    return reward


@inlined
def _compass(dx: int, dy: int) -> int:
    """Return the sector 0–7 (N, NE, E, SE, S, SW, W, NW) in which an offset lies; it must not be zero."""
    ax, ay = abs(dx), abs(dy)
    if ay > ax * SECTOR_SLOPE:
        return 0 if dy > 0 else 4
    if ax > ay * SECTOR_SLOPE:
        return 2 if dx > 0 else 6
    if dx > 0:
        return 1 if dy > 0 else 3
    return 7 if dy > 0 else 5


@inlined
def _nearest_cell(tables: Tables, pac: int, x: int, y: int) -> int:
    """Return the cell of a ghost at (x, y), in half cells; between two cells the one nearer to Pac-Man by path."""
    first = tables.cell_at[x >> 1, y >> 1]
    if not ((x & 1) or (y & 1)):
        return first
    second = tables.cell_at[(x + 1) >> 1, (y + 1) >> 1]
    return second if tables.rank[pac, second] < tables.rank[pac, first] else first


@inlined
def _observe_ghost(tables: Tables, agents: Agents, g: int, out: Observation) -> None:
    """Write the features of ghost g into an observation, and count it if it is near Pac-Man.

    `tables` are look-up tables of the maze, `agents` the game's row of numbers, and `out` is the observation
    ``[features]``, which was zero before. The capital names are places in it.
    """
    first = GHOSTS + g * GHOST_COLUMNS  # the ghost's columns in `agents`
    x, y, timer = agents[first + X], agents[first + Y], agents[first + TIMER]  # place in half cells
    pac = agents[PACMAN]
    dx, dy = x - 2 * tables.x[pac], y - 2 * tables.y[pac]
    if abs(dx) + abs(dy) <= 2:  # at most one cell away
        out[NEAR_SCARED if timer > 0 else NEAR_UNSCARED] += 1.0
    to = FIRST_GHOST + g * GHOST_FEATURES
    # Where it lies from Pac-Man.
    if abs(dx) <= CONTACT and abs(dy) <= CONTACT:
        out[to + HERE] = 1.0
    else:
        out[to + BEARING + _compass(dx, dy)] = 1.0
    # The shortest path to it: first step and length.
    cell = _nearest_cell(tables, pac, x, y)
    step = tables.first_step[pac, cell]
    if step >= 0:
        out[to + GHOST_STEP + step] = 1.0
        out[to + GHOST_LENGTH] = tables.distance[pac, cell] + (0.5 if (x & 1) or (y & 1) else 0.0)
    else:  # walled in; the same values as for food when none is left
        out[to + GHOST_STEP + STOP] = 1.0
        out[to + GHOST_LENGTH] = tables.out_of_reach
    out[to + GHOST_HEADING + agents[first + HEADING]] = 1.0
    out[to + SCARED] = 1.0 if timer > 0 else 0.0
    out[to + TIME_LEFT] = timer / FRIGHT
    out[to + GHOST_X] = 0.5 * x
    out[to + GHOST_Y] = 0.5 * y


@inlined
def _nearest_food(tables: Tables, pellets: Pellets, pac: int) -> int:
    """Return the closest cell that holds food; there must be some."""
    order = tables.order[pac]
    i = 0
    while pellets[order[i]] != FOOD:
        i += 1
    return order[i]


@inlined
def _nearest_capsule(tables: Tables, pellets: Pellets, capsules: NDArray[np.int16], pac: int) -> int:
    """Return the closest cell that holds a capsule, or −1."""
    nearest = -1
    for i in range(capsules.size):
        cell = capsules[i]
        if pellets[cell] == CAPSULE and (nearest < 0 or tables.rank[pac, cell] < tables.rank[pac, nearest]):
            nearest = cell
    return nearest


@inlined
def _observe(
    tables: Tables, agents: Agents, pellets: Pellets, n_ghosts: int, capsules: NDArray[np.int16], out: Observation
) -> None:
    """Write the observation of one game into `out`; the capital names are places in it.

    Parameters
    ----------
    tables
        Look-up tables of the maze, in which cells are numbered.
    agents, pellets
        The game: its row of numbers, and ``[cells]`` with FOOD, CAPSULE or 0.
    n_ghosts
        Number of ghosts.
    capsules
        The cells in which capsules lie at the start.
    out
        ``[features]``.
    """
    for place in range(out.size):
        out[place] = 0.0
    pac = agents[PACMAN]
    capsule = _nearest_capsule(tables, pellets, capsules, pac)
    out[CAPSULE_LENGTH] = -1.0  # none is left
    if capsule >= 0:
        out[CAPSULE_STEP + tables.first_step[pac, capsule]] = 1.0
        out[CAPSULE_LENGTH] = tables.distance[pac, capsule]
    if agents[FOOD_LEFT] > 0:
        food = _nearest_food(tables, pellets, pac)
        out[FOOD_LENGTH] = tables.distance[pac, food]
        out[FOOD_STEP + tables.first_step[pac, food]] = 1.0
    else:
        out[FOOD_LENGTH] = tables.out_of_reach
        out[FOOD_STEP + STOP] = 1.0
    for g in range(n_ghosts):
        _observe_ghost(tables, agents, g, out)
    after_ghosts = FIRST_GHOST + n_ghosts * GHOST_FEATURES
    for direction in range(4):
        out[after_ghosts + OPEN + direction] = 1.0 if tables.neighbour[pac, direction] >= 0 else 0.0
    out[after_ghosts + CAN_STOP] = 1.0
    out[after_ghosts + PACMAN_X] = tables.x[pac]
    out[after_ghosts + PACMAN_Y] = tables.y[pac]


@compiled
def observe_batch(
    tables: Tables,
    agents: NDArray[np.int32],
    pellets: NDArray[np.uint8],
    capsules: NDArray[np.int16],
    rows: NDArray[np.intp],
    observations: NDArray[np.float32],
) -> None:
    """Write the observations of some games."""
    n_ghosts = tables.ghost_start.size
    for i in rows:
        _observe(tables, agents[i], pellets[i], n_ghosts, capsules, observations[i])


@compiled
def step_batch(
    tables: Tables,
    rules: Rules,
    agents: NDArray[np.int32],
    pellets: NDArray[np.uint8],
    keys: NDArray[np.uint64],
    capsules: NDArray[np.int16],
    start_agents: NDArray[np.int32],
    start_pellets: NDArray[np.uint8],
    actions: NDArray[np.int64],
    restart: NDArray[np.bool_],
    observations: NDArray[np.float32],
    rewards: NDArray[np.float64],
    draws: NDArray[np.float64],
) -> None:
    """Play a round in every game that is not over, or begin a new episode, all in place.

    Parameters
    ----------
    tables, rules
        Look-up tables of the maze; settings of the game.
    agents, pellets, keys
        ``[n, columns]``, ``[n, cells]`` and ``[n]``: the games, see the beginning of this module.
    capsules
        The cells in which capsules lie at the start.
    start_agents, start_pellets
        ``[columns]`` and ``[cells]``: a game at its start.
    actions
        ``[n]``: NORTH, SOUTH, EAST, WEST or STOP.
    restart
        ``[n]``: where to begin a new episode instead, with the next random stream and the reward 0.
    observations, rewards
        ``[n, features]`` and ``[n]``, written. A game that is over keeps its observation and gets the reward 0.
    draws
        ``[ghosts]``: room for random numbers.
    """
    n_ghosts = tables.ghost_start.size
    for i in range(agents.shape[0]):
        if restart[i]:
            keys[i] = next_key(keys[i])
            for column in range(start_agents.size):
                agents[i, column] = start_agents[column]
            for cell in range(start_pellets.size):
                pellets[i, cell] = start_pellets[cell]
            rewards[i] = 0.0
        elif agents[i, STATUS] != PLAYING:
            rewards[i] = 0.0
            continue
        else:
            # One random number per ghost, which depends on the episode and the step only.
            for g in range(n_ghosts):
                draws[g] = ghost_draw(keys[i], agents[i, STEPS], g)
            rewards[i] = play_round(tables, rules, agents[i], pellets[i], draws, actions[i])
        _observe(tables, agents[i], pellets[i], n_ghosts, capsules, observations[i])
