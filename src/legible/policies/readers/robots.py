"""Reader of PyTorch checkpoints of rsl_rl, skrl and rl_games, which train robots.

A library is recognised by the names in its file; no code in it is run. Observation statistics are part of a file.

- rsl_rl: ``actor_state_dict`` or ``model_state_dict``; the mean of a Gaussian is the action.
- skrl: ``policy``, with layers of its instantiators or of a plain sequence; Gaussian and categorical policies.
- rl_games: ``model`` with ``a2c_network``; continuous actions are clipped to −1 and 1.

The activation function is in none of the files. It is read from ``agent.yaml`` or ``params/agent.yaml`` next to them,
as Isaac Lab writes it, or has to be given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from legible.policies.activations import Activation
from legible.policies.actors.heads import Gaussian
from legible.policies.actors.networks import Flatten, linear, sequence
from legible.policies.actors.policy import ActorPolicy
from legible.policies.encoding import Plain
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.normalisation import Normalisation
from legible.policies.normalising import normalised
from legible.policies.protocol import Policy, PolicyError, UnclearPolicyError, naming
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.tensors import Array, Tensors
from legible.policies.torch_file import checked_state, is_torchscript, read_saved

_SUFFIXES = (".pt", ".pth")
_MOST_BYTES = 2**28
_MOST_YAML_BYTES = 2**16
_ACTIVATION = re.compile(r"^\s*activations?:\s*['\"]?([A-Za-z_]+)['\"]?\s*$", re.MULTILINE)
_RSL_EPSILON, _SKRL_EPSILON, _SKRL_CLIP, _GAMES_EPSILON, _GAMES_CLIP = 1e-2, 1e-8, 5.0, 1e-5, 5.0


def is_own(source: Any) -> bool:
    """Return whether this is a checkpoint of one of these libraries, by the names in the file."""
    if not isinstance(source, Path) or source.suffix not in _SUFFIXES or not source.is_file():
        return False
    if source.stat().st_size > _MOST_BYTES or is_torchscript(source):
        return False
    try:
        return _library_of(read_saved(source.read_bytes(), source, "the file")) is not None
    except PolicyError:
        return False


def _library_of(saved: Any) -> str | None:
    if not isinstance(saved, dict):
        return None
    for key in ("actor_state_dict", "model_state_dict"):
        state = saved.get(key)
        if isinstance(state, dict) and any(
            str(name).startswith(("mlp.0.", "actor.0.", "actor.mlp.0.")) for name in state
        ):
            return "rsl_rl"
    model = saved.get("model")
    if isinstance(model, dict) and any(str(name).startswith("a2c_network.") for name in model):
        return "rl_games"
    policy = saved.get("policy")
    if isinstance(policy, dict) and policy and all(isinstance(each, torch.Tensor) for each in policy.values()):
        return "skrl"
    return None


def read(path: Path, options: LoadOptions) -> Policy:
    """Read the actor of a checkpoint, with its observation statistics."""
    options.refuse("a checkpoint of rsl_rl, skrl or rl_games", "output", "encoding", "algorithm")
    raw = path.read_bytes()
    saved = read_saved(raw, path, "the file")
    library = _library_of(saved)
    assert library is not None
    activation = _activation_of(path, options, library)
    readers = {"rsl_rl": _read_rsl_rl, "skrl": _read_skrl, "rl_games": _read_rl_games}
    try:
        with naming(path):
            policy, statistics = readers[library](saved, raw, path, activation)
            return normalised(policy, statistics, options, str(path))
    except (RuntimeError, ValueError, AssertionError, IndexError, KeyError, TypeError) as error:
        raise PolicyError(f"{path}: its tensors do not fit each other: {str(error)[:200]}") from error


def _activation_of(path: Path, options: LoadOptions, library: str) -> Activation:
    """Return the activation that the caller or an ``agent.yaml`` next to the file names."""
    if options.activation is not None:
        return options.activation
    for file in (path.parent / "agent.yaml", path.parent / "params" / "agent.yaml"):
        if file.is_file() and file.stat().st_size <= _MOST_YAML_BYTES:
            named = {name.lower() for name in _ACTIVATION.findall(file.read_text(encoding="utf-8", errors="replace"))}
            if len(named) == 1:
                return Activation.of(named.pop())
    raise UnclearPolicyError(
        f"{path}: {library} does not save the activation function, and no agent.yaml next to it names one. Give it "
        "(--activation elu, which is the usual one)",
        "activation",
    )


def _take_layers(tensors: Tensors, names: Sequence[str], activation: Activation) -> list[Layer]:
    """Take fully connected layers that follow each other; the last has no activation."""
    layers = tensors.layers(names, activation)
    if not layers:
        raise PolicyError("it has no fully connected layers of an actor")
    for name, (before, after) in zip(names[1:], pairwise(layers), strict=True):
        if before.n_outputs != after.n_inputs:
            raise PolicyError(
                f"tensor '{name}.weight' does not follow the layer before it; only plain networks are read"
            )
    return layers


def _take_first(tensors: Tensors, *names: str) -> Array | None:
    """Take the first of some tensors that there is."""
    return next((tensors.take(name) for name in names if tensors.has(name)), None)


def _take_moments(tensors: Tensors, *names: str) -> list[npt.NDArray[np.float64]]:
    """Take observation statistics."""
    return [tensors.take(name).astype(np.float64) for name in names]


def _gaussian(layers: list[Layer], std: Any, bound: float, library: str) -> ActorPolicy:
    n = layers[-1].n_outputs
    log_std = torch.zeros(n) if std is None else torch.from_numpy(np.array(std, np.float32).reshape(-1))
    if len(log_std) != n:
        raise PolicyError(f"there are {len(log_std)} spreads for {n} actions")
    head = Gaussian(linear(layers[-1].weight, layers[-1].bias), log_std, squashed=False)
    shown = spaces.Box(-np.inf, np.inf, (layers[0].n_inputs,), np.float32)
    actions = spaces.Box(-bound, bound, (n,), np.float32)
    policy = ActorPolicy(shown, actions, Flatten(), sequence(layers[:-1]), head, metadata={"library": library})
    policy.try_once()
    return policy


def _categorical(layers: list[Layer], library: str) -> NetworkPolicy:
    encoding = Plain(layers[0].n_inputs)
    return NetworkPolicy(tuple(layers), "log-probabilities", encoding, metadata={"library": library})


def _read_part(saved: Any, raw: bytes, path: Path, key: str) -> Tensors:
    """Return the tensors of a part of a file; refuse those of a memory."""
    tensors = checked_state(saved[key], raw, path, key)
    memory = next((name for name in tensors if re.search(r"\b(rnn|lstm|gru|memory_a)\b", name)), None)
    if memory is not None:
        raise PolicyError(f"tensor {memory!r} belongs to a memory; only plain networks are read")
    return Tensors(tensors)


def _read_rsl_rl(saved: Any, raw: bytes, path: Path, activation: Activation) -> tuple[Any, Normalisation | None]:
    """Return the policy of an rsl_rl checkpoint, and its observation statistics if it has any.

    `saved` is the content of the file, `raw` its bytes. Versions of rsl_rl name their tensors differently.
    """
    key = "actor_state_dict" if "actor_state_dict" in saved else "model_state_dict"
    tensors = _read_part(saved, raw, path, key)
    prefix = next((each for each in ("actor.mlp", "mlp", "actor") if tensors.has(f"{each}.0.weight")), "actor")
    log_std = _take_first(tensors, "log_std", "distribution.log_std_param")
    action_std = _take_first(tensors, "std", "actor.std", "distribution.std_param")
    if log_std is None and action_std is not None:
        log_std = np.log(np.maximum(action_std, 1e-6))  # as rsl_rl, never the logarithm of 0
    layers = _take_layers(tensors, tensors.names_of_layers(prefix), activation)
    policy = _gaussian(layers, log_std, bound=np.inf, library="rsl_rl")

    # Statistics are among the tensors, with one of these prefixes, or a part of their own without a prefix.
    prefixes = ("obs_normalizer.", "actor_obs_normalizer.", "actor.obs_normalizer.")
    statistics, prefix = tensors, next((each for each in prefixes if tensors.has(f"{each}_mean")), "")
    if not prefix:
        if not saved.get("obs_norm_state_dict"):
            return policy, None
        statistics = _read_part(saved, raw, path, "obs_norm_state_dict")
    mean = statistics.take(f"{prefix}_mean").astype(np.float64)
    has_std = statistics.has(f"{prefix}_std")
    std = statistics.take(f"{prefix}_std") if has_std else np.sqrt(statistics.take(f"{prefix}_var"))
    # rsl_rl divides by the standard deviation plus a number, `Normalisation` by the root of variance plus epsilon.
    variance = (std.astype(np.float64) + _RSL_EPSILON) ** 2
    return policy, Normalisation(mean, variance, epsilon=0.0, clip=np.inf)


def _read_skrl(saved: Any, raw: bytes, path: Path, activation: Activation) -> tuple[Any, Normalisation | None]:
    tensors = _read_part(saved, raw, path, "policy")
    tensors.drop("value")  # shared models hold the layers of the value, too
    names = [name.removesuffix(".weight") for name in tensors.left if name.endswith(".weight")]
    layers = _take_layers(tensors, names, activation)
    spread = _take_first(tensors, "log_std_parameter")
    policy = _categorical(layers, "skrl") if spread is None else _gaussian(layers, spread, np.inf, "skrl")
    if spread is None and any("std" in name for name in tensors.left):
        raise PolicyError("its policy has a spread that is no log_std_parameter, which is not supported")
    key = next((key for key in ("observation_preprocessor", "state_preprocessor") if saved.get(key)), None)
    if key is None:
        return policy, None
    mean, var = _take_moments(_read_part(saved, raw, path, key), "running_mean", "running_variance")
    return policy, Normalisation(mean, (np.sqrt(var) + _SKRL_EPSILON) ** 2, 0.0, _SKRL_CLIP)


def _read_rl_games(saved: Any, raw: bytes, path: Path, activation: Activation) -> tuple[Any, Normalisation | None]:
    tensors = _read_part(saved, raw, path, "model")
    if tensors.any_of("a2c_network.actor_cnn"):
        raise PolicyError("its network reads pictures (actor_cnn), which is not supported")
    hidden = tensors.names_of_layers("a2c_network.actor_mlp")
    if tensors.has("a2c_network.mu.weight"):
        layers = _take_layers(tensors, [*hidden, "a2c_network.mu"], activation)
        policy: Any = _gaussian(layers, _take_first(tensors, "a2c_network.sigma"), 1.0, "rl_games")
    elif tensors.has("a2c_network.logits.weight"):
        policy = _categorical(_take_layers(tensors, [*hidden, "a2c_network.logits"], activation), "rl_games")
    else:
        raise PolicyError("its network has neither mu nor logits; other actions of rl_games are not supported")
    if not tensors.has("running_mean_std.running_mean"):
        return policy, None
    mean, var = _take_moments(tensors, "running_mean_std.running_mean", "running_mean_std.running_var")
    return policy, Normalisation(mean, var, _GAMES_EPSILON, _GAMES_CLIP)


READER = PolicyReader("robots", "a .pt or .pth checkpoint of rsl_rl, skrl or rl_games", is_own, read)
