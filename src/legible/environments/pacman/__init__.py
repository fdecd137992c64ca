"""PAC-Man as in the Berkeley classroom game, fast.

- `maze`: mazes from files or text, and the tables that make paths a look-up.
- `kernel`: the rules and the observation, compiled, for whole batches.
- `games`: state, settings, and batches of games in arrays.
- `env`: the Gymnasium environments, single and vector, over that one kernel.
- `features`: names and words of the observation.
- `render`: pictures from state.
"""

from legible.environments.pacman.env import PacmanEnv, PacmanVectorEnv
from legible.environments.pacman.features import pacman_features
from legible.environments.pacman.games import GhostState, PacmanError, PacmanSettings, PacmanState
from legible.environments.pacman.maze import Maze, MazeError, load_maze

__all__ = [
    "GhostState",
    "Maze",
    "MazeError",
    "PacmanEnv",
    "PacmanError",
    "PacmanSettings",
    "PacmanState",
    "PacmanVectorEnv",
    "load_maze",
    "pacman_features",
]
