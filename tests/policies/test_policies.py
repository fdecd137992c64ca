"""The protocol, networks, and policies around models, modules and functions."""

import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import PPO
from torch import nn

import legible.policies
from legible.errors import LegibleError
from legible.policies import (
    ACTIVATION_NAMES,
    Activation,
    FunctionPolicy,
    Layer,
    NetworkPolicy,
    Normalisation,
    OneHot,
    Plain,
    Policy,
    PolicyError,
    UnclearPolicyError,
    load_policy,
)
from policies.conftest import ALGORITHMS, LAW, assert_close, make_env, make_model, sb3_scores


def small_network(**fields):
    hidden = Layer([[1.0, -1.0], [0.0, 2.0]], [0.0, -1.0], Activation("relu"))
    head = Layer([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.5, 0.0, 0.0])
    return NetworkPolicy(**{"layers": (hidden, head), "kind": "values", "encoding": Plain(2), **fields})


class TestProtocol:
    def test_every_kind_of_policy_keeps_it(self):
        module = nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=1))
        for policy in (
            small_network(),
            load_policy(lambda batch: batch, output="values", n_actions=2),
            load_policy(module, output="probabilities", n_features=2),
        ):
            assert isinstance(policy, Policy)
            scores = policy.scores(np.zeros((4, 2), dtype=np.float32))
            assert scores.shape == (4, policy.n_actions)
            assert policy.scores(np.zeros((0, 2), dtype=np.float32)).shape == (0, policy.n_actions)

    def test_errors_are_for_people(self):
        assert issubclass(PolicyError, LegibleError)
        error = pickle.loads(pickle.dumps(UnclearPolicyError("what?", "activation")))
        assert (str(error), error.argument) == ("what?", "activation")

    def test_every_public_name_can_be_imported(self):
        assert set(legible.policies.__all__) <= set(dir(legible.policies))
        for name in legible.policies.__all__:
            assert getattr(legible.policies, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            legible.policies.nonsense  # noqa: B018 (the access is the test)

    @pytest.mark.parametrize("shape", [(2,), (1, 2, 1), ()], ids=str)
    def test_observations_come_in_batches(self, shape):
        with pytest.raises(PolicyError, match=r"batch of shape \[n, features\]"):
            small_network().scores(np.zeros(shape, dtype=np.float32))

    def test_scores_are_numbers(self):
        batch = np.zeros((3, 2), dtype=np.float32)
        batch[2, 1] = np.nan
        with pytest.raises(PolicyError, match="gives NaN for row 2"):
            small_network().scores(batch)


class TestNetworks:
    def test_by_hand(self):
        # hidden: relu(3 - 1, 2·1 - 1) = (2, 1); relu(-1, -1) = (0, 0)
        scores = small_network().scores(np.array([[3.0, 1.0], [-1.0, 0.0]], dtype=np.float32))
        np.testing.assert_array_equal(scores, [[2.5, 1.0, 3.0], [0.5, 0.0, 0.0]])

    def test_log_probabilities_by_hand(self):
        policy = NetworkPolicy((Layer([[0.0], [0.0]], np.log([1.0, 3.0])),), "log-probabilities", Plain(1))
        scores = policy.scores(np.zeros((1, 1), dtype=np.float32))
        np.testing.assert_allclose(np.exp(scores), [[0.25, 0.75]], rtol=1e-6)

    @settings(LAW)
    @given(st.integers(0, 2**32 - 1), st.floats(0.1, 1e4))
    def test_log_probabilities_are_those_of_a_distribution(self, seed, scale):
        generator = np.random.default_rng(seed)
        layer = Layer(scale * generator.normal(size=(4, 3)), generator.normal(size=4))
        policy = NetworkPolicy((layer,), "log-probabilities", Plain(3))
        scores = policy.scores(generator.normal(size=(5, 3)).astype(np.float32))
        # Minus a large number loses the digits after the point: float32 has seven.
        np.testing.assert_allclose(np.exp(scores.astype(float)).sum(axis=1), 1, rtol=1e-6 * max(scale, 10))
        assert (scores <= 1e-6 * max(scale, 10)).all()

    def test_one_hot_by_hand(self):
        policy = NetworkPolicy((Layer([[1, 2, 3, 10, 20]], [0.5]),), "values", OneHot((3, 2)))
        scores = policy.scores(np.array([[0, 0], [2, 1]], dtype=np.float32))
        np.testing.assert_array_equal(scores, [[11.5], [23.5]])
        assert (policy.n_features, policy.encoding.width) == (2, 5)

    @pytest.mark.parametrize("value", [-1.0, 3.0, 0.5, np.nan, np.inf])
    def test_one_hot_needs_whole_numbers(self, value):
        policy = NetworkPolicy((Layer(np.ones((1, 5)), [0.5]),), "values", OneHot((3, 2)))
        with pytest.raises(PolicyError, match=f"feature 0 of row 1 is {value:g}, but must be a whole number"):
            policy.scores(np.array([[0, 0], [value, 1]], dtype=np.float32))

    def test_the_same_batch_gives_the_same_bits(self):
        policy = load_policy(nn.Sequential(nn.Linear(69, 64), nn.ReLU(), nn.Linear(64, 5)), output="values")
        batch = np.random.default_rng(0).normal(size=(257, 69)).astype(np.float32)
        first = policy.scores(batch)
        copy = pickle.loads(pickle.dumps(policy))
        for again in (policy.scores(batch), policy.scores(batch.copy()), copy.scores(batch)):
            np.testing.assert_array_equal(first, again)

    def test_large_batches_are_those_of_their_pieces(self):
        policy = small_network(kind="log-probabilities")
        batch = np.random.default_rng(0).normal(size=(10_000, 2)).astype(np.float32)
        scores = policy.scores(batch)
        assert scores.shape == (10_000, 3)
        assert_close(scores[:1024], policy.scores(batch[:1024]))
        assert_close(scores[9000:], policy.scores(batch[9000:]))

    def test_observations_are_left_alone(self, recwarn):
        batch = np.full((5, 2), -1.0, dtype=np.float32)
        batch.flags.writeable = False
        policy = NetworkPolicy((Layer(np.eye(2), np.zeros(2), Activation("relu")),), "values", Plain(2))
        policy.scores(batch)
        assert (batch == -1).all()
        assert not recwarn.list

    def test_networks_are_values(self):
        policy = small_network(metadata={"seed": 1})
        with pytest.raises(AttributeError):
            policy.kind = "log-probabilities"
        with pytest.raises(ValueError, match="read-only"):
            policy.layers[0].weight[0, 0] = 9.0
        with pytest.raises(TypeError):
            policy.metadata["seed"] = 2

    def test_pickling_keeps_everything(self):
        policy = small_network(
            normalisation=Normalisation([0.0, 1.0], [1.0, 2.0], 1e-8, 10.0),
            action_names=("a", "b", "c"),
            env_id="x",
            metadata={"seed": 1},
        )
        copy = pickle.loads(pickle.dumps(policy))
        batch = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
        np.testing.assert_array_equal(copy.scores(batch), policy.scores(batch))
        for name in ("kind", "encoding", "normalisation", "action_names", "env_id", "metadata"):
            assert getattr(copy, name) == getattr(policy, name)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"layers": ()}, "at least one layer"),
            ({"encoding": Plain(3)}, "layer 0 has 2 inputs, but receives 3"),
            (
                {"layers": (Layer(np.ones((2, 2)), np.zeros(2)), Layer(np.ones((2, 3)), np.zeros(2)))},
                "layer 1 has 3 inputs",
            ),
            ({"layers": (Layer([[np.inf, 0.0]], [0.0]),)}, "weight of layer 0 is not finite"),
            ({"layers": (Layer([[1.0, 0.0]], [np.nan]),)}, "bias of layer 0 is not finite"),
            ({"kind": "logits"}, "kind must be 'values' or"),
            ({"action_names": ("a",)}, "1 action names for 3 actions"),
            ({"normalisation": Normalisation([0.0], [1.0], 1e-8, 10.0)}, "statistics are for 1 features"),
        ],
    )
    def test_networks_that_make_no_sense(self, fields, message):
        with pytest.raises(PolicyError, match=message):
            small_network(**fields)


class TestActivations:
    @pytest.mark.parametrize("name", ACTIVATION_NAMES)
    def test_function_is_that_of_the_module(self, name):
        module_name = next(each for each in dir(nn) if each.lower() == name.replace("_", ""))
        module = getattr(nn, module_name)().eval()
        values = torch.linspace(-30, 30, 1001)
        expected = module(values.clone())
        function = Activation(name).function()
        actual = values if function is None else function(values.clone())
        torch.testing.assert_close(actual, expected)
        assert Activation.of(module) == Activation.of(type(module)) == Activation.of(module_name) == Activation(name)

    @pytest.mark.parametrize(
        ("module", "text"),
        [
            (nn.LeakyReLU(0.2), "leaky_relu(negative_slope=0.2)"),
            (nn.ELU(0.5), "elu(alpha=0.5)"),
            (nn.GELU("tanh"), "gelu(approximate='tanh')"),
            (nn.Softplus(2, 10), "softplus(beta=2.0, threshold=10.0)"),
            (nn.Hardtanh(-2, 3), "hardtanh(max_val=3.0, min_val=-2.0)"),
            (nn.PReLU(init=0.75), "leaky_relu(negative_slope=0.75)"),
            (nn.LeakyReLU(0.01), "leaky_relu"),
        ],
        ids=str,
    )
    def test_parameters(self, module, text):
        activation = Activation.of(module)
        assert str(activation) == text
        assert Activation.of(text) == activation
        values = torch.linspace(-15, 15, 101)
        torch.testing.assert_close(activation.function()(values.clone()), module(values.clone()))

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("rleu", "Did you mean 'relu'"),
            ("relu(slope=1)", "has no parameter 'slope': it takes no parameters"),
            ("elu(alpha='x')", "is no value for alpha"),
            ("elu(alpha=1e999)", "is no value for alpha"),
            ("gelu(approximate='erf')", "is no value for approximate"),
            ("elu(1.0)", "cannot read activation"),
            ("__import__('os').mkdir('x')", "cannot read activation"),
            ("elu(alpha=print('x'))", "cannot read activation"),
            ("", "cannot read activation"),
            (nn.Softmax(dim=1), "is no known activation"),
            (nn.PReLU(4), "is no known activation"),
            (nn.Linear, "is no known activation"),
            (7, "is no known activation"),
        ],
        ids=str,
    )
    def test_what_cannot_be_read(self, given, message):
        with pytest.raises(PolicyError, match=message):
            Activation.of(given)


class Cubic(nn.Module):
    """An activation that has no name."""

    def forward(self, values):
        return values**3


class TestModels:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_scores_are_those_of_stable_baselines3(self, observations, algorithm):
        model = make_model(algorithm, policy_kwargs={"net_arch": [8]})
        for source in (model, model.policy):
            policy = load_policy(source, n_features=4, n_actions=3)
            assert isinstance(policy, NetworkPolicy)
            assert_close(policy.scores(observations), sb3_scores(model, observations))
        assert load_policy(model).metadata["algorithm"] == algorithm

    @pytest.mark.parametrize("case", ["plain", "wrapped", "without scores"])
    def test_training_on_does_not_change_a_loaded_policy(self, observations, case):
        if case == "without scores":
            model = PPO("MlpPolicy", make_env(action_space=spaces.Box(-1, 1, (2,))), device="cpu", use_sde=True)
        else:
            model = make_model("PPO", policy_kwargs={"activation_fn": nn.ReLU if case == "plain" else Cubic})
        policy = load_policy(model)
        assert isinstance(policy, FunctionPolicy) == (case == "wrapped")
        if case != "without scores":
            assert_close(policy.scores(observations), sb3_scores(model, observations))
        before, _ = policy.predict(observations)
        with torch.no_grad():
            for tensor in model.policy.parameters():
                tensor.add_(1.0)
        np.testing.assert_array_equal(policy.predict(observations)[0], before)

    def test_what_does_not_apply(self, raises_saved):
        with raises_saved(PolicyError):
            load_policy(make_model("DQN"), activation="relu")
        model = make_model("DQN")
        model.policy.action_space = spaces.Discrete(3, start=1)
        with raises_saved(PolicyError):
            load_policy(model)


class Dueling(nn.Module):
    """More than a sequence of layers."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.value = nn.Linear(2, 1, dtype=dtype)
        self.advantage = nn.Linear(2, 3, dtype=dtype)

    def forward(self, batch):
        advantage = self.advantage(batch)
        return self.value(batch) + advantage - advantage.mean(dim=1, keepdim=True)


class TestModules:
    batch = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)

    def outputs(self, module):
        with torch.no_grad():
            dtype = next(module.parameters()).dtype
            return module.eval()(torch.from_numpy(self.batch).to(dtype)).numpy()

    def test_a_sequence_of_layers_becomes_a_network(self):
        module = nn.Sequential(
            nn.Flatten(), nn.Linear(2, 8), nn.ELU(0.5), nn.Dropout(0.5), nn.Linear(8, 3, bias=False), nn.Tanh()
        )
        policy = load_policy(module, output="values")
        assert isinstance(policy, NetworkPolicy)
        assert_close(policy.scores(self.batch), self.outputs(module))
        logits = load_policy(module, output="logits")
        assert logits.kind == "log-probabilities"
        expected = torch.log_softmax(torch.from_numpy(self.outputs(module)), 1)
        np.testing.assert_allclose(logits.scores(self.batch), expected, atol=1e-6)

    def test_a_sequence_of_layers_may_read_one_hot_numbers(self):
        module = nn.Sequential(nn.Linear(5, 2))
        policy = load_policy(module, output="values", encoding=OneHot((3, 2)))
        expected = module(torch.tensor([[0.0, 1, 0, 0, 1]])).detach().numpy()
        assert_close(policy.scores(np.array([[1.0, 1.0]], dtype=np.float32)), expected)

    @pytest.mark.parametrize(
        "module",
        [
            nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 3)),
            nn.Sequential(nn.ReLU(), nn.Linear(2, 3)),
            nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Tanh(), nn.Linear(4, 3)),
            nn.Sequential(nn.Linear(2, 3, dtype=torch.float64)),
            nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.9), nn.Linear(8, 3)),
            Dueling(),
            Dueling(torch.float64),
        ],
        ids=lambda module: type(module).__name__,
    )
    def test_any_other_module_is_asked_as_it_is(self, module):
        policy = load_policy(module, output="values", n_features=2)
        assert isinstance(policy, FunctionPolicy)
        expected = self.outputs(module)
        scores = policy.scores(self.batch)
        assert scores.dtype == expected.dtype
        assert_close(scores, expected)
        assert policy.n_actions == 3

    def test_modules_are_copied_and_left_alone(self):
        module = Dueling().train()
        policy = load_policy(module, output="values", n_actions=3)
        before = policy.scores(self.batch)
        assert module.training
        with torch.no_grad():
            module.value.bias.add_(5)
        for same in (policy, pickle.loads(pickle.dumps(policy))):
            np.testing.assert_array_equal(same.scores(self.batch), before)

    def test_what_must_be_said(self, raises_saved):
        with pytest.raises(UnclearPolicyError, match="output of Dueling is unknown") as caught:
            load_policy(Dueling())
        assert caught.value.argument == "output"
        with pytest.raises(UnclearPolicyError, match="number of actions of Dueling is unknown") as caught:
            load_policy(Dueling(), output="values")
        assert caught.value.argument == "n_actions"
        with raises_saved(PolicyError):
            load_policy(Dueling(), output="q")
        with raises_saved(PolicyError):
            load_policy(Dueling(), output="values", encoding=Plain(2))

    def test_modules_that_are_not_finite_or_return_something_else(self, raises_saved):
        module = Dueling()
        with torch.no_grad():
            module.value.bias[0] = float("inf")
        with raises_saved(PolicyError):
            load_policy(module, output="values", n_actions=3)
        sequence = nn.Sequential(nn.Linear(2, 2))
        with torch.no_grad():
            sequence[0].weight[0, 0] = float("nan")
        with raises_saved(PolicyError):
            load_policy(sequence, output="values")
        with pytest.raises(PolicyError, match="LSTM returns a tuple"):
            load_policy(nn.LSTM(2, 3), output="values", n_features=2)

    def test_modules_spread_over_devices(self, raises_saved):
        module = Dueling()
        module.value.to("meta")
        with raises_saved(PolicyError):
            load_policy(module, output="values", n_actions=3)


class TestFunctions:
    batch = np.array([[1.0, 2.0], [3.0, 3.0]], dtype=np.float32)

    def test_what_each_output_becomes(self):
        probabilities = np.array([[0.25, 0.75], [1.0, 0.0]])
        logarithms = np.array([[np.log(0.25), np.log(0.75)], [0.0, -np.inf]])
        for output, answer, expected in [
            ("values", [[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
            ("probabilities", probabilities, logarithms),
            ("log-probabilities", logarithms, logarithms),
            ("logits", logarithms + 1000, logarithms),
            ("logits", torch.tensor(logarithms), logarithms),
        ]:
            policy = load_policy(lambda _, answer=answer: answer, output=output, n_actions=2)
            np.testing.assert_allclose(policy.scores(self.batch), expected, atol=1e-12)
            assert policy.kind == ("values" if output == "values" else "log-probabilities")
            assert policy.n_features is None

    @pytest.mark.parametrize("output", ["probabilities", "log-probabilities"])
    def test_what_is_no_distribution_is_refused(self, output, raises_saved):
        answer = np.array([[0.5, 0.5], [2.0, 3.0]]) if output == "probabilities" else np.log([[0.5, 0.5], [2.0, 3.0]])
        policy = load_policy(lambda _: answer, output=output, n_actions=2)
        with raises_saved(PolicyError):
            policy.scores(self.batch)
        negative = load_policy(lambda _: np.array([[0.5, 0.5], [-1.0, 2.0]]), output="probabilities", n_actions=2)
        with raises_saved(PolicyError):
            negative.scores(self.batch)

    def test_the_number_of_actions_is_tried_out(self, raises_saved):
        policy = load_policy(lambda batch: batch @ np.ones((2, 7)), output="values", n_features=2)
        assert policy.n_actions == 7
        with raises_saved(PolicyError):
            load_policy(lambda batch: batch.sum(axis=1), output="values", n_features=2)

    def test_answers_of_the_wrong_shape_or_type(self, raises_saved):
        flat = load_policy(lambda batch: batch.sum(axis=1), output="values", n_actions=2)
        with raises_saved(PolicyError):
            flat.scores(self.batch)
        words = load_policy(lambda _: np.array([["a", "b"]] * 2), output="values", n_actions=2)
        with pytest.raises(PolicyError, match="must be numbers"):
            words.scores(self.batch)
        hopeless = load_policy(lambda _: np.full((2, 2), -np.inf), output="logits", n_actions=2)
        with pytest.raises(PolicyError, match="NaN for row 0"), np.errstate(invalid="ignore"):
            hopeless.scores(self.batch)

    def test_what_must_be_said(self, raises_saved):
        with raises_saved(UnclearPolicyError):
            load_policy(lambda batch: batch)
        with raises_saved(UnclearPolicyError):
            load_policy(lambda batch: batch, output="values")
        with raises_saved(PolicyError):
            load_policy(lambda batch: batch, output="values", n_actions=2, activation="relu")
        with pytest.raises(PolicyError, match="output must be one of"):
            FunctionPolicy(lambda batch: batch, "q", 2)


class TestOtherSources:
    def test_a_policy_is_returned_as_it_is(self, raises_saved):
        policy = small_network()
        assert load_policy(policy, n_features=2, n_actions=3) is policy
        with raises_saved(PolicyError):
            load_policy(policy, n_actions=5)
        with raises_saved(PolicyError):
            load_policy(policy, output="values")

    def test_anything_else_is_refused(self, raises_saved):
        with raises_saved(PolicyError):
            load_policy(3)
        with raises_saved(PolicyError):
            load_policy(NetworkPolicy)

    def test_unknown_algorithms(self, saved, raises_saved):
        with raises_saved(PolicyError):
            load_policy(saved("DQN"), algorithm="DQM")
