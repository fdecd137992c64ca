"""Hyperparameters by environment: those of the paper's appendix for PAC-Man and highway-env.

What the appendix does not name is Stable-Baselines3's default. The number of environments side by side and the scale
of PPO's rewards in PAC-Man are not in the appendix either; they are those of the authors' programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from legible.errors import LegibleError
from legible.training.dqn import DqnSettings
from legible.training.ppo import PpoSettings

PACMAN_DQN = DqnSettings(
    batch_size=256,
    buffer_size=50_000,
    exploration_fraction=0.5,
    gamma=0.95,
    gradient_steps=-1,
    hidden=(256, 256),
    n_envs=8,
)
PACMAN_PPO = PpoSettings(
    learning_rate=2.5e-4,
    n_steps=256,
    batch_size=256,
    n_epochs=10,
    gamma=0.9,
    clip_range=0.5,
    ent_coef=0.0,
    vf_coef=0.75,
    hidden=(256, 256),
    n_envs=8,
)
PACMAN_PPO_REWARD_SCALE = 0.01
HIGHWAY_DQN = DqnSettings(
    learning_rate=5e-4,
    buffer_size=15_000,
    learning_starts=200,
    batch_size=32,
    gamma=0.8,
    train_freq=1,
    gradient_steps=1,
    target_update_interval=1000,
    hidden=(256, 256),
    n_envs=8,
)


# Elsewhere: Stable-Baselines3's defaults, but for a buffer that fits into memory and an earlier, steadier start.
DEFAULT_DQN = DqnSettings(buffer_size=100_000, learning_starts=1000, target_update_interval=1000)
DEFAULT_PPO = PpoSettings(n_steps=512, n_envs=4)

HIGHWAY_SCENARIOS = ("highway", "merge", "roundabout", "intersection")
Algorithm = Literal["dqn", "ppo"]


@dataclass(frozen=True)
class Preset:
    """How a policy for an environment is trained.

    Parameters
    ----------
    settings
        The hyperparameters.
    total_steps
        Environment steps of a training.
    reward_scale
        What rewards are multiplied by while training.
    """

    settings: DqnSettings | PpoSettings
    total_steps: int
    reward_scale: float = 1.0


def short_name(env_id: str) -> str:
    """The name of an environment without namespace and version.

    >>> short_name("legible/PacmanSmallNC-v0")
    'PacmanSmallNC'
    """
    name = env_id.rsplit("/", maxsplit=1)[-1]
    stem, dash, version = name.rpartition("-v")
    return stem if dash and version.isdigit() else name


def preset(env_id: str, algorithm: Algorithm) -> Preset:
    """How the paper trained policies for an environment, or a sensible way where it did not.

    >>> preset("legible/PacmanOriginal-v0", "dqn").total_steps
    5000000
    >>> preset("legible/PacmanSmall-v0", "ppo").reward_scale
    0.01
    >>> preset("CartPole-v1", "dqn").settings.hidden
    (64, 64)
    """
    if algorithm not in ("dqn", "ppo"):
        raise LegibleError(f"the algorithm is 'dqn' or 'ppo', not {algorithm!r}.")
    name = short_name(env_id).lower()
    if name.startswith("pacman"):
        steps = 5_000_000 if name.startswith("pacmanoriginal") else 2_500_000
        if algorithm == "dqn":
            return Preset(PACMAN_DQN, steps)
        return Preset(PACMAN_PPO, steps, PACMAN_PPO_REWARD_SCALE)
    if algorithm == "dqn" and name.startswith(HIGHWAY_SCENARIOS):
        return Preset(HIGHWAY_DQN, 500_000)
    return Preset(DEFAULT_DQN if algorithm == "dqn" else DEFAULT_PPO, 100_000)
