"""Trained policies with which trainings begin: weights, normalisation and refusals."""

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO, SAC, TD3

from legible.environments import EnvironmentSpec
from legible.policies import Activation, Layer, NetworkPolicy, Plain, load_policy, save_policy
from legible.training import train
from legible.training.errors import TrainingError
from legible.training.hyperparameters import ContinuousPpoSettings, DqnSettings, PpoSettings, SacSettings, Td3Settings
from legible.training.starting import environment_of_start, read_start

DQN_SETTINGS = DqnSettings(hidden=(16, 8), n_envs=2, buffer_size=500, learning_starts=50, gradient_steps=-1)
PPO_SETTINGS = PpoSettings(hidden=(16, 8), n_envs=2, n_steps=32, batch_size=32, n_epochs=2)
SETTINGS = {
    ("CartPole-v1", "dqn"): DQN_SETTINGS,
    ("CartPole-v1", "ppo"): PPO_SETTINGS,
    ("Pendulum-v1", "sac"): SacSettings(hidden=(16, 8), buffer_size=400, learning_starts=20, batch_size=16),
    ("Pendulum-v1", "td3"): Td3Settings(hidden=(16, 8), buffer_size=400, learning_starts=20, batch_size=16),
    ("Pendulum-v1", "ppo"): ContinuousPpoSettings(hidden=(16, 8), n_envs=2, n_steps=32, batch_size=32, n_epochs=2),
}
MODELS = {"dqn": DQN, "ppo": PPO, "sac": SAC, "td3": TD3}


@pytest.mark.parametrize(("env", "algo"), SETTINGS)
@pytest.mark.parametrize("suffix", ["zip", "safetensors"])
def test_weights_come_back_as_they_were(tmp_path, env: str, algo: str, suffix: str) -> None:
    trained = train(env, algo, 64, seed=1, out=tmp_path / "p", settings=SETTINGS[env, algo], n_episodes=1)
    start = read_start(getattr(trained, suffix))
    assert start.algorithm == algo
    assert start.has_critic == (suffix == "zip" or algo == "dqn")
    fresh = MODELS[algo]("MlpPolicy", env, device="cpu", policy_kwargs=dict(start.architecture), seed=5)
    start.fill(fresh.policy)
    model = MODELS[algo].load(trained.zip, device="cpu")
    width = model.observation_space.shape[0]
    rows = np.random.default_rng(0).normal(size=(20, width)).astype(np.float32)
    np.testing.assert_allclose(
        fresh.predict(rows, deterministic=True)[0], model.predict(rows, deterministic=True)[0], atol=1e-6
    )
    assert (start.log_entropy_weight is not None) == (algo == "sac" and suffix == "zip")
    if algo != "dqn":
        own, other = fresh.policy.state_dict(), model.policy.state_dict()
        assert all(torch.equal(own[key], other[key]) for key in other) == start.has_critic


@pytest.mark.parametrize(("env", "algo"), SETTINGS)
def test_extended_training_begins_there_and_says_so(tmp_path, env: str, algo: str) -> None:
    settings = SETTINGS[env, algo]
    base = train(env, algo, 64, seed=1, out=tmp_path / "p", settings=settings, n_episodes=2)
    longer = train(env, None, 64, seed=2, out=tmp_path / "q", settings=settings, n_episodes=2, start=base.safetensors)
    assert longer.before == base.evaluation
    metadata = load_policy(longer.safetensors).metadata
    assert metadata["training"] == "extended"
    assert metadata["from"]["policy"] == str(base.safetensors)
    assert MODELS[algo].load(longer.zip).num_timesteps >= 64


def test_the_actor_is_frozen_while_a_new_critic_learns(tmp_path) -> None:
    base = train("CartPole-v1", "ppo", 64, seed=1, out=tmp_path / "p", settings=PPO_SETTINGS, n_episodes=1)

    def weights(name: str) -> dict[str, torch.Tensor]:
        return PPO.load(tmp_path / name, device="cpu").policy.state_dict()

    # One rollout: only the critic learns. With a critic to begin with, both do.
    for suffix, waits in (("safetensors", True), ("zip", False)):
        train(
            "CartPole-v1", "ppo", 64, seed=2, out=tmp_path / suffix, settings=PPO_SETTINGS, n_episodes=1,
            start=getattr(base, suffix),
        )  # fmt: skip
        before, after = weights("p.zip"), weights(f"{suffix}.zip")
        assert torch.equal(before["action_net.weight"], after["action_net.weight"]) == waits
        assert not torch.equal(before["value_net.weight"], after["value_net.weight"])


def test_normalisation_stays_constant(tmp_path) -> None:
    env, settings = "MountainCarContinuous-v0", SETTINGS["Pendulum-v1", "ppo"]
    base = train(env, "ppo", 128, seed=1, out=tmp_path / "p", settings=settings, n_episodes=1)
    longer = train(env, None, 128, seed=2, out=tmp_path / "q", settings=settings, n_episodes=1, start=base.zip)
    first, second = (load_policy(result.zip).normalisation for result in (base, longer))
    assert first is not None
    assert first == second
    # A policy without normalisation gets none, although the preset of the environment has one.
    plain = load_policy(base.zip, normalisation="none")
    save_policy(plain, tmp_path / "plain.safetensors", env_id=env)
    without = train(
        env, None, 64, out=tmp_path / "r", settings=settings, n_episodes=1, start=tmp_path / "plain.safetensors"
    )
    assert without.normalisation is None
    assert load_policy(without.safetensors).normalisation is None


def test_other_architectures_than_the_presets(tmp_path) -> None:
    layers = (Layer(np.ones((7, 4)), np.zeros(7), Activation("tanh")), Layer(np.ones((2, 7)), np.zeros(2)))
    save_policy(NetworkPolicy(layers, "values", Plain(4)), tmp_path / "p.safetensors", env_id="CartPole-v1")
    start = read_start(tmp_path / "p.safetensors")
    assert environment_of_start(start) == EnvironmentSpec("CartPole-v1")
    trained = train("CartPole-v1", None, 60, out=tmp_path / "q", start=start, settings=DQN_SETTINGS, n_episodes=1)
    policy = load_policy(trained.zip)
    assert [layer.n_outputs for layer in policy.layers] == [7, 2]
    assert str(policy.layers[0].activation) == "tanh"


def test_policies_that_cannot_be_trained_are_refused_in_one_line(tmp_path) -> None:
    def network(second: str = "relu", n_features: int = 4, n_actions: int = 2) -> NetworkPolicy:
        layers = (
            Layer(np.ones((7, n_features)), np.zeros(7), Activation("relu")),
            Layer(np.ones((6, 7)), np.zeros(6), Activation(second)),
            Layer(np.ones((n_actions, 6)), np.zeros(n_actions)),
        )
        return NetworkPolicy(layers, "values", Plain(n_features))

    def refused(message: str, policy: object, algo: str | None = None, env: str = "CartPole-v1") -> None:
        with pytest.raises(TrainingError, match=message) as error:
            train(env, algo, 10, out=tmp_path / "p", start=policy)
        assert "\n" not in str(error.value)

    refused("is a policy of dqn; ppo cannot train its network", network(), "ppo")
    refused("different activations", network("tanh"))
    refused("reads 5 features, but CartPole-v1 has 4", network(n_features=5))
    refused("dqn cannot train on the actions Box", network(), env="Pendulum-v1")
    refused(r"its actions are Discrete\(3\), those of CartPole-v1 are Discrete\(2\)", network(n_actions=3))
    function = load_policy(lambda rows: rows[:, :2], output="values", n_features=4, n_actions=2)
    refused("not a feed-forward network", function)
    with pytest.raises(TrainingError, match="does not say which environment"):
        environment_of_start(read_start(network()))
