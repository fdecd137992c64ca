"""Hyperparameters under the names of Stable-Baselines3.

- `DqnSettings`, `PpoSettings`: for discrete actions.
- `SacSettings`, `Td3Settings`, `ContinuousPpoSettings`: for continuous ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DqnSettings:
    """Hyperparameters under Stable-Baselines3's names, with its defaults.

    Parameters
    ----------
    learning_rate
        Step size of Adam.
    buffer_size
        Transitions in the replay buffer of a policy, all its environments together.
    learning_starts
        Environment steps with random actions before the first update.
    batch_size
        Transitions of an update.
    gamma
        Discount.
    train_freq
        Steps of every environment between two rounds of updates.
    gradient_steps
        Updates in a round; −1: as many as environment steps since the last, all environments counted.
    target_update_interval
        Environment steps between two changes of the target network.
    exploration_fraction, exploration_initial_eps, exploration_final_eps
        ε falls in a straight line from the initial to the final value over this fraction of the training.
    max_grad_norm
        Gradients are clipped to this norm.
    hidden
        Units of the hidden layers, with ReLU.
    n_envs
        Environments of a policy.
    """

    learning_rate: float = 1e-4
    buffer_size: int = 1_000_000
    learning_starts: int = 100
    batch_size: int = 32
    gamma: float = 0.99
    train_freq: int = 4
    gradient_steps: int = 1
    target_update_interval: int = 10_000
    exploration_fraction: float = 0.1
    exploration_initial_eps: float = 1.0
    exploration_final_eps: float = 0.05
    max_grad_norm: float = 10.0
    hidden: tuple[int, ...] = (64, 64)
    n_envs: int = 1

    @property
    def updates_per_phase(self) -> int:
        """Updates in a round."""
        return self.gradient_steps if self.gradient_steps >= 0 else self.train_freq * self.n_envs

    @property
    def steps_per_phase(self) -> int:
        """Environment steps of a policy between two rounds of updates."""
        return self.train_freq * self.n_envs

    @property
    def calls_per_target_update(self) -> int:
        """Steps of all environments between two changes of the target network."""
        return max(self.target_update_interval // self.n_envs, 1)

    def epsilon(self, steps: int, total_steps: int) -> float:
        """ε after this many environment steps."""
        done = steps / total_steps
        if done > self.exploration_fraction:
            return self.exploration_final_eps
        change = self.exploration_final_eps - self.exploration_initial_eps
        return self.exploration_initial_eps + done * change / self.exploration_fraction


@dataclass(frozen=True)
class PpoSettings:
    """Hyperparameters under Stable-Baselines3's names, with its defaults.

    Parameters
    ----------
    learning_rate
        Step size of Adam.
    n_steps
        Steps of every environment in a rollout.
    batch_size
        Transitions of an update.
    n_epochs
        How often a rollout is passed over.
    gamma, gae_lambda
        Discount, and the decay of generalised advantage estimation.
    clip_range
        How far the ratio of new to old probability counts.
    ent_coef, vf_coef
        Weights of the entropy and of the value loss.
    max_grad_norm
        Gradients are clipped to this norm.
    hidden
        Units of the hidden layers of actor and critic, with ReLU.
    n_envs
        Environments of a policy.
    """

    learning_rate: float = 3e-4
    n_steps: int = 2048
    batch_size: int = 64
    n_epochs: int = 10
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    hidden: tuple[int, ...] = (64, 64)
    n_envs: int = 1

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
