"""PAC-Man as in the Berkeley classroom game, fast.

- `maze`: mazes from files or text, and the tables that make paths a look-up.
- `kernel`: the rules and the observation, compiled, for whole batches.
- `games`: state, settings, and batches of games in arrays.
- `env`: the Gymnasium environments, single and vector, over that one kernel.
- `features`: names and words of the observation.
- `render`: pictures from state; `scene`: replays for a report.
- `domain`: ids, and what legible knows about the levels; `checker`: how relations are checked; `training`: presets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible_envs.pacman.env import PacmanEnv, PacmanVectorEnv
    from legible_envs.pacman.features import pacman_features
    from legible_envs.pacman.games import GhostState, PacmanError, PacmanSettings, PacmanState
    from legible_envs.pacman.maze import Maze, MazeError, load_maze

__all__, __getattr__, __dir__ = lazy_exports(__name__)
