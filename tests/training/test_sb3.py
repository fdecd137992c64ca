"""Training with Stable-Baselines3, and policies as its zip files."""

from __future__ import annotations

import base64
import json
import pickle
import zipfile
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3

from legible.environments import EnvironmentSpec
from legible.policies import Activation, Layer, NetworkPolicy, OneHot, Plain, load_policy, save_policy
from legible.training.errors import TrainingError
from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.presets import preset
from legible.training.sb3 import sb3_arguments, train
from legible.training.sb3_export import export_sb3
from legible_envs.highway.training import HIGHWAY_DQN
from legible_envs.pacman.training import PACMAN_DQN, PACMAN_PPO

DQN_SETTINGS = DqnSettings(hidden=(16, 8), n_envs=2, buffer_size=500, learning_starts=50, gradient_steps=-1)
PPO_SETTINGS = PpoSettings(hidden=(16, 8), n_envs=2, n_steps=32, batch_size=32, n_epochs=2)


class StoppedError(Exception):
    pass


def test_presets_are_those_of_the_appendix() -> None:
    dqn = preset("legible/PacmanSmallNC-v0", "dqn")
    assert dqn.settings == PACMAN_DQN
    assert dqn.total_steps == 2_500_000
    arguments = sb3_arguments(PACMAN_DQN)
    named = {"batch_size": 256, "buffer_size": 50_000, "exploration_fraction": 0.5, "gamma": 0.95, "gradient_steps": -1}
    assert {key: arguments[key] for key in named} == named
    # What the appendix leaves out is what Stable-Baselines3 has as default.
    model = DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10)
    for key in ("learning_rate", "learning_starts", "target_update_interval", "max_grad_norm", "exploration_final_eps"):
        assert arguments[key] == getattr(model, key), key
    assert arguments["train_freq"] == model.train_freq.frequency
    ppo = sb3_arguments(PACMAN_PPO)
    named = {"vf_coef": 0.75, "ent_coef": 0.0, "clip_range": 0.5, "learning_rate": 2.5e-4, "batch_size": 256}
    assert {key: ppo[key] for key in named} == named
    assert (ppo["gamma"], ppo["n_epochs"], ppo["n_steps"]) == (0.9, 10, 256)
    default = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    assert (ppo["gae_lambda"], ppo["max_grad_norm"]) == (default.gae_lambda, default.max_grad_norm)
    # What an environment is called says nothing; its domain does.
    assert preset("mine/Pacman-v0", "dqn") == preset("CartPole-v1", "dqn")
    assert preset("legible/PacmanOriginalNC-v0", "ppo").total_steps == 5_000_000
    assert preset("legible/HighwayFast-v0", "dqn") == preset("highway-v0", "dqn")
    assert preset("highway-v0", "ppo") == preset("CartPole-v1", "ppo") == preset("parking-v0", "ppo")
    highway = preset("highway-v0", "dqn")
    assert highway.settings == HIGHWAY_DQN
    assert highway.total_steps == 500_000
    assert (HIGHWAY_DQN.updates_per_phase, HIGHWAY_DQN.steps_per_phase) == (1, 8)
    assert (PACMAN_DQN.updates_per_phase, PACMAN_DQN.steps_per_phase, PACMAN_DQN.calls_per_target_update) == (
        32,
        32,
        1250,
    )


@pytest.mark.parametrize(("algo", "settings"), [("dqn", DQN_SETTINGS), ("ppo", PPO_SETTINGS)])
def test_trains_and_writes_both_files(tmp_path, algo: str, settings: DqnSettings | PpoSettings) -> None:
    seen: list[tuple[int, int]] = []
    trained = train(
        "legible/PacmanSmall-v0", algo, 300, seed=1, out=tmp_path / "new" / "p.zip", settings=settings,
        n_episodes=4, on_progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert trained.steps >= 300
    assert seen[0] == (0, 300)
    policy, zipped = load_policy(trained.safetensors), load_policy(trained.zip)
    observations = np.random.default_rng(0).normal(size=(5, 69)).astype(np.float32)
    np.testing.assert_array_equal(policy.scores(observations), zipped.scores(observations))
    assert policy.metadata["evaluation"]["episodes"] == 4
    assert policy.metadata["hyperparameters"]["hidden"] == [16, 8]
    assert policy.env_id == "legible/PacmanSmall-v0"
    assert not (tmp_path / "new" / "p.checkpoint").exists()
    scale = 0.01 if algo == "ppo" else 1.0
    assert policy.metadata["reward_scale"] == scale


@pytest.mark.parametrize(("algo", "settings"), [("dqn", DQN_SETTINGS), ("ppo", PPO_SETTINGS)])
def test_goes_on_where_it_stopped(tmp_path, algo: str, settings: DqnSettings | PpoSettings, raises_saved) -> None:
    def stop(done: int, _total: int) -> None:
        if done >= 200:
            raise StoppedError

    arguments = {"steps": 400, "seed": 1, "settings": settings, "n_episodes": 2, "checkpoint_steps": 64}
    with pytest.raises(StoppedError):
        train("CartPole-v1", algo, out=tmp_path / "p", on_progress=stop, **arguments)
    kept = json.loads((tmp_path / "p.checkpoint" / "checkpoint.json").read_text())
    assert int(kept["file"]) >= 192
    model = (DQN if algo == "dqn" else PPO).load(tmp_path / "p.checkpoint" / f"{kept['file']}.zip")

    with raises_saved(TrainingError):
        train("CartPole-v1", algo, out=tmp_path / "p", **{**arguments, "seed": 2})

    starts: list[int] = []
    trained = train("CartPole-v1", algo, out=tmp_path / "p", on_progress=lambda d, _t: starts.append(d), **arguments)
    assert starts[0] == int(kept["file"]) == model.num_timesteps
    assert trained.steps >= 400
    if algo == "dqn":
        finished = DQN.load(trained.zip)
        assert finished._n_updates > model._n_updates > 0
        assert finished.exploration_rate == pytest.approx(DQN_SETTINGS.epsilon(trained.steps, 400))


def test_replay_buffer_is_kept(tmp_path) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv

    from legible.training.sb3_checkpoint import TrainingCheckpoint

    def envs() -> DummyVecEnv:
        return DummyVecEnv([lambda: EnvironmentSpec("CartPole-v1").make()] * 2)

    model = DQN("MlpPolicy", envs(), device="cpu", seed=0, **sb3_arguments(DQN_SETTINGS))
    model.learn(600)
    checkpoint = TrainingCheckpoint(tmp_path / "p", {"algorithm": "dqn"})
    checkpoint.save(model)
    again = DQN("MlpPolicy", envs(), device="cpu", seed=1, **sb3_arguments(DQN_SETTINGS))
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
    from stable_baselines3.common.vec_env import DummyVecEnv

    from legible.training.sb3_checkpoint import TrainingCheckpoint

    envs = DummyVecEnv([lambda: EnvironmentSpec("CartPole-v1").make()])
    model = DQN("MlpPolicy", envs, device="cpu", seed=0, **sb3_arguments(DQN_SETTINGS))
    checkpoint = TrainingCheckpoint(tmp_path / "p", {"algorithm": "dqn"})
    checkpoint.save(model)
    file = tmp_path / "p.checkpoint" / "0.zip"
    bomb = pickle.dumps(RunsCode(str(tmp_path / "ran")))
    planted = {"observation_space": {":type:": "Box", ":serialized:": base64.b64encode(bomb).decode()}}
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {**parts, "data": json.dumps(planted).encode()}.items():
            archive.writestr(name, content)
    checkpoint.restore(model)
    assert not (tmp_path / "ran").exists()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(TrainingError, match=r"0\.zip is damaged .*p\.checkpoint to"):
        checkpoint.restore(model)


class RunsCode:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.path, "w")


def random_policy(kind: str, encoding: object, activation: str = "relu", **more: object) -> NetworkPolicy:
    rng = np.random.default_rng(3)
    widths = (encoding.width, 12, 7, 4)
    layers = [
        Layer(
            rng.normal(size=(n_out, n_in)), rng.normal(size=n_out), Activation(activation if n_out != 4 else "identity")
        )
        for n_in, n_out in pairwise(widths)
    ]
    return NetworkPolicy(tuple(layers), kind, encoding, **more)


@pytest.mark.parametrize("kind", ["values", "log-probabilities"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_exported_policies_load_and_score_the_same(tmp_path, kind: str, activation: str) -> None:
    policy = random_policy(kind, Plain(9), activation)
    save_policy(policy, tmp_path / "p.safetensors")
    file = export_sb3(tmp_path / "p.safetensors", tmp_path / "p.zip")
    observations = np.random.default_rng(0).normal(size=(20, 9)).astype(np.float32)
    np.testing.assert_allclose(
        load_policy(file).scores(observations), policy.scores(observations), rtol=1e-6, atol=1e-6
    )
    model = (DQN if kind == "values" else PPO).load(file, device="cpu")
    actions, _ = model.predict(observations, deterministic=True)
    np.testing.assert_array_equal(actions, policy.scores(observations).argmax(axis=1))
    assert list(tmp_path.glob("*.part*")) == []


def test_export_uses_the_environments_spaces_and_hyperparameters(tmp_path) -> None:
    trained = train("legible/PacmanSmall-v0", "dqn", 64, out=tmp_path / "p", settings=DQN_SETTINGS, n_episodes=2)
    model = DQN.load(export_sb3(trained.safetensors, tmp_path / "q.zip"), env=None)
    own = EnvironmentSpec("legible/PacmanSmall-v0").make()
    assert model.observation_space == own.observation_space
    assert model.buffer_size == DQN_SETTINGS.buffer_size
    assert model.gradient_steps == -1
    env = EnvironmentSpec("legible/PacmanSmall-v0").make()
    observation, _ = env.reset(seed=0)
    scores = load_policy(trained.safetensors).scores(observation[None])
    with torch.no_grad():
        values = model.q_net(torch.tensor(observation[None]))
    np.testing.assert_allclose(values.numpy(), scores, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(6,), (3, 4)])
def test_export_of_one_hot_observations(tmp_path, sizes: tuple[int, ...]) -> None:
    policy = random_policy("values", OneHot(sizes))
    model = DQN.load(export_sb3(policy, tmp_path / "p.zip"), device="cpu")
    assert isinstance(model.observation_space, spaces.Discrete if len(sizes) == 1 else spaces.MultiDiscrete)
    loaded = load_policy(tmp_path / "p.zip")
    rows = np.array([[min(i, size - 1) for size in sizes] for i in range(4)], np.float32)
    np.testing.assert_allclose(loaded.scores(rows), policy.scores(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [SAC, TD3, PPO])
def test_continuous_policies_act_the_same_when_exported(tmp_path, kind: Any) -> None:
    original = kind("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", policy_kwargs={"net_arch": [16, 8]})
    original.save(tmp_path / "original.zip")
    file = export_sb3(tmp_path / "original.zip", tmp_path / "again.zip")
    states = np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(np.float32)
    again = kind.load(file, device="cpu")
    for one, two in zip(*(model.predict(states, deterministic=True)[0] for model in (original, again)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)
    assert load_policy(file).action_space == original.action_space


def test_export_says_what_cannot_be(tmp_path) -> None:
    with pytest.raises(TrainingError, match=r"\.zip files"):
        export_sb3(random_policy("values", Plain(9)), tmp_path / "p.pt")
    policy = random_policy("values", Plain(9))
    sloped = Activation("leaky_relu", (("negative_slope", 0.3),))
    layers = [Layer(layer.weight, layer.bias, sloped) for layer in policy.layers[:-1]]
    with pytest.raises(TrainingError, match="parameters of its own"):
        export_sb3(NetworkPolicy((*layers, policy.layers[-1]), "values", Plain(9)), tmp_path / "p.zip")


def test_wrong_settings_are_refused(tmp_path) -> None:
    with pytest.raises(TrainingError, match="no hyperparameters of ppo"):
        train("CartPole-v1", "ppo", 10, out=tmp_path / "p", settings=DQN_SETTINGS)
    with pytest.raises(TrainingError, match="at least one step"):
        train("CartPole-v1", "dqn", 0, out=tmp_path / "p")
