"""Hyperparameters under the names of Stable-Baselines3.

- `DqnSettings`, `PpoSettings`: for discrete actions.
- `SacSettings`, `Td3Settings`, `ContinuousPpoSettings`: for continuous ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DqnSettings:
    """Hyperparameters of DQN, with Stable-Baselines3's defaults."""

    learning_rate: float = 1e-4  # step size of Adam
    buffer_size: int = 1_000_000  # transitions in the replay buffer, of all environments together
    learning_starts: int = 100  # environment steps with random actions before the first update
    batch_size: int = 32  # transitions of an update
    gamma: float = 0.99  # discount
    train_freq: int = 4  # steps of every environment between two rounds of updates
    gradient_steps: int = 1  # updates in a round; −1: one per environment step since the last round
    target_update_interval: int = 10_000  # environment steps between two updates of the target network
    exploration_fraction: float = 0.1  # fraction of the training in which ε falls linearly …
    exploration_initial_eps: float = 1.0  # … from this value
    exploration_final_eps: float = 0.05  # … to this value
    max_grad_norm: float = 10.0  # norm to which gradients are clipped
    hidden: tuple[int, ...] = (64, 64)  # units of the hidden layers, with ReLU
    n_envs: int = 1  # environments of a policy


@dataclass(frozen=True)
class PpoSettings:
    """Hyperparameters of PPO, with Stable-Baselines3's defaults."""

    learning_rate: float = 3e-4  # step size of Adam
    n_steps: int = 2048  # steps of every environment in a rollout
    batch_size: int = 64  # transitions of an update
    n_epochs: int = 10  # passes over a rollout
    gamma: float = 0.99  # discount
    gae_lambda: float = 0.95  # decay of generalised advantage estimation
    clip_range: float = 0.2  # bound on the change of a probability ratio
    ent_coef: float = 0.0  # weight of the entropy
    vf_coef: float = 0.5  # weight of the value loss
    max_grad_norm: float = 0.5  # norm to which gradients are clipped
    hidden: tuple[int, ...] = (64, 64)  # units of the hidden layers of actor and critic, with ReLU
    n_envs: int = 1  # environments of a policy

    @property
    def rollout(self) -> int:
        """Transitions of a policy in a rollout."""
        return self.n_steps * self.n_envs

    @property
    def batches(self) -> int:
        """Updates in an epoch."""
        return self.rollout // self.batch_size


@dataclass(frozen=True)
class SacSettings:
    """Hyperparameters of SAC, with Stable-Baselines3's defaults except for a buffer that fits into memory."""

    learning_rate: float = 3e-4  # step size of Adam
    buffer_size: int = 300_000  # transitions in the replay buffer
    learning_starts: int = 100  # environment steps with random actions before the first update
    batch_size: int = 256  # transitions of an update
    tau: float = 0.005  # rate at which the target networks follow
    gamma: float = 0.99  # discount
    train_freq: int = 1  # environment steps between two rounds of updates
    gradient_steps: int = 1  # updates in a round
    ent_coef: float | Literal["auto"] = "auto"  # weight of the entropy; "auto" learns it
    use_sde: bool = False  # whether exploration depends on the state (gSDE)
    log_std_init: float = -3.0  # initial logarithm of the spread of exploration
    hidden: tuple[int, ...] = (256, 256)  # units of the hidden layers of actor and critics, with ReLU
    n_envs: int = 1  # environments side by side


@dataclass(frozen=True)
class Td3Settings:
    """Hyperparameters of TD3, with Stable-Baselines3's defaults except for buffer and exploration."""

    learning_rate: float = 1e-3  # up to gradient_steps as in `SacSettings`
    buffer_size: int = 200_000
    learning_starts: int = 100
    batch_size: int = 256
    tau: float = 0.005
    gamma: float = 0.99
    train_freq: int = 1
    gradient_steps: int = 1
    policy_delay: int = 2  # updates of the critics for each of the actor
    target_policy_noise: float = 0.2  # spread of the noise on the target's actions
    target_noise_clip: float = 0.5  # bound of that noise
    action_noise: float = 0.1  # spread of the noise that explores, where actions lie between −1 and 1
    correlated_noise: bool = False  # whether it drifts (Ornstein-Uhlenbeck) instead of being independent in each step
    hidden: tuple[int, ...] = (400, 300)  # units of the hidden layers of actor and critics, with ReLU
    n_envs: int = 1  # environments side by side


@dataclass(frozen=True)
class ContinuousPpoSettings(PpoSettings):
    """Hyperparameters of PPO, and of its exploration of continuous actions.

    The activation and the initialisation decide how far gSDE explores, whose noise is a sum over the last hidden layer.
    """

    use_sde: bool = False  # whether exploration depends on the state (gSDE)
    sde_sample_freq: int = -1  # steps between two draws of its noise; −1: one draw per rollout
    log_std_init: float = 0.0  # initial logarithm of the spread of actions
    activation: Literal["relu", "tanh"] = "relu"  # activation after every hidden layer
    ortho_init: bool = True  # whether initial weights are orthogonal
