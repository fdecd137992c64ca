"""Stable-Baselines3's ``.zip`` files, read without unpickling anything.

Such a file holds ``policy.pth`` (the tensors, which PyTorch reads without running code when asked to) and ``data``:
JSON in which whatever JSON cannot hold stands twice, as a pickle in base64 under ``":serialized:"`` and, for people, as
the text of its attributes. Only that text is read here; it says which policy class, spaces, activation and extractor
the network has. The shapes of the tensors say the rest. What neither says is asked for, never guessed.

The layout has been the same since version 1.0, with these differences:

- Before 1.8 an actor-critic network could begin with layers that actor and critic share
  (``mlp_extractor.shared_net``); they are read as the first layers of the actor.
- Spaces are Gym's before 2.0 and Gymnasium's since; the shape is called ``shape`` in the oldest and ``_shape`` in the
  others.

Not supported: CNN policies and images, Dict observations (``MultiInputPolicy``), recurrent and maskable policies,
custom policy classes and feature extractors, continuous and multi-part action spaces, gSDE.
``load_policy(..., trust=True)`` hands such a file to Stable-Baselines3's own loader, which runs the code in it; what
has discrete actions and one array as observation can be used then.

A zip does not say whether the policy was trained behind ``VecNormalize``. That of PPO and A2C betrays it once they have
been trained (``_last_original_obs`` is only set behind one), that of DQN and QR-DQN does not: keep the statistics
beside the policy.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from legible.policies.activations import Activation
from legible.policies.encoding import Encoding, OneHot, Plain
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.protocol import PolicyError, UnclearPolicyError

Algorithm = Literal["DQN", "QRDQN", "PPO", "A2C"]
ALGORITHMS: tuple[Algorithm, ...] = ("DQN", "QRDQN", "PPO", "A2C")
"""The algorithms of Stable-Baselines3 and sb3-contrib whose policies can be loaded."""

_LARGEST_MEMBER = 2**31
# A member that claims more than 2 GiB is a mistake or an attack: policies of this kind have a few megabytes.

_TRUST = (
    "If you trust its author, pass trust=True: Stable-Baselines3's own loader then opens it and runs the code in it."
)

_FAMILIES: Mapping[tuple[str, str], tuple[Algorithm, ...]] = {
    ("stable_baselines3.dqn.policies", "DQNPolicy"): ("DQN",),
    ("sb3_contrib.qrdqn.policies", "QRDQNPolicy"): ("QRDQN",),
    ("stable_baselines3.common.policies", "ActorCriticPolicy"): ("PPO", "A2C"),
}
_DEFAULT_ACTIVATION: Mapping[Algorithm, str] = {"DQN": "relu", "QRDQN": "relu", "PPO": "tanh", "A2C": "tanh"}
# The defaults of the policy classes in every version since 1.0.

_HARMLESS_OPTIONS = frozenset(
    {
        "device",
        "full_std",
        "log_std_init",
        "net_arch",  # the tensors say it better
        "normalize_images",  # images are refused anyway
        "optimizer_class",
        "optimizer_kwargs",
        "ortho_init",
        "sde_net_arch",
        "share_features_extractor",  # the plain extractor has nothing to share
        "use_expln",
    }
)
_READ_OPTIONS = frozenset(
    {
        "activation_fn",
        "features_extractor_class",
        "features_extractor_kwargs",
        "n_quantiles",
        "squash_output",
        "use_sde",
    }
)

_CLASS_TEXT = re.compile(r"<class '([\w.]+)'>")
_PARTIAL_TEXT = re.compile(r"functools\.partial\(<class 'torch\.nn\.modules\.activation\.(\w+)'>((?:, \w+=[^,()]+)*)\)")
_FUNCTION_TEXT = re.compile(r"<function ([\w.<>]+)\.__init__ at 0x[0-9a-fA-F]+>")
_NUMBERS_TEXT = re.compile(r"\[\s*-?\d{1,9}(?:\s+-?\d{1,9})*\s*\]")
_TENSOR_NAME = re.compile(r"(\d+)\.(weight|bias)")


@dataclass(frozen=True)
class Answers:
    """What the caller says about a policy, for what its file does not say.

    Parameters
    ----------
    algorithm, activation, encoding, n_actions
        As in `legible.policies.load_policy`.
    """

    algorithm: Algorithm | None = None
    activation: Activation | None = None
    encoding: Encoding | None = None
    n_actions: int | None = None


@dataclass(frozen=True)
class Contents:
    """The readable part of a zip: its ``data``, in which pickles stay the text that they are, and who wrote it."""

    path: Path
    data: Mapping[str, Any]
    version: str | None

    def text_of(self, key: str) -> Mapping[str, Any]:
        """Return the readable attributes of an entry of ``data``; nothing when it is missing."""
        entry = self.data.get(key)
        if not isinstance(entry, dict):
            return {}
        return {name: value for name, value in entry.items() if name != ":serialized:"}

    def ask(self, what: str, argument: str, example: str) -> NoReturn:
        """Refuse, and say which argument answers the question."""
        raise UnclearPolicyError(f"{self.path}: {what}. Say it with {example}. {_TRUST}", argument)

    def refuse(self, what: str) -> NoReturn:
        """Refuse what is not supported, and say what else can be done."""
        raise PolicyError(f"{self.path}: {what}. {_TRUST}")


def read_contents(path: Path) -> Contents:
    """Return the readable part of a zip.

    Raises
    ------
    PolicyError
        When the file is missing, damaged or no policy of Stable-Baselines3.
    """
    with _opened(path) as archive:
        data = _read_data(path, archive)
        version = None
        if "_stable_baselines3_version" in archive.namelist():
            version = _read_member(path, archive, "_stable_baselines3_version").decode("utf-8", "replace").strip()
    return Contents(path, data, version)


def read_sb3_zip(contents: Contents, answers: Answers) -> NetworkPolicy:
    """Build the policy of a zip, without its normalisation and without unpickling anything.

    Raises
    ------
    UnclearPolicyError
        When something cannot be read that `answers` does not say.
    PolicyError
        When the file is damaged, contradicts `answers` or holds what is not supported.
    """
    try:
        return _built(contents, answers)
    except PolicyError as error:
        if str(contents.path) in str(error):
            raise
        raise PolicyError(f"{contents.path}: {error}") from error


def _built(contents: Contents, answers: Answers) -> NetworkPolicy:
    algorithm = algorithm_of(contents, answers.algorithm)
    options = _options_of(contents)
    n_actions = _n_actions_of(contents, answers.n_actions)
    encoding = _encoding_of(contents, answers.encoding)
    tensors = _Tensors(contents, _read_tensors(contents.path))
    activation = _activation_of(contents, options, algorithm, answers.activation)
    if algorithm == "DQN":
        layers = _q_network(tensors, "q_net.q_net", "q_net_target.", activation)
    elif algorithm == "QRDQN":
        layers = _q_network(tensors, "quantile_net.quantile_net", "quantile_net_target.", activation)
        layers = _average_quantiles(contents, options, layers, n_actions)
    else:
        layers = _actor(tensors, activation)
    _check_ends(tensors, layers, encoding, n_actions)
    kind: Literal["values", "log-probabilities"] = "values" if "DQN" in algorithm else "log-probabilities"
    return NetworkPolicy(layers, kind, encoding, metadata=_metadata_of(contents, algorithm))


def trained_normalised(contents: Contents) -> bool | None:
    """Return whether a policy was trained behind ``VecNormalize``, None when its zip does not show it.

    On-policy algorithms keep the last observation before normalisation only behind one. The others keep it always, and
    those that have never been trained never.
    """
    if "gae_lambda" not in contents.data or contents.data.get("_last_obs") is None:
        return None
    return contents.data.get("_last_original_obs") is not None


def algorithm_of(contents: Contents, said: Algorithm | None, *, any_policy_class: bool = False) -> Algorithm:
    """Return the algorithm that wrote a zip, from the policy class and the settings that it kept.

    Parameters
    ----------
    contents
        The readable part of the zip.
    said
        What the caller says it is.
    any_policy_class
        Accept policy classes that cannot be rebuilt from tensors alone; the trusted loader can.
    """
    written = _algorithm_in_settings(contents)
    family = () if any_policy_class else _family_of(contents)
    if family and written is not None and ("DQN" in written) != ("DQN" in family[0]):
        contents.refuse(f"its settings are those of {written}, but its policy class belongs to {' or '.join(family)}")
    candidates = family if len(family) == 1 or written is None else (written,)
    if said is not None and candidates and said not in candidates:
        named = " or ".join(candidates)
        raise PolicyError(f"{contents.path}: algorithm={said!r} was passed, but the file says that it is {named}")
    if said is not None:
        return said
    if len(candidates) != 1:
        what = f'{contents.path}: cannot read which algorithm it was trained with. Say it with algorithm="PPO"'
        raise UnclearPolicyError(what, "algorithm")
    return candidates[0]


def _algorithm_in_settings(contents: Contents) -> Algorithm | None:
    settings = contents.data
    if "exploration_fraction" in settings:
        return "QRDQN" if "n_quantiles" in settings else "DQN"
    if "cg_max_steps" in settings:
        _unknown_algorithm(contents, "TRPO")
    if "gae_lambda" in settings:
        return "PPO" if "clip_range" in settings else "A2C"
    for mark, name in (
        ("target_entropy", "SAC, TQC or CrossQ"),
        ("target_policy_noise", "TD3 or DDPG"),
        ("delta_std", "ARS"),
    ):
        if mark in settings:
            _unknown_algorithm(contents, name)
    return None


def _unknown_algorithm(contents: Contents, name: str) -> NoReturn:
    raise PolicyError(
        f"{contents.path}: it was trained with {name}; policies of {', '.join(ALGORITHMS)} can be loaded. Any other "
        "model can be passed as a function with load_policy(function, output=...)"
    )


def _family_of(contents: Contents) -> tuple[Algorithm, ...]:
    described = contents.text_of("policy_class")
    module = described.get("__module__")
    if not isinstance(module, str):
        return ()
    written = _FUNCTION_TEXT.fullmatch(str(described.get("__init__", "")))
    name = written.group(1) if written else "?"
    if (module, name) in _FAMILIES:
        return _FAMILIES[module, name]
    full_name = f"{module}.{name}" if written else f"a class of {module}"
    if "Cnn" in name:
        contents.refuse(f"its policy is {full_name}: CNN policies are not supported")
    if "MultiInput" in name:
        contents.refuse(f"its policy is {full_name}: Dict observations are not supported")
    if "recurrent" in module or "Recurrent" in name:
        contents.refuse(f"its policy is {full_name}: recurrent policies are not supported")
    if "maskable" in module:
        contents.refuse(
            f"its policy is {full_name}: maskable policies are not supported, their scores depend on a mask"
        )
    return contents.refuse(f"its policy is {full_name}, a policy class that cannot be rebuilt from its tensors alone")


def _options_of(contents: Contents) -> Mapping[str, Any]:
    if contents.data.get("use_sde"):
        contents.refuse("it uses gSDE (use_sde), which belongs to continuous actions and is not supported")
    if not isinstance(contents.data.get("policy_kwargs"), dict):
        return {}
    options = {key: value for key, value in contents.text_of("policy_kwargs").items() if key != ":type:"}
    unknown = sorted(set(options) - _HARMLESS_OPTIONS - _READ_OPTIONS)
    if unknown:
        contents.refuse(f"its policy_kwargs hold {', '.join(unknown)}, whose effect on the network is not known")
    for key in ("use_sde", "squash_output"):
        if options.get(key):
            contents.refuse(f"its policy_kwargs hold {key}, which belongs to continuous actions and is not supported")
    extractor = options.get("features_extractor_class")
    plain = "<class 'stable_baselines3.common.torch_layers.FlattenExtractor'>"
    if extractor not in (None, plain) or options.get("features_extractor_kwargs"):
        contents.refuse(f"it has its own feature extractor ({extractor}), which is not supported")
    return options


def _activation_of(
    contents: Contents, options: Mapping[str, Any], algorithm: Algorithm, said: Activation | None
) -> Activation | Literal["prelu"]:
    written: Activation | Literal["prelu"] | None
    if not isinstance(contents.data.get("policy_kwargs"), dict):
        written = None
    elif "activation_fn" not in options:
        written = Activation(_DEFAULT_ACTIVATION[algorithm])
    else:
        written = _activation_in_text(str(options["activation_fn"]))
    if written is None:
        if said is not None:
            return said
        shown = f" (it is written as {options['activation_fn']!r})" if "activation_fn" in options else ""
        contents.ask(f"cannot read the activation function{shown}", "activation", 'activation="relu"')
    if said is not None and said != written:
        raise PolicyError(
            f"{contents.path}: activation={str(said)!r} was passed, but the file says that it is {str(written)!r}"
        )
    return written


def _activation_in_text(text: str) -> Activation | Literal["prelu"] | None:
    named = _CLASS_TEXT.fullmatch(text)
    partial = _PARTIAL_TEXT.fullmatch(text)
    try:
        if named is not None:
            module, _, name = named.group(1).rpartition(".")
            if (module, name) == ("torch.nn.modules.activation", "PReLU"):
                return "prelu"
            if module == "torch.nn.modules.activation" or (module, name) == ("torch.nn.modules.linear", "Identity"):
                return Activation.of(name)
        elif partial is not None:
            name, parameters = partial.groups()
            wanted = [pair for pair in parameters.split(", ")[1:] if not pair.startswith("inplace=")]
            return Activation.of(f"{name}({', '.join(wanted)})")
    except PolicyError:
        return None
    return None


def _n_actions_of(contents: Contents, said: int | None) -> int:
    if contents.data.get("action_space") is None:
        if said is None:
            contents.ask("cannot read its action space", "n_actions", "n_actions=5 if it has five discrete actions")
        return said
    space = contents.text_of("action_space")
    name = _space_name(space)
    if name != "Discrete":
        what = "continuous actions are" if name == "Box" else f"{name or 'unknown'} actions are"
        contents.refuse(
            f"its action space is {name or space.get(':type:')}: {what} not supported, only Discrete ones are"
        )
    if _whole_number(space.get("start", 0)) != 0:
        contents.refuse(f"its actions are numbered from {space.get('start')}, not from 0: this is not supported")
    written = _whole_number(space.get("n"))
    if written is not None and said is not None and written != said:
        raise PolicyError(f"{contents.path}: it has {written} actions, but {said} were asked for")
    answer = said if written is None else written
    if answer is None:
        contents.ask("cannot read how many actions it has", "n_actions", "n_actions=5")
    if answer < 1:
        raise PolicyError(f"{contents.path}: a policy needs at least one action, not {answer}")
    return answer


def _encoding_of(contents: Contents, said: Encoding | None) -> Encoding:
    written = _encoding_in_space(contents)
    if written is None:
        if said is None:
            contents.ask(
                "cannot read its observation space",
                "encoding",
                "encoding=Plain(69), or encoding=OneHot((3, 4)) for MultiDiscrete([3, 4])",
            )
        return said
    if said is not None and said != written:
        raise PolicyError(f"{contents.path}: encoding={said} was passed, but the file says that it is {written}")
    return written


def _encoding_in_space(contents: Contents) -> Encoding | None:
    if contents.data.get("observation_space") is None:
        return None
    space = contents.text_of("observation_space")
    name = _space_name(space)
    shape = space.get("_shape", space.get("shape"))
    if name in ("Box", "MultiBinary"):
        if not isinstance(shape, list) or not all(type(size) is int and 0 < size < 10**9 for size in shape):
            return None
        if name == "Box" and len(shape) == 3 and space.get("dtype") == "uint8":
            contents.refuse(f"its observations are images of shape {tuple(shape)}, which are not supported")
        return Plain(math.prod(shape))
    if name == "Discrete":
        sizes = _whole_numbers(f"[{space.get('n')}]")
        starts = _whole_numbers(f"[{space.get('start', 0)}]")
    elif name == "MultiDiscrete":
        sizes = _whole_numbers(space.get("nvec"))
        starts = _whole_numbers(space.get("start", "[0]"))
    else:
        what = "Dict observations" if name == "Dict" else "such observations"
        contents.refuse(f"its observation space is {name or space.get(':type:')}: {what} are not supported")
    if starts is not None and any(starts):
        contents.refuse(f"its observations are numbered from {space.get('start')}, not from 0: this is not supported")
    return None if sizes is None or starts is None else OneHot(sizes)


def _space_name(space: Mapping[str, Any]) -> str | None:
    written = _CLASS_TEXT.fullmatch(str(space.get(":type:", "")))
    if written is None:
        return None
    module, _, name = written.group(1).rpartition(".")
    return name if module.startswith(("gym.spaces", "gymnasium.spaces")) else None


def _whole_number(written: object) -> int | None:
    """Read a whole number that is written as such, or as the text of a NumPy scalar."""
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    if isinstance(written, str) and re.fullmatch(r"-?\d{1,9}", written):
        return int(written)
    return None


def _whole_numbers(written: object) -> tuple[int, ...] | None:
    """Read whole numbers from the text of a one-dimensional NumPy array; long ones are abridged and cannot be read."""
    if isinstance(written, str) and _NUMBERS_TEXT.fullmatch(written):
        return tuple(int(number) for number in re.findall(r"-?\d+", written))
    return None


class _Tensors:
    """The tensors of a policy by name, each checked when it is taken; what is not taken in the end is an error."""

    def __init__(self, contents: Contents, tensors: dict[str, torch.Tensor]) -> None:
        self.contents = contents
        self._left = tensors

    def drop(self, prefix: str) -> None:
        """Leave out the tensors that have no part in choosing actions."""
        self._left = {name: tensor for name, tensor in self._left.items() if not name.startswith(prefix)}

    def take(self, name: str, dimensions: int) -> npt.NDArray[np.float32]:
        """Return one tensor as an array."""
        tensor = self._left.pop(name, None)
        where = f"{self.contents.path}: tensor {name!r} of policy.pth"
        if tensor is None:
            raise PolicyError(f"{where} is missing")
        if tensor.dtype != torch.float32:
            raise PolicyError(f"{where} has type {tensor.dtype}, but weights are torch.float32")
        if tensor.ndim != dimensions:
            raise PolicyError(f"{where} has shape {tuple(tensor.shape)}, but {dimensions} dimensions are expected")
        values: npt.NDArray[np.float32] = tensor.detach().numpy()
        if not np.isfinite(values).all():
            raise PolicyError(f"{where} is not finite: it holds NaN or infinity")
        return values

    def linear(self, name: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return weight and bias of a fully connected layer."""
        weight, bias = self.take(f"{name}.weight", 2), self.take(f"{name}.bias", 1)
        if len(weight) != len(bias):
            raise PolicyError(
                f"{self.contents.path}: tensor '{name}.bias' has {len(bias)} numbers for the {len(weight)} rows of "
                f"'{name}.weight'"
            )
        return weight, bias

    def places(self, prefix: str) -> list[int]:
        """Return the places that have a tensor in the sequence of modules called `prefix`, in order."""
        found = (
            _TENSOR_NAME.fullmatch(name.removeprefix(f"{prefix}."))
            for name in self._left
            if name.startswith(f"{prefix}.")
        )
        return sorted({int(place.group(1)) for place in found if place is not None})

    def finish(self) -> None:
        """Complain about tensors that nobody took: the network is more than it seemed."""
        if self._left:
            name = sorted(self._left)[0]
            if "features_extractor" in name:
                self.contents.refuse(
                    f"tensor {name!r} belongs to a feature extractor of its own, which is not supported"
                )
            if "lstm" in name:
                self.contents.refuse(f"tensor {name!r} belongs to a recurrent network, which is not supported")
            if name == "log_std":
                self.contents.refuse("tensor 'log_std' belongs to continuous actions, which are not supported")
            self.contents.refuse(f"tensor {name!r} has no place in a plain feed-forward network")


def _hidden_layers(
    tensors: _Tensors, prefix: str, activation: Activation | Literal["prelu"], last: int | None = None
) -> list[Layer]:
    """Take the layers of a sequence of modules linear, activation, linear, activation …, before the place `last`."""
    layers: list[Layer] = []
    for place in (place for place in tensors.places(prefix) if last is None or place < last):
        if place % 2:
            continue
        if place != 2 * len(layers):
            tensors.contents.refuse(f"tensor '{prefix}.{place}.weight' is out of place in a plain feed-forward network")
        weight, bias = tensors.linear(f"{prefix}.{place}")
        layers.append(Layer(weight, bias, _activation_at(tensors, f"{prefix}.{place + 1}", activation)))
    return layers


def _activation_at(tensors: _Tensors, name: str, activation: Activation | Literal["prelu"]) -> Activation:
    if activation != "prelu":
        return activation
    slope = tensors.take(f"{name}.weight", 1)
    if len(slope) != 1:
        tensors.contents.refuse(f"tensor '{name}.weight' holds {len(slope)} slopes of a PReLU, where one is supported")
    return Activation("leaky_relu", (("negative_slope", float(slope[0])),))


def _q_network(
    tensors: _Tensors, prefix: str, target: str, activation: Activation | Literal["prelu"]
) -> tuple[Layer, ...]:
    tensors.drop(target)
    places = tensors.places(prefix)
    if not places:
        raise PolicyError(
            f"{tensors.contents.path}: policy.pth has no tensor '{prefix}.0.weight': it holds another network"
        )
    hidden = _hidden_layers(tensors, prefix, activation, last=places[-1])
    if places[-1] != 2 * len(hidden):
        tensors.contents.refuse(
            f"tensor '{prefix}.{places[-1]}.weight' is out of place in a plain feed-forward network"
        )
    head = Layer(*tensors.linear(f"{prefix}.{places[-1]}"))
    tensors.finish()
    return (*hidden, head)


def _actor(tensors: _Tensors, activation: Activation | Literal["prelu"]) -> tuple[Layer, ...]:
    tensors.drop("mlp_extractor.value_net.")
    tensors.drop("value_net.")
    shared = _hidden_layers(tensors, "mlp_extractor.shared_net", activation)
    own = _hidden_layers(tensors, "mlp_extractor.policy_net", activation)
    head = Layer(*tensors.linear("action_net"))
    tensors.finish()
    return (*shared, *own, head)


def _average_quantiles(
    contents: Contents, options: Mapping[str, Any], layers: tuple[Layer, ...], n_actions: int
) -> tuple[Layer, ...]:
    """Average the quantiles inside the last layer: the mean of linear functions is linear, and cheaper."""
    head = layers[-1]
    name = f"{contents.path}: the last layer of the quantile network"
    n_quantiles, rest = divmod(head.n_outputs, n_actions)
    if rest or not n_quantiles:
        raise PolicyError(f"{name} has {head.n_outputs} outputs, which is no multiple of {n_actions} actions")
    for written in (options.get("n_quantiles"), contents.data.get("n_quantiles")):
        if written not in (None, n_quantiles):
            raise PolicyError(f"{name} has {n_quantiles} quantiles an action, but the file says {written}")
    weight = head.weight.reshape(n_quantiles, n_actions, -1).mean(axis=0, dtype=np.float64)
    bias = head.bias.reshape(n_quantiles, n_actions).mean(axis=0, dtype=np.float64)
    return (*layers[:-1], Layer(weight.astype(np.float32), bias.astype(np.float32)))


def _check_ends(tensors: _Tensors, layers: tuple[Layer, ...], encoding: Encoding, n_actions: int) -> None:
    path = tensors.contents.path
    width = encoding.width
    for number, layer in enumerate(layers):
        if layer.n_inputs != width:
            source = "the observation space gives" if number == 0 else f"layer {number - 1} gives"
            raise PolicyError(
                f"{path}: layer {number} of the network reads {layer.n_inputs} values, but {source} {width}"
            )
        width = layer.n_outputs
    if width != n_actions:
        raise PolicyError(f"{path}: the network has {width} outputs, but the action space has {n_actions} actions")


def _metadata_of(contents: Contents, algorithm: Algorithm) -> dict[str, Any]:
    metadata: dict[str, Any] = {"algorithm": algorithm}
    if contents.version is not None:
        metadata["stable_baselines3_version"] = contents.version
    for name in ("num_timesteps", "seed"):
        if isinstance(contents.data.get(name), int):
            metadata[name] = contents.data[name]
    return metadata


def _opened(path: Path) -> zipfile.ZipFile:
    if not path.exists():
        hint = f"; did you mean {path.name}.zip?" if path.with_name(f"{path.name}.zip").is_file() else ""
        raise PolicyError(f"{path}: no such file{hint}")
    if not path.is_file():
        raise PolicyError(f"{path}: not a file but a folder; a policy is a .zip or .safetensors file")
    if not path.stat().st_size:
        raise PolicyError(f"{path}: the file is empty")
    with path.open("rb") as stream:
        begins_well = stream.read(4) == b"PK\x03\x04"
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        what = "the zip file is truncated or damaged" if begins_well else "this is no zip file"
        raise PolicyError(f"{path}: {what}") from error
    if min((member.header_offset for member in archive.infolist()), default=0) > 0:
        # The tensors are zips themselves: of a truncated file one of those is found instead.
        archive.close()
        raise PolicyError(f"{path}: the zip file is truncated or damaged")
    return archive


def _read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    size = archive.getinfo(name).file_size
    if size > _LARGEST_MEMBER:
        raise PolicyError(f"{path}: {name} claims to be {size} bytes large, which no policy of this kind is")
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise PolicyError(f"{path}: {name} is damaged: {error}") from error
    except (NotImplementedError, RuntimeError) as error:
        raise PolicyError(f"{path}: {name} cannot be unpacked: {error}") from error


def _read_data(path: Path, archive: zipfile.ZipFile) -> Mapping[str, Any]:
    if "policy.pth" not in archive.namelist():
        raise PolicyError(
            f"{path}: this zip file has no policy.pth, so it was not written by Stable-Baselines3's save(); it holds "
            f"{', '.join(sorted(archive.namelist())[:5]) or 'nothing'}"
        )
    if "data" not in archive.namelist():
        return {}
    try:
        data = json.loads(_read_member(path, archive, "data"))
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: data is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise PolicyError(f"{path}: data is a JSON {type(data).__name__}, not an object")
    return data


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    with _opened(path) as archive:
        raw = _read_member(path, archive, "policy.pth")
    try:
        state = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:
        # PyTorch refuses foreign objects and damaged files in many ways.
        foreign = re.search(r"GLOBAL ([\w.]+)", str(error))
        why = (
            f"it holds {foreign.group(1)}, which would run code"
            if foreign
            else f"it is damaged ({type(error).__name__})"
        )
        raise PolicyError(f"{path}: policy.pth cannot be read as plain tensors: {why}") from error
    if not isinstance(state, dict):
        raise PolicyError(f"{path}: policy.pth holds a {type(state).__name__}, not named tensors")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise PolicyError(f"{path}: {name!r} of policy.pth is no plain tensor")
        if tensor.device.type != "cpu" or tensor.numel() * tensor.element_size() > len(raw):
            raise PolicyError(
                f"{path}: tensor {name!r} of policy.pth claims shape {tuple(tensor.shape)}, more than the file holds"
            )
    return dict(state)
