"""What the JSON in a zip of Stable-Baselines3 says about its policy.

Whatever JSON cannot hold stands in it twice, as a pickle in base64 under ``":serialized:"`` and, for people, as the
text of its attributes. Only that text is read here.

- `algorithm_of`: the algorithm.
- `options_of`, `activation_of`: how the network was built.
- `n_actions_of`, `encoding_of`: the spaces.
- `trained_normalised`: whether observations were normalised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from legible.errors import did_you_mean
from legible.policies.activations import Activation
from legible.policies.encoding import Encoding, OneHot, Plain
from legible.policies.protocol import PolicyError, UnclearPolicyError
from legible.policies.sb3.archive import Contents

Algorithm = Literal["DQN", "QRDQN", "PPO", "A2C"]
ALGORITHMS: tuple[Algorithm, ...] = ("DQN", "QRDQN", "PPO", "A2C")
"""The algorithms of Stable-Baselines3 and sb3-contrib whose policies can be loaded."""

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


def checked_algorithm(said: str | None) -> Algorithm | None:
    """Return an algorithm by its name as people write it, or say which there are."""
    if said is None:
        return None
    name = said.upper().replace("-", "")
    if name not in ALGORITHMS:
        raise PolicyError(
            f"unknown algorithm {said!r}.{did_you_mean(name, ALGORITHMS)} "
            f"Policies of {', '.join(ALGORITHMS)} can be loaded"
        )
    return name


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
        raise PolicyError(f"{contents.path}: the algorithm {said!r} was given, but the file says that it is {named}")
    if said is not None:
        return said
    if len(candidates) != 1:
        raise UnclearPolicyError(
            f"{contents.path}: cannot read which algorithm it was trained with. Give the algorithm, such as PPO",
            "algorithm",
        )
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
    raise PolicyError(f"{contents.path}: it was trained with {name}; policies of {', '.join(ALGORITHMS)} can be loaded")


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


def options_of(contents: Contents) -> Mapping[str, Any]:
    """Return the readable options of the policy class, or refuse those whose effect is not known."""
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


def activation_of(
    contents: Contents, options: Mapping[str, Any], algorithm: Algorithm, said: Activation | None
) -> Activation | Literal["prelu"]:
    """Return the activation function between the layers."""
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
        contents.ask(f"cannot read the activation function{shown}", "activation", "relu")
    if said is not None and said != written:
        raise PolicyError(
            f"{contents.path}: the activation {str(said)!r} was given, but the file says that it is {str(written)!r}"
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


def n_actions_of(contents: Contents, said: int | None) -> int:
    """Return the number of actions."""
    if contents.data.get("action_space") is None:
        if said is None:
            contents.ask("cannot read its action space", "n_actions", "5 if it has five discrete actions")
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
        contents.ask("cannot read how many actions it has", "n_actions", "5")
    if answer < 1:
        raise PolicyError(f"{contents.path}: a policy needs at least one action, not {answer}")
    return answer


def encoding_of(contents: Contents, said: Encoding | None) -> Encoding:
    """Return how observations become the input of the network."""
    written = _encoding_in_space(contents)
    if written is None:
        if said is None:
            contents.ask(
                "cannot read its observation space",
                "encoding",
                "Plain(69), or OneHot((3, 4)) for MultiDiscrete([3, 4])",
            )
        return said
    if said is not None and said != written:
        raise PolicyError(f"{contents.path}: the encoding {said} was given, but the file says that it is {written}")
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
