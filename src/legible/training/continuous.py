"""Hyperparameters of training with Stable-Baselines3 that only continuous actions need.

- `SacSettings`, `Td3Settings`: those of SAC and TD3.
- `ContinuousPpoSettings`: those of PPO, with how it explores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from legible.training.ppo import PpoSettings


@dataclass(frozen=True)
class SacSettings:
    """Hyperparameters under Stable-Baselines3's names, with its defaults but for a buffer that fits into memory.

    Parameters
    ----------
    learning_rate
        Step size of Adam.
    buffer_size
        Transitions in the replay buffer.
    learning_starts
        Environment steps with random actions before the first update.
    batch_size
        Transitions of an update.
    tau, gamma
        How fast the target networks follow, and the discount.
    train_freq, gradient_steps
        Environment steps between two rounds of updates, and the updates in a round.
    ent_coef
        Weight of the entropy; ``"auto"`` learns it.
    use_sde, log_std_init
        Whether exploration depends on the state (gSDE), and the logarithm of its spread at first.
    hidden
        Units of the hidden layers of actor and critics, with ReLU.
    n_envs
        Environments side by side.
    """

    learning_rate: float = 3e-4
    buffer_size: int = 300_000
    learning_starts: int = 100
    batch_size: int = 256
    tau: float = 0.005
    gamma: float = 0.99
    train_freq: int = 1
    gradient_steps: int = 1
    ent_coef: float | Literal["auto"] = "auto"
    use_sde: bool = False
    log_std_init: float = -3.0
    hidden: tuple[int, ...] = (256, 256)
    n_envs: int = 1


@dataclass(frozen=True)
class Td3Settings:
    """Hyperparameters under Stable-Baselines3's names, with its defaults but for buffer and exploration.

    Parameters
    ----------
    learning_rate, buffer_size, learning_starts, batch_size, tau, gamma, train_freq, gradient_steps
        As in `SacSettings`.
    policy_delay
        Updates of the critics for each of the actor.
    target_policy_noise, target_noise_clip
        Spread and bound of the noise on the target's actions.
    action_noise, correlated_noise
        Spread of the noise that explores, where actions lie between -1 and 1, and whether it drifts (an
        Ornstein-Uhlenbeck process) instead of being drawn anew at every step.
    hidden
        Units of the hidden layers of actor and critics, with ReLU.
    n_envs
        Environments side by side.
    """

    learning_rate: float = 1e-3
    buffer_size: int = 200_000
    learning_starts: int = 100
    batch_size: int = 256
    tau: float = 0.005
    gamma: float = 0.99
    train_freq: int = 1
    gradient_steps: int = 1
    policy_delay: int = 2
    target_policy_noise: float = 0.2
    target_noise_clip: float = 0.5
    action_noise: float = 0.1
    correlated_noise: bool = False
    hidden: tuple[int, ...] = (400, 300)
    n_envs: int = 1


@dataclass(frozen=True)
class ContinuousPpoSettings(PpoSettings):
    """Hyperparameters of PPO, and how it explores continuous actions.

    Parameters
    ----------
    use_sde, sde_sample_freq
        Whether exploration depends on the state (gSDE), and after how many steps its noise is drawn anew; −1: at the
        beginning of a rollout.
    log_std_init
        The logarithm of the actions' spread at first.
    activation, ortho_init
        What follows every hidden layer, and whether weights are orthogonal at first. Both decide how far gSDE explores,
        whose noise is a sum over the last hidden layer.
    """

    use_sde: bool = False
    sde_sample_freq: int = -1
    log_std_init: float = 0.0
    activation: Literal["relu", "tanh"] = "relu"
    ortho_init: bool = True
