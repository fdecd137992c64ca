"""Hyperparameters by environment: the presets of its domain, or sensible defaults.

- `preset`: hyperparameters and steps for an environment, a `Preset`.
- `ALGORITHMS`, `fitting_algorithms`: the algorithms, and those for an action space.
- `short_name`: the name of an environment without namespace and version.

Continuous tasks have settings similar to the RL Zoo's, and two budgets: a short one after which a policy acts sensibly,
and a longer one after which it is good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from gymnasium import spaces

from legible.environments import domain_of, load_by_name
from legible.errors import LegibleError
from legible.training.hyperparameters import ContinuousPpoSettings, DqnSettings, PpoSettings, SacSettings, Td3Settings

# Stable-Baselines3's defaults, except for a buffer that fits into memory and an earlier, steadier start.
DEFAULT_DQN = DqnSettings(buffer_size=100_000, learning_starts=1000, target_update_interval=1000)
DEFAULT_PPO = PpoSettings(n_steps=512, n_envs=4)

Algorithm = Literal["dqn", "ppo", "sac", "td3"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
AnySettings: TypeAlias = DqnSettings | PpoSettings | SacSettings | Td3Settings


@dataclass(frozen=True)
class Preset:
    """Hyperparameters and length of a training."""

    settings: AnySettings
    total_steps: int  # environment steps of a training
    reward_scale: float = 1.0  # factor on rewards while training
    long_steps: int | None = None  # environment steps of a longer training, where it is worthwhile
    normalised: bool = False  # whether observations and rewards are normalised while training


def short_name(env_id: str) -> str:
    """Return the name of an environment without namespace and version.

    >>> short_name("legible/PacmanSmallNC-v0")
    'PacmanSmallNC'
    """
    name = env_id.rsplit("/", maxsplit=1)[-1]
    stem, dash, version = name.rpartition("-v")
    return stem if dash and version.isdigit() else name


def fitting_algorithms(action_space: spaces.Space[Any]) -> tuple[Algorithm, ...]:
    """Return the algorithms that can train on an action space, the default first.

    >>> fitting_algorithms(spaces.Discrete(2)), fitting_algorithms(spaces.Box(-1, 1, (2,)))
    (('dqn', 'ppo'), ('sac', 'td3', 'ppo'))
    """
    match action_space:
        case spaces.Discrete():
            return ("dqn", "ppo")
        case spaces.MultiDiscrete() | spaces.MultiBinary():
            return ("ppo",)
        case spaces.Box():
            # SAC and TD3 stretch actions between -1 and 1 to the bounds of the space.
            return ("sac", "td3", "ppo") if action_space.is_bounded() else ("ppo",)
    return ()


def preset(env_id: str, algorithm: Algorithm, *, continuous: bool = False) -> Preset:
    """Return hyperparameters and the number of steps for training in an environment.

    Only PPO needs to know whether actions are continuous, because DQN never has continuous ones, SAC and TD3 always.

    >>> preset("legible/PacmanOriginal-v0", "dqn").total_steps, preset("legible/PacmanSmall-v0", "ppo").reward_scale
    (5000000, 0.01)
    >>> preset("CartPole-v1", "dqn").settings.hidden, preset("MountainCar-v0", "dqn").total_steps
    ((64, 64), 120000)
    >>> preset("Pendulum-v1", "sac").total_steps, preset("Pendulum-v1", "sac").long_steps
    (10000, 30000)
    """
    if algorithm not in ALGORITHMS:
        raise LegibleError(f"the algorithm is one of {', '.join(ALGORITHMS)}, not {algorithm!r}.")
    name = short_name(env_id).lower()

    # Continuous actions: "MountainCarContinuous-v0" is found under "mountaincar".
    if continuous or algorithm in {"sac", "td3"}:
        presets_of_task = _CONTINUOUS.get(name.removesuffix("continuous"), {})
        return presets_of_task.get(algorithm) or _OTHER_CONTINUOUS[algorithm]

    # Discrete actions: the preset of the environment's own package (PAC-Man and driving have the paper's) comes first.
    domain = domain_of(env_id)
    if domain is not None and domain.training:
        preset_of_domain = load_by_name(domain.training)(env_id, algorithm)  # a function, named as ``module:function``
    else:
        preset_of_domain = None
    known_preset = preset_of_domain or _DISCRETE.get(name, {}).get(algorithm)
    return known_preset or Preset(DEFAULT_DQN if algorithm == "dqn" else DEFAULT_PPO, 100_000)


# --- Well-known tasks ------------------------------------------------------------------------------------------------

_DISCRETE: Mapping[str, Mapping[Algorithm, Preset]] = {
    # Exploration rarely reaches the goal, so the policy must learn from it soon and often.
    "mountaincar": {
        "dqn": Preset(
            DqnSettings(
                learning_rate=4e-3,
                buffer_size=10_000,
                learning_starts=1000,
                batch_size=128,
                gamma=0.98,
                train_freq=16,
                gradient_steps=8,
                target_update_interval=600,
                exploration_fraction=0.2,
                exploration_final_eps=0.07,
                hidden=(256, 256),
            ),
            120_000,
        )
    },
    "lunarlander": {
        "ppo": Preset(
            PpoSettings(n_steps=1024, n_epochs=4, gamma=0.999, gae_lambda=0.98, ent_coef=0.01, n_envs=16), 500_000
        )
    },
    # States share no features: large learning rate, and exploration for most of the training.
    "frozenlake": {
        "dqn": Preset(
            DqnSettings(
                learning_rate=1e-3,
                buffer_size=20_000,
                learning_starts=500,
                target_update_interval=500,
                exploration_fraction=0.5,
            ),
            60_000,
        )
    },
}

# --- Continuous actions ----------------------------------------------------------------------------------------------

_OTHER_CONTINUOUS: Mapping[Algorithm, Preset] = {
    "sac": Preset(SacSettings(learning_starts=1000), 50_000, long_steps=500_000),
    "td3": Preset(Td3Settings(learning_starts=1000), 50_000, long_steps=500_000),
    "ppo": Preset(ContinuousPpoSettings(n_steps=512, n_envs=4), 200_000, long_steps=2_000_000, normalised=True),
}
_CONTINUOUS: Mapping[str, Mapping[Algorithm, Preset]] = {
    "pendulum": {
        "sac": Preset(SacSettings(learning_rate=1e-3, hidden=(64, 64)), 10_000, long_steps=30_000),
        "td3": Preset(Td3Settings(learning_starts=1000, hidden=(64, 64)), 10_000, long_steps=30_000),
        "ppo": Preset(
            ContinuousPpoSettings(
                learning_rate=1e-3, n_steps=1024, gamma=0.9, n_envs=4, use_sde=True, sde_sample_freq=4
            ),
            100_000,
            long_steps=300_000,
        ),
    },
    # The reward is far away and every push costs: only exploration that keeps its direction finds it.
    "mountaincar": {
        "sac": Preset(
            SacSettings(
                buffer_size=50_000,
                learning_starts=0,
                batch_size=512,
                tau=0.01,
                gamma=0.9999,
                train_freq=32,
                gradient_steps=32,
                ent_coef=0.1,
                use_sde=True,
                log_std_init=-3.67,
                hidden=(64, 64),
            ),
            30_000,
            long_steps=100_000,
        ),
        "td3": Preset(
            Td3Settings(learning_starts=1000, action_noise=0.5, correlated_noise=True), 50_000, long_steps=300_000
        ),
        "ppo": Preset(
            ContinuousPpoSettings(
                learning_rate=7.77e-5,
                n_steps=8,
                batch_size=8,
                gamma=0.9999,
                gae_lambda=0.9,
                clip_range=0.1,
                ent_coef=0.00429,
                vf_coef=0.19,
                max_grad_norm=5.0,
                use_sde=True,
                log_std_init=-3.29,
                activation="tanh",
                ortho_init=False,
            ),
            20_000,
            long_steps=100_000,
            normalised=True,
        ),
    },
    "lunarlander": {
        "sac": Preset(SacSettings(learning_starts=5000, tau=0.01), 60_000, long_steps=500_000),
        "td3": Preset(Td3Settings(learning_starts=5000, gamma=0.98), 60_000, long_steps=300_000),
        "ppo": Preset(
            ContinuousPpoSettings(n_steps=1024, n_epochs=4, gamma=0.999, gae_lambda=0.98, ent_coef=0.01, n_envs=16),
            300_000,
            long_steps=1_000_000,
        ),
    },
    "bipedalwalker": {
        "sac": Preset(
            SacSettings(learning_rate=7.3e-4, learning_starts=5000, tau=0.02, gamma=0.98), 100_000, long_steps=500_000
        ),
        "td3": Preset(Td3Settings(learning_starts=5000, gamma=0.98), 100_000, long_steps=1_000_000),
        "ppo": Preset(
            ContinuousPpoSettings(n_steps=1024, gamma=0.999, clip_range=0.18, n_envs=16),
            500_000,
            long_steps=5_000_000,
            normalised=True,
        ),
    },
    "invertedpendulum": {
        "sac": Preset(SacSettings(learning_starts=1000, hidden=(64, 64)), 30_000, long_steps=100_000),
        "td3": Preset(Td3Settings(learning_starts=1000, hidden=(64, 64)), 30_000, long_steps=100_000),
        "ppo": Preset(
            ContinuousPpoSettings(n_steps=256, n_envs=4, gamma=0.999), 60_000, long_steps=200_000, normalised=True
        ),
    },
    "walker2d": {
        "sac": Preset(SacSettings(learning_starts=5000), 100_000, long_steps=1_000_000),
        "td3": Preset(Td3Settings(learning_starts=5000), 100_000, long_steps=1_000_000),
        "ppo": Preset(ContinuousPpoSettings(n_steps=512, n_envs=4), 300_000, long_steps=2_000_000, normalised=True),
    },
}
