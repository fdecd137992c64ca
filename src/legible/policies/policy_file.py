"""Legible's policy files: ``.safetensors`` files with the weights, and a description of the policy in the metadata.

The tensors are ``layers.<i>.weight`` and ``layers.<i>.bias`` (``float32``) and, for policies trained with normalised
observations, ``normalisation.mean`` and ``normalisation.var`` (``float64``). The metadata has one entry, ``legible``,
with a JSON document:

.. code-block:: json

    {"format": "legible-policy", "version": 1,
     "layers": [{"activation": "relu"}, {"activation": "identity"}],
     "head": "values",
     "encoding": {"kind": "plain", "features": 69},
     "normalisation": {"epsilon": 1e-08, "clip": 10.0},
     "action_names": ["North", "South", "East", "West", "Stop"],
     "env_id": "legible/PacManSmall-v0",
     "metadata": {"algorithm": "DQN", "seed": 1},
     "sha256": "…"}

``head`` is ``"values"``, or ``"log-softmax"`` for log-probabilities. ``encoding`` is as above, or
``{"kind": "one-hot", "sizes": [...]}``. ``normalisation``, ``action_names`` and ``env_id`` may be null. ``sha256`` is a
checksum of the tensors and the rest of the document; the zoo's files have none. The same policy gives a byte-identical
file.

Policies with continuous or multi-part actions have version 2: instead of ``layers``, ``head``, ``encoding`` and
``action_names`` they have ``actor`` (see `legible.policies.actors.saving`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from legible.files import write_whole
from legible.policies.activations import Activation
from legible.policies.actors.policy import ActorPolicy
from legible.policies.actors.saving import Arrays, build_actor, describe_actor, why_actor_not_saved
from legible.policies.encoding import encoding_from_json
from legible.policies.network import Layer, NetworkPolicy
from legible.policies.normalisation import Normalisation
from legible.policies.protocol import Policy, PolicyError, ScoreKind, UnclearPolicyError, naming
from legible.policies.unpacking import parse_json

_FORMAT = "legible-policy"
_VERSION = 1
_ACTOR_VERSION = 2
_LARGEST_HEADER = 8 * 2**20
_HEADS: Mapping[str, ScoreKind] = {"values": "values", "log-softmax": "log-probabilities"}


def save_policy(
    policy: Policy,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    action_names: Sequence[str] | None = None,
    env_id: str | None = None,
) -> Path:
    """Write a policy to a ``.safetensors`` file, whole or not at all, and return its path.

    Parameters
    ----------
    policy
        A `NetworkPolicy`, or an `ActorPolicy` with flat observations and without memory.
    path
        The file; its name must end in ``.safetensors``.
    metadata
        Further entries that JSON can hold; they replace entries of the same name in the policy.
    action_names
        A name for every action, instead of the policy's own.
    env_id
        The environment that the policy was trained in, instead of the policy's own entry.
    """
    file = Path(path)
    if file.suffix != ".safetensors":
        raise PolicyError(f"{file}: policies are saved as .safetensors, not '{file.suffix}'")
    problem = why_not_saved(policy)
    if problem is not None:
        raise PolicyError(f"{file}: {problem}")
    assert isinstance(policy, NetworkPolicy | ActorPolicy)
    complete = dataclasses.replace(
        policy, metadata={**policy.metadata, **(metadata or {})}, env_id=policy.env_id if env_id is None else env_id
    )
    if isinstance(complete, NetworkPolicy) and action_names is not None:
        complete = dataclasses.replace(complete, action_names=tuple(action_names))

    # The file holds the weights as tensors and everything else, with a checksum, as one JSON text in its header.
    try:
        tensors, document = _file_contents(complete)
        text = json.dumps({**document, "sha256": _checksum(tensors, document)}, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{file}: the metadata must be plain data that JSON can hold: {error}") from error
    content = safetensors.numpy.save(tensors, metadata={"legible": text})
    write_whole(file, lambda part: part.write(content))
    return file


def why_not_saved(policy: object) -> str | None:
    """Return the reason why a policy cannot be saved, None if it can."""
    if isinstance(policy, NetworkPolicy):
        return None
    if isinstance(policy, ActorPolicy):
        problem = why_actor_not_saved(policy)
        return None if problem is None else f"a policy cannot be saved when {problem}"
    kinds = "feed-forward networks (NetworkPolicy, or ActorPolicy without memory)"
    return f"a {type(policy).__name__} cannot be saved; only {kinds} can"


def read_policy_file(path: Path, *, activation: Activation | None = None) -> NetworkPolicy | ActorPolicy:
    """Return a policy that `save_policy` wrote; `activation` is that of layers for which the file names none."""
    tensors, document = _read(path)
    try:
        with naming(path):
            if "actor" in document:
                return _actor_of(path, tensors, document)
            return _network_of(path, tensors, document, activation)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise PolicyError(
            f"{path}: its description is incomplete or malformed ({type(error).__name__}: {str(error)[:200]})"
        ) from error


def _file_contents(policy: NetworkPolicy | ActorPolicy) -> tuple[Arrays, dict[str, Any]]:
    """Return the contents of a policy file: the tensors by name, and everything else as data that JSON can hold."""
    if isinstance(policy, ActorPolicy):
        tensors, actor = describe_actor(policy)
        document: dict[str, Any] = {"version": _ACTOR_VERSION, "actor": actor}
    else:
        tensors = {}
        for i, layer in enumerate(policy.layers):
            tensors |= {f"layers.{i}.weight": layer.weight, f"layers.{i}.bias": layer.bias}
        document = {
            "version": _VERSION,
            "layers": [{"activation": str(layer.activation)} for layer in policy.layers],
            "head": "values" if policy.kind == "values" else "log-softmax",
            "encoding": policy.encoding.as_json(),
            "action_names": None if policy.action_names is None else list(policy.action_names),
        }
    # What both kinds of policies have: observation statistics, environment and metadata.
    statistics = policy.normalisation
    assert statistics is None or isinstance(statistics, Normalisation)
    if statistics is not None:
        tensors |= {"normalisation.mean": statistics.mean, "normalisation.var": statistics.var}
    document |= {
        "format": _FORMAT,
        "normalisation": None if statistics is None else {"epsilon": statistics.epsilon, "clip": statistics.clip},
        "env_id": policy.env_id,
        "metadata": dict(policy.metadata),
    }
    return tensors, document


def _checksum(tensors: Mapping[str, npt.NDArray[Any]], document: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return the tensors of a policy file by name, and its description: version, layers, encoding, metadata and so on.

    An error is raised if the file is missing or damaged, was not written by `save_policy`, or has another version.
    """
    if not path.is_file():
        raise PolicyError(f"{path}: no such file")
    try:
        # A safetensors file begins with the size of its header; a damaged one could ask for all memory.
        with path.open("rb") as stream:
            header_size = int.from_bytes(stream.read(8), "little")
        if header_size > _LARGEST_HEADER:
            raise PolicyError(
                f"{path}: this is no .safetensors file, or it is damaged: its header claims {header_size:,} bytes"
            )
        with safetensors.safe_open(path, framework="numpy") as file:
            description = (file.metadata() or {}).get("legible")
            if description is None:
                raise PolicyError(f"{path}: this .safetensors file was not written by save_policy")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (safetensors.SafetensorError, OSError, TypeError) as error:
        raise PolicyError(f"{path}: this is no .safetensors file, or it is damaged: {error}") from error

    # The description must be ours and of a known version. A checksum is optional, but must be right if there is one.
    document = parse_json(description, f"{path}: its description")
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise PolicyError(f"{path}: its description is not of the format {_FORMAT!r}")
    if document.get("version") not in (_VERSION, _ACTOR_VERSION):
        raise PolicyError(
            f"{path}: its format has version {document.get('version')}; supported are versions {_VERSION} and "
            f"{_ACTOR_VERSION}"
        )
    checksum = document.pop("sha256", None)
    if checksum is not None and checksum != _checksum(tensors, document):
        raise PolicyError(f"{path}: it is damaged: the checksum does not match. Copy or save it again")
    return tensors, document


def _network_of(path: Path, tensors: Arrays, document: Mapping[str, Any], given: Activation | None) -> NetworkPolicy:
    """Return the network that a policy file describes, or raise an error that names the part that does not fit.

    - `tensors`: the tensors by name; each is removed when it is used, so that leftover ones are noticed.
    - `document`: everything else in the file, as `_file_contents` made it.
    - `given`: the activation that the caller passed, for files that name none; it must not contradict the file.
    """
    layers = []
    for i, layer_entry in enumerate(document["layers"]):
        # `_take` checks type and number of dimensions, and removes the tensor from `tensors`.
        weight = _take(path, tensors, f"layers.{i}.weight", np.float32, dimensions=2)
        bias = _take(path, tensors, f"layers.{i}.bias", np.float32, dimensions=1)
        activation_name = layer_entry.get("activation")
        activation = given if activation_name is None else Activation.of(activation_name)
        if activation is None:
            raise UnclearPolicyError(
                f"{path}: it does not name the activation of layer {i}. Give the activation, such as relu",
                "activation",
            )
        if given is not None and activation not in (given, Activation("identity")):  # the last layer has none
            raise PolicyError(
                f"{path}: the activation '{given}' was given, but the file says that layer {i} has {activation_name!r}"
            )
        layers.append(Layer(weight, bias, activation))

    # Every tensor must have been used by now: another one means that the file is not what it says.
    normalisation = _normalisation_of(path, tensors, document)
    if tensors:
        raise PolicyError(f"{path}: tensor {sorted(tensors)[0]!r} belongs to no layer")
    if document["head"] not in _HEADS:
        raise PolicyError(f"{path}: unknown head {document['head']!r}; known are {', '.join(_HEADS)}")
    return NetworkPolicy(
        tuple(layers),
        _HEADS[document["head"]],
        encoding_from_json(document["encoding"]),
        normalisation,
        None if document["action_names"] is None else tuple(document["action_names"]),
        document["env_id"],
        document["metadata"],
    )


def _normalisation_of(path: Path, tensors: Arrays, document: Mapping[str, Any]) -> Normalisation | None:
    if document["normalisation"] is None:
        return None
    mean, var = (_take(path, tensors, f"normalisation.{name}", np.float64, dimensions=1) for name in ("mean", "var"))
    return Normalisation(mean, var, document["normalisation"]["epsilon"], document["normalisation"]["clip"])


def _actor_of(path: Path, tensors: Arrays, document: Mapping[str, Any]) -> ActorPolicy:
    normalisation = _normalisation_of(path, tensors, document)
    for name, values in tensors.items():
        if values.dtype != np.float32 or not np.isfinite(values).all():
            raise PolicyError(f"{path}: tensor {name!r} must hold finite numbers of float32")
    policy = build_actor(tensors, document["actor"], normalisation, document["env_id"], dict(document["metadata"]))
    if tensors:
        raise PolicyError(f"{path}: tensor {sorted(tensors)[0]!r} belongs to no part of the network")
    policy.try_once()
    return policy


def _take(path: Path, tensors: Arrays, name: str, dtype: type[np.floating[Any]], dimensions: int) -> npt.NDArray[Any]:
    values = tensors.pop(name, None)
    if values is None:
        raise PolicyError(f"{path}: tensor {name!r} is missing")
    if values.dtype != dtype or values.ndim != dimensions:
        raise PolicyError(
            f"{path}: tensor {name!r} is {values.dtype}{list(values.shape)}, but {np.dtype(dtype)} with {dimensions} "
            "dimensions is expected"
        )
    if not np.isfinite(values).all():
        raise PolicyError(f"{path}: tensor {name!r} is not finite: it holds NaN or infinity")
    return values
