"""Where a training begins: the weights of a trained policy, under the names that Stable-Baselines3 gives them.

- `StartingPoint`, `read_start`: a policy of any file that legible reads, if an algorithm can go on with its network.
- `environment_of_start`: the environment that such a policy was trained in.
- `activation_class_of`: the activation between the layers of a network, as PyTorch's class.

Zips of Stable-Baselines3 hold critics, too; other files hold only what acts, so that critics begin anew (`has_critic`).
Observations go on being normalised as the policy's were, with statistics that stay as they are. Adam and the replay
buffer begin anew in any case: this is the paper's extended training.
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
from legible.policies.sb3.archive import read_tensors
from legible.policies.torch_file import read_state
from legible.policies.unpacking import check_member
from legible.training.errors import TrainingError
from legible.training.presets import Algorithm

_Layers = Sequence[tuple[Tensor, Tensor]]
_ENTROPY = "pytorch_variables.pth"
# By algorithm: what stands before the layers that act, before those of a critic, and the names of the last layers.
_CRITICS: Mapping[Algorithm, str] = {"ppo": "mlp_extractor.value_net", "sac": "critic.qf0", "td3": "critic.qf0"}


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """A trained policy from which a training begins.

    Parameters
    ----------
    name
        What it was named by.
    policy
        The policy, without rules.
    algorithm
        What can go on with it.
    tensors
        Its weights by Stable-Baselines3's names.
    architecture
        The arguments of Stable-Baselines3's policy that make networks of its shape.
    has_critic
        Whether critics are among the weights, or there are none.
    use_sde
        Whether its exploration depends on the state (gSDE).
    log_entropy_weight
        The logarithm of the weight that SAC gave to the entropy, where it is known.
    had_rules
        Whether it is the network of a guided policy.
    """

    name: str
    policy: Policy
    algorithm: Algorithm
    tensors: Mapping[str, Tensor]
    architecture: Mapping[str, Any]
    has_critic: bool
    use_sde: bool = False
    log_entropy_weight: float | None = None
    had_rules: bool = False

    @property
    def normalisation(self) -> Normalisation | None:
        """What its observations are normalised with."""
        found = getattr(self.policy, "normalisation", None)
        return found if isinstance(found, Normalisation) else None

    def description(self) -> dict[str, str]:
        """What tells a training from here from others."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items()):
            digest.update(name.encode() + np.ascontiguousarray(tensor.numpy()).tobytes())
        return {"policy": self.name, "weights": digest.hexdigest()}

    def check(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], environment: str) -> None:
        """Raise unless the policy reads the observations of an environment and takes its actions."""
        width = ObservationEncoder.of(observation_space).width
        if self.policy.n_features != width:
            raise TrainingError(
                f"{self.name}: reads {self.policy.n_features} features, but {environment} shows {width}: they do not "
                "belong together."
            )
        own, taken = acting(self.policy).action_space, choice_sizes(action_space)
        if type(own) is not type(action_space) or choice_sizes(own) != taken or own.shape != action_space.shape:
            raise TrainingError(f"{self.name}: its actions are {own}, those of {environment} are {action_space}.")

    def fill(self, policy: nn.Module) -> None:
        """Give a policy of Stable-Baselines3 these weights; what they do not tell stays as it is."""
        try:
            policy.load_state_dict({**policy.state_dict(), **self.tensors})
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise TrainingError(f"{self.name}: its weights do not fit {self.algorithm} here: {reason[:300]}") from error


def read_start(
    source: str | Path | Policy, algorithm: Algorithm | None = None, normalisation: str | None = None
) -> StartingPoint:
    """Read the policy from which a training begins.

    Parameters
    ----------
    source
        A policy, or its path or address, as for `legible.load_policy`. Of a guided policy its network is taken.
    algorithm
        What is to go on with it; by default what made it, or its like: DQN for Q-values, PPO for log-probabilities.
    normalisation
        The file with what its observations are normalised with, or "none"; by default what lies beside it.
    """
    name = str(source) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"
    policy = load_policy(source, normalisation=normalisation) if isinstance(source, (str, Path)) else source
    had_rules = isinstance(policy, GuidedPolicy)
    policy = policy.network if isinstance(policy, GuidedPolicy) else policy
    own = _algorithm_of(policy, name)
    if algorithm not in (None, own):
        raise TrainingError(f"{name}: is a policy of {own}, and {algorithm} cannot begin with its network.")
    full = _zip_tensors(source, policy, own)
    tensors = full or _named_tensors(policy, own, name)
    critics = {match[1] for key in tensors if (match := re.match(r"critic\.qf(\d+)\.", key))}
    return StartingPoint(
        name,
        policy,
        own,
        tensors,
        {
            "net_arch": _widths(tensors, own, name),
            "activation_fn": activation_class_of(policy, name),
            **({"n_critics": len(critics)} if critics else {}),
        },
        has_critic=own == "dqn" or bool(full),
        use_sde=any(key.endswith("log_std") and tensor.ndim == 2 for key, tensor in tensors.items()),
        log_entropy_weight=_log_entropy_weight(Path(str(source))) if full and own == "sac" else None,
        had_rules=had_rules,
    )


def environment_of_start(start: StartingPoint) -> EnvironmentSpec:
    """The environment that a policy says it was trained in, unless making it would import what the file chose."""
    written = getattr(start.policy, "metadata", {}).get("environment")
    env_id = getattr(start.policy, "env_id", None)
    arguments = written.get("arguments", {}) if isinstance(written, Mapping) else {}
    spec = None if env_id is None else EnvironmentSpec(env_id, arguments if isinstance(arguments, Mapping) else {})
    if spec is None or spec.named_code:
        what = "does not say which environment it is for" if spec is None else f"is for {env_id}, which is code"
        raise TrainingError(f"{start.name}: {what}; name the environment (ENV).")
    return spec


# --- What a policy is ------------------------------------------------------------------------------------------------


def _algorithm_of(policy: Policy, name: str) -> Algorithm:
    if isinstance(policy, NetworkPolicy):
        return "dqn" if policy.kind == "values" else "ppo"
    if not isinstance(policy, ActorPolicy):
        raise TrainingError(
            f"{name}: is no feed-forward network that training could go on with, but a {type(policy).__name__}."
        )
    if policy.recurrent or not isinstance(policy.extractor, Flatten):
        what = "remembers earlier observations" if policy.recurrent else "reads pictures or dictionaries"
        raise TrainingError(f"{name}: {what}; training goes on with plain feed-forward networks only.")
    match policy.head:
        case Categories():
            return "ppo"
        case Gaussian():
            return "sac" if policy.squashed else "ppo"
        case Certain():
            return "td3"
    raise TrainingError(f"{name}: training cannot go on with a network whose actions are {policy.action_space}.")


def activation_class_of(policy: Policy, name: str) -> type[nn.Module]:
    """The class of the activation between the layers; Stable-Baselines3 has one for all of them."""
    if isinstance(policy, NetworkPolicy):
        if policy.layers[-1].activation.name != "identity":
            raise TrainingError(f"{name}: its last layer has an activation, {policy.layers[-1].activation}.")
        used = {layer.activation for layer in policy.layers[:-1]}
    else:
        assert isinstance(policy, ActorPolicy)
        hidden = policy.head.net if isinstance(policy.head, Certain) else policy.body
        found = [module.activation for module in hidden.modules() if isinstance(module, Activated)]
        used = set(found[:-1] if isinstance(policy.head, Certain) else found)  # the last one bounds the actions
    if len(used) > 1:
        raise TrainingError(
            f"{name}: its hidden layers have different activations ({', '.join(sorted(map(str, used)))})."
        )
    return _class_of(used.pop(), name) if used else nn.ReLU


def _class_of(wanted: Activation, name: str) -> type[nn.Module]:
    """The class of an activation without parameters of its own."""
    for found in vars(nn).values():
        if isinstance(found, type) and issubclass(found, nn.Module):
            with suppress(LegibleError):  # not every module is an activation without parameters
                if Activation.of(found) == wanted:
                    return found
    raise TrainingError(
        f"{name}: the activation {wanted} has parameters of its own, which Stable-Baselines3 cannot have."
    )


# --- Its weights -----------------------------------------------------------------------------------------------------


def _zip_tensors(source: str | Path | Policy, policy: Policy, algorithm: Algorithm) -> dict[str, Tensor]:
    """All tensors of a zip of Stable-Baselines3, critics among them; nothing for other files."""
    if not isinstance(source, (str, Path)) or Path(source).suffix != ".zip" or not Path(source).is_file():
        return {}
    if algorithm == "dqn":  # the target network begins as the other, as in any extended training
        return {}
    written = str(getattr(policy, "metadata", {}).get("algorithm", "")).lower()
    tensors = read_tensors(Path(source))
    if written not in {algorithm, "a2c"} or any("shared_net" in key for key in tensors):
        return {}
    return tensors


def _named_tensors(policy: Policy, algorithm: Algorithm, name: str) -> dict[str, Tensor]:
    """The weights that act, as Stable-Baselines3 names them."""
    if isinstance(policy, NetworkPolicy):
        layers = [(torch.tensor(layer.weight), torch.tensor(layer.bias)) for layer in policy.layers]
        if algorithm == "dqn":
            return {**_named("q_net.q_net", layers), **_named("q_net_target.q_net", layers)}
        return {**_named("mlp_extractor.policy_net", layers[:-1]), **_last("action_net", layers[-1])}
    assert isinstance(policy, ActorPolicy)
    head, body = policy.head, _linear_layers(policy.body)
    if isinstance(head, Certain):
        layers = body + _linear_layers(head.net)
        return {**_named("actor.mu", layers), **_named("actor_target.mu", layers)}
    if isinstance(head, Categories):
        return {**_named("mlp_extractor.policy_net", body), **_last("action_net", *_linear_layers(head.net))}
    assert isinstance(head, Gaussian)
    if head.state_dependent:
        raise TrainingError(f"{name}: its exploration depends on the state (gSDE); begin with its .zip.")
    mean = _linear_layers(head.mean)
    if head.log_std_net is None:
        own = {**_named("mlp_extractor.policy_net", body), **_last("action_net", *mean)}
        return {**own, "log_std": head.get_buffer("log_std").clone()}
    spread = _linear_layers(head.log_std_net)
    return {**_named("actor.latent_pi", body), **_last("actor.mu", *mean), **_last("actor.log_std", *spread)}


def _linear_layers(module: nn.Module) -> list[tuple[Tensor, Tensor]]:
    found = [each for each in module.modules() if isinstance(each, nn.Linear)]
    return [(each.weight.detach().clone(), each.bias.detach().clone()) for each in found]


def _named(prefix: str, layers: _Layers) -> dict[str, Tensor]:
    """Layers of a sequence of modules, with an activation after each."""
    parts = (_last(f"{prefix}.{2 * place}", layer) for place, layer in enumerate(layers))
    return {key: tensor for part in parts for key, tensor in part.items()}


def _last(name: str, layer: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    return {f"{name}.weight": layer[0], f"{name}.bias": layer[1]}


def _log_entropy_weight(path: Path) -> float | None:
    with zipfile.ZipFile(path) as archive:
        if _ENTROPY not in archive.namelist():
            return None
        check_member(path, archive, _ENTROPY)
        found = read_state(archive.read(_ENTROPY), path, _ENTROPY).get("log_ent_coef")
    return None if found is None or found.numel() != 1 or not bool(found.detach().isfinite()) else float(found.detach())


# --- The shape of its networks ---------------------------------------------------------------------------------------


def _widths(tensors: Mapping[str, Tensor], algorithm: Algorithm, name: str) -> list[int] | dict[str, list[int]]:
    """The hidden layers, as Stable-Baselines3's ``net_arch``."""
    if algorithm == "dqn":
        return _outputs(tensors, "q_net.q_net", name)[:-1]
    prefix = {"ppo": "mlp_extractor.policy_net", "sac": "actor.latent_pi", "td3": "actor.mu"}[algorithm]
    acting = _outputs(tensors, prefix, name)
    acting = acting[:-1] if algorithm == "td3" else acting
    critic = _outputs(tensors, _CRITICS[algorithm], name) or acting
    if algorithm == "ppo":
        return {"pi": acting, "vf": critic}
    return {"pi": acting, "qf": critic[:-1] if any(key.startswith("critic.") for key in tensors) else acting}


def _outputs(tensors: Mapping[str, Tensor], prefix: str, name: str) -> list[int]:
    found = {
        int(match[1]): tensor.shape[0]
        for key, tensor in tensors.items()
        if (match := re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.weight", key)) and tensor.ndim == 2
    }
    if sorted(found) != [2 * place for place in range(len(found))]:
        raise TrainingError(f"{name}: {prefix} is more than layers with activations between them.")
    return [found[place] for place in sorted(found)]
