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

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.streams import next_key, uniform
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

BLOCK = 24  # features of a ghost
OWN_FEATURES = 14  # features before the first ghost's block
TAIL_FEATURES = 7


class Rules(NamedTuple):
    """Settings of a game that the kernel needs."""

    attack: float
    flee: float
    illegal_move_penalty: float
    step_cap: int


@njit(cache=True)
def ghost_draw(key: np.uint64, step: int, ghost: int) -> float:
    """Return the random number in [0, 1) of a ghost in a step."""
    return uniform(key, np.uint64(step * MAX_GHOSTS + ghost))


@njit(cache=True)
def _touch(tables: Tables, agents: NDArray[np.int32], g: int) -> float:
    """Let Pac-Man meet ghost g if they are in contact, and return what it scores."""
    at = GHOSTS + g * GHOST_COLUMNS
    pac = agents[PACMAN]
    gap = abs(agents[at + X] - 2 * tables.x[pac]) + abs(agents[at + Y] - 2 * tables.y[pac])
    if gap > CONTACT:
        return 0.0
    if agents[at + TIMER] > 0:
        start = tables.ghost_start[g]
        agents[at + X] = 2 * tables.x[start]
        agents[at + Y] = 2 * tables.y[start]
        agents[at + HEADING] = STOP
        agents[at + TIMER] = 0
        return GHOST_SCORE
    if agents[STATUS] == WON:
        return 0.0
    agents[STATUS] = LOST
    return -LOSE_COST


@njit(cache=True)
def _move_pacman(
    tables: Tables, rules: Rules, agents: NDArray[np.int32], pellets: NDArray[np.uint8], n_ghosts: int, action: int
) -> float:
    """Pac-Man's half of a round; returns its reward."""
    reward = -STEP_COST
    if action != STOP:
        cell = tables.neighbour[agents[PACMAN], action]
        agents[FACING] = action
        if cell >= 0:
            agents[PACMAN] = cell
        else:
            reward -= rules.illegal_move_penalty
    pac = agents[PACMAN]
    if pellets[pac] == FOOD:
        reward += FOOD_SCORE
        agents[FOOD_LEFT] -= 1
        if agents[FOOD_LEFT] == 0:
            reward += WIN_SCORE
            agents[STATUS] = WON
    elif pellets[pac] == CAPSULE:
        for g in range(n_ghosts):
            agents[GHOSTS + g * GHOST_COLUMNS + TIMER] = FRIGHT
    pellets[pac] = 0
    for g in range(n_ghosts):
        reward += _touch(tables, agents, g)
    return reward


@njit(cache=True)
def _legal_directions(tables: Tables, x: int, y: int, heading: int) -> int:
    """Directions open to a ghost, as a set of bits."""
    if (x & 1) or (y & 1):
        return 1 << heading
    cell = tables.cell_at[x >> 1, y >> 1]
    legal = 0
    for direction in range(4):
        if tables.neighbour[cell, direction] >= 0:
            legal |= 1 << direction
    # North/South and East/West differ in the last bit, so the reverse is heading ^ 1.
    if heading != STOP and legal & ~(1 << (heading ^ 1)):
        legal &= ~(1 << (heading ^ 1))
    return legal


@njit(cache=True)
def _choose(legal: int, x: int, y: int, speed: int, pac_x: int, pac_y: int, scared: bool, p: float, draw: float) -> int:
    """Return the direction a ghost takes: with probability p among the best, else among all legal ones."""
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
        along = speed if direction in (NORTH, EAST) else -speed
        dx = x - pac_x + (along if direction >= EAST else 0)
        dy = y - pac_y + (along if direction < EAST else 0)
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
    total = 0.0
    for direction in range(4):
        if legal & (1 << direction):
            total += (1.0 - p) / n_legal
            if best & (1 << direction):
                total += p / n_best
            if draw < total:
                return direction
    return last


@njit(cache=True)
def _move_ghost(tables: Tables, rules: Rules, agents: NDArray[np.int32], g: int, draw: float) -> float:
    """Ghost g's part of a round; returns its reward."""
    at = GHOSTS + g * GHOST_COLUMNS
    x, y, timer = agents[at + X], agents[at + Y], agents[at + TIMER]
    pac = agents[PACMAN]
    scared = timer > 0
    speed = 1 if scared else 2
    legal = _legal_directions(tables, x, y, agents[at + HEADING])
    p = rules.flee if scared else rules.attack
    heading = _choose(legal, x, y, speed, 2 * tables.x[pac], 2 * tables.y[pac], scared, p, draw)
    if heading != STOP:  # a ghost that is walled in stays
        along = speed if heading in (NORTH, EAST) else -speed
        if heading < EAST:
            y += along
        else:
            x += along
        agents[at + HEADING] = heading
    if timer == 1:  # fright ends: snap to int(x + 0.5), so that the ghost is on a cell when it is fast again
        x = (x + 1) & ~1
        y = (y + 1) & ~1
    agents[at + X] = x
    agents[at + Y] = y
    agents[at + TIMER] = max(0, timer - 1)
    return _touch(tables, agents, g)


@njit(cache=True)
def play_round(
    tables: Tables,
    rules: Rules,
    agents: NDArray[np.int32],
    pellets: NDArray[np.uint8],
    draws: NDArray[np.float64],
    action: int,
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


@njit(cache=True)
def _compass(dx: int, dy: int) -> int:
    """Sector 0–7 (N, NE, E, SE, S, SW, W, NW) in which the offset lies; it must not be zero."""
    ax, ay = abs(dx), abs(dy)
    if ay > ax * SECTOR_SLOPE:
        return 0 if dy > 0 else 4
    if ax > ay * SECTOR_SLOPE:
        return 2 if dx > 0 else 6
    if dx > 0:
        return 1 if dy > 0 else 3
    return 7 if dy > 0 else 5


@njit(cache=True)
def _nearest_cell(tables: Tables, pac: int, x: int, y: int) -> int:
    """Of the cells within 0.7 of a ghost on both axes, the one that is nearest to Pac-Man by path."""
    first = tables.cell_at[x >> 1, y >> 1]
    if not ((x & 1) or (y & 1)):
        return first
    second = tables.cell_at[(x + 1) >> 1, (y + 1) >> 1]
    return second if tables.rank[pac, second] < tables.rank[pac, first] else first


@njit(cache=True)
def _observe_ghost(tables: Tables, agents: NDArray[np.int32], g: int, out: NDArray[np.float32]) -> None:
    """Write the 24 features of ghost g, and count it if it is near."""
    at = GHOSTS + g * GHOST_COLUMNS
    x, y, timer = agents[at + X], agents[at + Y], agents[at + TIMER]
    pac = agents[PACMAN]
    dx, dy = x - 2 * tables.x[pac], y - 2 * tables.y[pac]
    if abs(dx) + abs(dy) <= 2:
        out[1 if timer > 0 else 0] += 1.0
    to = OWN_FEATURES + g * BLOCK
    if abs(dx) <= CONTACT and abs(dy) <= CONTACT:
        out[to] = 1.0
    else:
        out[to + 1 + _compass(dx, dy)] = 1.0
    cell = _nearest_cell(tables, pac, x, y)
    step = tables.first_step[pac, cell]
    if step >= 0:
        out[to + 9 + step] = 1.0
        out[to + 14] = tables.distance[pac, cell] + (0.5 if (x & 1) or (y & 1) else 0.0)
    else:  # walled in; the same values as for food when none is left
        out[to + 9 + STOP] = 1.0
        out[to + 14] = tables.out_of_reach
    out[to + 15 + agents[at + HEADING]] = 1.0
    out[to + 20] = 1.0 if timer > 0 else 0.0
    out[to + 21] = timer / FRIGHT
    out[to + 22] = 0.5 * x
    out[to + 23] = 0.5 * y


@njit(cache=True)
def _nearest_food(tables: Tables, pellets: NDArray[np.uint8], pac: int) -> int:
    """Return the closest cell that holds food; there must be some."""
    order = tables.order[pac]
    i = 0
    while pellets[order[i]] != FOOD:
        i += 1
    return order[i]


@njit(cache=True)
def _nearest_capsule(tables: Tables, pellets: NDArray[np.uint8], capsules: NDArray[np.int16], pac: int) -> int:
    """Return the closest cell that holds a capsule, or −1."""
    nearest = -1
    for i in range(capsules.size):
        cell = capsules[i]
        if pellets[cell] == CAPSULE and (nearest < 0 or tables.rank[pac, cell] < tables.rank[pac, nearest]):
            nearest = cell
    return nearest


@njit(cache=True)
def _observe(
    tables: Tables,
    agents: NDArray[np.int32],
    pellets: NDArray[np.uint8],
    n_ghosts: int,
    capsules: NDArray[np.int16],
    out: NDArray[np.float32],
) -> None:
    """Write the observation of one game."""
    out[:] = 0.0
    pac = agents[PACMAN]
    capsule = _nearest_capsule(tables, pellets, capsules, pac)
    out[7] = -1.0
    if capsule >= 0:
        out[2 + tables.first_step[pac, capsule]] = 1.0
        out[7] = tables.distance[pac, capsule]
    if agents[FOOD_LEFT] > 0:
        food = _nearest_food(tables, pellets, pac)
        out[8] = tables.distance[pac, food]
        out[9 + tables.first_step[pac, food]] = 1.0
    else:
        out[8] = tables.out_of_reach
        out[9 + STOP] = 1.0
    for g in range(n_ghosts):
        _observe_ghost(tables, agents, g, out)
    tail = OWN_FEATURES + n_ghosts * BLOCK
    for direction in range(4):
        out[tail + direction] = 1.0 if tables.neighbour[pac, direction] >= 0 else 0.0
    out[tail + 4] = 1.0
    out[tail + 5] = tables.x[pac]
    out[tail + 6] = tables.y[pac]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
) -> None:
    """Play a round in every game that is not over; where `restart` is set, begin a new episode instead (reward 0)."""
    n_ghosts = tables.ghost_start.size
    draws = np.empty(n_ghosts, np.float64)
    for i in range(agents.shape[0]):
        if restart[i]:
            keys[i] = next_key(keys[i])
            agents[i, :] = start_agents
            pellets[i, :] = start_pellets
            rewards[i] = 0.0
        elif agents[i, STATUS] != PLAYING:
            rewards[i] = 0.0
            continue
        else:
            for g in range(n_ghosts):
                draws[g] = ghost_draw(keys[i], agents[i, STEPS], g)
            rewards[i] = play_round(tables, rules, agents[i], pellets[i], draws, actions[i])
        _observe(tables, agents[i], pellets[i], n_ghosts, capsules, observations[i])
