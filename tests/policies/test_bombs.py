"""Files that swell, nest or count without end: refused at once and with little memory."""

import base64
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import torch

from legible.policies import save_policy
from policies.conftest import rewrite_data, rewrite_zip
from policies.test_policies import small_network

_ATTEMPTS = """
import json, resource, sys, time
from legible.policies import PolicyError, load_policy, policy_readers
policy_readers()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for line in sys.stdin:
    path, normalisation = json.loads(line)
    start = time.process_time()
    try:
        load_policy(path, normalisation=normalisation)
        message = "it was opened"
    except PolicyError as error:
        message = str(error)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([message, time.process_time() - start, grown]), flush=True)
"""


@pytest.fixture(scope="module")
def opener():
    """A separate process, whose memory can be measured."""
    with subprocess.Popen(
        [sys.executable, "-c", _ATTEMPTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def refusal(opener):
    """Return what is said about a file, which must not take long or much memory."""

    def ask(path, normalisation=None):
        opener.stdin.write(json.dumps([str(path), None if normalisation is None else str(normalisation)]) + "\n")
        opener.stdin.flush()
        message, seconds, kilobytes = json.loads(opener.stdout.readline())
        assert str(normalisation or path) in message
        assert seconds < 5  # a tenth of it on a fast machine; a bomb that goes off takes minutes
        assert kilobytes < 200 * 1024
        return message

    return ask


def swollen(members: dict[str, int]) -> bytes:
    """Return a zip whose members are that many zero bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, size in members.items():
            with archive.open(name, "w", force_zip64=True) as file:
                for _ in range(size // 2**20):
                    file.write(bytes(2**20))
    return stream.getvalue()


def test_a_zip_that_swells(refusal, tmp_path):
    path = tmp_path / "model.zip"
    path.write_bytes(swollen({"policy.pth": 300 * 2**20}))
    assert "as no policy does" in refusal(path)


def test_tensors_that_swell(refusal, saved, snapshot):
    path = saved("DQN")
    rewrite_zip(path, lambda members: members.update({"policy.pth": swollen({"a/data/0": 300 * 2**20})}))
    assert refusal(path) == snapshot


def test_tensors_that_claim_memory(refusal, saved):
    """The oldest file format of PyTorch says how large a tensor is before it comes."""
    path = saved("DQN")
    stream = io.BytesIO()
    torch.save({"q_net.q_net.0.weight": torch.zeros(12345)}, stream, _use_new_zipfile_serialization=False)
    raw = stream.getvalue().replace((12345).to_bytes(2, "little"), (65535).to_bytes(2, "little"))
    rewrite_zip(path, lambda members: members.update({"policy.pth": raw}))
    assert "policy.pth" in refusal(path)


@pytest.mark.parametrize(
    "bomb", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "[" + "[]," * 5_000_000 + "[]]"], ids=lambda bomb: bomb[:5]
)
def test_json_in_a_zip(refusal, saved, bomb):
    path = saved("DQN")
    rewrite_zip(path, lambda members: members.update(data=bomb.encode()))
    assert "data is" in refusal(path)


@pytest.mark.parametrize("bomb", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "[" + "[]," * 1_000_000 + "[]]"])
def test_json_in_safetensors(refusal, tmp_path, bomb):
    path = tmp_path / "p.safetensors"
    path.write_bytes(safetensors.numpy.save({"x": np.zeros(1, np.float32)}, metadata={"legible": bomb}))
    assert "its description is" in refusal(path)


def test_a_header_that_swells(refusal, tmp_path):
    path = tmp_path / "p.safetensors"
    path.write_bytes((90 * 2**20).to_bytes(8, "little") + b"{" + b" " * (90 * 2**20))
    assert "its header claims" in refusal(path)


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", "(" * 100_000, "relu(" * 50_000])
def test_an_activation_that_is_no_end_of_text(refusal, tmp_path, text):
    path = save_policy(small_network(), tmp_path / "p.safetensors")
    with safetensors.safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        document = json.loads(file.metadata()["legible"])
    del document["sha256"]
    document["layers"][0]["activation"] = text
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"legible": json.dumps(document)}))
    assert "cannot read activation" in refusal(path)


def test_activations_and_spaces_in_a_zip(refusal, saved):
    path = saved("DQN", policy_kwargs={"activation_fn": torch.nn.ELU})
    rewrite_data(path, lambda data: data["policy_kwargs"].update(activation_fn="<class '" + "a." * 10**6 + "b'>"))
    assert "cannot read the activation function" in refusal(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.toml", b"mean = " + b"[" * 3000),
        ("v.toml", b"mean = [" + b"1" * 5000 + b"]"),
        ("v.npz", swollen({"mean.npy": 300 * 2**20})),
        ("v.pkl", b"\x80\x04" + b"]" * 60_000_000 + b"."),
        ("v.pkl", b"(" * 60_000_000),
        ("v.pkl", b"L" + b"1" * 1_000_000 + b"L\n."),
        ("v.pkl", bytes(100_000_000)),
    ],
    ids=["nested", "digits", "npz", "lists", "marks", "number", "zeros"],
)
def test_statistics(refusal, saved, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    refusal(saved("DQN"), tmp_path / name)


def statistics_with(mean: bytes) -> bytes:
    """Return a pickled VecNormalize whose mean is what these operations of a pickle make."""
    running = (
        b"cstable_baselines3.common.running_mean_std\nRunningMeanStd\n)\x81}U\x04mean" + mean + b"sU\x03varK\x01sb"
    )
    made = (
        b"cstable_baselines3.common.vec_env.vec_normalize\nVecNormalize\n)\x81}U\x08norm_obs\x88sU\x07obs_rms" + running
    )
    return b"\x80\x04" + made + b"sU\x07epsilonK\x00sU\x08clip_obsK\x01sb."


NESTED = b")" + b"\x85" * 150_000  # a tuple in a tuple in a tuple …
SHARED = b")" + b"2\x86" * 60  # a pair of the same pair of the same pair …: 2 ** 60 of them to look at
DTYPE = b"cnumpy\ndtype\nU\x02f8\x85R"


@pytest.mark.parametrize(
    "mean",
    [
        b"}" + NESTED + b"K\x01s",
        b"}" + SHARED + b"K\x01s",
        SHARED + b"2\x93",
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n" + SHARED + b"\x85RU\x08aaaaaaaatR",
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n" + NESTED + b"\x85RU\x08aaaaaaaatR",
        b"cnumpy.core.numeric\n_frombuffer\n(U\x08aaaaaaaa" + DTYPE + b"L" + b"9" * 40 + b"L\nU\x01CtR",
        b"cnumpy.ndarray\nK\x01\x85R(]K\x01a}tb",
    ],
    ids=["deep key", "shared key", "shared name", "shared type", "deep type", "shape", "state"],
)
def test_operations_of_a_pickle(refusal, saved, tmp_path, mean):
    (tmp_path / "v.pkl").write_bytes(statistics_with(mean))
    refusal(saved("DQN"), tmp_path / "v.pkl")


def test_a_space_that_holds_itself(refusal, saved):
    """The pickle of a Dict of itself is no space: what its text says is."""
    path = saved("PPO")
    looped = b"\x80\x04cgymnasium.spaces.dict\nDict\n)\x81q\x00}U\x06spaces}U\x01ah\x00ssb."
    entry = {":type:": "<class 'gymnasium.spaces.dict.Dict'>", ":serialized:": base64.b64encode(looped).decode()}
    rewrite_data(path, lambda data: data.update(observation_space=entry))
    assert "observation space is Dict, which cannot be read" in refusal(path)


_NESTED = b")" + b"\x85" * 150_000  # hashing it ends the process
_STORAGE = b"X\x07\x00\x00\x00storagectorch\nFloatStorage\n"


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02}" + _NESTED + b"K\x01s.",
        b"\x80\x02ccollections\nOrderedDict\n]](" + _NESTED + b"K\x01ea\x85R.",
        b"\x80\x02(" + _STORAGE + _NESTED + b"X\x03\x00\x00\x00cpuK\x02tQ.",
    ],
    ids=["a key", "a key of an argument", "a key of a storage"],
)
def test_nested_tuples_as_keys_of_tensors(refusal, tmp_path, pickled):
    path = tmp_path / "tensors.pth"
    torch.save({"weight": torch.zeros(2)}, path)
    rewrite_zip(path, lambda members: members.update({"tensors/data.pkl": pickled}))
    assert "it is damaged" in refusal(path)
    stream = io.BytesIO()
    torch.save({"weight": torch.zeros(2)}, stream, _use_new_zipfile_serialization=False)
    path.write_bytes(stream.getvalue().replace(b"\x80\x02}q\x00X\x06", pickled + b"\x80\x02}q\x00X\x06"))
    assert "it is damaged" in refusal(path)


def test_archives_that_show_different_parts_to_different_readers(refusal, tmp_path):
    path = tmp_path / "tensors.pth"
    torch.save({"weight": torch.zeros(2)}, path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("tensors/data.pkl", b"\x80\x02}.")
    assert "of the same name" in refusal(path)
