"""PAC-Man turned and mirrored: mazes, states and batches of games, and rounds in which the ghosts do the same.

- `Symmetry`: a turn, a mirroring and an exchange of ghosts; acts on cells, directions, mazes and states.
- `every_symmetry`: all of them for a number of ghosts.
- `carry`: the image of a whole batch of games, in the image of their maze.
- `play_matched`: one round of games and of their images, with ghosts that choose the same up to the symmetry.
- `tied_steps`: where more than one first step begins a shortest path.
- `sample_games`: states that are met in play.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible_envs.pacman import kernel
from legible_envs.pacman.games import Games, PacmanSettings
from legible_envs.pacman.kernel import GHOST_COLUMNS, GHOSTS, HEADING, PACMAN, PLAYING, STATUS, STOP, TIMER, X, Y
from legible_envs.pacman.maze import STEPS, Maze, Tables

Coordinate = TypeVar("Coordinate", int, float, NDArray[np.int32])
# Share of random moves of players that know where they go.
WANDER = 0.15
_BISECTIONS = 54
_TURNS = ("", "turned by 90° clockwise", "turned by 180°", "turned by 90° counter-clockwise")
_MIRRORS = (
    "mirrored, east and west exchanged",
    "mirrored about the rising diagonal",
    "mirrored, north and south exchanged",
    "mirrored about the falling diagonal",
)


@dataclass(frozen=True)
class Symmetry:
    """Exchange east and west if `mirrored`, then turn by `turns` quarters clockwise; ghost i becomes ``ghosts[i]``.

    Everything in the maze moves with it but the numbers of the cells to which eaten ghosts return: those belong to the
    maze, so a ghost that changes its number changes its home.

    >>> turn = Symmetry(turns=1)
    >>> [turn.direction(d) for d in (0, 2, 1, 3)]  # North, East, South, West
    [2, 1, 3, 0]
    """

    turns: int = 0
    mirrored: bool = False
    ghosts: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """A description of the symmetry for people."""
        what = _MIRRORS[self.turns] if self.mirrored else _TURNS[self.turns]
        maze = f"the maze {what}" if what else "the same maze"
        moved = [f"ghost {i} as ghost {j}" for i, j in enumerate(self.ghosts) if i != j]
        return f"{maze}, {' and '.join(moved)}" if moved else maze

    @property
    def moves_maze(self) -> bool:
        """True if the maze is turned or mirrored."""
        return self.mirrored or self.turns != 0

    @property
    def exchanges_ghosts(self) -> bool:
        """True if a ghost changes its number."""
        return self.ghosts != tuple(range(len(self.ghosts)))

    @cached_property
    def directions(self) -> NDArray[np.int64]:
        """The image of North, South, East, West and Stop."""
        return np.array([*(STEPS.index(self._vector(dx, dy)) for dx, dy in STEPS), STOP], np.int64)

    def _vector(self, dx: int, dy: int) -> tuple[int, int]:
        if self.mirrored:
            dx = -dx
        for _ in range(self.turns):
            dx, dy = dy, -dx
        return dx, dy

    def direction(self, direction: int) -> int:
        """Return the image of a direction or action."""
        return int(self.directions[direction])

    def point(self, x: Coordinate, y: Coordinate, maze: Maze, scale: int = 1) -> tuple[Coordinate, Coordinate]:
        """Return the image of a place in the maze; with ``scale=2`` coordinates count half cells."""
        right, top = scale * (maze.width - 1), scale * (maze.height - 1)
        if self.mirrored:
            x = right - x
        for _ in range(self.turns):
            x, y, right, top = y, right - x, top, right
        return x, y

    def renumber(self, n_ghosts: int) -> NDArray[np.int64]:
        """Return the new number of every ghost."""
        return np.array(self.ghosts or range(n_ghosts), np.int64)

    def maze(self, maze: Maze) -> Maze:
        """Return the image of a maze."""
        across = self.turns % 2 == 1
        return Maze(
            name=maze.name,
            width=maze.height if across else maze.width,
            height=maze.width if across else maze.height,
            walls=frozenset(self.point(*cell, maze) for cell in maze.walls),
            food=frozenset(self.point(*cell, maze) for cell in maze.food),
            capsules=frozenset(self.point(*cell, maze) for cell in maze.capsules),
            pacman=self.point(*maze.pacman, maze),
            ghosts=tuple(self.point(*cell, maze) for cell in maze.ghosts),
        )

    def columns(self, n_ghosts: int, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Put flags of the ghosts, ``bool[n, ghosts]``, into the order of the images."""
        renumbered = np.zeros_like(flags)
        renumbered[:, self.renumber(n_ghosts)] = flags
        return renumbered


def every_symmetry(n_ghosts: int) -> Iterator[Symmetry]:
    """Yield the eight turns and mirrorings with every order of the ghosts, the plainest first."""
    for ghosts in permutations(range(n_ghosts)):
        for mirrored in (False, True):
            for turns in range(4):
                yield Symmetry(turns, mirrored, ghosts)


# --- Batches of games ------------------------------------------------------------------------------------------------


def fork(games: Games, rows: NDArray[np.intp] | None = None) -> Games:
    """Copy a batch of games, or some of its rows; what happens to the copy does not touch the original."""
    other = copy.copy(games)
    chosen = slice(None) if rows is None else rows
    for name in ("agents", "pellets", "keys", "observations", "rewards"):
        setattr(other, name, getattr(games, name)[chosen].copy())
    return other


def carry(games: Games, symmetry: Symmetry, target: Games) -> None:
    """Put the image of every game into `target`, a batch of the same size in the image of the maze, and observe it."""
    tables, maze = games.tables, games.maze
    x, y = symmetry.point(tables.x.astype(np.int32), tables.y.astype(np.int32), maze)
    cells = target.tables.cell_at[x, y].astype(np.intp)
    target.agents[:] = games.agents
    target.agents[:, PACMAN] = cells[games.agents[:, PACMAN]]
    target.agents[:, kernel.FACING] = symmetry.directions[games.agents[:, kernel.FACING]]
    new_number = symmetry.renumber(len(maze.ghosts))
    for g, number in enumerate(new_number.tolist()):
        old, new = GHOSTS + g * GHOST_COLUMNS, GHOSTS + number * GHOST_COLUMNS
        x, y = symmetry.point(games.agents[:, old + X], games.agents[:, old + Y], maze, scale=2)
        target.agents[:, new + X], target.agents[:, new + Y] = x, y
        target.agents[:, new + HEADING] = symmetry.directions[games.agents[:, old + HEADING]]
        target.agents[:, new + TIMER] = games.agents[:, old + TIMER]
    target.pellets[:, cells] = games.pellets
    target.keys[:] = games.keys
    target.observe(np.arange(len(target.agents)))


@dataclass(frozen=True)
class Round:
    """One round of games and of their images; flags of ghosts are in the order of the originals."""

    # The games and the images after the round; rewards and observations are in them.
    after: Games
    image_after: Games
    # ``bool[n, ghosts]``: whether the ghost could go other ways than its image, or with another probability.
    chances: NDArray[np.bool_]
    # ``bool[n, ghosts]``: whether the ghost stopped being scared between two cells and was put on one of them.
    snaps: NDArray[np.bool_]
    eaten: NDArray[np.bool_]  # ``bool[n, ghosts]``: whether the ghost was eaten and returned to where it starts
    # ``bool[n]``: whether a ghost caught Pac-Man, in the game or the image, so that later ghosts did not move.
    interrupted: NDArray[np.bool_]


def play_matched(games: Games, images: Games, symmetry: Symmetry, action: int, image_action: int, seed: int) -> Round:
    """Play one step in games and in their images, with ghosts that do the same up to the symmetry; return both.

    `games` and `images` stay as they are.

    Parameters
    ----------
    games, images
        Games and their images by `symmetry`, in the same order.
    symmetry
        The turn, mirroring and exchange of ghosts that leads from a game to its image.
    action, image_action
        Pac-Man's action in the games, and in the images.
    seed
        Decides where the ghosts go.
    """
    n, n_ghosts = len(games.agents), len(games.maze.ghosts)
    # For every ghost, which random numbers lead it into which direction: [n, ghosts, 4].
    choices, image_choices = _ghost_choices(games, action), _ghost_choices(images, image_action)
    image_number = symmetry.renumber(n_ghosts)
    # The choices of a ghost's image, back in the order of the ghosts; then also of the directions of the original.
    ends_of_images = image_choices.ends[:, image_number]
    image_probabilities = np.diff(ends_of_images, prepend=0.0, axis=2)[:, :, symmetry.directions[:4]]
    probabilities = np.diff(choices.ends, prepend=0.0, axis=2)

    # Draw a direction for every ghost, and a random number that leads to it, in the game and in the image.
    draws = np.random.default_rng(seed).random((n, n_ghosts, 1))
    directions = np.minimum((draws >= choices.ends).sum(axis=2), 3)
    game_draws = _middle(choices.ends, directions)
    image_draws = np.zeros((n, n_ghosts))
    image_draws[:, image_number] = _middle(ends_of_images, symmetry.directions[directions])

    after, image_after = fork(games), fork(images)
    for batch, batch_action, batch_draws in ((after, action, game_draws), (image_after, image_action, image_draws)):
        _play(batch.tables, batch.rules, batch.agents, batch.pellets, batch_draws, batch_action, batch.rewards)
        batch.observe(np.arange(n))

    # A game that Pac-Man's own move did not end and that is lost now was ended by a ghost.
    caught = choices.playing & (after.status == kernel.LOST)
    caught_in_image = image_choices.playing & (image_after.status == kernel.LOST)
    timers = after.agents[:, GHOSTS + TIMER :: GHOST_COLUMNS]
    return Round(
        after=after,
        image_after=image_after,
        chances=np.abs(probabilities - image_probabilities).max(axis=2, initial=0.0) > 1e-9,
        snaps=choices.snaps,
        # A timer that does not run out in this move, and is 0 after it, was set to 0 by Pac-Man.
        eaten=choices.eaten | ((choices.timers >= 2) & (timers == 0)),
        interrupted=caught | caught_in_image,
    )


def _middle(ends: NDArray[np.float64], directions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, for every ghost, the number in the middle of those for which it goes in a direction.

    `ends` ``[n, ghosts, 4]`` are the upper ends of the numbers of each direction, `directions` is ``[n, ghosts]``.
    """
    high = np.take_along_axis(ends, directions[:, :, None], axis=2)[:, :, 0]
    low = np.take_along_axis(ends, np.maximum(directions - 1, 0)[:, :, None], axis=2)[:, :, 0]
    return np.asarray((np.where(directions > 0, low, 0.0) + high) / 2)


class _GhostChoices(NamedTuple):
    """The choices of ghosts after Pac-Man's move."""

    ends: NDArray[np.float64]  # [n, ghosts, 4]: direction d is taken for random numbers from ends[d - 1] up to ends[d]
    timers: NDArray[np.int32]  # [n, ghosts]: how long a ghost will be scared
    snaps: NDArray[np.bool_]  # [n, ghosts]: whether it stops being scared between two cells
    eaten: NDArray[np.bool_]  # [n, ghosts]: whether Pac-Man has eaten it
    playing: NDArray[np.bool_]  # [n]: whether the game goes on after Pac-Man's move


def _ghost_choices(games: Games, action: int) -> _GhostChoices:
    """Return the choices of the ghosts after Pac-Man's action; the games stay as they are."""
    n, n_ghosts = len(games.agents), len(games.maze.ghosts)
    choices = _GhostChoices(
        ends=np.zeros((n, n_ghosts, 4)),
        timers=np.zeros((n, n_ghosts), np.int32),
        snaps=np.zeros((n, n_ghosts), np.bool_),
        eaten=np.zeros((n, n_ghosts), np.bool_),
        playing=np.zeros(n, np.bool_),
    )
    _fill_ghost_choices(games.tables, games.rules, games.agents, games.pellets, action, choices)
    return choices


@njit(cache=True)
def _fill_ghost_choices(
    tables: Tables,
    rules: kernel.Rules,
    agents: NDArray[np.int32],
    pellets: NDArray[np.uint8],
    action: int,
    choices: _GhostChoices,
) -> None:
    """Find what ghosts could do after Pac-Man's action, by moving him in a copy of every game.

    Parameters
    ----------
    tables, rules
        Look-up tables of the maze; settings of the game.
    agents, pellets
        ``[n, columns]`` and ``[n, cells]``: the games, one per row. ``agents`` holds Pac-Man's cell, the status of the
        game, and place, heading and timer of each ghost.
    action
        Pac-Man's action in all of them.
    choices
        Arrays for the results, written in place.
    """
    n_ghosts = tables.ghost_start.size
    for i in range(agents.shape[0]):
        row, cells = agents[i].copy(), pellets[i].copy()
        kernel._move_pacman(tables, rules, row, cells, n_ghosts, action)
        choices.playing[i] = row[STATUS] == PLAYING
        ate_capsule = pellets[i, row[PACMAN]] == kernel.CAPSULE
        for g in range(n_ghosts):
            first = GHOSTS + g * GHOST_COLUMNS  # the ghost's columns
            x, y, timer = row[first + X], row[first + Y], row[first + TIMER]
            choices.timers[i, g] = timer
            # It was scared, or would be by the capsule, and is not: eating it has set its timer to 0.
            choices.eaten[i, g] = timer == 0 and (ate_capsule or agents[i, first + TIMER] > 0)
            if not choices.playing[i]:
                continue
            legal = kernel._legal_directions(tables, x, y, row[first + HEADING])
            # From a whole cell, a scared ghost moves half a cell, where its fright ends.
            choices.snaps[i, g] = timer == 1 and legal != 0 and not ((x & 1) or (y & 1))
            _find_ends(tables, rules, row, g, legal, choices.ends[i, g])


@njit(cache=True)
def _find_ends(
    tables: Tables, rules: kernel.Rules, row: NDArray[np.int32], g: int, legal: int, ends: NDArray[np.float64]
) -> None:
    """Fill ``ends[d]`` with the random number up to which ghost g goes no further than direction d, by bisection.

    So direction d is taken for numbers from ``ends[d - 1]`` up to ``ends[d]``. The compiled game itself is asked, so
    that both cannot differ.

    Parameters
    ----------
    tables, rules
        Look-up tables of the maze; settings of the game.
    row
        The row of ``agents`` of one game, see `kernel`.
    g
        Number of the ghost.
    legal
        The directions open to it as a set of bits.
    ends
        ``[4]``, written in place.
    """
    first = GHOSTS + g * GHOST_COLUMNS  # the ghost's columns
    x, y, scared = row[first + X], row[first + Y], row[first + TIMER] > 0
    speed, p = (1, rules.flee) if scared else (2, rules.attack)
    pac_x, pac_y = 2 * tables.x[row[PACMAN]], 2 * tables.y[row[PACMAN]]
    last = 0.0
    for direction in range(4):
        if legal & (1 << direction):
            low, high = last, 1.0
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                if kernel._choose(legal, x, y, speed, pac_x, pac_y, scared, p, middle) <= direction:
                    low = middle
                else:
                    high = middle
            last = low
        ends[direction] = last


@njit(cache=True)
def _play(
    tables: Tables,
    rules: kernel.Rules,
    agents: NDArray[np.int32],
    pellets: NDArray[np.uint8],
    draws: NDArray[np.float64],
    action: int,
    rewards: NDArray[np.float64],
) -> None:
    """Play one step in all games in place; `draws` ``[n, ghosts]`` decides where ghosts go, `rewards` is written."""
    for i in range(agents.shape[0]):
        rewards[i] = kernel.play_round(tables, rules, agents[i], pellets[i], draws[i], action)


# --- Ties ------------------------------------------------------------------------------------------------------------


def path_columns(n_ghosts: int) -> list[NDArray[np.intp]]:
    """Return the columns of the observation with a first step: to capsule, food and every ghost."""
    of_ghosts = (kernel.FIRST_GHOST + g * kernel.GHOST_FEATURES + kernel.GHOST_STEP for g in range(n_ghosts))
    starts = [kernel.CAPSULE_STEP, kernel.FOOD_STEP, *of_ghosts]
    return [np.arange(start, start + 4) for start in starts]


def ghost_columns(ghost: int) -> NDArray[np.intp]:
    """Return the columns of the observation that belong to a ghost."""
    first = kernel.FIRST_GHOST + ghost * kernel.GHOST_FEATURES
    return np.arange(first, first + kernel.GHOST_FEATURES)


def tied_steps(games: Games) -> NDArray[np.bool_]:
    """Mark ``bool[n, targets, 4]``: first steps that all begin a shortest path; none where there is one way only.

    Targets are the closest capsule, the closest food and every ghost, as in `path_columns`.
    """
    n, n_ghosts = len(games.agents), len(games.maze.ghosts)
    tied = np.zeros((n, 2 + n_ghosts, 4), np.bool_)
    tied[:, 0] = _steps_towards(games, games.pellets == kernel.CAPSULE)
    tied[:, 1] = _steps_towards(games, games.pellets == kernel.FOOD)
    cell_at = games.tables.cell_at
    for g in range(n_ghosts):
        x, y = (games.agents[:, GHOSTS + g * GHOST_COLUMNS + k] for k in (X, Y))
        # Between two cells, the nearer one is the target; neighbours are never equally far.
        targets = np.zeros(games.pellets.shape, np.bool_)
        for cells in (cell_at[x >> 1, y >> 1], cell_at[(x + 1) >> 1, (y + 1) >> 1]):
            targets[np.arange(n), cells] = True
        tied[:, 2 + g] = _steps_towards(games, targets)
    return tied & (tied.sum(axis=2, keepdims=True) > 1)


def _steps_towards(games: Games, targets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the first steps of all shortest paths to all nearest targets."""
    distance, pac = games.tables.distance, games.agents[:, PACMAN]
    far = np.iinfo(np.int16).max
    lengths = np.where(targets & (distance[pac] >= 0), distance[pac], far)
    least = lengths.min(axis=1)
    nearest = lengths == least[:, None]
    steps = np.zeros((len(pac), 4), np.bool_)
    for direction in range(4):
        next_cell = games.tables.neighbour[pac, direction]
        closer = nearest & (distance[next_cell] == least[:, None] - 1)
        steps[:, direction] = closer.any(axis=1) & (next_cell >= 0) & (least > 0) & (least < far)
    return steps


# --- States that are met in play -------------------------------------------------------------------------------------


def sample_games(settings: PacmanSettings, episodes: int, states: int, seed: int) -> Games:
    """Play episodes and return a batch of games in states met in them, each state as likely as any other.

    Half of the episodes are played at random, a quarter goes for the closest food, and a quarter for capsules first:
    without that, scared ghosts would hardly be seen. No state is one after the end of a game.

    Parameters
    ----------
    settings
        The maze and the settings of the game.
    episodes
        Number of episodes.
    states
        Number of states to return; there are fewer if the episodes were too short.
    seed
        Decides the episodes and the choice of the states.
    """
    rng = np.random.default_rng(seed)
    games = Games(episodes, settings)
    games.start(np.ones(episodes, np.bool_), [int(s) for s in rng.integers(2**31, size=episodes)])
    goes_for_food, goes_for_capsules = (np.arange(episodes) % 4 == number for number in (1, 3))
    no_restart = np.zeros(episodes, np.bool_)

    # Every state gets a random priority; the `states` lowest ones are a fair sample of all states.
    kept_agents, kept_pellets, kept_keys = [games.agents[:0]], [games.pellets[:0]], [games.keys[:0]]
    priorities = np.zeros(0)
    playing = np.arange(episodes)
    while playing.size:
        kept_agents.append(games.agents[playing])
        kept_pellets.append(games.pellets[playing])
        kept_keys.append(games.keys[playing])
        priorities = np.concatenate([priorities, rng.random(playing.size)])
        if len(priorities) > 4 * states + episodes:  # drop the others now and then, to save memory
            lowest = np.sort(np.argsort(priorities, kind="stable")[:states])
            priorities = priorities[lowest]
            kept_agents = [np.concatenate(kept_agents)[lowest]]
            kept_pellets = [np.concatenate(kept_pellets)[lowest]]
            kept_keys = [np.concatenate(kept_keys)[lowest]]

        # The first steps of the shortest paths to capsule and food are in the observation, one-hot.
        capsule_first, food_first = kernel.CAPSULE_STEP, kernel.FOOD_STEP
        to_capsule = games.observations[:, capsule_first : capsule_first + 5]
        to_food = games.observations[:, food_first : food_first + 5]
        follows_capsule = goes_for_capsules & to_capsule.any(axis=1)
        goal_actions = np.where(follows_capsule, to_capsule.argmax(axis=1), to_food.argmax(axis=1))
        wanders = ~(goes_for_food | goes_for_capsules) | (rng.random(episodes) < WANDER)
        actions = np.where(wanders, rng.integers(5, size=episodes), goal_actions)
        games.step(actions, no_restart)
        playing = np.flatnonzero(games.status == PLAYING)

    lowest = np.sort(np.argsort(priorities, kind="stable")[:states])
    sample = Games(len(lowest), settings)
    sample.agents[:] = np.concatenate(kept_agents)[lowest]
    sample.pellets[:] = np.concatenate(kept_pellets)[lowest]
    sample.keys[:] = np.concatenate(kept_keys)[lowest]
    sample.observe(np.arange(len(lowest)))
    return sample
