"""Zips of Stable-Baselines3 give its own scores, and nothing in them is ever run."""

from __future__ import annotations

import base64
import functools
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from legible.policies import NetworkPolicy, OneHot, Plain, PolicyError, UnclearPolicyError, load_policy
from policies.conftest import (
    ALGORITHMS,
    SpaceEnv,
    assert_close,
    make_env,
    make_model,
    rewrite_data,
    rewrite_zip,
    sb3_scores,
    try_mangled_data,
)

ACTIVATIONS = [
    nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity, nn.LeakyReLU,
    nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.RReLU, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus,
    nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink,
]  # fmt: skip


def assert_same_scores(path: Path, model, observations, flat=None, **arguments):
    policy = load_policy(path, **arguments)
    assert isinstance(policy, NetworkPolicy)
    expected = sb3_scores(model, observations)
    scores = policy.scores(observations if flat is None else flat)
    assert scores.dtype == np.float32
    assert_close(scores, expected)
    assert expected.std(axis=0).min() > 1e-3  # the comparison is not of constants
    return policy


class TestScoresAreThoseOfStableBaselines3:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_with_defaults(self, tmp_path, observations, algorithm):
        model = make_model(algorithm)
        model.save(tmp_path / "model.zip")
        policy = assert_same_scores(tmp_path / "model.zip", model, observations)
        assert (policy.n_features, policy.n_actions) == (4, 3)
        assert policy.kind == ("values" if "DQN" in algorithm else "log-probabilities")
        assert policy.metadata["algorithm"] == algorithm
        assert policy.metadata["seed"] == 0
        assert [layer.weight.shape[0] for layer in policy.layers] == [64, 64, 3]

    @pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda activation: activation.__name__)
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_with_every_activation(self, tmp_path, observations, algorithm, activation):
        model = make_model(algorithm, policy_kwargs={"activation_fn": activation, "net_arch": [6, 5]})
        model.save(tmp_path / "model.zip")
        assert_same_scores(tmp_path / "model.zip", model, observations)

    def test_with_an_activation_that_has_parameters(self, tmp_path, observations):
        activation = functools.partial(nn.LeakyReLU, negative_slope=0.3, inplace=True)
        model = make_model("DQN", policy_kwargs={"activation_fn": activation})
        model.save(tmp_path / "model.zip")
        policy = assert_same_scores(tmp_path / "model.zip", model, observations)
        assert str(policy.layers[0].activation) == "leaky_relu(negative_slope=0.3)"

    @pytest.mark.parametrize("net_arch", [[], [7], [7, 6, 5]], ids=str)
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_with_every_depth(self, tmp_path, observations, algorithm, net_arch):
        model = make_model(algorithm, policy_kwargs={"net_arch": net_arch})
        model.save(tmp_path / "model.zip")
        policy = assert_same_scores(tmp_path / "model.zip", model, observations)
        assert len(policy.layers) == len(net_arch) + 1

    @pytest.mark.parametrize(
        "net_arch", [{"pi": [5], "vf": [7, 7]}, {"pi": [], "vf": [5]}, {"vf": [5]}, {"pi": [5]}, {}], ids=str
    )
    @pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
    def test_with_actor_and_critic_of_different_shapes(self, tmp_path, observations, algorithm, net_arch):
        model = make_model(algorithm, policy_kwargs={"net_arch": net_arch})
        model.save(tmp_path / "model.zip")
        assert_same_scores(tmp_path / "model.zip", model, observations)

    @pytest.mark.parametrize("n_quantiles", [1, 7])
    def test_with_another_number_of_quantiles(self, tmp_path, observations, n_quantiles):
        model = make_model("QRDQN", policy_kwargs={"n_quantiles": n_quantiles})
        model.save(tmp_path / "model.zip")
        policy = assert_same_scores(tmp_path / "model.zip", model, observations)
        assert policy.layers[-1].weight.shape == (3, 64)

    @pytest.mark.parametrize(
        ("space", "width"),
        [
            (spaces.Box(-1, 1, (5,)), 5),
            (spaces.Box(-1, 1, (2, 3)), 6),
            (spaces.Box(-1, 1, (2, 3, 2)), 12),
            (spaces.Box(-1, 1, (4,), dtype=np.float64), 4),
            (spaces.Box(0, 255, (6,), dtype=np.uint8), 6),
            (spaces.Discrete(5), 1),
            (spaces.MultiDiscrete([3, 2, 4]), 3),
            (spaces.MultiDiscrete(np.arange(2, 32)), 30),  # its text has line breaks
            (spaces.MultiBinary(4), 4),
            (spaces.MultiBinary([2, 3]), 6),
        ],
        ids=lambda value: str(value)[:40].replace("\n", ""),
    )
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_with_every_observation_space(self, tmp_path, algorithm, space, width):
        model = make_model(algorithm, observation_space=space, policy_kwargs={"net_arch": [8]})
        model.save(tmp_path / "model.zip")
        space.seed(2)
        observations = np.array([space.sample() for _ in range(30)])
        flat = observations.reshape(30, -1).astype(np.float32)
        policy = assert_same_scores(tmp_path / "model.zip", model, observations, flat)
        assert policy.n_features == width

    def test_with_options_that_do_not_change_the_network(self, tmp_path, observations):
        options = {"ortho_init": False, "share_features_extractor": False, "optimizer_class": torch.optim.SGD}
        model = make_model("PPO", policy_kwargs=options)
        model.save(tmp_path / "model.zip")
        assert_same_scores(tmp_path / "model.zip", model, observations)

    @pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
    def test_after_training(self, tmp_path, observations, algorithm):
        settings = {"n_steps": 8, "batch_size": 8, "n_epochs": 1} if algorithm == "PPO" else {"learning_starts": 4}
        model = make_model(algorithm, **settings).learn(16)
        model.save(tmp_path / "model.zip")
        policy = assert_same_scores(tmp_path / "model.zip", model, observations)
        assert policy.metadata["num_timesteps"] == 16


def as_old_version(data):
    """Write spaces and architectures as Stable-Baselines3 1.0 did with Gym 0.17."""
    for name in ("observation_space", "action_space"):
        space = data[name]
        space[":type:"] = space[":type:"].replace("gymnasium.", "gym.")
        space["shape"] = space.pop("_shape")
        space.pop("_np_random")
        space.pop("start", None)
        if "n" in space:
            space["n"] = int(space["n"])
    for name in ("_stats_window_size", "_last_episode_starts"):
        data.pop(name)


def drop_newer_members(members):
    members["_stable_baselines3_version"] = b"1.0\n"
    del members["system_info.txt"]


class TestOldVersions:
    @pytest.mark.parametrize("space", [spaces.Box(-3, 3, (4,)), spaces.MultiBinary(4), spaces.Discrete(6)], ids=str)
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_zip_of_1_0_with_gym(self, tmp_path, algorithm, space):
        model = make_model(algorithm, observation_space=space)
        path = tmp_path / "model.zip"
        model.save(path)
        rewrite_data(path, as_old_version)
        rewrite_zip(path, drop_newer_members)
        observations = np.array([space.sample() for _ in range(9)])
        flat = observations.reshape(9, -1).astype(np.float32)
        policy = assert_same_scores(path, model, observations, flat)
        assert policy.metadata["stable_baselines3_version"] == "1.0"

    @pytest.mark.parametrize(
        ("net_arch", "shared", "own"),
        [([8, 6], [8, 6], []), ([8, {"pi": [5], "vf": [7]}], [8], [5]), ([{"pi": [5, 4], "vf": [7]}], [], [5, 4])],
        ids=str,
    )
    def test_layers_that_actor_and_critic_share(self, tmp_path, observations, net_arch, shared, own):
        """Before 1.8 a net_arch could begin with shared layers; the reference is computed by hand from the tensors."""
        generator = torch.Generator().manual_seed(5)
        tensors, width = {}, 4
        modules = []
        for prefix, sizes in (("shared_net", shared), ("policy_net", own)):
            for number, size in enumerate(sizes):
                weight = torch.randn(size, width, generator=generator)
                bias = torch.randn(size, generator=generator)
                tensors[f"mlp_extractor.{prefix}.{2 * number}.weight"] = weight
                tensors[f"mlp_extractor.{prefix}.{2 * number}.bias"] = bias
                modules.append((weight, bias))
                width = size
        tensors["mlp_extractor.value_net.0.weight"] = torch.randn(7, 8)
        tensors["value_net.weight"] = torch.randn(1, 7)
        tensors["action_net.weight"] = torch.randn(3, width, generator=generator)
        tensors["action_net.bias"] = torch.randn(3, generator=generator)
        path = tmp_path / "model.zip"
        make_model("PPO").save(path)
        rewrite_data(path, as_old_version)
        rewrite_data(path, lambda data: data["policy_kwargs"].update(net_arch=net_arch))
        stream = io.BytesIO()
        torch.save(tensors, stream)
        rewrite_zip(path, lambda members: members.update({"policy.pth": stream.getvalue()}))

        hidden = torch.from_numpy(observations)
        for weight, bias in modules:
            hidden = torch.tanh(hidden @ weight.T + bias)
        logits = hidden @ tensors["action_net.weight"].T + tensors["action_net.bias"]
        scores = load_policy(path).scores(observations)
        np.testing.assert_allclose(scores, torch.log_softmax(logits, 1).numpy(), atol=1e-5)

    def test_tensors_that_were_saved_from_a_gpu(self, tmp_path, observations):
        """Where a tensor was is written beside it as text; a machine without a GPU has to read it all the same."""
        model = make_model("DQN")
        path = tmp_path / "model.zip"
        model.save(path)

        def move(members):
            stream = io.BytesIO(members["policy.pth"])
            with zipfile.ZipFile(stream) as archive:
                parts = {name: archive.read(name) for name in archive.namelist()}
            name = next(name for name in parts if name.endswith("/data.pkl"))
            parts[name] = parts[name].replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            assert b"cuda:0" in parts[name]
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                for part, content in parts.items():
                    archive.writestr(part, content)
            members["policy.pth"] = stream.getvalue()

        rewrite_zip(path, move)
        assert_same_scores(path, model, observations)

    def test_tensors_in_the_oldest_file_format_of_pytorch(self, tmp_path, observations):
        model = make_model("DQN")
        path = tmp_path / "model.zip"
        model.save(path)
        stream = io.BytesIO()
        torch.save(model.policy.state_dict(), stream, _use_new_zipfile_serialization=False)
        rewrite_zip(path, lambda members: members.update({"policy.pth": stream.getvalue()}))
        assert_same_scores(path, model, observations)


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


class TestNothingIsUnpickled:
    def test_the_bomb_works(self, tmp_path):
        pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))
        assert (tmp_path / "exploded").is_dir()

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_pickles_in_the_data(self, tmp_path, observations, algorithm):
        model = make_model(algorithm, policy_kwargs={"activation_fn": nn.ELU})
        path = tmp_path / "model.zip"
        model.save(path)
        bomb = base64.b64encode(pickle.dumps(Bomb(tmp_path / "exploded"))).decode()

        def plant(data):
            for entry in data.values():
                if isinstance(entry, dict) and ":serialized:" in entry:
                    entry[":serialized:"] = bomb
            data["surprise"] = {":type:": "<class 'dict'>", ":serialized:": bomb}

        rewrite_data(path, plant)
        assert_same_scores(path, model, observations)
        assert not (tmp_path / "exploded").exists()

    @pytest.mark.parametrize("other_member", ["pytorch_variables.pth", "policy.optimizer.pth"])
    def test_other_members_are_not_even_read(self, saved, tmp_path, other_member):
        path = saved("DQN")
        bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
        rewrite_zip(path, lambda members: members.update({other_member: bomb}))
        load_policy(path)
        assert not (tmp_path / "exploded").exists()

    @pytest.mark.parametrize("way", ["pickle", "torch", "torch-legacy", "beside-tensors"])
    def test_pickle_instead_of_tensors(self, saved, tmp_path, way, snapshot):
        path = saved("DQN")
        bomb = Bomb(tmp_path / "exploded")
        stream = io.BytesIO()
        if way == "pickle":
            pickle.dump(bomb, stream, protocol=2)
        elif way == "beside-tensors":
            torch.save({"q_net.q_net.0.weight": torch.zeros(64, 4), "x": bomb}, stream)
        else:
            torch.save({"x": bomb}, stream, _use_new_zipfile_serialization=way == "torch")
        rewrite_zip(path, lambda members: members.update({"policy.pth": stream.getvalue()}))
        with warnings.catch_warnings(action="error"), pytest.raises(PolicyError) as caught:
            load_policy(path)
        assert str(caught.value).replace(f"{os.mkdir.__module__}.mkdir", "os.mkdir") == snapshot
        assert not (tmp_path / "exploded").exists()

    def test_loading_imports_neither_pickles_nor_stable_baselines3(self, saved):
        """The protocol needs no PyTorch, and a zip needs no Stable-Baselines3."""
        program = (
            "import sys, pickle; from legible.policies import Policy; assert 'torch' not in sys.modules\n"
            "from legible.policies import load_policy; load_policy(sys.argv[1])\n"
            "assert 'stable_baselines3' not in sys.modules and 'cloudpickle' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", program, str(saved("PPO"))], check=True)

    def test_unpickling_functions_are_never_called(self, saved, monkeypatch):
        def explode(*args, **kwargs):
            raise AssertionError("something was unpickled")

        path = saved("PPO")
        for name in ("load", "loads", "Unpickler"):
            monkeypatch.setattr(pickle, name, explode)
        load_policy(path)


class MyPolicy(ActorCriticPolicy):
    pass


class MyExtractor(BaseFeaturesExtractor):
    """Scales observations: it has no tensors that could give it away."""

    def __init__(self, observation_space):
        super().__init__(observation_space, features_dim=4)

    def forward(self, observations):
        return 10 * observations


class MyReLU(nn.ReLU):
    pass


def relu():
    return nn.ReLU()


class TestWhatIsNotSupportedIsRefused:
    """Each refusal says what it is about and how else the policy can be used."""

    def refusal(self, path, **arguments):
        with pytest.raises(PolicyError) as caught:
            load_policy(path, **arguments)
        assert str(path) in str(caught.value)
        return str(caught.value)

    def saved_as(self, tmp_path, model):
        model.save(tmp_path / "model.zip")
        return tmp_path / "model.zip"

    def test_spaces_that_an_algorithm_does_not_have(self, tmp_path, snapshot):
        path = self.saved_as(tmp_path, make_model("PPO"))
        rewrite_data(path, lambda data: data["action_space"].update({":type:": "<class 'gymnasium.spaces.text.Text'>"}))
        assert self.refusal(path) == snapshot

    def test_a_network_of_its_own_for_exploration(self, tmp_path, snapshot):
        model = PPO("MlpPolicy", make_env(action_space=spaces.Box(-1, 1, (2,))), device="cpu", use_sde=True)
        path = self.saved_as(tmp_path, model)
        rewrite_data(path, lambda data: data["policy_kwargs"].update(sde_net_arch=[64]))
        assert self.refusal(path) == snapshot

    def test_own_policy_class(self, tmp_path, snapshot):
        model = PPO(MyPolicy, make_env(), device="cpu")
        assert self.refusal(self.saved_as(tmp_path, model)).replace(__name__, "my_module") == snapshot

    def test_own_extractor_without_tensors(self, tmp_path):
        model = make_model("PPO", policy_kwargs={"features_extractor_class": MyExtractor})
        message = self.refusal(self.saved_as(tmp_path, model))
        assert "MyExtractor" in message
        assert "feature extractor" in message

    def test_tensors_of_an_extractor_that_the_data_does_not_mention(self, saved):
        path = saved("DQN")
        stream = io.BytesIO()
        with zipfile.ZipFile(path) as archive:
            tensors = torch.load(archive.open("policy.pth"), weights_only=True)
        tensors["q_net.features_extractor.linear.0.weight"] = torch.zeros(4, 4)
        torch.save(tensors, stream)
        rewrite_zip(path, lambda members: members.update({"policy.pth": stream.getvalue()}))
        message = self.refusal(path)
        assert "'q_net.features_extractor.linear.0.weight'" in message

    @pytest.mark.parametrize("key", ["dueling", "post_linear_modules"])
    def test_unknown_options(self, saved, key):
        path = saved("DQN")
        rewrite_data(path, lambda data: data["policy_kwargs"].update({key: True}))
        assert f"its policy_kwargs hold {key}" in self.refusal(path)

    @pytest.mark.parametrize("name", ["observation_space", "action_space"])
    def test_spaces_that_do_not_start_at_zero(self, saved, name, snapshot):
        path = saved("DQN", observation_space=spaces.Discrete(4))
        rewrite_data(path, lambda data: data[name].update(start="1"))
        assert self.refusal(path) == snapshot

    def test_networks_with_something_between_the_layers(self, saved):
        """A batch normalisation shifts the places of the layers that follow."""
        path = saved("DQN")
        stream = io.BytesIO()
        with zipfile.ZipFile(path) as archive:
            tensors = torch.load(archive.open("policy.pth"), weights_only=True)
        for kind in ("weight", "bias"):
            tensors[f"q_net.q_net.5.{kind}"] = tensors.pop(f"q_net.q_net.4.{kind}")
        torch.save(tensors, stream)
        rewrite_zip(path, lambda members: members.update({"policy.pth": stream.getvalue()}))
        assert "'q_net.q_net.5.weight' is out of place" in self.refusal(path)


class TestWhatCannotBeReadIsAskedFor:
    def question(self, path, argument, **arguments):
        with pytest.raises(UnclearPolicyError) as caught:
            load_policy(path, **arguments)
        assert caught.value.argument == argument
        assert f"Give the {argument}, such as" in str(caught.value)
        assert str(path) in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize("activation", [MyReLU, relu], ids=["own class", "function"])
    def test_activation_of_ones_own(self, tmp_path, observations, activation):
        model = make_model("DQN", policy_kwargs={"activation_fn": activation})
        path = tmp_path / "model.zip"
        model.save(path)
        message = self.question(path, "activation")
        assert "such as relu" in message
        assert_same_scores(path, model, observations, activation="relu")
        assert_same_scores(path, model, observations, activation=nn.ReLU)

    def test_partial_with_positional_arguments(self, tmp_path, observations):
        model = make_model("DQN", policy_kwargs={"activation_fn": functools.partial(nn.LeakyReLU, 0.2)})
        path = tmp_path / "model.zip"
        model.save(path)
        self.question(path, "activation")
        assert_same_scores(path, model, observations, activation="leaky_relu(negative_slope=0.2)")

    def test_policy_kwargs_left_out(self, tmp_path, observations):
        model = make_model("PPO")
        path = tmp_path / "model.zip"
        model.save(path, exclude=["policy_kwargs"])
        self.question(path, "activation")
        assert_same_scores(path, model, observations, activation="tanh")

    def test_observation_space_left_out(self, tmp_path, observations):
        model = make_model("PPO")
        path = tmp_path / "model.zip"
        model.save(path, exclude=["observation_space"])
        self.question(path, "encoding")
        assert_same_scores(path, model, observations, encoding=Plain(4))

    def test_long_multi_discrete_whose_text_is_abridged(self, tmp_path):
        space = spaces.MultiDiscrete([2] * 1100)
        model = make_model("DQN", observation_space=space)
        path = tmp_path / "model.zip"
        model.save(path)
        observations = np.array([space.sample() for _ in range(5)])
        flat = observations.astype(np.float32)
        assert_same_scores(path, model, observations, flat)  # from the pickle, read as data
        rewrite_data(path, lambda data: data["observation_space"].update({":serialized:": ""}))
        self.question(path, "encoding")
        assert_same_scores(path, model, observations, flat, encoding=OneHot((2,) * 1100))

    def test_action_space_left_out(self, tmp_path, observations):
        model = make_model("DQN")
        path = tmp_path / "model.zip"
        model.save(path, exclude=["action_space"])
        self.question(path, "n_actions")
        assert_same_scores(path, model, observations, n_actions=3)

    def test_algorithm_that_is_not_written(self, saved):
        path = saved("PPO")
        for name in ("policy_class", "gae_lambda", "clip_range"):
            rewrite_data(path, lambda data, name=name: data.pop(name))
        self.question(path, "algorithm")
        self.question(path, "algorithm", trust=True)
        assert load_policy(path, algorithm="ppo").n_actions == 3

    def test_algorithm_of_which_only_the_policy_class_is_written(self, saved, raises_saved):
        path = saved("PPO")
        for name in ("gae_lambda", "clip_range"):
            rewrite_data(path, lambda data, name=name: data.pop(name))
        self.question(path, "algorithm")
        assert load_policy(path, algorithm="A2C").n_actions == 3
        with raises_saved(PolicyError):
            load_policy(path, algorithm="DQN")
        assert load_policy(rewrite_data(saved("QRDQN"), lambda data: data.pop("n_quantiles"))).n_actions == 3

    def test_a_zip_with_tensors_only(self, tmp_path, observations):
        model = make_model("QRDQN")
        path = tmp_path / "model.zip"
        model.save(path)
        rewrite_zip(path, lambda members: members.pop("data"))
        self.question(path, "algorithm")
        said = {"algorithm": "QR-DQN", "activation": "ReLU", "encoding": Plain(4), "n_actions": 3}
        assert_same_scores(path, model, observations, **said)

    def test_answers_that_contradict_the_file(self, saved):
        path = saved("PPO")
        for said, complaint in [
            ({"activation": "relu"}, "the activation 'relu' was given, but the file says that it is 'tanh'"),
            ({"algorithm": "A2C"}, "the algorithm 'A2C' was given, but the file says that it is PPO"),
            ({"encoding": Plain(5)}, "the encoding Plain(n_features=5) was given"),
            ({"n_actions": 4}, "it has 3 actions, but 4 were asked for"),
            ({"n_features": 69}, "it reads observations of 4 features, but 69 were asked for"),
            ({"output": "logits"}, "output does not apply"),
        ]:
            with pytest.raises(PolicyError) as caught:
                load_policy(path, **said)
            assert complaint in str(caught.value)

    def test_answers_that_agree_with_the_file(self, saved):
        said = {"activation": "tanh", "algorithm": "PPO", "encoding": Plain(4), "n_actions": 3, "n_features": 4}
        assert load_policy(saved("PPO"), **said).n_actions == 3


def change_tensors(path, change):
    with zipfile.ZipFile(path) as archive:
        tensors = torch.load(archive.open("policy.pth"), weights_only=True)
    answer = change(tensors)
    stream = io.BytesIO()
    torch.save(tensors if answer is None else answer, stream)
    return rewrite_zip(path, lambda members: members.update({"policy.pth": stream.getvalue()}))


def without(name):
    return lambda tensors: {other: tensor for other, tensor in tensors.items() if other != name}


class TestDamagedFiles:
    def complaint(self, path, **arguments):
        with pytest.raises(PolicyError) as caught:
            load_policy(path, **arguments)
        assert not isinstance(caught.value, UnclearPolicyError)
        assert str(path) in str(caught.value)
        return str(caught.value)

    def test_missing(self, saved, snapshot):
        path = saved("DQN")
        assert self.complaint(path.with_suffix("")) == snapshot
        assert self.complaint(path.with_name("other.zip")) == snapshot

    def test_folder(self, tmp_path, snapshot):
        assert self.complaint(tmp_path) == snapshot

    def test_empty(self, tmp_path):
        (tmp_path / "model.zip").touch()
        assert "the file is empty" in self.complaint(tmp_path / "model.zip")

    def test_no_zip(self, tmp_path):
        (tmp_path / "model.zip").write_text("not a zip")
        assert "this is no zip file" in self.complaint(tmp_path / "model.zip")

    @pytest.mark.parametrize("name", ["model.pkl", "model.bin", "model"])
    def test_other_formats(self, tmp_path, name, snapshot):
        (tmp_path / name).write_bytes(b"\x80\x04something")
        assert self.complaint(tmp_path / name) == snapshot

    @pytest.mark.parametrize("part", [0.01, 0.2, 0.5, 0.9, 0.999])
    def test_truncated(self, saved, part):
        path = saved("DQN")
        content = path.read_bytes()
        path.write_bytes(content[: int(part * len(content))])
        assert "truncated or damaged" in self.complaint(path)

    def test_a_flipped_bit_in_the_tensors(self, saved):
        path = saved("DQN")
        with zipfile.ZipFile(path) as archive:
            begin = archive.getinfo("policy.pth").header_offset
        content = bytearray(path.read_bytes())
        content[begin + 3000] ^= 1
        path.write_bytes(content)
        assert "policy.pth is damaged" in self.complaint(path)

    def test_without_policy(self, saved):
        path = rewrite_zip(saved("DQN"), lambda members: members.pop("policy.pth"))
        assert "no policy.pth" in self.complaint(path)

    @pytest.mark.parametrize("data", [b"{", b"[]", b"\xff\xfe"])
    def test_data_that_is_no_json_object(self, saved, data):
        path = rewrite_zip(saved("DQN"), lambda members: members.update(data=data))
        assert "data is" in self.complaint(path)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_weights_that_are_not_finite(self, saved, value, snapshot):
        def spoil(tensors):
            tensors["q_net.q_net.2.weight"][3, 2] = value

        assert self.complaint(change_tensors(saved("DQN"), spoil)) == snapshot

    def test_missing_tensor(self, saved, snapshot):
        assert self.complaint(change_tensors(saved("PPO"), without("action_net.bias"))) == snapshot

    def test_tensor_of_another_type(self, saved, snapshot):
        def widen(tensors):
            tensors["action_net.bias"] = tensors["action_net.bias"].double()

        assert self.complaint(change_tensors(saved("PPO"), widen)) == snapshot

    def test_layers_that_do_not_fit(self, saved, snapshot):
        def widen(tensors):
            tensors["q_net.q_net.2.weight"] = torch.zeros(64, 65)

        assert self.complaint(change_tensors(saved("DQN"), widen)) == snapshot

    def test_bias_that_does_not_fit(self, saved, snapshot):
        def shorten(tensors):
            tensors["q_net.q_net.2.bias"] = torch.zeros(63)

        assert self.complaint(change_tensors(saved("DQN"), shorten)) == snapshot

    def test_observations_of_another_width(self, saved, snapshot):
        path = rewrite_data(saved("DQN"), lambda data: data["observation_space"].update(_shape=[5]))
        assert self.complaint(path) == snapshot

    def test_actions_of_another_number(self, saved, snapshot):
        path = rewrite_data(saved("PPO"), lambda data: data["action_space"].update(n="4"))
        assert self.complaint(path) == snapshot

    def test_quantiles_of_another_number(self, saved, snapshot):
        path = rewrite_data(saved("QRDQN"), lambda data: data["action_space"].update(n="7"))
        assert self.complaint(path) == snapshot
        path = rewrite_data(saved("QRDQN"), lambda data: data.update(n_quantiles=100))
        assert self.complaint(path) == snapshot

    def test_network_of_another_algorithm(self, saved):
        other = change_tensors(saved("DQN"), lambda _: {"weight": torch.zeros(1)})
        assert "policy.pth has no tensor 'q_net.q_net.0.weight'" in self.complaint(other)

    def test_policy_class_of_another_algorithm(self, saved, snapshot):
        other = {
            "__module__": "stable_baselines3.common.policies",
            "__init__": "<function ActorCriticPolicy.__init__ at 0x1>",
        }
        path = rewrite_data(saved("DQN"), lambda data: data["policy_class"].update(other))
        assert self.complaint(path) == snapshot

    def test_tensors_that_claim_more_than_the_file_holds(self, saved, snapshot):
        def inflate(tensors):
            tensors["q_net.q_net.0.weight"] = torch.zeros(1).expand(100_000, 100_000)

        assert self.complaint(change_tensors(saved("DQN"), inflate)) == snapshot

    def test_things_that_are_no_tensors(self, saved):
        assert "no plain tensor" in self.complaint(change_tensors(saved("DQN"), lambda _: {"a": 3}))
        assert "not named tensors" in self.complaint(change_tensors(saved("DQN"), lambda _: [1]))


@pytest.mark.parametrize("algorithm", ["QRDQN", "PPO"])
def test_whatever_the_data_says_there_is_a_policy_or_an_error_for_people(tmp_path_factory, algorithm):
    folder = tmp_path_factory.mktemp("fuzz")
    space = spaces.MultiDiscrete([2, 3]) if algorithm == "QRDQN" else spaces.Box(-1, 1, (5,))
    options = {"activation_fn": nn.ELU, "net_arch": [4], **({"n_quantiles": 3} if algorithm == "QRDQN" else {})}
    make_model(algorithm, observation_space=space, policy_kwargs=options).save(folder / "original.zip")
    read = {"policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde", "n_quantiles", "seed"}

    def check(policy):
        assert (policy.n_features, policy.n_actions) == (2 if algorithm == "QRDQN" else 5, 3)

    try_mangled_data(folder / "original.zip", read, 200, check)


class TestTrustedZips:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_plain_policies(self, tmp_path, observations, algorithm):
        model = make_model(algorithm)
        model.save(tmp_path / "model.zip")
        assert_same_scores(tmp_path / "model.zip", model, observations, trust=True)

    def test_own_policy_class_and_extractor(self, tmp_path, observations):
        model = PPO(MyPolicy, make_env(), device="cpu", policy_kwargs={"features_extractor_class": MyExtractor})
        model.save(tmp_path / "model.zip")
        policy = load_policy(tmp_path / "model.zip", trust=True)
        assert_close(policy.scores(observations), sb3_scores(model, observations))
        assert (policy.n_actions, policy.n_features, policy.kind) == (3, 4, "log-probabilities")

    @pytest.mark.parametrize("algorithm", ["DQN", "QRDQN", "PPO"])
    def test_cnn(self, tmp_path, algorithm):
        space = spaces.Box(0, 255, (36, 36, 1), dtype=np.uint8)
        settings = {"buffer_size": 4} if "DQN" in algorithm else {}
        model = ALGORITHMS[algorithm]("CnnPolicy", make_env(space), device="cpu", **settings)
        model.save(tmp_path / "model.zip")
        policy = load_policy(tmp_path / "model.zip", trust=True)
        images = np.random.default_rng(0).integers(0, 256, (3, 1, 36, 36)).astype(np.uint8)
        scores = policy.scores(images.reshape(3, -1).astype(np.float32))
        assert_close(scores, sb3_scores(model, images))

    @pytest.mark.parametrize(("name", "policy"), [("RecurrentPPO", "MlpLstmPolicy"), ("MaskablePPO", "MlpPolicy")])
    def test_policies_without_scores(self, tmp_path, observations, name, policy):
        import sb3_contrib

        model = getattr(sb3_contrib, name)(policy, make_env(), device="cpu")
        model.save(tmp_path / "model.zip")
        trusted = load_policy(tmp_path / "model.zip", trust=True)
        np.testing.assert_array_equal(
            trusted.predict(observations)[0], model.predict(observations, deterministic=True)[0]
        )

    def test_damaged_zip(self, saved):
        path = change_tensors(saved("DQN"), without("q_net.q_net.0.bias"))
        with pytest.raises(PolicyError, match="cannot load it as DQN"):
            load_policy(path, trust=True)

    def test_what_needs_another_algorithm(self, tmp_path, raises_saved):
        model = DQN("MlpPolicy", SpaceEnv(spaces.Box(-1, 1, (2,)), spaces.Discrete(2)), buffer_size=4, device="cpu")
        model.save(tmp_path / "model.zip")
        with raises_saved(PolicyError):
            load_policy(tmp_path / "model.zip", trust=True, algorithm="PPO")


def test_data_is_json_that_others_can_read(saved):
    """The reader relies on this layout; if a new version changes it, this test says so first."""
    with zipfile.ZipFile(saved("PPO", policy_kwargs={"activation_fn": nn.ReLU})) as archive:
        data = json.loads(archive.read("data"))
    assert data["policy_kwargs"]["activation_fn"] == "<class 'torch.nn.modules.activation.ReLU'>"
    assert data["policy_class"]["__module__"] == "stable_baselines3.common.policies"
    assert data["policy_class"]["__init__"].startswith("<function ActorCriticPolicy.__init__ at 0x")
    assert data["observation_space"]["_shape"] == [4]
    assert data["action_space"]["n"] == "3"
