"""Policies of other libraries and formats: CleanRL, plain tensors, ONNX, TorchScript, module:function."""

import io
import itertools
import pickle
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from legible.policies import ActingPolicy, NetworkPolicy, PolicyError, UnclearPolicyError, load_policy
from legible.policies.actors.policy import ActorPolicy
from policies.conftest import Bomb

N = 1000


def big(module):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in module.parameters():
            size = 0.05 if tensor.ndim == 4 or tensor.numel() > 20_000 else 0.4
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * size)
    return module


def mlp(*sizes, activation=nn.ReLU):
    modules = []
    for place, (before, after) in enumerate(itertools.pairwise(sizes)):
        modules += [nn.Linear(before, after)] + ([activation()] if place < len(sizes) - 2 else [])
    return nn.Sequential(*modules)


def cnn(*last):
    convolutions = [nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(), *last)


class Network(nn.Module):
    """A container with the names that CleanRL's scripts use."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, nn.Module | nn.Parameter):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)


def observations(width=4, n=N):
    return np.random.default_rng(0).normal(size=(n, width)).astype(np.float32)


def pictures(n=30):
    generator = np.random.default_rng(0)
    light = generator.random((n, 4, 1, 1)) ** 2
    return (generator.integers(0, 256, (n, 4, 84, 84)) * light).astype(np.uint8)


def save(path, thing):
    torch.save(thing, path)
    return path


class TestCleanRl:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "agent.cleanrl_model"

    @pytest.mark.parametrize(
        ("agent", "answer", "kind"),
        [
            (Network(network=mlp(4, 120, 84, 3)), lambda agent, x: agent.network(x), "values"),
            (
                Network(actor=mlp(4, 64, 64, 3, activation=nn.Tanh), critic=mlp(4, 64, 64, 1)),
                lambda agent, x: torch.log_softmax(agent.actor(x), dim=1),
                "log-probabilities",
            ),
            (
                Network(network=mlp(4, 120, 84, 3 * 51), atoms=torch.linspace(-10, 10, 51)),
                lambda agent, x: (torch.softmax(agent.network(x).view(N, 3, 51), dim=2) * agent.atoms).sum(2),
                "values",
            ),
        ],
        ids=["dqn", "ppo", "c51"],
    )
    def test_discrete(self, path, agent, answer, kind):
        saved = {"model_weights": big(agent).state_dict(), "args": {"env_id": "CartPole-v1", "seed": 1}}
        policy = load_policy(save(path, saved if hasattr(agent, "atoms") else agent.state_dict()))
        batch = observations()
        expected = answer(agent, torch.from_numpy(batch)).detach().numpy()
        np.testing.assert_allclose(policy.scores(batch), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(policy.predict(batch)[0], expected.argmax(axis=1))
        assert (policy.kind, isinstance(policy, NetworkPolicy)) == (kind, not hasattr(agent, "atoms"))
        assert policy.env_id == ("CartPole-v1" if hasattr(agent, "atoms") else None)

    @pytest.mark.parametrize("kind", ["dqn", "ppo", "c51"])
    def test_atari(self, path, kind):
        if kind == "ppo":
            agent = Network(
                network=cnn(nn.Linear(3136, 512), nn.ReLU()), actor=nn.Linear(512, 6), critic=nn.Linear(512, 1)
            )
            answer = lambda x: agent.actor(agent.network(x))  # noqa: E731
        elif kind == "c51":
            last = (nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6 * 51))
            agent = Network(network=cnn(*last), atoms=torch.linspace(-10, 10, 51))
            answer = lambda x: (agent.network(x).view(len(x), 6, 51).softmax(2) * agent.atoms).sum(2)  # noqa: E731
        else:
            agent = Network(network=cnn(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)))
            answer = agent.network
        big(agent)
        policy = load_policy(save(path, agent.state_dict()))
        assert policy.observation_space.shape == (4, 84, 84)
        batch = pictures()
        with torch.no_grad():
            expected = answer(torch.from_numpy(batch) / 255.0).numpy()
        np.testing.assert_array_equal(policy.predict(batch)[0], expected.argmax(axis=1))
        assert expected.std(axis=0).max() > 1e-3

    def test_ppo_continuous(self, path):
        agent = Network(actor_mean=mlp(4, 64, 64, 2, activation=nn.Tanh), critic=mlp(4, 64, 64, 1))
        agent.actor_logstd = nn.Parameter(torch.zeros(1, 2))
        big(agent)
        policy = load_policy(save(path, agent.state_dict()))
        batch = observations()
        expected = agent.actor_mean(torch.from_numpy(batch)).detach().numpy()
        np.testing.assert_allclose(policy.predict(batch)[0], expected, rtol=1e-5, atol=1e-6)
        assert policy.stochastic

    @pytest.mark.parametrize("kind", ["ddpg", "td3", "sac"])
    def test_squashed_actors(self, path, kind):
        heads = (
            {"fc_mean": nn.Linear(256, 2), "fc_logstd": nn.Linear(256, 2)}
            if kind == "sac"
            else {"fc_mu": nn.Linear(256, 2)}
        )
        scale, bias = torch.tensor([2.0, 0.5]), torch.tensor([0.0, 0.25])
        agent = big(
            Network(fc1=nn.Linear(4, 256), fc2=nn.Linear(256, 256), **heads, action_scale=scale, action_bias=bias)
        )
        saved = agent.state_dict() if kind == "sac" else (agent.state_dict(), big(mlp(6, 4, 1)).state_dict())
        policy = load_policy(save(path, saved))
        batch = observations()
        with torch.no_grad():
            hidden = torch.relu(agent.fc2(torch.relu(agent.fc1(torch.from_numpy(batch)))))
            last = agent.fc_mean if kind == "sac" else agent.fc_mu
            expected = (torch.tanh(last(hidden)) * scale + bias).numpy()
        np.testing.assert_allclose(policy.predict(batch)[0], expected, atol=1e-6)
        np.testing.assert_allclose(policy.action_space.high, [2.0, 0.75])
        assert policy.stochastic == (kind == "sac")

    def test_what_is_not_known(self, path, raises_saved):
        with raises_saved(PolicyError):
            load_policy(save(path, {"other.weight": torch.zeros(2, 2)}))
        with raises_saved(PolicyError):
            load_policy(save(path, {**mlp_state("network", 4, 120), **mlp_state("network", 7, 3, place=2)}))
        with pytest.raises(PolicyError, match="not finite"):
            load_policy(
                save(path, {"network.0.weight": torch.full((2, 2), float("nan")), "network.0.bias": torch.zeros(2)})
            )

    @pytest.mark.parametrize("suffix", [".cleanrl_model", ".pt", ".pth"])
    def test_poisoned_files_run_nothing(self, tmp_path, suffix):
        path = save(
            tmp_path / f"agent{suffix}", {"network.0.weight": torch.zeros(2, 2), "x": Bomb(tmp_path / "exploded")}
        )
        with pytest.raises(PolicyError, match="which would run code"):
            load_policy(path, allow_code=True)
        path.write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
        with pytest.raises(PolicyError, match="which would run code"):
            load_policy(path, allow_code=True)
        assert not (tmp_path / "exploded").exists()


def mlp_state(name, before, after, place=0):
    return {f"{name}.{place}.weight": torch.ones(after, before), f"{name}.{place}.bias": torch.zeros(after)}


class TestPlainTensors:
    @pytest.fixture
    def saved_net(self, tmp_path):
        net = big(nn.ModuleDict({"fc1": nn.Linear(4, 16), "fc2": nn.Linear(16, 16), "out": nn.Linear(16, 2)}))
        return net, save(tmp_path / "net.pth", net.state_dict())

    LAYERS = '[[layers]]\nname = "fc1"\nactivation = "relu"\n[[layers]]\nname = "fc2"\nactivation = "tanh"\n'

    def hidden(self, net, batch):
        return torch.tanh(net["fc2"](torch.relu(net["fc1"](torch.from_numpy(batch)))))

    @pytest.mark.parametrize("output", ["values", "logits"])
    def test_discrete(self, saved_net, tmp_path, output):
        net, path = saved_net
        (tmp_path / "net.toml").write_text(f'output = "{output}"\n{self.LAYERS}[[layers]]\nname = "out"\n')
        policy = load_policy(path)
        assert isinstance(policy, NetworkPolicy)
        batch = observations()
        expected = net["out"](self.hidden(net, batch)).detach().numpy()
        np.testing.assert_array_equal(policy.predict(batch)[0], expected.argmax(axis=1))

    @pytest.mark.parametrize("squashed", [True, False])
    def test_continuous(self, saved_net, tmp_path, squashed):
        net, path = saved_net
        last = '[[layers]]\nname = "out"\n' + ('activation = "tanh"\n' if squashed else "")
        text = f'output = "actions"\nsquashed = {str(squashed).lower()}\nlow = [-2, 0]\nhigh = [2, 1]\n'
        (tmp_path / "said.toml").write_text(text + self.LAYERS + last)
        policy = load_policy(path, architecture=tmp_path / "said.toml")
        batch = observations()
        raw = net["out"](self.hidden(net, batch)).detach().numpy()
        low, high = np.array([-2, 0]), np.array([2, 1])
        expected = low + 0.5 * (np.tanh(raw) + 1) * (high - low) if squashed else np.clip(raw, low, high)
        np.testing.assert_allclose(policy.predict(batch)[0], expected, atol=1e-6)

    def test_pictures(self, tmp_path):
        net = big(nn.Sequential(nn.Conv2d(4, 8, 8, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(3200, 3)))
        save(tmp_path / "net.pt", net.state_dict())
        (tmp_path / "net.toml").write_text(
            'output = "values"\nobservation_shape = [4, 84, 84]\ndivide_by = 255\n'
            '[[layers]]\nname = "0"\nstride = 4\nactivation = "relu"\n[[layers]]\nname = "3"\n'
        )
        policy = load_policy(tmp_path / "net.pt")
        assert isinstance(policy, ActorPolicy)
        expected = net(torch.from_numpy(pictures()) / 255).detach().numpy().argmax(axis=1)
        np.testing.assert_array_equal(policy.predict(pictures())[0], expected)

    def test_without_a_description_it_is_asked_for(self, saved_net, raises_saved):
        with raises_saved(UnclearPolicyError) as caught:
            load_policy(saved_net[1])
        assert caught.value.argument == "architecture"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("output = 'values'\n", "layers are missing"),
            ("output = 'q'\n[[layers]]\nname = 'fc1'\n", "output cannot be 'q'"),
            ("output = 'values'\n[[layers]]\nname = 'fc9'\n", "there is no tensor 'fc9.weight'; there are fc1.weight"),
            ("output = 'values'\n[[layers]]\nname = 'fc1'\nactivation = 'rleu'\n", "layer 'fc1': unknown activation"),
            (
                "output = 'values'\n[[layers]]\nname = 'fc1'\n[[layers]]\nname = 'out'\nstrid = 2\n",
                "layers.1: unknown entry 'strid'. Did you mean 'stride'",
            ),
            ("output = 'values'\n[[layers]]\nname = 'fc2'\n[[layers]]\nname = 'fc1'\n", "layer 1 has 4 inputs"),
            ("output = 'actions'\nlow = [1]\n[[layers]]\nname = 'fc1'\n", "1 bounds for the 16"),
            ("output = [", "is not valid TOML"),
            ("output = " + "[" * 5000, "is nested more than 32 deep"),
        ],
        ids=lambda text: text[-20:],
    )
    def test_descriptions_that_make_no_sense(self, saved_net, tmp_path, text, message):
        (tmp_path / "net.toml").write_text(text)
        with pytest.raises(PolicyError, match=message):
            load_policy(saved_net[1])


class TestOnnx:
    @pytest.fixture
    def exported(self, tmp_path):
        onnx = pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        from onnx import TensorProto, helper, numpy_helper

        def export(output_name="logits", batch=None, width=4):
            generator = np.random.default_rng(0)
            weights = {
                "w1": generator.normal(size=(width, 16)).astype(np.float32),
                "w2": generator.normal(size=(16, 3)).astype(np.float32),
            }
            nodes = [
                helper.make_node("MatMul", ["x", "w1"], ["a"]),
                helper.make_node("Relu", ["a"], ["b"]),
                helper.make_node("MatMul", ["b", "w2"], [output_name]),
            ]
            graph = helper.make_graph(
                nodes,
                "policy",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch or "n", width])],
                [helper.make_tensor_value_info(output_name, TensorProto.FLOAT, [batch or "n", 3])],
                [numpy_helper.from_array(values, name) for name, values in weights.items()],
            )
            path = tmp_path / "policy.onnx"
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
            onnx.save(model, path)
            return path, lambda x: np.maximum(x @ weights["w1"], 0) @ weights["w2"]

        return export

    @pytest.mark.parametrize("batch", [None, 1])
    def test_discrete(self, exported, batch):
        path, answer = exported(batch=batch)
        policy = load_policy(path)
        assert (policy.kind, policy.n_actions, policy.n_features) == ("log-probabilities", 3, 4)
        np.testing.assert_array_equal(policy.predict(observations())[0], answer(observations()).argmax(axis=1))
        copy = pickle.loads(pickle.dumps(policy))
        np.testing.assert_array_equal(copy.scores(observations(n=3)), policy.scores(observations(n=3)))

    def test_continuous(self, exported):
        path, answer = exported("actions")
        policy = load_policy(path)
        assert isinstance(policy, ActingPolicy)
        np.testing.assert_allclose(policy.predict(observations())[0], answer(observations()), rtol=1e-4, atol=1e-5)
        assert policy.predict(observations()[0])[0].shape == (3,)
        with pytest.raises(PolicyError, match="no score for every action"):
            policy.scores(observations())

    def test_an_output_that_does_not_say_what_it_is(self, exported):
        path, answer = exported("y")
        with pytest.raises(UnclearPolicyError, match="meaning of its output 'y'") as caught:
            load_policy(path)
        assert caught.value.argument == "output"
        policy = load_policy(path, output="values")
        np.testing.assert_allclose(policy.scores(observations()), answer(observations()), rtol=1e-4, atol=1e-5)

    def test_damaged(self, exported):
        path, _ = exported()
        raw = path.read_bytes()
        for content in (raw[:50], b"nonsense" * 20, raw.replace(b"MatMul", b"MutMal")):
            path.write_bytes(content)
            with pytest.raises(PolicyError, match="onnxruntime cannot read it"):
                load_policy(path)

    @pytest.mark.parametrize("width", [0, 10**9])
    def test_widths_that_cannot_be(self, exported, width):
        path, _ = exported(width=4)
        onnx = pytest.importorskip("onnx")
        model = onnx.load(path)
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = width
        onnx.save(model, path)
        with pytest.raises(PolicyError):
            load_policy(path)


class TestCode:
    @pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
    def test_torchscript_only_when_trusted(self, tmp_path, raises_saved):
        net = big(mlp(4, 8, 3))
        torch.jit.script(net).save(str(tmp_path / "net.pt"))
        for said in ({}, {"output": "values"}, {"output": "values", "n_features": 4, "allow_code": True}):
            with raises_saved(PolicyError):
                load_policy(tmp_path / "net.pt", **said)
        policy = load_policy(tmp_path / "net.pt", output="values", n_features=4, trust=True)
        batch = observations()
        expected = net(torch.from_numpy(batch)).detach().numpy()
        np.testing.assert_allclose(policy.scores(batch), expected, rtol=1e-5, atol=1e-6)
        copy = pickle.loads(pickle.dumps(policy))
        np.testing.assert_array_equal(copy.scores(batch), policy.scores(batch))
        actions = load_policy(tmp_path / "net.pt", output="actions", n_features=4, trust=True)
        np.testing.assert_allclose(actions.predict(batch)[0], expected, rtol=1e-5, atol=1e-6)

    def test_module_and_function(self, monkeypatch):
        module = types.ModuleType("my_policies")
        module.scores = lambda batch: -batch
        module.network = big(mlp(4, 3))
        module.number = 3
        monkeypatch.setitem(sys.modules, "my_policies", module)
        with pytest.raises(PolicyError, match="would import the module 'my_policies'"):
            load_policy("my_policies:scores", output="values", n_features=4)
        policy = load_policy("my_policies:scores", output="values", n_features=4, allow_code=True)
        np.testing.assert_array_equal(policy.scores(observations()), -observations())
        assert load_policy("my_policies:network", output="values", allow_code=True).n_actions == 3
        for name, message in [
            ("my_policies:nothing", "has no 'nothing'"),
            ("my_policies:number", "is a int, which is neither"),
            ("no_such_module_here:x", "cannot be imported"),
        ]:
            with pytest.raises(PolicyError, match=message):
                load_policy(name, allow_code=True)

    def test_a_file_that_looks_like_a_module_is_a_file(self, tmp_path):
        stream = io.BytesIO()
        torch.save({"a": torch.zeros(1)}, stream)
        (tmp_path / "a.pth").write_bytes(stream.getvalue())
        with pytest.raises(UnclearPolicyError, match=r"Describe it in a\.toml"):
            load_policy(str(tmp_path / "a.pth"))
