"""Mazes, from files or text, and the tables that turn every question about paths into a look-up.

Two formats are read: ``.lay`` (``%`` wall, ``.`` food, ``o`` capsule, ``P`` Pac-Man, ``G`` or ``1``–``4`` ghost,
anything else empty) and ``.board`` of the package edq-pacai (a header that ends with ``---``; ``0`` Pac-Man, digits
ghosts). The cell (0, 0) is at the bottom left.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.imports import optional_package

Cell = tuple[int, int]
LineOf = Callable[[Cell], int]  # the line of the text in which a cell stands
MAX_GHOSTS = 4  # the observation of the original level holds four
MAX_CELLS = 4096  # open ones; the tables hold a number for every pair of them
MAX_TEXT = 2**18  # signs of a maze's text, walls and header included
LEVELS = ("small", "medium", "original")
# dx, dy of North, South, East, West: the order of the actions, in which ties are broken
STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))


class MazeError(LegibleError):
    """A maze that cannot be played."""


@dataclass(frozen=True)
class Maze:
    """Walls, food, capsules and the starting places of Pac-Man and the ghosts."""

    name: str
    width: int
    height: int
    walls: frozenset[Cell]
    food: frozenset[Cell]
    capsules: frozenset[Cell]
    pacman: Cell
    ghosts: tuple[Cell, ...]


def load_maze(source: str | Path | Maze) -> Maze:
    """Return a maze from the name of a level, the path of a ``.lay`` or ``.board`` file, or the text of one.

    >>> maze = load_maze("small")
    >>> maze.width, maze.height, len(maze.food), maze.pacman, maze.ghosts
    (20, 7, 55, (9, 1), ((8, 5), (11, 5)))
    """
    if isinstance(source, Maze):
        return source
    if isinstance(source, str) and source in LEVELS:
        boards = optional_package("pacai", "pacman", f"boards such as PAC-Man's level {source!r}")
        board = importlib.resources.files(boards) / "resources" / "boards" / f"classic-{source}.board"
        return parse_maze(board.read_text(encoding="utf-8"), name=source)
    if isinstance(source, str) and "\n" in source:
        return parse_maze(source)
    path = Path(source)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_TEXT + 1)  # one more than allowed, so that `parse_maze` notices
    except (OSError, ValueError) as error:  # a name that no file can have, or a file that is no text
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise MazeError(
            f"maze {_shortened(str(source))!r} cannot be read: {reason}. Give one of {', '.join(LEVELS)}, the path of "
            "a .lay or .board file, or the text of a maze, which has several lines."
        ) from error
    return parse_maze(text, name=path.name)


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def parse_maze(text: str, name: str = "maze") -> Maze:
    """Return a maze from its text; errors name the line."""
    if len(text) > MAX_TEXT:
        raise MazeError(f"{name}: the maze is too large: its text may have {MAX_TEXT} signs at the most.")
    lines = text.splitlines()
    # A .board file has a header that ends with a line of dashes.
    header_end = next((i for i, line in enumerate(lines) if line.strip() == "---"), None)
    maze_lines = [i for i, line in enumerate(lines) if line.strip() and (header_end is None or i > header_end)]
    if not maze_lines:
        raise MazeError(f"{name}: the maze is empty.")
    first, last = maze_lines[0], maze_lines[-1]
    return _build(lines[first : last + 1], first, name, pacman_sign="P" if header_end is None else "0")


def _build(rows: list[str], first_line: int, name: str, pacman_sign: str) -> Maze:
    """Return the maze that lines of signs draw, after checking them.

    Parameters
    ----------
    rows
        The lines, the top of the maze first. Cells are (x, y) with y = 0 in the last line.
    first_line
        Index of the first of these lines in the text, for errors.
    name
        Name of the maze.
    pacman_sign
        The sign of Pac-Man, which depends on the format.
    """
    width, height = len(rows[0]), len(rows)
    for i, row in enumerate(rows):
        if len(row) != width:
            raise MazeError(
                f"{name}: line {first_line + i + 1} has {len(row)} signs, line {first_line + 1} has {width}; all lines "
                "of a maze must be of one length."
            )
    cells_by_sign: dict[str, list[Cell]] = {}
    for i, row in enumerate(rows):
        for x, sign in enumerate(row):
            cells_by_sign.setdefault(sign, []).append((x, height - 1 - i))

    def line_of(cell: Cell) -> int:
        """Return the line of the text in which a cell stands, counted from 1."""
        return first_line + height - cell[1]

    pacman = cells_by_sign.get(pacman_sign, [])
    if len(pacman) != 1:
        where = _shortened(", ".join(f"line {line_of(cell)}" for cell in pacman[:MAX_CELLS]))
        found = f"{len(pacman)} ({where})" if pacman else "none"
        raise MazeError(f"{name}: one Pac-Man ({pacman_sign!r}) is needed, {found} found.")
    maze = Maze(
        name=name,
        width=width,
        height=height,
        walls=frozenset(cells_by_sign.get("%", [])),
        food=frozenset(cells_by_sign.get(".", [])),
        capsules=frozenset(cells_by_sign.get("o", [])),
        pacman=pacman[0],
        ghosts=_ghosts(cells_by_sign, pacman_sign, name, line_of),
    )
    _check(maze, line_of)
    return maze


def _ghosts(cells_by_sign: dict[str, list[Cell]], pacman_sign: str, name: str, line_of: LineOf) -> tuple[Cell, ...]:
    """Return the ghosts in the order of their digits; G counts as 1, and equal ones come in the order of (x, y)."""
    signs = "123456789" if pacman_sign == "0" else "1234"
    numbered = [(int(sign), cell) for sign in signs for cell in cells_by_sign.get(sign, [])]
    if pacman_sign == "P":
        numbered += [(1, cell) for cell in cells_by_sign.get("G", [])]
    ghosts = tuple(cell for _, cell in sorted(numbered))
    if len(ghosts) > MAX_GHOSTS:
        extra = ghosts[MAX_GHOSTS]
        raise MazeError(
            f"{name}: {len(ghosts)} ghosts, but the observation holds {MAX_GHOSTS} at most; take away the one in line "
            f"{line_of(extra)}, column {extra[0] + 1}."
        )
    return ghosts


def _check(maze: Maze, line_of: LineOf) -> None:
    """Raise unless the maze is small enough, has food, and Pac-Man can reach all of it and all capsules.

    `line_of` returns the line of the text in which a cell stands, for errors.
    """
    if not maze.food:
        raise MazeError(f"{maze.name}: there is no food ('.'), so nothing to win.")
    n_open = maze.width * maze.height - len(maze.walls)
    if n_open > MAX_CELLS:
        raise MazeError(f"{maze.name}: {n_open} open cells; {MAX_CELLS} is the most that the path tables hold.")

    # Walk from Pac-Man's cell to all cells that can be reached.
    reached = {maze.pacman}
    frontier = [maze.pacman]
    while frontier:
        x, y = frontier.pop()
        for dx, dy in STEPS:
            cell = (x + dx, y + dy)
            inside = 0 <= cell[0] < maze.width and 0 <= cell[1] < maze.height
            if inside and cell not in maze.walls and cell not in reached:
                reached.add(cell)
                frontier.append(cell)

    # Name the first place out of reach, from the top left.
    for what, cells in (("food", maze.food), ("capsule", maze.capsules)):
        missed = sorted(cells - reached, key=lambda cell: (-cell[1], cell[0]))
        if missed:
            raise MazeError(
                f"{maze.name}: Pac-Man cannot reach the {what} in line {line_of(missed[0])}, column {missed[0][0] + 1}."
            )


class Tables(NamedTuple):
    """Lookup tables of the kernel. Open cells are numbered; −1 stands for "no such cell" or "no way".

    ``order[c]`` lists all cells that can be reached from c, nearest first and, among equals, in the order in which
    ties between shortest paths are broken; ``rank[c, d]`` is the place of d in that list, ``first_step[c, d]`` the
    first step of the path from c to d (4: stay).
    """

    x: NDArray[np.int16]
    y: NDArray[np.int16]
    cell_at: NDArray[np.int16]
    neighbour: NDArray[np.int16]
    distance: NDArray[np.int16]
    first_step: NDArray[np.int8]
    order: NDArray[np.int16]
    rank: NDArray[np.int16]
    ghost_start: NDArray[np.int16]
    out_of_reach: int


@lru_cache(maxsize=64)
def maze_tables(maze: Maze) -> Tables:
    """Return the look-up tables of a maze for the compiled game: numbered open cells and all shortest paths."""
    cell_at = np.full((maze.width, maze.height), -1, np.int16)  # the number of the cell at (x, y); −1 for walls
    cells = [(x, y) for x in range(maze.width) for y in range(maze.height) if (x, y) not in maze.walls]
    for number, (x, y) in enumerate(cells):
        cell_at[x, y] = number

    # The neighbours of every cell, [cells, 4]. A border of −1 around the maze stands for cells outside.
    padded = np.full((maze.width + 2, maze.height + 2), -1, np.int16)
    padded[1:-1, 1:-1] = cell_at
    neighbour = np.array([[padded[x + 1 + dx, y + 1 + dy] for dx, dy in STEPS] for x, y in cells], np.int16)
    distance, first_step, order = _shortest_paths(neighbour)
    return Tables(
        x=np.array([x for x, _ in cells], np.int16),
        y=np.array([y for _, y in cells], np.int16),
        cell_at=cell_at,
        neighbour=neighbour,
        distance=distance,
        first_step=first_step,
        order=order,
        rank=_ranks(order),
        ghost_start=np.array([cell_at[cell] for cell in maze.ghosts], np.int16),
        out_of_reach=max(maze.width, maze.height),
    )


@njit(cache=True)
def _ranks(order: NDArray[np.int16]) -> NDArray[np.int16]:
    """Invert every row of `order`; a cell that cannot be reached comes after all others."""
    n = len(order)
    rank = np.full((n, n), n, np.int16)
    for source in range(n):
        for place in range(n):
            if order[source, place] >= 0:
                rank[source, order[source, place]] = place
    return rank


@njit(cache=True)
def _shortest_paths(
    neighbour: NDArray[np.int16],
) -> tuple[NDArray[np.int16], NDArray[np.int8], NDArray[np.int16]]:
    """Return the shortest paths between all cells, by breadth-first search from every cell.

    `neighbour` ``[cells, 4]`` holds the cell in each direction, −1 for none. Directions are tried in the order in which
    ties are broken, so the queue holds cells by (length, smallest path) and the first path that reaches a cell is the
    one that the tie rule picks.

    Returns
    -------
    Three arrays ``[cells, cells]``, with −1 where a cell cannot be reached: the distance; the first step of the path (4
    for the cell itself); and in every row the cells that can be reached, nearest first.
    """
    n = neighbour.shape[0]
    distance = np.full((n, n), -1, np.int16)
    first_step = np.full((n, n), -1, np.int8)
    order = np.full((n, n), -1, np.int16)
    for source in range(n):
        queue = order[source]  # the order in which cells are reached is the queue itself
        queue[0] = source
        distance[source, source] = 0
        first_step[source, source] = 4
        n_queued = 1
        n_done = 0
        while n_done < n_queued:
            cell = queue[n_done]
            n_done += 1
            for direction in range(4):
                reached = neighbour[cell, direction]
                if reached >= 0 and distance[source, reached] < 0:
                    distance[source, reached] = distance[source, cell] + 1
                    first_step[source, reached] = direction if cell == source else first_step[source, cell]
                    queue[n_queued] = reached
                    n_queued += 1
    return distance, first_step, order
