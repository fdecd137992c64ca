"""Reader of RLlib's checkpoints (new API stack), without unpickling them.

A checkpoint is a folder. ``learner_group/learner/rl_module/MODULE`` holds ``module_state.pkl``, the tensors, and
``class_and_ctor_args.pkl``: class, spaces and settings of the module. ``env_runner/env_to_module_connector`` holds the
filters of observations. All are read as data (`legible.policies.inert_pickle`); other files of a checkpoint are never
opened. Supported are the default modules of PPO, IMPALA, APPO, DQN and SAC with MLP and CNN encoders, and
``MeanStdFilter``; other modules and filters are refused by their name.
"""

from __future__ import annotations

import base64
import io
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import nn

from legible.policies.activations import Activation
from legible.policies.actors.heads import Categories, Gaussian, Head, Masks, QValues, Rng
from legible.policies.actors.networks import Activated, Flatten, convolution, linear, sequence
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import Plain
from legible.policies.inert_pickle import Named, Record, array_of, read_pickle
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.normalisation import Normalisation
from legible.policies.normalising import normalised
from legible.policies.protocol import Policy, PolicyError, naming
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.sb3.spaces import space_of_record
from legible.policies.tensors import Tensors
from legible.policies.vec_normalize import is_known_name

MODULES = Path("learner_group/learner/rl_module")
FILTERS = Path("env_runner/env_to_module_connector")
STATE, ARGUMENTS = "module_state.pkl", "class_and_ctor_args.pkl"
_ALGORITHMS = {
    "DefaultPPOTorchRLModule": "PPO",
    "DefaultAPPOTorchRLModule": "APPO",
    "DefaultDQNTorchRLModule": "DQN",
    "DefaultSACTorchRLModule": "SAC",
}
_RLLIB_NAME = re.compile(r"ray\.rllib\.[\w.]+|torch\.device|pathlib\.\w+")
# Steps between environment and module that do not change observations.
_PLAIN_CONNECTORS = re.compile(
    r"(AddObservationsFromEpisodesToBatch|AddStatesFromEpisodesToBatch|AddTimeDimToBatchAndZeroPad"
    r"|BatchIndividualItems|NumpyToTensor|AgentToModuleMapping|EnvToModulePipeline)"
)
# Content of another form than RLlib's raises these.
_ERRORS = (
    *(ValueError, TypeError, KeyError, AttributeError, IndexError, RuntimeError, OverflowError, AssertionError),
    *(EOFError, MemoryError, zlib.error),
)
_MOST_FILES = 64
_MOST_BYTES = 2**24


def is_own(source: Any) -> bool:
    """Return whether this is a folder of RLlib: a checkpoint, or a single module of one."""
    if not isinstance(source, Path) or not source.is_dir():
        return False
    return (source / MODULES).is_dir() or (source / STATE).is_file()


def read(path: Path, options: LoadOptions) -> Policy:
    """Read the module of a checkpoint, with its observation filter."""
    options.refuse("a checkpoint of RLlib", "output", "activation", "encoding", "algorithm")
    module = _module_of(path)
    try:
        with naming(path):
            policy = _policy_of(module)
            # The checkpoint that the module lies in holds the observation filter; a module alone has none.
            checkpoint = next((parent for parent in module.parents if (parent / MODULES) in module.parents), None)
            own_filter = None if checkpoint is None else filter_in(checkpoint / FILTERS)
            return normalised(policy, own_filter, options, str(path))
    except _ERRORS as error:
        raise PolicyError(f"{path}: its module cannot be read ({type(error).__name__}: {str(error)[:200]})") from error


def _module_of(path: Path) -> Path:
    """Return the folder of the module of a checkpoint, or raise an error if there are several."""
    # The path is a module itself, a folder of modules, or a checkpoint with such a folder inside.
    is_module = (path / STATE).is_file() and (path / ARGUMENTS).is_file() and not (path / MODULES).is_dir()
    parent = path if is_module else path / MODULES
    modules = [folder for folder in sorted(parent.iterdir())[:_MOST_FILES] if (folder / STATE).is_file()]
    if is_module and not modules:
        return path
    if not modules:
        raise PolicyError(f"{path}: there is no module in {MODULES}")
    if len(modules) > 1:
        names = ", ".join(folder.name for folder in modules)
        raise PolicyError(f"{path}: it holds several modules ({names}); pass the folder of one of them, {modules[0]}")
    return modules[0]


def _is_known(name: str) -> bool:
    return is_known_name(name) or _RLLIB_NAME.fullmatch(name) is not None


def _read(file: Path) -> Any:
    return read_pickle(file.read_bytes(), str(file), _is_known)


def _entries(value: Any) -> dict[str, Any]:
    """Return the entries of a dictionary, of an OrderedDict or of an object."""
    if isinstance(value, Record):
        value = value.entries or value.attributes()
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {}


class _Module:
    """The tensors and settings of a module; each tensor is checked when it is taken."""

    def __init__(self, folder: Path) -> None:
        described = _entries(_read(folder / ARGUMENTS))
        kind = described.get("class")
        self.kind = kind.name.rpartition(".")[2] if isinstance(kind, Named) else "?"
        if not isinstance(kind, Named) or self.kind not in _ALGORITHMS or not kind.name.startswith("ray.rllib."):
            name = kind.name[:100] if isinstance(kind, Named) else "?"
            raise PolicyError(f"its module is {name}, which cannot be rebuilt from its tensors alone")
        _, arguments = described["ctor_args_and_kwargs"]
        self.arguments = _entries(arguments)
        self.settings = _entries(self.arguments.get("model_config"))
        self.tensors = Tensors({key: array_of(value) for key, value in _entries(_read(folder / STATE)).items()})

    def space(self, name: str) -> spaces.Space[Any]:
        """Return a space of the module."""
        made = space_of_record(self.arguments.get(name))
        if made is None:
            raise PolicyError(f"its {name.replace('_', ' ')} cannot be read")
        return made

    def activation(self, name: str) -> Activation:
        """Return an activation function of the settings."""
        given = self.settings.get(name)
        if given is None or given == "linear":
            return Activation("identity")
        if not isinstance(given, str) or given.lower() not in ("relu", "tanh", "elu", "silu", "swish"):
            raise PolicyError(f"its {name} is {str(given)[:60]!r}, which is not supported")
        return Activation({"swish": "silu"}.get(given.lower(), given.lower()))

    def layers(self, prefix: str, activation: Activation, *, last: Activation) -> list[Layer]:
        """Take the layers of a sequence."""
        names = self.tensors.names_of_layers(f"{prefix}.net.mlp")
        for weight in (f"{name}.weight" for name in names):
            if self.tensors.dimensions(weight) != 2:
                raise PolicyError(f"tensor {weight!r} belongs to a normalisation of layers, which is not supported")
        return self.tensors.layers(names, activation, last)

    def finish(self) -> None:
        """Raise an error if a tensor was not taken."""
        left = sorted(name for name in self.tensors.left if not name.endswith("log_std_clip_param_const"))
        if left:
            raise PolicyError(f"tensor {left[0]!r} has no place in the networks that are supported")


def _policy_of(folder: Path) -> NetworkPolicy | ActorPolicy:
    """Return the policy of the RLlib module in a folder: the network of one agent, with encoder and output layers."""
    module = _Module(folder)
    observation_space, action_space = module.space("observation_space"), module.space("action_space")
    if not isinstance(observation_space, spaces.Box):
        raise PolicyError(f"its observations are {observation_space}; only Box is supported")

    # The prefix of the encoder's tensors: PPO keeps separate encoders for actor and critic if they share no layers.
    algorithm = _ALGORITHMS[module.kind]
    encoder = {"SAC": "pi_encoder", "DQN": "encoder"}.get(algorithm, "encoder.encoder")
    if algorithm in ("PPO", "APPO") and module.tensors.any_of("encoder.actor_encoder."):
        encoder = "encoder.actor_encoder"

    # Pictures pass convolutions first; then the hidden layers.
    hidden_activation = module.activation("fcnet_activation")
    common_fields: dict[str, Any] = {"metadata": {"library": "RLlib", "algorithm": algorithm}}
    extractor: nn.Module = Flatten()
    if len(observation_space.shape) == 3:
        extractor = _Pictures(module, f"{encoder}.net.0.cnn", observation_space.shape)
    body = module.layers(encoder, hidden_activation, last=hidden_activation)

    # Critics and target networks have no part in choosing actions. (Those of DQN are dropped in `_q_values`.) RLlib
    # names the last layers "pi" for policies and "af" for the advantages of DQN.
    if algorithm != "DQN":
        module.tensors.drop("vf.", "encoder.critic_encoder.", "qf", "_target", "target", "_old", "old_")
    output_layers = module.layers(
        "af" if algorithm == "DQN" else "pi", module.activation("head_fcnet_activation"), last=Activation("identity")
    )
    if not output_layers:
        raise PolicyError("it has no layer that gives actions")
    if algorithm == "DQN":
        output_layers = _q_values(module, output_layers, action_space)

    # `finish` raises an error if a tensor was not used. Flat observations with discrete actions make a plain network;
    # other policies play one observation, to see that their parts fit each other.
    head, is_scaled = _head_of(module, algorithm, output_layers, action_space)
    module.finish()
    if (
        isinstance(extractor, Flatten)
        and isinstance(action_space, spaces.Discrete)
        and len(observation_space.shape) == 1
    ):
        kind = "values" if algorithm == "DQN" else "log-probabilities"
        return NetworkPolicy((*body, *output_layers), kind, Plain(observation_space.shape[0]), **common_fields)  # type: ignore[arg-type]
    policy = ActorPolicy(
        observation_space,
        action_space,
        extractor,
        sequence(body),
        head,
        squashed=is_scaled,
        scale_images=False,
        **common_fields,
    )
    policy.try_once()
    return policy


def _q_values(module: _Module, out: list[Layer], actions: spaces.Space[Any]) -> list[Layer]:
    """Return the layers of Q-values: advantages, and the value of the state if there is one."""
    if not isinstance(actions, spaces.Discrete) or module.settings.get("num_atoms", 1) != 1:
        raise PolicyError("it is a distributional DQN (num_atoms), which is not supported")
    module.tensors.drop("_target", "target")
    if not module.tensors.any_of("vf.net"):
        return out
    value = module.layers("vf", module.activation("head_fcnet_activation"), last=Activation("identity"))
    if len(out) != 1 or len(value) != 1:
        raise PolicyError("its dueling heads have hidden layers (head_fcnet_hiddens), which is not supported")
    advantage, state = out[0], value[0]
    # Q = V + A − mean(A), which is linear in the last hidden layer.
    weight = state.weight + advantage.weight - advantage.weight.mean(axis=0, keepdims=True)
    bias = state.bias + advantage.bias - advantage.bias.mean()
    return [Layer(weight.astype(np.float32), bias.astype(np.float32))]


def _head_of(
    module: _Module, algorithm: str, output_layers: list[Layer], actions: spaces.Space[Any]
) -> tuple[Head, bool]:
    """Return the head, which turns the network's outputs into actions, and whether these are scaled from −1 … 1.

    The output layers are those behind the encoder; the last one gives the outputs.
    """
    n_outputs = output_layers[-1].n_outputs

    # Continuous actions: a Gaussian. Its spread is a tensor of its own, or the second half of the outputs.
    if isinstance(actions, spaces.Box):
        n_numbers = int(np.prod(actions.shape))
        last_layer, hidden_layers = output_layers[-1], sequence(output_layers[:-1])
        log_std: torch.Tensor | nn.Module
        if module.tensors.has("pi.log_std"):
            log_std = torch.from_numpy(module.tensors.take("pi.log_std", dimensions=1).copy())
            mean = linear(last_layer.weight, last_layer.bias)
        elif n_outputs == 2 * n_numbers:
            log_std = nn.Sequential(hidden_layers, linear(last_layer.weight[n_numbers:], last_layer.bias[n_numbers:]))
            mean = linear(last_layer.weight[:n_numbers], last_layer.bias[:n_numbers])
        else:
            raise PolicyError(f"it has {n_outputs} outputs for the mean and spread of {n_numbers} actions")
        is_bounded = bool(np.isfinite(actions.low).all() and np.isfinite(actions.high).all())
        mean_net = nn.Sequential(hidden_layers, mean)
        # RLlib's default (normalize_actions): actions between −1 and 1 are scaled to the bounds. In SAC a tanh keeps
        # them between −1 and 1, elsewhere they are clipped.
        head_class = _ClippedGaussian if is_bounded else Gaussian
        return head_class(mean_net, log_std, squashed=algorithm == "SAC"), is_bounded

    # Discrete actions, in one or several parts: one output for every value of every part.
    sizes: tuple[int, ...] = ()
    if isinstance(actions, spaces.Discrete) and not int(actions.start):
        sizes = (int(actions.n),)
    elif isinstance(actions, spaces.MultiDiscrete) and not actions.start.any():
        sizes = tuple(int(n) for n in actions.nvec.ravel())
    if not sizes or sum(sizes) != n_outputs:
        raise PolicyError(f"it has {n_outputs} outputs for the actions {actions}")
    network = sequence(output_layers)
    if algorithm == "DQN":
        return QValues(network), False
    return Categories(network, sizes, single=isinstance(actions, spaces.Discrete)), False


class _ClippedGaussian(Gaussian):
    """Continuous actions around a mean, clipped to −1 and 1.

    Samples of SAC are squashed by tanh, but RLlib does not squash its most likely actions (``to_deterministic``).
    """

    def forward(self, latent: torch.Tensor, rng: Rng, masks: Masks) -> torch.Tensor:
        if rng is None:
            mean: torch.Tensor = self.mean(latent)
            return mean.clamp(-1.0, 1.0)
        return super().forward(latent, rng, masks).clamp(-1.0, 1.0)


class _Pictures(nn.Module):
    """Convolutions of RLlib: pictures with channels last, padded so that strides alone reduce them."""

    def __init__(self, module: _Module, prefix: str, shape: tuple[int, ...]) -> None:
        """Take the convolutions from a module.

        - `module`: the module; its setting ``conv_filters`` lists (channels, kernel, stride, padding) of each
          convolution.
        - `shape`: shape of a picture: (height, width, channels).
        """
        super().__init__()
        conv_filters = module.settings.get("conv_filters")
        filters = conv_filters if isinstance(conv_filters, list | tuple) else []
        positions = module.tensors.places(prefix)
        if not positions or len(positions) != len(filters):
            raise PolicyError("its conv_filters do not fit its tensors")
        activation, modules = module.activation("conv_activation"), list[nn.Module]()
        size = shape[:2]  # height and width of the picture before each convolution
        for position, (_, kernel, stride, *further) in zip(positions, filters, strict=True):
            padding = further[0] if further else "same"
            # Kernel and stride are one number for both axes, or two: (down, across).
            (kernel_height, kernel_width), (stride_down, stride_across) = (
                (int(pair), int(pair)) if isinstance(pair, int) else tuple(map(int, pair)) for pair in (kernel, stride)
            )
            weight = module.tensors.take(f"{prefix}.{position}.weight", dimensions=4)
            bias = module.tensors.take(f"{prefix}.{position}.bias", dimensions=1)
            fits_kernel = weight.shape[2:] == (kernel_height, kernel_width)
            if not fits_kernel or stride_down < 1 or stride_across < 1:
                raise PolicyError("its conv_filters do not fit its tensors")
            if padding not in ("same", "valid"):
                raise PolicyError(f"the padding {str(padding)[:40]!r} of its conv_filters is not supported")
            if padding == "same":
                # The strides alone reduce the picture (rounded up), and zeros fill what the kernels need beyond it,
                # half before and half after, as TensorFlow does.
                new_size = (-(-size[0] // stride_down), -(-size[1] // stride_across))
                pad_height = (new_size[0] - 1) * stride_down + kernel_height - size[0]
                pad_width = (new_size[1] - 1) * stride_across + kernel_width - size[1]
                above, before = pad_height // 2, pad_width // 2
                modules.append(nn.ZeroPad2d((before, pad_width - before, above, pad_height - above)))
            else:
                new_size = ((size[0] - kernel_height) // stride_down + 1, (size[1] - kernel_width) // stride_across + 1)
            layer = convolution(weight, bias, stride=1)
            layer.stride = (stride_down, stride_across)  # `convolution` takes one number for both axes
            modules += [layer, Activated(activation)]
            size = new_size
        self.layers = nn.Sequential(*modules)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(observations.permute(0, 3, 1, 2))
        return features.permute(0, 2, 3, 1).flatten(start_dim=1)


def filter_in(folder: Path) -> Normalisation | None:
    """Return the statistics of an observation filter; refuse other steps that change observations."""
    if not (folder / ARGUMENTS).is_file():
        return None
    try:
        names = _connector_names(folder)
    except _ERRORS as error:
        raise PolicyError(f"{folder}: its connectors cannot be read ({type(error).__name__})") from error
    others = [name for name in names if not _PLAIN_CONNECTORS.fullmatch(name) and name != "MeanStdFilter"]
    if others:
        raise PolicyError(
            f"connectors that change observations are not supported: {', '.join(dict.fromkeys(others))} "
            "(env_to_module_connector). Wrap the environment so that it shows what the module reads. Then pass the "
            f"folder of the module, {MODULES}/NAME"
        )
    if "MeanStdFilter" not in names:
        return None
    return read_filter(folder / "MeanStdFilter" / "state.pkl")


def _connector_names(folder: Path) -> list[str]:
    """Return the class names of the steps between environment and module; other code is refused by its name."""
    seen: list[str] = []

    def note(name: str) -> bool:
        seen.append(name)
        return _is_known(name)

    file = folder / ARGUMENTS
    read_pickle(file.read_bytes(), str(file), note)
    names = [name.rpartition(".")[2] for name in seen if ".connectors." in name]
    return names + sorted(each.name for each in folder.iterdir() if each.is_dir())


def read_filter(file: Path) -> Normalisation:
    """Return the statistics of a ``MeanStdFilter``."""
    try:
        return _read_filter(_read(file))
    except _ERRORS as error:
        raise PolicyError(
            f"{file}: it holds no observation filter ({type(error).__name__}: {str(error)[:200]})"
        ) from error


def _read_filter(state: Any) -> Normalisation:
    filters = list(state.values()) if isinstance(state, dict) else []  # one per agent
    if len(filters) != 1:
        raise PolicyError("its observation filter is one of several agents, which is not supported")
    entries = _entries(filters[0])
    statistics = entries["running_stats"]
    if len(statistics) != 1 or not entries["de_mean_to_zero"] or not entries["de_std_to_one"]:
        raise PolicyError("its observation filter does not normalise one array to mean 0 and spread 1")
    running = _entries(statistics[0])
    mean, squares = (_array_of(running[name]) for name in ("mean_array", "sum_sq_diff_array"))
    spread = np.sqrt(squares / max(1, int(array_of(running["num_pushes"])) - 1))
    clip = entries["clip_by_value"]
    return Normalisation(mean, (spread + 1e-8) ** 2, 0.0, float("inf") if clip is None else float(array_of(clip)))


def _array_of(value: Any) -> npt.NDArray[np.float64]:
    """Return an array that is written as one, or as the compressed and encoded text of one."""
    if not isinstance(value, str):
        return np.asarray(array_of(value), np.float64).reshape(-1)
    unpacked = zlib.decompressobj().decompress(base64.b64decode(value), _MOST_BYTES)
    return np.asarray(np.load(io.BytesIO(unpacked), allow_pickle=False), np.float64).reshape(-1)


READER = PolicyReader("rllib", "a checkpoint of RLlib (PPO, IMPALA, APPO, DQN, SAC)", is_own, read)
