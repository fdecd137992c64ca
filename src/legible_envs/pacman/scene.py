"""`PacmanScene`: positions of Pac-Man and the ghosts and what was eaten, for the replays of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from legible.environments import Env
from legible_envs.pacman.env import PacmanEnv
from legible_envs.pacman.games import PacmanState


class PacmanScene:
    """PAC-Man from its state: a few whole numbers a step."""

    kind = "pacman"

    def __init__(self, env: Env) -> None:
        game = env.unwrapped
        assert isinstance(game, PacmanEnv)
        maze = game.maze
        rows = ["".join("%" if (x, y) in maze.walls else " " for x in range(maze.width)) for y in range(maze.height)]
        self.layout: dict[str, Any] = {"width": maze.width, "height": maze.height, "walls": rows}
        self._places: list[list[int]] = []
        self._food: list[frozenset[tuple[int, int]]] = []
        self._capsules: list[frozenset[tuple[int, int]]] = []

    def begin(self, steps: int, marked: Iterable[int]) -> None:  # noqa: ARG002 (every step is kept)
        """Forget the last episode."""
        self._places, self._food, self._capsules = [], [], []

    def see(self, env: Env, observation: Any, step: int) -> None:  # noqa: ARG002
        """Record all positions; half cells are doubled to stay whole."""
        state: PacmanState = env.unwrapped.state  # type: ignore[attr-defined]
        row = [*state.pacman, state.facing]
        for ghost in state.ghosts:
            row += [round(2 * ghost.x), round(2 * ghost.y), ghost.heading, ghost.timer]
        self._places.append(row)
        self._food.append(state.food)
        self._capsules.append(state.capsules)

    def frames(self) -> dict[str, Any]:
        """Places of every step; food and capsules at the start, and the step at which each was gone."""
        return {
            "places": self._places,
            "food": _when_gone(self._food),
            "capsules": _when_gone(self._capsules),
        }


def _when_gone(sets: Sequence[frozenset[tuple[int, int]]]) -> list[list[int]]:
    """For every cell of the first set its column, its row and the first step without it (−1: it stays)."""
    gone = dict.fromkeys(sorted(sets[0]), -1)
    for step, (before, after) in enumerate(pairwise(sets), start=1):
        for cell in before - after:
            gone[cell] = step
    return [[*cell, step] for cell, step in gone.items()]
