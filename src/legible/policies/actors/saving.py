"""Conversion of actors to tensors and plain data, for policy files.

- `why_actor_not_saved`: the reason why an actor cannot be saved, such as images, dictionaries or memory.
- `describe_actor`: convert an actor to tensors and plain data.
- `build_actor`: convert it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import nn

from legible.policies.activations import Activation
from legible.policies.actors.heads import Bits, Categories, Certain, Gaussian, Head, QValues
from legible.policies.actors.networks import Activated, FixedBatchNorm, Flatten, linear
from legible.policies.actors.policy import ActorPolicy
from legible.policies.normalisation import Normalisation
from legible.policies.protocol import PolicyError

Arrays = dict[str, npt.NDArray[Any]]
_STATISTICS = ("mean", "var", "scale", "bias")
_HEADS_OF_NETS: Mapping[str, type[QValues] | type[Bits] | type[Certain]] = {
    "values": QValues,
    "bits": Bits,
    "certain": Certain,
}


def why_actor_not_saved(policy: ActorPolicy) -> str | None:
    """Return the reason why an actor cannot be saved, None if it can."""
    if policy.recurrent:
        return "it has memory"
    if not isinstance(policy.extractor, Flatten) or isinstance(policy.normalisation, Mapping):
        return "it reads images or dictionaries"
    try:
        describe_actor(policy)
    except PolicyError as error:
        return str(error)
    return None


def describe_actor(policy: ActorPolicy) -> tuple[Arrays, dict[str, Any]]:
    """Return the tensors of an actor, and the rest except statistics and metadata as plain data."""
    tensors: Arrays = {}
    document = {
        "observation_space": describe_space(policy.observation_space),
        "action_space": describe_space(policy.action_space),
        "body": _describe_module(policy.body, "body", tensors),
        "head": _describe_head(policy.head, tensors),
        "squashed": policy.squashed,
        "scale_images": policy.scale_images,
    }
    return tensors, document


def build_actor(
    tensors: Arrays,
    document: Mapping[str, Any],
    normalisation: Normalisation | None,
    env_id: str | None,
    metadata: Mapping[str, Any],
) -> ActorPolicy:
    """Return the actor from the output of `describe_actor`; its tensors are removed from `tensors`."""
    return ActorPolicy(
        build_space(document["observation_space"]),
        build_space(document["action_space"]),
        Flatten(),
        _build_module(document["body"], "body", tensors),
        _build_head(document["head"], tensors),
        squashed=bool(document["squashed"]),
        scale_images=bool(document["scale_images"]),
        normalisation=normalisation,
        env_id=env_id,
        metadata=metadata,
    )


# --- Spaces ----------------------------------------------------------------------------------------------------------


def describe_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a space as plain data."""
    match space:
        case spaces.Box():
            bounds = {
                name: [float(value) if np.isfinite(value) else None for value in values.ravel()]
                for name, values in (("low", space.low), ("high", space.high))
            }
            return {"kind": "box", "shape": list(space.shape), "dtype": np.dtype(space.dtype).name, **bounds}
        case spaces.Discrete():
            return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {"kind": "multi-discrete", "sizes": space.nvec.tolist()}
        case spaces.MultiBinary():
            return {"kind": "multi-binary", "n": list(space.shape) if len(space.shape) > 1 else space.shape[0]}
    raise PolicyError(f"it has the space {space}")


def build_space(described: Mapping[str, Any]) -> spaces.Space[Any]:
    """Return the space from the output of `describe_space`."""
    match described["kind"]:
        case "box":
            shape, dtype = tuple(described["shape"]), np.dtype(described["dtype"])
            low, high = (
                np.array([end if value is None else value for value in described[name]], dtype).reshape(shape)
                for name, end in (("low", -np.inf), ("high", np.inf))
            )
            return spaces.Box(low, high, shape, dtype.type)
        case "discrete":
            return spaces.Discrete(described["n"], start=described["start"])
        case "multi-discrete":
            return spaces.MultiDiscrete(described["sizes"])
        case "multi-binary":
            return spaces.MultiBinary(described["n"])
    raise PolicyError(f"unknown space {described['kind']!r}")


# --- Networks --------------------------------------------------------------------------------------------------------


def _describe_module(module: nn.Module, name: str, tensors: Arrays) -> list[dict[str, Any]]:
    """Return the layers and other parts of a module as plain data; add their tensors, named by position."""
    parts: list[dict[str, Any]] = []
    for part in _flatten_sequence(module):
        place = f"{name}.{len(parts)}"
        if isinstance(part, nn.Linear):
            tensors |= {f"{place}.weight": part.weight.numpy(), f"{place}.bias": part.bias.numpy()}
            parts.append({"kind": "linear"})
        elif isinstance(part, Activated):
            parts.append({"kind": "activation", "activation": str(part.activation)})
        elif isinstance(part, FixedBatchNorm):
            tensors |= {f"{place}.{which}": part.get_buffer(which).numpy() for which in _STATISTICS}
            parts.append({"kind": "batch-norm", "epsilon": part.epsilon})
        else:
            raise PolicyError(f"it holds a {type(part).__name__}")
    return parts


def _flatten_sequence(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, nn.Sequential):
        return [part for inner in module for part in _flatten_sequence(inner)]
    return [] if isinstance(module, nn.Identity) else [module]


def _build_module(described: list[Mapping[str, Any]], name: str, tensors: Arrays) -> nn.Sequential:
    modules: list[nn.Module] = []
    for number, part in enumerate(described):
        place = f"{name}.{number}"
        match part["kind"]:
            case "linear":
                modules.append(linear(tensors.pop(f"{place}.weight"), tensors.pop(f"{place}.bias")))
            case "activation":
                modules.append(Activated(Activation.of(part["activation"])))
            case "batch-norm":
                mean, var, scale, bias = (tensors.pop(f"{place}.{which}") for which in _STATISTICS)
                modules.append(FixedBatchNorm(mean, var, scale, bias, float(part["epsilon"])))
            case other:
                raise PolicyError(f"unknown part {other!r} of a network")
    return nn.Sequential(*modules)


# --- Heads -----------------------------------------------------------------------------------------------------------


def _describe_head(head: Head, tensors: Arrays) -> dict[str, Any]:
    if not isinstance(head, QValues | Bits | Certain | Categories | Gaussian):
        raise PolicyError(f"its actions come from a {type(head).__name__}")
    net = head.mean if isinstance(head, Gaussian) else head.net
    described: dict[str, Any] = {"net": _describe_module(net, "head", tensors)}
    if isinstance(head, QValues | Bits | Certain):
        kind = next(kind for kind, of_net in _HEADS_OF_NETS.items() if isinstance(head, of_net))
        return {"kind": kind, **described}
    if isinstance(head, Categories):
        described |= {"sizes": list(head.sizes), "single": head.single, "maskable": head.maskable}
        return {"kind": "categories", **described}
    described |= {"squashed": head.squashed, "state_dependent": head.state_dependent, "use_expln": head.use_expln}
    if head.log_std_net is None:
        tensors["log_std"] = head.get_buffer("log_std").numpy()
        return {"kind": "gaussian", **described, "log_std": None}
    return {"kind": "gaussian", **described, "log_std": _describe_module(head.log_std_net, "log_std", tensors)}


def _build_head(described: Mapping[str, Any], tensors: Arrays) -> Head:
    net = _build_module(described["net"], "head", tensors)
    if described["kind"] in _HEADS_OF_NETS:
        return _HEADS_OF_NETS[described["kind"]](net)
    match described["kind"]:
        case "categories":
            sizes = tuple(int(size) for size in described["sizes"])
            return Categories(net, sizes, single=bool(described["single"]), maskable=bool(described["maskable"]))
        case "gaussian":
            layers = described["log_std"]
            log_std: torch.Tensor | nn.Module
            if layers is None:
                log_std = torch.from_numpy(np.array(tensors.pop("log_std")))
            else:
                log_std = _build_module(layers, "log_std", tensors)
            flags = {name: bool(described[name]) for name in ("squashed", "state_dependent", "use_expln")}
            return Gaussian(net, log_std, **flags)
    raise PolicyError(f"unknown head {described['kind']!r}")
