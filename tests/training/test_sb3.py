"""Training with Stable-Baselines3: presets, files, checkpoints and refusals."""

import base64
import json
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from lab.fleet.dqn import epsilon_after
from legible.environments import EnvironmentSpec
from legible.play import episode_seeds
from legible.policies import load_policy
from legible.training import (
    ContinuousPpoSettings,
    DqnSettings,
    PpoSettings,
    SacSettings,
    Td3Settings,
    TrainingError,
    preset,
    sb3_arguments,
    train,
)
from legible.training.measuring import _EVALUATION_SEED
from legible.training.presets import ALGORITHMS, fitting_algorithms
from legible.training.sb3_checkpoint import TrainingCheckpoint
from legible_envs.highway.training import HIGHWAY_DQN
from legible_envs.pacman.training import PACMAN_DQN, PACMAN_PPO
from policies.conftest import Bomb, rewrite_zip

SMALL = "legible/PacmanSmall-v0"
CONTINUOUS_PPO = ContinuousPpoSettings(hidden=(16, 8), n_envs=2, n_steps=32, batch_size=32, n_epochs=2)
SETTINGS: dict[tuple[str, str], Any] = {
    (SMALL, "dqn"): DqnSettings(hidden=(16, 8), n_envs=2, buffer_size=500, learning_starts=50, gradient_steps=-1),
    (SMALL, "ppo"): PpoSettings(hidden=(16, 8), n_envs=2, n_steps=32, batch_size=32, n_epochs=2),
    ("Pendulum-v1", "sac"): SacSettings(hidden=(16, 8), buffer_size=400, learning_starts=20, batch_size=16),
    ("Pendulum-v1", "td3"): Td3Settings(hidden=(16, 8), buffer_size=400, learning_starts=20, batch_size=16),
    ("BipedalWalker-v3", "ppo"): CONTINUOUS_PPO,  # its preset normalises observations
}
DQN_SETTINGS = SETTINGS[SMALL, "dqn"]
MODELS = {"dqn": DQN, "ppo": PPO, "sac": SAC, "td3": TD3}
CONTINUOUS_TASKS = (
    *("Pendulum-v1", "MountainCarContinuous-v0", "LunarLanderContinuous-v3"),
    *("BipedalWalker-v3", "InvertedPendulum-v5", "Walker2d-v5"),
)


class StoppedError(Exception):
    pass


# Presets and algorithms


def test_presets_are_those_of_the_appendix() -> None:
    dqn, ppo = sb3_arguments(PACMAN_DQN), sb3_arguments(PACMAN_PPO)
    named = {"batch_size": 256, "buffer_size": 50_000, "exploration_fraction": 0.5, "gamma": 0.95, "gradient_steps": -1}
    assert named.items() <= dqn.items()
    named = {"vf_coef": 0.75, "ent_coef": 0.0, "clip_range": 0.5, "learning_rate": 2.5e-4, "batch_size": 256}
    assert {**named, "gamma": 0.9, "n_epochs": 10, "n_steps": 256}.items() <= ppo.items()
    # Other hyperparameters are Stable-Baselines3's defaults.
    model = DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10)
    for key in ("learning_rate", "learning_starts", "target_update_interval", "max_grad_norm", "exploration_final_eps"):
        assert dqn[key] == getattr(model, key), key
    assert dqn["train_freq"] == model.train_freq.frequency
    default = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    assert (ppo["gae_lambda"], ppo["max_grad_norm"]) == (default.gae_lambda, default.max_grad_norm)


def test_the_domain_of_an_environment_decides_on_the_preset() -> None:
    dqn, highway = preset("legible/PacmanSmallNC-v0", "dqn"), preset("highway-v0", "dqn")
    assert (dqn.settings, dqn.total_steps) == (PACMAN_DQN, 2_500_000)
    assert (highway.settings, highway.total_steps) == (HIGHWAY_DQN, 500_000)
    assert preset("mine/Pacman-v0", "dqn") == preset("CartPole-v1", "dqn")
    assert preset("legible/PacmanOriginalNC-v0", "ppo").total_steps == 5_000_000
    assert preset("legible/HighwayFast-v0", "dqn") == highway
    assert preset("highway-v0", "ppo") == preset("CartPole-v1", "ppo") == preset("parking-v0", "ppo")
    discrete, continuous = preset("LunarLander-v3", "ppo"), preset("LunarLander-v3", "ppo", continuous=True)
    assert continuous == preset("LunarLanderContinuous-v3", "ppo", continuous=True)
    assert continuous.settings != discrete.settings


@pytest.mark.parametrize("task", CONTINUOUS_TASKS)
@pytest.mark.parametrize("algo", ["sac", "td3", "ppo"])
def test_every_continuous_task_has_a_short_and_a_longer_preset(task: str, algo: str) -> None:
    plan = preset(task, algo, continuous=True)
    assert plan.long_steps > plan.total_steps
    assert plan.settings != preset("Unknown-v0", algo, continuous=True).settings or plan.total_steps != 50_000
    # Stable-Baselines3 knows all arguments.
    small = {} if algo == "ppo" else {"buffer_size": 10}
    MODELS[algo]("MlpPolicy", "Pendulum-v1", device="cpu", **{**sb3_arguments(plan.settings), **small})


def test_exploration_settings_of_mountain_car_reach_stable_baselines3() -> None:
    """With ReLU and orthogonal weights PPO returns −2.5 after 20,000 steps; with these settings it returns 75."""
    arguments = sb3_arguments(preset("MountainCarContinuous-v0", "ppo", continuous=True).settings)["policy_kwargs"]
    assert (arguments["activation_fn"].__name__, arguments["ortho_init"]) == ("Tanh", False)
    assert arguments["log_std_init"] == -3.29
    usual = sb3_arguments(preset("Walker2d-v5", "ppo", continuous=True).settings)["policy_kwargs"]
    assert (usual["activation_fn"].__name__, usual["ortho_init"]) == ("ReLU", True)


def test_algorithms_that_fit_an_action_space() -> None:
    assert fitting_algorithms(spaces.MultiDiscrete([2, 3])) == fitting_algorithms(spaces.MultiBinary(3)) == ("ppo",)
    assert fitting_algorithms(spaces.Box(-np.inf, np.inf, (2,))) == ("ppo",)
    assert fitting_algorithms(spaces.Text(3)) == ()
    assert set(fitting_algorithms(spaces.Box(-1, 1, (2,)))) | {"dqn"} == set(ALGORITHMS)


@pytest.mark.parametrize(
    ("env", "algo", "more", "message"),
    [
        ("Pendulum-v1", "dqn", {}, r"dqn cannot train on the actions Box\(.*\); use sac, td3 or ppo \(--algo\)"),
        ("CartPole-v1", "sac", {}, r"CartPole-v1: sac cannot train on the actions Discrete\(2\); use dqn or ppo"),
        ("Blackjack-v1", None, {}, "its observations are a Tuple, but .* --wrap gymnasium.wrappers:FlattenObservation"),
        ("Pendulum-v1", "sac", {"settings": CONTINUOUS_PPO}, "ContinuousPpoSettings are no hyperparameters of sac"),
        ("Pendulum-v1", "sac", {"long": True}, "not both"),
        ("CartPole-v1", "dqn", {"steps": 0}, "at least one step"),
    ],
)
def test_trainings_that_do_not_fit_are_refused(tmp_path, env: str, algo: str, more: dict, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        train(env, algo, **{"steps": 10, **more}, out=tmp_path / "p")
    assert not list(tmp_path.iterdir())


# Files


@pytest.mark.parametrize(("env", "algo"), SETTINGS)
def test_trains_and_writes_both_files(tmp_path, env: str, algo: str) -> None:
    seen: list[tuple[int, int]] = []
    trained = train(
        env, algo, 100, seed=1, out=tmp_path / "new" / "p.zip", settings=SETTINGS[env, algo], n_episodes=2,
        on_progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert trained.steps >= 100
    assert seen[0] == (0, 100)
    assert not (tmp_path / "new" / "p.checkpoint").exists()
    policy, zipped, model = load_policy(trained.safetensors), load_policy(trained.zip), MODELS[algo].load(trained.zip)
    rows = np.random.default_rng(0).uniform(-1, 1, (5, model.observation_space.shape[0])).astype(np.float32)
    np.testing.assert_array_equal(policy.predict(rows)[0], zipped.predict(rows)[0])
    if trained.normalisation is None:
        np.testing.assert_allclose(model.predict(rows, deterministic=True)[0], policy.predict(rows)[0], atol=1e-6)
    assert (trained.normalisation is not None) == (env == "BipedalWalker-v3")
    assert policy.metadata["algorithm"] == algo.upper()
    assert policy.metadata["evaluation"]["episodes"] == trained.evaluation.episodes == 2
    assert policy.metadata["hyperparameters"]["hidden"] == [16, 8]
    assert policy.metadata["reward_scale"] == (0.01 if (env, algo) == (SMALL, "ppo") else 1.0)
    assert policy.env_id == env


def test_normalisation_is_kept_next_to_the_zip(tmp_path) -> None:
    arguments = {"out": tmp_path / "p", "settings": CONTINUOUS_PPO, "n_episodes": 1}
    trained = train("MountainCarContinuous-v0", "ppo", 64, **arguments)
    assert trained.normalisation == tmp_path / "p.normalisation.npz"
    policy, saved = load_policy(trained.zip), load_policy(trained.safetensors)
    assert -0.6 < policy.normalisation.mean[0] < -0.4
    observations = np.array([[-0.5, 0.0], [0.3, 0.02]], np.float32)
    np.testing.assert_array_equal(saved.predict(observations)[0], policy.predict(observations)[0])
    # A policy without normalisation under the same name does not get the old statistics.
    train("Pendulum-v1", "ppo", 64, **arguments)
    assert load_policy(tmp_path / "p.zip").normalisation is None


class Seeded(gymnasium.Wrapper):
    """Begins every episode with the same seed."""

    def __init__(self, env, seed: int) -> None:
        super().__init__(env)
        self._seed = seed

    def reset(self, **_):
        return self.env.reset(seed=self._seed)


def test_the_evaluation_is_that_of_stable_baselines3(tmp_path) -> None:
    trained = train("Pendulum-v1", "sac", 60, out=tmp_path / "p", settings=SETTINGS["Pendulum-v1", "sac"], n_episodes=4)
    model, env = SAC.load(trained.zip), gymnasium.make("Pendulum-v1")
    returns = [
        evaluate_policy(model, Seeded(env, int(seed)), n_eval_episodes=1, warn=False)[0]
        for seed in episode_seeds(_EVALUATION_SEED, 0, 4)
    ]
    assert np.mean(returns) == pytest.approx(trained.evaluation.mean_return, rel=1e-4)


class Switches(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two switches, of two and of three positions, that have to follow the observation."""

    observation_space = spaces.Box(0, 2, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action):
        reward = float(np.array_equal(action, self._wanted))
        self._steps += 1
        return self._show(), reward, self._steps == 10, False, {}

    def _show(self):
        self._wanted = self.np_random.integers([2, 3])
        return self._wanted.astype(np.float32)


@pytest.mark.slow
def test_several_actions_are_learned_with_ppo(tmp_path) -> None:
    settings = PpoSettings(hidden=(32,), n_envs=4, n_steps=32, batch_size=32, learning_rate=5e-3)
    spec = EnvironmentSpec(f"{__name__}:Switches")
    trained = train(spec, None, 5000, out=tmp_path / "p", settings=settings, n_episodes=20)
    assert trained.evaluation.mean_return > 8  # by chance 10 / 6
    assert load_policy(trained.zip).predict(np.array([[1.0, 2.0]], np.float32))[0].tolist() == [[1, 2]]


# Checkpoints


@pytest.mark.parametrize(("env", "algo"), SETTINGS)
def test_resumes_where_it_stopped(tmp_path, env: str, algo: str) -> None:
    def stop(done: int, _total: int) -> None:
        if done >= 150:
            raise StoppedError

    settings = SETTINGS[env, algo]
    arguments = {"steps": 300, "seed": 1, "settings": settings, "n_episodes": 1, "checkpoint_steps": 64}
    with pytest.raises(StoppedError):
        train(env, algo, out=tmp_path / "p", on_progress=stop, **arguments)
    kept = json.loads((tmp_path / "p.checkpoint" / "checkpoint.json").read_text())
    assert (kept["entropy"] is not None) == (algo == "sac")
    assert bool(kept["statistics"]) == (env == "BipedalWalker-v3")
    with pytest.raises(TrainingError, match=r"another training: seed is 1 there and 2 here\. Remove it"):
        train(env, algo, out=tmp_path / "p", **{**arguments, "seed": 2})
    starts: list[int] = []
    trained = train(env, algo, out=tmp_path / "p", on_progress=lambda done, _: starts.append(done), **arguments)
    assert starts[0] == int(kept["file"]) >= 128
    assert trained.steps >= 300
    finished = MODELS[algo].load(trained.zip)
    assert finished._n_updates > kept["counters"]["_n_updates"] > 0
    if algo == "dqn":
        assert finished.exploration_rate == pytest.approx(epsilon_after(settings, trained.steps, 300))


def new_model(seed: int) -> DQN:
    environments = DummyVecEnv([lambda: EnvironmentSpec("CartPole-v1").make()] * 2)
    return DQN("MlpPolicy", environments, device="cpu", seed=seed, **sb3_arguments(DQN_SETTINGS))


def test_replay_buffer_is_kept(tmp_path) -> None:
    model, again = new_model(0), new_model(1)
    model.learn(600)
    checkpoint = TrainingCheckpoint(tmp_path / "p", {"algorithm": "dqn"})
    checkpoint.save(model)
    checkpoint.restore(again)
    assert (again.num_timesteps, again._n_updates, again._n_calls) == (600, model._n_updates, model._n_calls)
    assert again.exploration_rate == model.exploration_rate
    for one, other in zip(again.policy.parameters(), model.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.policy.optimizer.state_dict()["state"].keys() == model.policy.optimizer.state_dict()["state"].keys()
    assert again.replay_buffer.full
    assert again.replay_buffer.pos == model.replay_buffer.pos
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(again.replay_buffer, name), getattr(model.replay_buffer, name))


def test_a_checkpoint_runs_no_code_and_damage_is_named(tmp_path) -> None:
    """Stable-Baselines3 keeps pickles in its zips; a planted one is not opened."""
    model, checkpoint = new_model(0), TrainingCheckpoint(tmp_path / "p", {"algorithm": "dqn"})
    checkpoint.save(model)
    file = tmp_path / "p.checkpoint" / "0.zip"
    bomb = pickle.dumps(Bomb(tmp_path / "ran"))
    planted = {"observation_space": {":type:": "Box", ":serialized:": base64.b64encode(bomb).decode()}}
    rewrite_zip(file, lambda members: members.update(data=json.dumps(planted).encode()))
    checkpoint.restore(model)
    assert not (tmp_path / "ran").exists()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(TrainingError, match=r"0\.zip is damaged .*p\.checkpoint to"):
        checkpoint.restore(model)
