"""Zips of Stable-Baselines3 give its own scores, and nothing in them is ever run."""

import base64
import functools
import io
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
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from legible.policies import NetworkPolicy, OneHot, Plain, PolicyError, UnclearPolicyError, load_policy
from policies.conftest import (
    ALGORITHMS,
    Bomb,
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


def refusal(path, **arguments):
    with pytest.raises(PolicyError) as caught:
        load_policy(path, **arguments)
    assert not isinstance(caught.value, UnclearPolicyError)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def check(tmp_path, observations):
    """Return a function that saves a model and compares the scores of the loaded policy with those of the model."""

    def save_and_compare(model, batch=observations, flat=None, **arguments):
        model.save(tmp_path / "model.zip")
        return assert_same_scores(tmp_path / "model.zip", model, batch, flat, **arguments)

    return save_and_compare


@pytest.fixture
def saved_model(tmp_path):
    """Return a function that builds and saves a model, and returns both."""

    def save(algorithm, exclude=None, **settings):
        model = make_model(algorithm, **settings)
        model.save(tmp_path / "model.zip", exclude=exclude)
        return model, tmp_path / "model.zip"

    return save


def state_bytes(tensors, **settings):
    stream = io.BytesIO()
    torch.save(tensors, stream, **settings)
    return stream.getvalue()


class TestScoresAreThoseOfStableBaselines3:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_with_defaults(self, check, algorithm):
        policy = check(make_model(algorithm))
        assert (policy.n_features, policy.n_actions) == (4, 3)
        assert policy.kind == ("values" if "DQN" in algorithm else "log-probabilities")
        assert (policy.metadata["algorithm"], policy.metadata["seed"]) == (algorithm, 0)
        assert [layer.weight.shape[0] for layer in policy.layers] == [64, 64, 3]

    @pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda activation: activation.__name__)
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_with_every_activation(self, check, algorithm, activation):
        check(make_model(algorithm, policy_kwargs={"activation_fn": activation, "net_arch": [6, 5]}))

    def test_with_an_activation_that_has_parameters(self, check):
        activation = functools.partial(nn.LeakyReLU, negative_slope=0.3, inplace=True)
        policy = check(make_model("DQN", policy_kwargs={"activation_fn": activation}))
        assert str(policy.layers[0].activation) == "leaky_relu(negative_slope=0.3)"

    @pytest.mark.parametrize(
        ("algorithm", "options", "depth"),
        [
            *((name, {"net_arch": sizes}, len(sizes)) for name in ALGORITHMS for sizes in ([], [7], [7, 6, 5])),
            *((name, {"net_arch": {"pi": [5], "vf": [7, 7]}}, 1) for name in ("PPO", "A2C")),
            *((name, {"net_arch": {"pi": [], "vf": [5]}}, 0) for name in ("PPO", "A2C")),
            *((name, {"net_arch": {"vf": [5]}}, 0) for name in ("PPO", "A2C")),
            *((name, {"net_arch": {"pi": [5]}}, 1) for name in ("PPO", "A2C")),
            *((name, {"net_arch": {}}, 0) for name in ("PPO", "A2C")),
            *(("QRDQN", {"n_quantiles": n}, 2) for n in (1, 7)),
            # These do not change the network.
            ("PPO", {"ortho_init": False, "share_features_extractor": False, "optimizer_class": torch.optim.SGD}, 2),
        ],
        ids=str,
    )
    def test_with_other_shapes(self, check, algorithm, options, depth):
        policy = check(make_model(algorithm, policy_kwargs=options))
        assert (len(policy.layers), len(policy.layers[-1].weight)) == (depth + 1, 3)

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
    def test_with_every_observation_space(self, check, algorithm, space, width):
        model = make_model(algorithm, observation_space=space, policy_kwargs={"net_arch": [8]})
        space.seed(2)
        batch = np.array([space.sample() for _ in range(30)])
        assert check(model, batch, batch.reshape(30, -1).astype(np.float32)).n_features == width

    @pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
    def test_after_training(self, check, algorithm):
        settings = {"n_steps": 8, "batch_size": 8, "n_epochs": 1} if algorithm == "PPO" else {"learning_starts": 4}
        policy = check(make_model(algorithm, **settings).learn(16))
        assert policy.metadata["num_timesteps"] == 16


class TestOldVersions:
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
        rewrite_data(path, lambda data: data["policy_kwargs"].update(net_arch=net_arch))
        rewrite_zip(path, lambda members: members.update({"policy.pth": state_bytes(tensors)}))

        hidden = torch.from_numpy(observations)
        for weight, bias in modules:
            hidden = torch.tanh(hidden @ weight.T + bias)
        logits = hidden @ tensors["action_net.weight"].T + tensors["action_net.bias"]
        scores = load_policy(path).scores(observations)
        np.testing.assert_allclose(scores, torch.log_softmax(logits, 1).numpy(), atol=1e-5)

    def test_tensors_that_were_saved_from_a_gpu(self, saved_model, observations):
        """The device of a tensor is stored as text; a machine without a GPU must be able to read it."""
        model, path = saved_model("DQN")

        def move(members):
            with zipfile.ZipFile(io.BytesIO(members["policy.pth"])) as archive:
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

    def test_tensors_in_the_oldest_file_format_of_pytorch(self, saved_model, observations):
        model, path = saved_model("DQN")
        raw = state_bytes(model.policy.state_dict(), _use_new_zipfile_serialization=False)
        rewrite_zip(path, lambda members: members.update({"policy.pth": raw}))
        assert_same_scores(path, model, observations)


class TestNothingIsUnpickled:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_pickles_in_the_data(self, saved_model, tmp_path, observations, algorithm):
        model, path = saved_model(algorithm, policy_kwargs={"activation_fn": nn.ELU})
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

    @pytest.mark.parametrize("way", ["pickle", "torch", "torch-legacy", "with-tensors"])
    def test_pickle_instead_of_tensors(self, saved, tmp_path, way, snapshot):
        path = saved("DQN")
        bomb = Bomb(tmp_path / "exploded")
        raw = {
            "pickle": lambda: pickle.dumps(bomb, protocol=2),
            "torch": lambda: state_bytes({"x": bomb}),
            "torch-legacy": lambda: state_bytes({"x": bomb}, _use_new_zipfile_serialization=False),
            "with-tensors": lambda: state_bytes({"q_net.q_net.0.weight": torch.zeros(64, 4), "x": bomb}),
        }[way]()
        rewrite_zip(path, lambda members: members.update({"policy.pth": raw}))
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

    def saved_as(self, tmp_path, model):
        model.save(tmp_path / "model.zip")
        return tmp_path / "model.zip"

    def test_spaces_that_an_algorithm_does_not_have(self, saved, snapshot):
        text = {":type:": "<class 'gymnasium.spaces.text.Text'>"}
        assert refusal(rewrite_data(saved("PPO"), lambda data: data["action_space"].update(text))) == snapshot

    def test_a_network_of_its_own_for_exploration(self, tmp_path, snapshot):
        model = PPO("MlpPolicy", make_env(action_space=spaces.Box(-1, 1, (2,))), device="cpu", use_sde=True)
        path = self.saved_as(tmp_path, model)
        assert refusal(rewrite_data(path, lambda data: data["policy_kwargs"].update(sde_net_arch=[64]))) == snapshot

    def test_own_policy_class(self, tmp_path, snapshot):
        model = PPO(MyPolicy, make_env(), device="cpu")
        assert refusal(self.saved_as(tmp_path, model)).replace(__name__, "my_module") == snapshot

    def test_own_extractor_without_tensors(self, tmp_path):
        model = make_model("PPO", policy_kwargs={"features_extractor_class": MyExtractor})
        message = refusal(self.saved_as(tmp_path, model))
        assert "MyExtractor" in message
        assert "feature extractor" in message

    def test_tensors_of_an_extractor_that_the_data_does_not_mention(self, saved):
        name = "q_net.features_extractor.linear.0.weight"
        path = change_tensors(saved("DQN"), lambda tensors: tensors.update({name: torch.zeros(4, 4)}))
        assert f"'{name}'" in refusal(path)

    @pytest.mark.parametrize("key", ["dueling", "post_linear_modules"])
    def test_unknown_options(self, saved, key):
        path = rewrite_data(saved("DQN"), lambda data: data["policy_kwargs"].update({key: True}))
        assert f"its policy_kwargs hold {key}" in refusal(path)

    @pytest.mark.parametrize("name", ["observation_space", "action_space"])
    def test_spaces_that_do_not_start_at_zero(self, saved, name, snapshot):
        path = saved("DQN", observation_space=spaces.Discrete(4))
        assert refusal(rewrite_data(path, lambda data: data[name].update(start="1"))) == snapshot

    def test_networks_with_something_between_the_layers(self, saved):
        """A batch normalisation shifts the places of the layers that follow."""

        def shift(tensors):
            for kind in ("weight", "bias"):
                tensors[f"q_net.q_net.5.{kind}"] = tensors.pop(f"q_net.q_net.4.{kind}")

        assert "'q_net.q_net.5.weight' is out of place" in refusal(change_tensors(saved("DQN"), shift))


class TestWhatCannotBeReadIsAskedFor:
    def question(self, path, argument, **arguments):
        with pytest.raises(UnclearPolicyError) as caught:
            load_policy(path, **arguments)
        assert caught.value.argument == argument
        assert f"Give the {argument}, such as" in str(caught.value)
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize(
        ("activation", "given"),
        [(MyReLU, "relu"), (relu, nn.ReLU), (functools.partial(nn.LeakyReLU, 0.2), "leaky_relu(negative_slope=0.2)")],
        ids=["own class", "function", "positional argument"],
    )
    def test_custom_activation(self, saved_model, observations, activation, given):
        model, path = saved_model("DQN", policy_kwargs={"activation_fn": activation})
        self.question(path, "activation")
        assert_same_scores(path, model, observations, activation=given)

    @pytest.mark.parametrize(
        ("excluded", "given"),
        [
            ("policy_kwargs", {"activation": "tanh"}),
            ("observation_space", {"encoding": Plain(4)}),
            ("action_space", {"n_actions": 3}),
        ],
    )
    def test_excluded_entries(self, saved_model, observations, excluded, given):
        model, path = saved_model("PPO", exclude=[excluded])
        self.question(path, next(iter(given)))
        assert_same_scores(path, model, observations, **given)

    def test_long_multi_discrete_whose_text_is_abridged(self, saved_model):
        space = spaces.MultiDiscrete([2] * 1100)
        model, path = saved_model("DQN", observation_space=space)
        batch = np.array([space.sample() for _ in range(5)])
        flat = batch.astype(np.float32)
        assert_same_scores(path, model, batch, flat)  # from the pickle, read as data
        rewrite_data(path, lambda data: data["observation_space"].update({":serialized:": ""}))
        self.question(path, "encoding")
        assert_same_scores(path, model, batch, flat, encoding=OneHot((2,) * 1100))

    def test_missing_algorithm(self, saved, raises_saved):
        path = rewrite_data(saved("PPO"), lambda data: [data.pop(name) for name in ("gae_lambda", "clip_range")])
        self.question(path, "algorithm")
        assert load_policy(path, algorithm="A2C").n_actions == 3
        with raises_saved(PolicyError):
            load_policy(path, algorithm="DQN")
        rewrite_data(path, lambda data: data.pop("policy_class"))
        self.question(path, "algorithm")
        self.question(path, "algorithm", trust=True)
        assert load_policy(path, algorithm="ppo").n_actions == 3
        assert load_policy(rewrite_data(saved("QRDQN"), lambda data: data.pop("n_quantiles"))).n_actions == 3

    def test_a_zip_with_tensors_only(self, saved_model, observations):
        model, path = saved_model("QRDQN")
        rewrite_zip(path, lambda members: members.pop("data"))
        self.question(path, "algorithm")
        given = {"algorithm": "QR-DQN", "activation": "ReLU", "encoding": Plain(4), "n_actions": 3}
        assert_same_scores(path, model, observations, **given)

    def test_arguments_that_contradict_the_file(self, saved):
        path = saved("PPO")
        for given, message in [
            ({"activation": "relu"}, "the activation 'relu' was given, but the file says that it is 'tanh'"),
            ({"algorithm": "A2C"}, "the algorithm 'A2C' was given, but the file says that it is PPO"),
            ({"encoding": Plain(5)}, "the encoding Plain(n_features=5) was given"),
            ({"n_actions": 4}, "it has 3 actions, but 4 are required"),
            ({"n_features": 69}, "it reads observations of 4 features, but 69 are required"),
            ({"output": "logits"}, "output does not apply"),
        ]:
            with pytest.raises(PolicyError) as caught:
                load_policy(path, **given)
            assert message in str(caught.value)
        agreeing = {"activation": "tanh", "algorithm": "PPO", "encoding": Plain(4), "n_actions": 3, "n_features": 4}
        assert load_policy(path, **agreeing).n_actions == 3


def change_tensors(path, change):
    with zipfile.ZipFile(path) as archive:
        tensors = torch.load(archive.open("policy.pth"), weights_only=True)
    changed = change(tensors)
    raw = state_bytes(tensors if changed is None else changed)
    return rewrite_zip(path, lambda members: members.update({"policy.pth": raw}))


def with_tensor(name, value):
    """Return a change of tensors: one is replaced, or removed if the value is None."""

    def change(tensors):
        tensors[name] = value(tensors[name]) if callable(value) else value
        if value is None:
            del tensors[name]

    return change


OTHER_CLASS = {
    "__module__": "stable_baselines3.common.policies",
    "__init__": "<function ActorCriticPolicy.__init__ at 0x1>",
}


class TestDamagedFiles:
    def test_missing(self, saved, snapshot):
        path = saved("DQN")
        assert refusal(path.with_suffix("")) == snapshot
        assert refusal(path.with_name("other.zip")) == snapshot

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("model.zip", b"", "the file is empty"),
            ("model.zip", b"not a zip", "this is no zip file"),
            ("model.pkl", b"\x80\x04something", "cannot be read as a policy"),
            ("model", b"\x80\x04something", "cannot be read as a policy"),
        ],
    )
    def test_other_files(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        assert message in refusal(tmp_path / name)

    @pytest.mark.parametrize("part", [0.01, 0.2, 0.5, 0.9, 0.999])
    def test_truncated(self, saved, part):
        path = saved("DQN")
        content = path.read_bytes()
        path.write_bytes(content[: int(part * len(content))])
        assert "truncated or damaged" in refusal(path)

    def test_a_flipped_bit_in_the_tensors(self, saved):
        path = saved("DQN")
        with zipfile.ZipFile(path) as archive:
            begin = archive.getinfo("policy.pth").header_offset
        content = bytearray(path.read_bytes())
        content[begin + 3000] ^= 1
        path.write_bytes(content)
        assert "policy.pth is damaged" in refusal(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda members: members.pop("policy.pth"), "no policy.pth"),
            (lambda members: members.update(data=b"{"), "data is"),
            (lambda members: members.update(data=b"[]"), "data is"),
            (lambda members: members.update(data=b"\xff\xfe"), "data is"),
        ],
    )
    def test_members(self, saved, change, message):
        assert message in refusal(rewrite_zip(saved("DQN"), change))

    @pytest.mark.parametrize(
        ("algorithm", "change"),
        [
            pytest.param("DQN", with_tensor("q_net.q_net.2.weight", lambda old: old * np.nan), id="NaN"),
            pytest.param("DQN", with_tensor("q_net.q_net.2.weight", lambda old: old * np.inf), id="infinite"),
            pytest.param("PPO", with_tensor("action_net.bias", None), id="missing"),
            pytest.param("PPO", with_tensor("action_net.bias", lambda old: old.double()), id="type"),
            pytest.param("DQN", with_tensor("q_net.q_net.2.weight", torch.zeros(64, 65)), id="width"),
            pytest.param("DQN", with_tensor("q_net.q_net.2.bias", torch.zeros(63)), id="bias"),
            pytest.param("DQN", lambda _: {"weight": torch.zeros(1)}, id="another network"),
            pytest.param("DQN", lambda _: {"a": 3}, id="no tensor"),
            pytest.param("DQN", lambda _: [1], id="no names"),
            pytest.param(
                "DQN",
                with_tensor("q_net.q_net.0.weight", torch.zeros(1).expand(100_000, 100_000)),
                id="more than the file holds",
            ),
        ],
    )
    def test_tensors(self, saved, algorithm, change, snapshot):
        assert refusal(change_tensors(saved(algorithm), change)) == snapshot

    @pytest.mark.parametrize(
        ("algorithm", "change"),
        [
            pytest.param("DQN", lambda data: data["observation_space"].update(_shape=[5]), id="observations"),
            pytest.param("PPO", lambda data: data["action_space"].update(n="4"), id="actions"),
            pytest.param("QRDQN", lambda data: data["action_space"].update(n="7"), id="actions of quantiles"),
            pytest.param("QRDQN", lambda data: data.update(n_quantiles=100), id="quantiles"),
            pytest.param("DQN", lambda data: data["policy_class"].update(OTHER_CLASS), id="policy class"),
        ],
    )
    def test_descriptions(self, saved, algorithm, change, snapshot):
        assert refusal(rewrite_data(saved(algorithm), change)) == snapshot


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
    def test_plain_policies(self, check, algorithm):
        check(make_model(algorithm), trust=True)

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
        path = change_tensors(saved("DQN"), with_tensor("q_net.q_net.0.bias", None))
        with pytest.raises(PolicyError, match="cannot load it as DQN"):
            load_policy(path, trust=True)

    def test_another_algorithm(self, saved, raises_saved):
        with raises_saved(PolicyError):
            load_policy(saved("DQN"), trust=True, algorithm="PPO")
