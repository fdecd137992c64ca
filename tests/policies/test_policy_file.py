"""Legible's own files: what is saved comes back to the bit, and what is wrong is named."""

import itertools
import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from legible.policies import (
    ACTIVATION_NAMES,
    Activation,
    Layer,
    NetworkPolicy,
    Normalisation,
    OneHot,
    Plain,
    PolicyError,
    UnclearPolicyError,
    load_policy,
    save_normalisation,
    save_policy,
)
from policies.conftest import LAW

weights = st.floats(-1e3, 1e3, width=32)


@st.composite
def networks(draw):
    """Return any network with up to three hidden layers."""
    encoding = draw(
        st.one_of(
            st.integers(1, 6).map(Plain), st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple).map(OneHot)
        )
    )
    sizes = [encoding.width, *draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))]
    layers = []
    for n_inputs, n_outputs in itertools.pairwise(sizes):
        name = draw(st.sampled_from([*ACTIVATION_NAMES, "leaky_relu(negative_slope=0.37)", "gelu(approximate='tanh')"]))
        weight = draw(hnp.arrays(np.float32, (n_outputs, n_inputs), elements=weights))
        bias = draw(hnp.arrays(np.float32, n_outputs, elements=weights))
        layers.append(Layer(weight, bias, Activation.of(name)))
    normalisation = None
    if isinstance(encoding, Plain) and draw(st.booleans()):
        mean = draw(hnp.arrays(np.float64, encoding.n_features, elements=st.floats(-1e6, 1e6)))
        var = draw(hnp.arrays(np.float64, encoding.n_features, elements=st.floats(0, 1e6)))
        normalisation = Normalisation(mean, var, draw(st.floats(1e-9, 1)), draw(st.floats(0.5, 100)))
    names = draw(st.none() | st.just(tuple(f"action {number}" for number in range(sizes[-1]))))
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
        max_leaves=4,
    )
    return NetworkPolicy(
        tuple(layers),
        draw(st.sampled_from(["values", "log-probabilities"])),
        encoding,
        normalisation,
        names,
        draw(st.none() | st.text()),
        draw(st.dictionaries(st.text(), json_values, max_size=3)),
    )


@pytest.fixture
def policy():
    generator = np.random.default_rng(0)
    hidden = Layer(generator.normal(size=(5, 3)), generator.normal(size=5), Activation("tanh"))
    head = Layer(generator.normal(size=(2, 5)), generator.normal(size=2))
    return NetworkPolicy((hidden, head), "values", Plain(3), metadata={"algorithm": "DQN"})


@settings(LAW, max_examples=150)
@given(networks(), st.integers(0, 2**32 - 1))
def test_round_trip_keeps_every_bit(tmp_path_factory, policy, seed):
    folder = tmp_path_factory.mktemp("policy")
    path = save_policy(policy, folder / "p.safetensors")
    loaded = load_policy(path)
    assert isinstance(loaded, NetworkPolicy)
    for before, after in zip(policy.layers, loaded.layers, strict=True):
        np.testing.assert_array_equal(before.weight, after.weight)
        np.testing.assert_array_equal(before.bias, after.bias)
        assert before.activation == after.activation
    for name in ("kind", "encoding", "normalisation", "action_names", "env_id", "metadata"):
        assert getattr(loaded, name) == getattr(policy, name)
    generator = np.random.default_rng(seed)
    if isinstance(policy.encoding, OneHot):
        observations = generator.integers(0, policy.encoding.sizes, (6, policy.n_features)).astype(np.float32)
    else:
        observations = generator.normal(size=(6, policy.n_features)).astype(np.float32)
    np.testing.assert_array_equal(loaded.scores(observations), policy.scores(observations))
    again = save_policy(loaded, folder / "again.safetensors")
    assert again.read_bytes() == path.read_bytes()
    assert sorted(file.name for file in folder.iterdir()) == ["again.safetensors", "p.safetensors"]


def test_a_zip_can_be_saved(saved, tmp_path, observations):
    original = load_policy(saved("QRDQN"))
    path = save_policy(
        original,
        tmp_path / "p.safetensors",
        metadata={"steps": 10},
        action_names=["left", "stay", "right"],
        env_id="CartPole-v1",
    )
    policy = load_policy(path, n_features=4, n_actions=3)
    np.testing.assert_array_equal(policy.scores(observations), original.scores(observations))
    assert policy.action_names == ("left", "stay", "right")
    assert policy.env_id == "CartPole-v1"
    assert policy.metadata["algorithm"] == "QRDQN"
    assert policy.metadata["steps"] == 10
    # What the policy already says stays unless it is said anew.
    again = load_policy(save_policy(policy, tmp_path / "again.safetensors", metadata={"steps": 20}))
    assert again.action_names == policy.action_names
    assert again.metadata["steps"] == 20


def test_the_file_is_one_that_others_can_read(policy, tmp_path):
    path = save_policy(policy, tmp_path / "p.safetensors")
    tensors = safetensors.numpy.load_file(path)
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        "layers.0.weight": (5, 3),
        "layers.0.bias": (5,),
        "layers.1.weight": (2, 5),
        "layers.1.bias": (2,),
    }
    with safetensors.safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["legible"])
        assert len(document.pop("sha256")) == 64
        assert document == {
            "format": "legible-policy",
            "version": 1,
            "layers": [{"activation": "tanh"}, {"activation": "identity"}],
            "head": "values",
            "encoding": {"kind": "plain", "features": 3},
            "normalisation": None,
            "action_names": None,
            "env_id": None,
            "metadata": {"algorithm": "DQN"},
        }


def test_statistics_beside_the_file_count_when_it_has_none(policy, tmp_path, raises_saved):
    path = save_policy(policy, tmp_path / "p.safetensors")
    statistics = Normalisation([0.0] * 3, [2.0] * 3, 1e-8, 10.0)
    save_normalisation(statistics, tmp_path / "p.normalisation.npz")
    with_statistics = load_policy(path)
    assert with_statistics.normalisation == statistics
    own = load_policy(save_policy(with_statistics, tmp_path / "q.safetensors"))
    assert own.normalisation == statistics
    other = Normalisation([1.0] * 3, [2.0] * 3, 1e-8, 10.0)
    save_normalisation(other, tmp_path / "q.normalisation.npz")
    assert load_policy(tmp_path / "q.safetensors").normalisation == statistics
    with raises_saved(PolicyError):
        load_policy(tmp_path / "q.safetensors", normalisation=other)


def test_what_cannot_be_saved(policy, tmp_path, raises_saved):
    with pytest.raises(PolicyError, match=r"saved as \.safetensors, not '\.pt'"):
        save_policy(policy, tmp_path / "p.pt")
    function = load_policy(lambda batch: batch, output="values", n_features=2)
    with pytest.raises(PolicyError, match="a FunctionPolicy cannot be saved"):
        save_policy(function, tmp_path / "p.safetensors")
    with raises_saved(PolicyError):
        save_policy(policy, tmp_path / "p.safetensors", metadata={"model": object()})
    with raises_saved(PolicyError):
        save_policy(policy, tmp_path / "p.safetensors", action_names=["a", "b", "c"])
    assert not list(tmp_path.iterdir())


def rewrite(path, change):
    """Let a function change tensors and description of a file, which has no checksum then."""
    tensors = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["legible"])
    del document["sha256"]
    change(tensors, document)
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"legible": json.dumps(document)}))
    return path


class TestDamagedFiles:
    def message(self, path, **arguments):
        with pytest.raises(PolicyError) as caught:
            load_policy(path, **arguments)
        assert str(path) in str(caught.value)
        return str(caught.value)

    def test_missing_and_foreign(self, tmp_path, snapshot):
        path = tmp_path / "p.safetensors"
        assert self.message(path) == snapshot
        path.touch()
        assert self.message(path) == snapshot
        path.write_bytes(b"x" * 100)
        assert self.message(path) == snapshot
        path.write_bytes(safetensors.numpy.save({"a": np.zeros(2)}))
        assert self.message(path) == snapshot

    @pytest.mark.parametrize("part", [0.05, 0.5, 0.99])
    def test_truncated(self, policy, tmp_path, part, snapshot):
        path = save_policy(policy, tmp_path / "p.safetensors")
        path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
        place, ours, _ = self.message(path).split(": ", 2)  # what follows is said by safetensors
        assert f"{place}: {ours}" == snapshot

    @pytest.mark.parametrize("old", [b"tanh", b"\x00\x00"], ids=["description", "weight"])
    def test_checksum(self, policy, tmp_path, old):
        path = save_policy(policy, tmp_path / "p.safetensors")
        content = path.read_bytes()
        if old == b"tanh":
            path.write_bytes(content.replace(b"tanh", b"relu"))
        else:
            path.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])  # the last bit of a bias
        assert "it is damaged: the checksum does not match" in self.message(path)

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda t, _: t["layers.1.weight"].__setitem__((0, 0), np.nan), id="not finite"),
            pytest.param(lambda t, _: t.pop("layers.1.bias"), id="no bias"),
            pytest.param(lambda t, _: t.update(extra=np.zeros(1)), id="one more tensor"),
            pytest.param(lambda t, _: t.update({"layers.0.bias": np.zeros(5)}), id="another type"),
            pytest.param(lambda t, _: t.update({"layers.0.bias": np.zeros(4, np.float32)}), id="another length"),
            pytest.param(lambda _, d: d.update(version=3), id="version"),
            pytest.param(lambda _, d: d.update(format="other"), id="format"),
            pytest.param(lambda _, d: d.update(head="softmax"), id="head"),
            pytest.param(lambda _, d: d.pop("encoding"), id="no encoding"),
            pytest.param(lambda _, d: d.update(layers=None), id="no layers"),
            pytest.param(lambda _, d: d.update(encoding={"kind": "plain", "features": 4}), id="another width"),
            pytest.param(lambda _, d: d.update(encoding={"kind": "images"}), id="encoding"),
            pytest.param(lambda _, d: d.update(normalisation={"epsilon": 1, "clip": 1}), id="no mean"),
            pytest.param(lambda _, d: d["layers"][0].update(activation="rleu"), id="activation"),
            pytest.param(lambda _, d: d.update(action_names=["a"]), id="action names"),
        ],
    )
    def test_wrong_contents(self, policy, tmp_path, change, snapshot):
        path = rewrite(save_policy(policy, tmp_path / "p.safetensors"), change)
        assert self.message(path) == snapshot

    @settings(LAW, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.sampled_from(["layers", "head", "encoding", "normalisation", "action_names", "env_id", "metadata"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["kind", "sizes", "activation", "clip"]), inner, max_size=3)
            ),
            max_leaves=5,
        ),
    )
    def test_whatever_the_description_says_there_is_a_policy_or_an_error_for_people(self, policy, tmp_path, key, value):
        path = rewrite(save_policy(policy, tmp_path / "p.safetensors"), lambda _, d: d.update({key: value}))
        message = str(path)
        try:
            assert load_policy(path).n_actions == 2
        except PolicyError as error:
            message = str(error)
        assert str(path) in message

    def test_a_missing_activation_is_asked_for(self, policy, tmp_path, raises_saved):
        path = rewrite(save_policy(policy, tmp_path / "p.safetensors"), lambda _, d: d["layers"][0].clear())
        with raises_saved(UnclearPolicyError) as caught:
            load_policy(path)
        assert caught.value.argument == "activation"
        assert load_policy(path, activation="tanh").layers[0].activation == Activation("tanh")

    def test_answers_that_contradict_the_file(self, policy, tmp_path, snapshot):
        path = save_policy(policy, tmp_path / "p.safetensors")
        assert self.message(path, activation="relu") == snapshot
        assert self.message(path, n_features=4) == snapshot
        assert self.message(path, n_actions=5) == snapshot
        load_policy(path, activation="tanh", n_features=3, n_actions=2)
