"""Hyperparameters for driving: those of the paper's appendix; what it does not name is Stable-Baselines3's default."""

from __future__ import annotations

from legible.training.hyperparameters import DqnSettings
from legible.training.presets import Algorithm, Preset, short_name

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
HIGHWAY_SCENARIOS = ("highway", "merge", "roundabout", "intersection")


def highway_preset(env_id: str, algorithm: Algorithm) -> Preset | None:
    """Return the paper's training settings for driving; it has DQN for four of the scenarios."""
    fits = algorithm == "dqn" and short_name(env_id).lower().startswith(HIGHWAY_SCENARIOS)
    return Preset(HIGHWAY_DQN, 500_000) if fits else None
