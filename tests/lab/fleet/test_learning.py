"""The fleet learns as Stable-Baselines3 does: curves over several seeds on a tiny problem."""

import numpy as np
import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from lab.fleet.dqn import DqnFleet
from lab.fleet.slots import make_training_slots
from legible.environments import EnvironmentSpec
from legible.training.hyperparameters import DqnSettings
from legible.training.sb3 import sb3_arguments

CLUE = EnvironmentSpec("clue_env:Clue")
STEPS, WINDOWS, SEEDS = 1280, 4, 6
SETTINGS = DqnSettings(
    learning_rate=1e-3,
    buffer_size=400,
    learning_starts=64,
    batch_size=16,
    gamma=0.8,
    n_envs=4,
    train_freq=2,
    gradient_steps=4,
    target_update_interval=100,
    exploration_fraction=0.8,
    hidden=(16,),
)


class Returns(BaseCallback):
    def __init__(self) -> None:
        super().__init__()
        self.sums, self.counts = np.zeros(WINDOWS), np.zeros(WINDOWS)

    def _on_step(self) -> bool:
        window = (self.num_timesteps - 1) * WINDOWS // STEPS
        for info in self.locals["infos"]:
            if "episode" in info:
                self.sums[window] += info["episode"]["r"]
                self.counts[window] += 1
        return True


def sb3_curve(seed: int) -> np.ndarray:
    envs = DummyVecEnv([lambda: Monitor(CLUE.make())] * SETTINGS.n_envs)
    returns = Returns()
    DQN("MlpPolicy", envs, seed=seed, device="cpu", **sb3_arguments(SETTINGS)).learn(STEPS, callback=returns)
    return returns.sums / returns.counts


def fleet_curves() -> np.ndarray:
    slots = make_training_slots([(CLUE, SEEDS * SETTINGS.n_envs)])
    fleet = DqnFleet(slots, list(range(SEEDS)), SETTINGS, STEPS)
    windows = []
    for _ in range(WINDOWS):
        fleet.learn(max_phases=STEPS // WINDOWS // fleet.steps_per_phase)
        windows.append(fleet.progress().mean_returns)
    assert fleet.done
    return np.array(windows).T


@pytest.mark.statistical
def test_curves_agree_within_their_errors() -> None:
    theirs, ours = np.array([sb3_curve(seed) for seed in range(SEEDS)]), fleet_curves()
    errors = np.sqrt((theirs.var(axis=0, ddof=1) + ours.var(axis=0, ddof=1)) / SEEDS)
    # Both begin with two right of six by chance and end far above it, and never differ by more than chance would have.
    assert (np.abs(ours[:, 0].mean() - 2.0) < 0.5) & (ours[:, -1].mean() > 4.0)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 3.5 * errors).all()
