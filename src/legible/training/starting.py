"""Trained policies with which a training begins, with the names of Stable-Baselines3 for their weights.

- `StartingPoint`, `read_start`: a policy of any file that legible reads, if an algorithm can train its network.
- `environment_of_start`: the environment that such a policy was trained in.
- `activation_class_of`: the activation between the layers of a network, as PyTorch's class.

Zips of Stable-Baselines3 hold critics, too; other files hold the actor only, so that critics are new (`has_critic`).
Observations are normalised with the policy's statistics, which stay constant. Adam and the replay buffer are always
new: this is the paper's extended training.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from legible.environments import EnvironmentSpec, ObservationEncoder, choice_sizes
from legible.errors import LegibleError
from legible.guidance import GuidedPolicy
from legible.policies import Activation, ActorPolicy, NetworkPolicy, Normalisation, Policy, acting, load_policy
from legible.policies.actors.heads import Categories, Certain, Gaussian
from legible.policies.actors.networks import Activated, Flatten
from legible.policies.protocol import traits_of
from legible.policies.sb3.archive import read_tensors
from legible.policies.torch_file import read_state
from legible.policies.unpacking import check_member
from legible.training.errors import TrainingError
from legible.training.presets import Algorithm

_ENTROPY = "pytorch_variables.pth"


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """A trained policy with which a training begins."""

    name: str  # path or address, for messages
    policy: Policy  # without rules
    algorithm: Algorithm  # the one that can train it
    tensors: Mapping[str, Tensor]  # weights by Stable-Baselines3's names
    architecture: Mapping[str, Any]  # arguments of Stable-Baselines3's policy for networks of its shape
    has_critic: bool  # whether the weights include critics, or the algorithm has none
    use_sde: bool = False  # whether its exploration depends on the state (gSDE)
    log_entropy_weight: float | None = None  # logarithm of SAC's weight of the entropy, where it is known
    had_rules: bool = False  # whether it is the network of a guided policy

    @property
    def normalisation(self) -> Normalisation | None:
        """The normalisation of its observations, if there is one."""
        found = traits_of(self.policy).normalisation
        return found if isinstance(found, Normalisation) else None

    def description(self) -> dict[str, str]:
        """Return its name and the digest of its weights, for the description of a training."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items()):
            digest.update(name.encode() + np.ascontiguousarray(tensor.numpy()).tobytes())
        return {"policy": self.name, "weights": digest.hexdigest()}

    def check(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], environment: str) -> None:
        """Raise unless the policy reads the observations of an environment and takes its actions."""
        width = ObservationEncoder.of(observation_space).width
        if self.policy.n_features != width:
            raise TrainingError(
                f"{self.name}: reads {self.policy.n_features} features, but {environment} has {width}; give the "
                "policy's own environment."
            )
        own_space = acting(self.policy).action_space
        own, needed = ((type(space), choice_sizes(space), space.shape) for space in (own_space, action_space))
        if own != needed:
            raise TrainingError(f"{self.name}: its actions are {own_space}, those of {environment} are {action_space}.")

    def fill(self, policy: nn.Module) -> None:
        """Copy these weights into a policy of Stable-Baselines3; its other weights stay unchanged."""
        try:
            policy.load_state_dict({**policy.state_dict(), **self.tensors})
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise TrainingError(f"{self.name}: its weights do not fit {self.algorithm} here: {reason[:300]}") from error


def read_start(
    source: str | Path | Policy, algorithm: Algorithm | None = None, normalisation: str | None = None
) -> StartingPoint:
    """Return the policy with which a training begins, with its weights under the names of Stable-Baselines3.

    - `source`: a policy, or its path or address, as for `legible.load_policy`. Of a guided policy the network is read.
    - `algorithm`: the algorithm that trains it; by default its own or a similar one: DQN for Q-values, PPO for
      log-probabilities.
    - `normalisation`: the file with the normalisation of its observations, or "none"; by default the file next to it.
    """
    name = str(source) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"
    policy = load_policy(source, normalisation=normalisation) if isinstance(source, (str, Path)) else source
    had_rules = isinstance(policy, GuidedPolicy)
    policy = policy.network if isinstance(policy, GuidedPolicy) else policy
    own_algorithm = _algorithm_of(policy, name)
    if algorithm not in (None, own_algorithm):
        raise TrainingError(f"{name}: is a policy of {own_algorithm}; {algorithm} cannot train its network.")

    # A zip of Stable-Baselines3 has critics and actor; every other source has the actor only.
    tensors_of_zip = _read_zip(source, policy, own_algorithm)
    tensors = tensors_of_zip or _name_tensors(policy, own_algorithm, name)
    architecture: dict[str, Any] = {
        "net_arch": _hidden_widths(tensors, own_algorithm, name),
        "activation_fn": activation_class_of(policy, name),
    }
    critic_numbers = {match[1] for key in tensors if (match := re.match(r"critic\.qf(\d+)\.", key))}
    if critic_numbers:
        architecture["n_critics"] = len(critic_numbers)

    # State-dependent exploration (gSDE) has a matrix of spreads, other exploration one spread per action.
    use_sde = any(key.endswith("log_std") and tensor.ndim == 2 for key, tensor in tensors.items())
    log_entropy_weight = None
    if tensors_of_zip and own_algorithm == "sac":
        log_entropy_weight = _log_entropy_weight(Path(str(source)))
    return StartingPoint(
        name,
        policy,
        own_algorithm,
        tensors,
        architecture,
        has_critic=own_algorithm == "dqn" or bool(tensors_of_zip),  # DQN needs none
        use_sde=use_sde,
        log_entropy_weight=log_entropy_weight,
        had_rules=had_rules,
    )


def environment_of_start(start: StartingPoint) -> EnvironmentSpec:
    """Return the environment that a policy was trained in; raise if making it would import code that a file names."""
    traits = traits_of(start.policy)
    written, env_id = traits.metadata.get("environment"), traits.env_id
    arguments = written.get("arguments", {}) if isinstance(written, Mapping) else {}
    spec = None if env_id is None else EnvironmentSpec(env_id, arguments if isinstance(arguments, Mapping) else {})
    if spec is None or spec.named_code:
        what = "does not say which environment it is for" if spec is None else f"is for {env_id}, which is code"
        raise TrainingError(f"{start.name}: {what}; name the environment (ENV).")
    return spec


# --- Kinds of policies -----------------------------------------------------------------------------------------------


def _algorithm_of(policy: Policy, name: str) -> Algorithm:
    if isinstance(policy, NetworkPolicy):
        return "dqn" if policy.kind == "values" else "ppo"
    if not isinstance(policy, ActorPolicy):
        raise TrainingError(f"{name}: is a {type(policy).__name__}, not a feed-forward network that can be trained.")
    if policy.recurrent or not isinstance(policy.extractor, Flatten):
        what = "remembers earlier observations" if policy.recurrent else "reads pictures or dictionaries"
        raise TrainingError(f"{name}: {what}; only plain feed-forward networks can be trained.")
    match policy.head:
        case Categories():
            return "ppo"
        case Gaussian():
            return "sac" if policy.squashed else "ppo"
        case Certain():
            return "td3"
    raise TrainingError(f"{name}: a network with the actions {policy.action_space} cannot be trained.")


def activation_class_of(policy: Policy, name: str) -> type[nn.Module]:
    """Return the PyTorch class of the activation between a policy's layers, such as ``nn.ReLU``.

    Stable-Baselines3 has one activation for all hidden layers, so a policy with several raises; `name` is the policy's
    name in that message.
    """
    # Collect the activations of the hidden layers.
    if isinstance(policy, NetworkPolicy):
        if policy.layers[-1].activation.name != "identity":
            raise TrainingError(f"{name}: its last layer has an activation, {policy.layers[-1].activation}.")
        used = {layer.activation for layer in policy.layers[:-1]}
    else:
        assert isinstance(policy, ActorPolicy)
        hidden = policy.head.net if isinstance(policy.head, Certain) else policy.body
        activations = [module.activation for module in hidden.modules() if isinstance(module, Activated)]
        # In a deterministic actor the last activation bounds the actions and belongs to no hidden layer.
        used = set(activations[:-1] if isinstance(policy.head, Certain) else activations)
    if len(used) > 1:
        raise TrainingError(
            f"{name}: its hidden layers have different activations ({', '.join(sorted(map(str, used)))})."
        )
    if not used:
        return nn.ReLU

    # Find the class of `torch.nn` that computes the same.
    wanted = used.pop()
    for module_class in vars(nn).values():
        if isinstance(module_class, type) and issubclass(module_class, nn.Module):
            with suppress(LegibleError):  # not every module is an activation without parameters
                if Activation.of(module_class) == wanted:
                    return module_class
    raise TrainingError(f"{name}: the activation {wanted} has parameters, which Stable-Baselines3 does not support.")


# --- Weights ---------------------------------------------------------------------------------------------------------


def _read_zip(source: str | Path | Policy, policy: Policy, algorithm: Algorithm) -> dict[str, Tensor]:
    """Return all tensors of a zip of Stable-Baselines3, including critics; nothing for other files and for DQN.

    DQN's target network begins as a copy of the other, as in any extended training.
    """
    is_zip = isinstance(source, (str, Path)) and Path(source).suffix == ".zip" and Path(source).is_file()
    if not is_zip or algorithm == "dqn":
        return {}
    written = str(traits_of(policy).metadata.get("algorithm", "")).lower()
    tensors = read_tensors(Path(str(source)))
    if written not in {algorithm, "a2c"} or any("shared_net" in key for key in tensors):
        return {}
    return tensors


def _name_tensors(policy: Policy, algorithm: Algorithm, name: str) -> dict[str, Tensor]:
    """Return the weights of a policy that acts (no critics), by their names in Stable-Baselines3.

    `algorithm` is the one that trains it, and `name` the policy's name in errors.
    """
    # `_layer` names the weight and the bias of one layer, `_sequence` those of several.
    if isinstance(policy, NetworkPolicy):
        layers = [(torch.tensor(layer.weight), torch.tensor(layer.bias)) for layer in policy.layers]
        if algorithm == "dqn":  # the target network begins as a copy
            return {**_sequence("q_net.q_net", layers), **_sequence("q_net_target.q_net", layers)}
        return {**_sequence("mlp_extractor.policy_net", layers[:-1]), **_layer("action_net", *layers[-1])}

    # An actor has a body of hidden layers, and a head that turns their outputs into actions.
    assert isinstance(policy, ActorPolicy)
    head, body = policy.head, _linear_layers(policy.body)
    if isinstance(head, Certain):  # TD3: deterministic
        layers = body + _linear_layers(head.net)
        return {**_sequence("actor.mu", layers), **_sequence("actor_target.mu", layers)}
    if isinstance(head, Categories):  # PPO with several discrete actions at once
        (last,) = _linear_layers(head.net)
        return {**_sequence("mlp_extractor.policy_net", body), **_layer("action_net", *last)}
    assert isinstance(head, Gaussian)
    if head.state_dependent:
        raise TrainingError(f"{name}: its exploration depends on the state (gSDE); begin with its .zip.")
    (mean,) = _linear_layers(head.mean)
    if head.log_std_net is None:  # PPO: one spread for all states
        ppo_layers = {**_sequence("mlp_extractor.policy_net", body), **_layer("action_net", *mean)}
        return {**ppo_layers, "log_std": head.get_buffer("log_std").clone()}
    (log_std,) = _linear_layers(head.log_std_net)  # SAC: the network computes the spread
    return {**_sequence("actor.latent_pi", body), **_layer("actor.mu", *mean), **_layer("actor.log_std", *log_std)}


def _linear_layers(module: nn.Module) -> list[tuple[Tensor, Tensor]]:
    linear = [each for each in module.modules() if isinstance(each, nn.Linear)]
    return [(each.weight.detach().clone(), each.bias.detach().clone()) for each in linear]


def _sequence(prefix: str, layers: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors of a sequence of modules, with an activation after each layer."""
    parts = (_layer(f"{prefix}.{2 * place}", *layer) for place, layer in enumerate(layers))
    return {key: tensor for part in parts for key, tensor in part.items()}


def _layer(name: str, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _log_entropy_weight(path: Path) -> float | None:
    with zipfile.ZipFile(path) as archive:
        if _ENTROPY not in archive.namelist():
            return None
        check_member(path, archive, _ENTROPY)
        found = read_state(archive.read(_ENTROPY), path, _ENTROPY).get("log_ent_coef")
    return None if found is None or found.numel() != 1 or not bool(found.detach().isfinite()) else float(found.detach())


# --- Shapes of networks ----------------------------------------------------------------------------------------------


def _hidden_widths(tensors: Mapping[str, Tensor], algorithm: Algorithm, name: str) -> list[int] | dict[str, list[int]]:
    """Return the widths of the hidden layers, as Stable-Baselines3's ``net_arch``."""
    match algorithm:
        case "dqn":
            return _widths(tensors, "q_net.q_net", name)[:-1]
        case "ppo":
            actor = _widths(tensors, "mlp_extractor.policy_net", name)
            return {"pi": actor, "vf": _widths(tensors, "mlp_extractor.value_net", name) or actor}
        case "sac":
            actor = _widths(tensors, "actor.latent_pi", name)
        case "td3":
            actor = _widths(tensors, "actor.mu", name)[:-1]
    critic = _widths(tensors, "critic.qf0", name) or actor
    return {"pi": actor, "qf": critic[:-1] if any(key.startswith("critic.") for key in tensors) else actor}


def _widths(tensors: Mapping[str, Tensor], prefix: str, name: str) -> list[int]:
    """Return the widths of the layers of a sequence, in which each layer is followed by an activation."""
    widths = {
        int(match[1]): tensor.shape[0]
        for key, tensor in tensors.items()
        if (match := re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.weight", key)) and tensor.ndim == 2
    }
    if sorted(widths) != [2 * place for place in range(len(widths))]:
        raise TrainingError(f"{name}: {prefix} is more than layers with activations between them.")
    return [widths[place] for place in sorted(widths)]
