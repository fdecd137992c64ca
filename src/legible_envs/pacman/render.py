"""Pictures of PAC-Man, drawn from state: `Picture` for pixels, `to_text` for the terminal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from legible_envs.pacman import kernel
from legible_envs.pacman.games import GhostState, PacmanState
from legible_envs.pacman.maze import STEPS, Maze

Colour = tuple[int, int, int]
BACKGROUND: Colour = (0, 0, 0)
WALL_EDGE: Colour = (46, 92, 255)
WALL_FILL: Colour = (6, 12, 48)
PELLET: Colour = (255, 200, 170)
PACMAN: Colour = (255, 221, 0)
GHOSTS: tuple[Colour, ...] = ((237, 28, 36), (255, 160, 200), (0, 214, 222), (255, 165, 40))
SCARED: Colour = (40, 60, 230)
ENDING: Colour = (235, 235, 245)
WHITE: Colour = (255, 255, 255)
PUPIL: Colour = (20, 30, 120)
FRIGHT_ENDS = 10  # steps before its fright ends in which a ghost flashes
_FINER = 4  # walls are drawn this much larger and shrunk, for smooth edges


class Picture:
    """Draws the states of one maze; walls are drawn once.

    Parameters
    ----------
    maze
        The maze.
    scale
        Pixels a cell.
    """

    def __init__(self, maze: Maze, scale: int = 24) -> None:
        self.maze = maze
        self.scale = scale
        self._walls = _draw_walls(maze, scale)

    def draw(self, state: PacmanState) -> NDArray[np.uint8]:
        """Return the state as ``uint8[height, width, 3]``."""
        frame = self._walls.copy()
        for cell in state.food:
            self._disc(frame, cell, 0.09, PELLET)
        for cell in state.capsules:
            self._disc(frame, cell, 0.26, PELLET)
        self._pacman(frame, state)
        for i, ghost in enumerate(state.ghosts):
            self._ghost(frame, ghost, GHOSTS[i % len(GHOSTS)])
        return np.clip(np.rint(frame), 0, 255).astype(np.uint8)

    def _patch(
        self, frame: NDArray[np.float32], at: tuple[float, float]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Part of the frame around a place, with the coordinates (in cells, y upwards) of its pixels from there."""
        x, y = (at[0] + 0.5) * self.scale, (self.maze.height - 0.5 - at[1]) * self.scale
        half = 0.7 * self.scale
        rows = slice(max(0, int(y - half)), int(y + half) + 1)
        columns = slice(max(0, int(x - half)), int(x + half) + 1)
        part = frame[rows, columns]
        dx = (np.arange(part.shape[1], dtype=np.float32) + columns.start + 0.5 - x) / self.scale
        dy = (y - np.arange(part.shape[0], dtype=np.float32) - rows.start - 0.5) / self.scale
        return part, *np.meshgrid(dx, dy)  # type: ignore[return-value]

    def _paint(self, part: NDArray[np.float32], outside: NDArray[np.float32], colour: Colour) -> None:
        """Colour the pixels whose distance to the shape (in cells, negative inside) is below zero, edges smoothed."""
        alpha = np.clip(0.5 - outside * self.scale, 0.0, 1.0)[..., None]
        part += alpha * (np.asarray(colour, np.float32) - part)

    def _disc(self, frame: NDArray[np.float32], at: tuple[float, float], radius: float, colour: Colour) -> None:
        part, dx, dy = self._patch(frame, at)
        self._paint(part, np.hypot(dx, dy) - np.float32(radius), colour)

    def _pacman(self, frame: NDArray[np.float32], state: PacmanState) -> None:
        part, dx, dy = self._patch(frame, state.pacman)
        body = np.hypot(dx, dy) - 0.42
        mouth_x, mouth_y = STEPS[state.facing] if state.facing != kernel.STOP else STEPS[kernel.EAST]
        ahead, aside = dx * mouth_x + dy * mouth_y, np.abs(dx * mouth_y - dy * mouth_x)
        opening = 0.25 if state.steps % 2 and state.facing != kernel.STOP else 0.7
        wedge = (aside - opening * ahead) / np.hypot(1.0, opening)
        self._paint(part, np.maximum(body, -wedge), PACMAN)

    def _ghost(self, frame: NDArray[np.float32], ghost: GhostState, colour: Colour) -> None:
        at = (ghost.x, ghost.y)
        flashing = ghost.timer <= FRIGHT_ENDS and ghost.timer % 2
        body_colour = colour if ghost.timer == 0 else ENDING if flashing else SCARED
        part, dx, dy = self._patch(frame, at)
        hem = 0.32 + 0.07 * np.cos(dx * (2 * np.pi / 0.27))
        dome = np.hypot(dx, dy - 0.03) - 0.4
        skirt = np.maximum(np.abs(dx) - 0.4, np.maximum(dy - 0.03, -dy - hem))
        self._paint(part, np.minimum(dome, skirt), body_colour)
        look_x, look_y = STEPS[ghost.heading] if ghost.heading != kernel.STOP else (0, 0)
        for side in (-0.16, 0.16):
            eye = (at[0] + side, at[1] + 0.1)
            if ghost.timer:
                self._disc(frame, eye, 0.055, SCARED if flashing else PELLET)
            else:
                self._disc(frame, eye, 0.12, WHITE)
                self._disc(frame, (eye[0] + 0.05 * look_x, eye[1] + 0.05 * look_y), 0.065, PUPIL)


def _draw_walls(maze: Maze, scale: int) -> NDArray[np.float32]:
    """Return a picture ``[height, width, 3]`` of the walls, with `scale` pixels per cell.

    Walls are rounded strokes from centre to centre of neighbouring wall cells, with a bright edge. They are drawn in a
    finer grid first, whose means smooth the edges.
    """
    fine = scale * _FINER  # fine pixels per cell
    is_wall = np.zeros((maze.height * fine, maze.width * fine), np.bool_)
    radius = 0.3 * fine
    offset = np.arange(fine) + 0.5 - fine / 2
    disc = offset[:, None] ** 2 + offset[None, :] ** 2 <= radius**2
    half_stroke = int(radius)
    for x, y in maze.walls:
        top, left = (maze.height - 1 - y) * fine, x * fine
        is_wall[top : top + fine, left : left + fine] |= disc
        # Join with the cell to the east and to the north, and fill a block of four.
        row, column = top + fine // 2, left + fine // 2  # the middle of the cell
        east, north, both = (x + 1, y) in maze.walls, (x, y + 1) in maze.walls, (x + 1, y + 1) in maze.walls
        if east:
            is_wall[row - half_stroke : row + half_stroke, column : column + fine] = True
        if north:
            is_wall[row - fine : row, column - half_stroke : column + half_stroke] = True
        if east and north and both:
            is_wall[row - fine : row, column : column + fine] = True
    # Colour the border of the walls brighter than their inside, then average the fine pixels.
    inner = ndimage.binary_erosion(is_wall, iterations=max(1, fine // 12))
    coloured = np.empty((*is_wall.shape, 3), np.float32)
    coloured[:] = BACKGROUND
    coloured[is_wall] = WALL_EDGE
    coloured[inner] = WALL_FILL
    fine_pixels = coloured.reshape(maze.height * scale, _FINER, maze.width * scale, _FINER, 3)
    return np.ascontiguousarray(fine_pixels.mean(axis=(1, 3)))


def to_text(maze: Maze, state: PacmanState) -> str:
    """Return the state as text: ``%`` wall, ``.`` food, ``o`` capsule, ``P`` Pac-Man, digits ghosts (``s`` scared)."""
    grid = [["%" if (x, y) in maze.walls else " " for x in range(maze.width)] for y in range(maze.height)]
    for x, y in state.food:
        grid[y][x] = "."
    for x, y in state.capsules:
        grid[y][x] = "o"
    grid[state.pacman[1]][state.pacman[0]] = "P"
    for i, ghost in enumerate(state.ghosts):
        grid[int(ghost.y + 0.5)][int(ghost.x + 0.5)] = "s" if ghost.timer else str(i)
    board = "\n".join("".join(row) for row in reversed(grid))
    return f"{board}\nstep {state.steps}, {len(state.food)} food left\n"
