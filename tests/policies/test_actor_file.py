"""Policies of continuous and several actions in legible's own files: the same actions to the bit, or a clear line."""

from pathlib import Path

import numpy as np
import pytest

from legible.policies import ActorPolicy, PolicyError, load_policy, save_policy
from play.spaces_environments import Buttons, Goal, Matrix, Walk, make_model


def from_zip(folder: Path, algorithm: str, world: type, **settings: object) -> ActorPolicy:
    make_model(algorithm, world(), **settings).save(folder / "model.zip")
    policy = load_policy(folder / "model.zip")
    assert isinstance(policy, ActorPolicy)
    return policy


@pytest.mark.parametrize(
    ("algorithm", "world", "settings"),
    [
        ("PPO", Walk, {}),
        ("PPO", Buttons, {}),
        ("PPO", Matrix, {}),
        ("PPO", Matrix, {"use_sde": True}),
        ("SAC", Matrix, {}),
        ("SAC", Matrix, {"use_sde": True}),
        ("TD3", Matrix, {}),
        ("CrossQ", Matrix, {"buffer_size": 64}),
    ],
)
def test_what_is_saved_acts_the_same_to_the_bit(tmp_path: Path, algorithm, world, settings) -> None:
    policy = from_zip(tmp_path, algorithm, world, **settings)
    loaded = load_policy(save_policy(policy, tmp_path / "policy.safetensors", metadata={"who": "me"}, env_id="Walk-v0"))
    assert isinstance(loaded, ActorPolicy)
    assert (loaded.env_id, loaded.metadata["who"]) == ("Walk-v0", "me")
    assert (loaded.observation_space, loaded.action_space) == (policy.observation_space, policy.action_space)
    shape = (20, *policy.observation_space.shape)
    observations = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    assert (loaded.predict(observations)[0] == policy.predict(observations)[0]).all()
    one, two = (p.predict(observations, deterministic=False, rng=np.random.default_rng(1))[0] for p in (policy, loaded))
    assert (one == two).all()


@pytest.mark.parametrize(
    ("algorithm", "world", "said"),
    [
        ("SAC", Goal, "a policy cannot be saved when it reads images or dictionaries"),
        ("RecurrentPPO", Walk, "a policy cannot be saved when it has memory"),
    ],
)
def test_what_cannot_be_saved_is_said(tmp_path: Path, algorithm, world, said) -> None:
    policy = from_zip(tmp_path, algorithm, world)
    with pytest.raises(PolicyError, match=said):
        save_policy(policy, tmp_path / "policy.safetensors")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = save_policy(from_zip(tmp_path, "SAC", Matrix), tmp_path / "policy.safetensors")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(PolicyError, match="it is damaged"):
        load_policy(path)
