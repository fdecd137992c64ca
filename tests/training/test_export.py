"""Policies as zip files of Stable-Baselines3."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3

from legible.environments import EnvironmentSpec
from legible.policies import Activation, Layer, NetworkPolicy, OneHot, Plain, load_policy, save_policy
from legible.training import DqnSettings, TrainingError, export_sb3, train


def random_policy(kind: str, encoding: Any, activation: Activation = Activation("relu")) -> NetworkPolicy:  # noqa: B008
    rng, identity = np.random.default_rng(3), Activation("identity")
    layers = [
        Layer(rng.normal(size=(n_out, n_in)), rng.normal(size=n_out), identity if n_out == 4 else activation)
        for n_in, n_out in pairwise((encoding.width, 12, 7, 4))
    ]
    return NetworkPolicy(tuple(layers), kind, encoding)


@pytest.mark.parametrize("kind", ["values", "log-probabilities"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_exported_policies_load_and_score_the_same(tmp_path, kind: str, activation: str) -> None:
    policy = random_policy(kind, Plain(9), Activation(activation))
    save_policy(policy, tmp_path / "p.safetensors")
    file = export_sb3(tmp_path / "p.safetensors", tmp_path / "p.zip")
    rows = np.random.default_rng(0).normal(size=(20, 9)).astype(np.float32)
    np.testing.assert_allclose(load_policy(file).scores(rows), policy.scores(rows), rtol=1e-6, atol=1e-6)
    model = (DQN if kind == "values" else PPO).load(file, device="cpu")
    np.testing.assert_array_equal(model.predict(rows, deterministic=True)[0], policy.scores(rows).argmax(axis=1))
    assert list(tmp_path.glob("*.part*")) == []


def test_export_uses_the_environments_spaces_and_hyperparameters(tmp_path) -> None:
    settings = DqnSettings(hidden=(16, 8), n_envs=2, buffer_size=500, learning_starts=50, gradient_steps=-1)
    trained = train("legible/PacmanSmall-v0", "dqn", 64, out=tmp_path / "p", settings=settings, n_episodes=2)
    model = DQN.load(export_sb3(trained.safetensors, tmp_path / "q.zip"), env=None)
    env = EnvironmentSpec("legible/PacmanSmall-v0").make()
    assert model.observation_space == env.observation_space
    assert (model.buffer_size, model.gradient_steps) == (500, -1)
    observation, _ = env.reset(seed=0)
    with torch.no_grad():
        values = model.q_net(torch.tensor(observation[None]))
    np.testing.assert_allclose(values, load_policy(trained.safetensors).scores(observation[None]), rtol=1e-6)


def test_export_runs_no_code_that_a_policy_file_names(tmp_path, monkeypatch) -> None:
    marker = tmp_path / "was_run"
    (tmp_path / "named_by_a_file.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    policy = random_policy("values", Plain(9))
    save_policy(policy, tmp_path / "p.safetensors", env_id="named_by_a_file:make")
    model = DQN.load(export_sb3(tmp_path / "p.safetensors", tmp_path / "p.zip"), device="cpu")
    assert not marker.exists()
    assert model.observation_space == spaces.Box(-np.inf, np.inf, (9,), np.float32)


@pytest.mark.parametrize("sizes", [(6,), (3, 4)])
def test_export_of_one_hot_observations(tmp_path, sizes: tuple[int, ...]) -> None:
    policy = random_policy("values", OneHot(sizes))
    model = DQN.load(export_sb3(policy, tmp_path / "p.zip"), device="cpu")
    assert isinstance(model.observation_space, spaces.Discrete if len(sizes) == 1 else spaces.MultiDiscrete)
    rows = np.array([[min(i, size - 1) for size in sizes] for i in range(4)], np.float32)
    np.testing.assert_allclose(load_policy(tmp_path / "p.zip").scores(rows), policy.scores(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [SAC, TD3, PPO])
def test_continuous_policies_act_the_same_when_exported(tmp_path, kind: Any) -> None:
    original = kind("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", policy_kwargs={"net_arch": [16, 8]})
    original.save(tmp_path / "original.zip")
    file = export_sb3(tmp_path / "original.zip", tmp_path / "again.zip")
    states = np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(np.float32)
    one, other = (model.predict(states, deterministic=True)[0] for model in (original, kind.load(file, device="cpu")))
    np.testing.assert_allclose(one, other, rtol=1e-6)
    assert load_policy(file).action_space == original.action_space


def test_policies_that_cannot_be_exported_are_refused(tmp_path) -> None:
    with pytest.raises(TrainingError, match=r"written as \.zip"):
        export_sb3(random_policy("values", Plain(9)), tmp_path / "p.pt")
    sloped = Activation("leaky_relu", (("negative_slope", 0.3),))
    with pytest.raises(TrainingError, match="Stable-Baselines3 does not support"):
        export_sb3(random_policy("values", Plain(9), sloped), tmp_path / "p.zip")
