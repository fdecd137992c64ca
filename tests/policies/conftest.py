"""Tiny models of Stable-Baselines3, and what they themselves say the scores are."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import QRDQN
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from legible.policies import PolicyError, load_policy

ALGORITHMS = {"DQN": DQN, "QRDQN": QRDQN, "PPO": PPO, "A2C": A2C}


class SpaceEnv(gym.Env):
    """An environment that only has spaces: its observations are drawn from them, its episodes last five steps."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.observation_space.seed(0)
        self._steps = 0

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):  # noqa: ARG002 (Gymnasium's signature)
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps >= 5, False, {}


class Bomb:
    """An object that makes a folder, or calls another function with its path, when it is unpickled."""

    def __init__(self, folder: Path, function: Callable[[str], Any] = os.mkdir) -> None:
        self.call = function, (str(folder),)

    def __reduce__(self):
        return self.call


def make_env(observation_space: spaces.Space | None = None, action_space: spaces.Space | None = None) -> DummyVecEnv:
    observation_space = observation_space or spaces.Box(-3.0, 3.0, (4,))
    action_space = action_space or spaces.Discrete(3)
    return DummyVecEnv([lambda: SpaceEnv(observation_space, action_space)])


def make_model(
    algorithm: str, observation_space: spaces.Space | None = None, n_actions: int = 3, env: Any = None, **settings: Any
):
    """Return a model whose weights are large enough that every layer and every activation matters."""
    if "DQN" in algorithm:
        settings = {"buffer_size": 16, **settings}
    env = env or make_env(observation_space, spaces.Discrete(n_actions))
    model = ALGORITHMS[algorithm]("MlpPolicy", env, device="cpu", seed=0, **settings)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.policy.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.6)
    return model


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    """Two computations of the same scores agree up to rounding, which differs between processors."""
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def sb3_scores(model: Any, observations: np.ndarray) -> np.ndarray:
    """Return what Stable-Baselines3 itself computes, from observations as its environment gives them."""
    policy = model.policy
    policy.set_training_mode(False)
    batch, _ = policy.obs_to_tensor(observations)
    with torch.no_grad():
        if hasattr(policy, "q_net"):
            scores = policy.q_net(batch)
        elif hasattr(policy, "quantile_net"):
            scores = policy.quantile_net(batch).mean(dim=1)
        elif hasattr(policy, "get_distribution"):
            scores = policy.get_distribution(batch).distribution.logits
        else:  # ARS
            scores = policy.action_net(policy.extract_features(batch, policy.features_extractor))
    return scores.numpy()


def rewrite_zip(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Let a function change the members of a zip."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def rewrite_data(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Let a function change the JSON in a zip."""

    def change_members(members: dict[str, bytes]) -> None:
        data = json.loads(members["data"])
        change(data)
        members["data"] = json.dumps(data).encode()

    return rewrite_zip(path, change_members)


def try_mangled_data(original: Path, entries: set[str], n_examples: int, check: Callable[[Any], None]) -> None:
    """Put other values into the JSON of a zip: `check` accepts the policy, or there is an error that names the file."""
    with zipfile.ZipFile(original) as archive:
        data = json.loads(archive.read("data"))
    places = [(key, None) for key in entries & set(data)]
    places += [(key, inner) for key, _ in places if isinstance(data[key], dict) for inner in data[key]]

    @settings(LAW, max_examples=n_examples)
    @given(st.sampled_from(sorted(places, key=str)), _JSON_VALUES)
    def mangle(place, value):
        key, inner = place

        def change(mangled):
            if inner is None:
                mangled[key] = value
            else:
                mangled[key][inner] = value

        path = Path(shutil.copy(original, original.with_name("mangled.zip")))
        rewrite_data(path, change)
        try:
            policy = load_policy(path)
        except PolicyError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            check(policy)

    mangle()


_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["0", "-1", "[]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

LAW = settings(derandomize=True, deadline=None)
"""Laws are tried on the same examples in every run, however busy the machine is."""


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Keep PyTorch from spreading these tiny networks over cores that others use."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def observations() -> np.ndarray:
    return np.random.default_rng(3).uniform(-3, 3, (40, 4)).astype(np.float32)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that builds a model and saves it."""

    def save(algorithm: str, **settings: Any) -> Path:
        path = tmp_path / f"{algorithm.lower()}.zip"
        make_model(algorithm, **settings).save(path)
        return path

    return save
