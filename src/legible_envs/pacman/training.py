"""Hyperparameters for PAC-Man: those of the paper's appendix.

What the appendix does not name is Stable-Baselines3's default. The number of environments side by side and the scale
of PPO's rewards are those of the authors' programs.
"""

from __future__ import annotations

from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.presets import Algorithm, Preset, short_name

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


def pacman_preset(env_id: str, algorithm: Algorithm) -> Preset:
    """Return the paper's training settings for PAC-Man."""
    steps = 5_000_000 if short_name(env_id).startswith("PacmanOriginal") else 2_500_000
    if algorithm == "dqn":
        return Preset(PACMAN_DQN, steps)
    return Preset(PACMAN_PPO, steps, PACMAN_PPO_REWARD_SCALE)
