"""Plans of fleets: the policies, their training, and their files in a zoo.

- `FleetPlan`, `Member`: which policies are trained together, and each of them.
- `make_fleet`: a fleet at the beginning of its training.
- `policies_of`, `save_to_zoo`: the trained policies.

>>> from legible_envs.pacman.training import PACMAN_DQN
>>> plan = FleetPlan((EnvironmentSpec("legible/PacmanSmall-v0"),), (0, 1), PACMAN_DQN, 2_500_000)
>>> [str(member.path) for member in plan.members]
['PacmanSmall/dqn/0.safetensors', 'PacmanSmall/dqn/1.safetensors']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from lab.fleet.dqn import Backend, DqnFleet
from lab.fleet.fleet import Fleet
from lab.fleet.fleet_rules import FleetRules
from lab.fleet.networks import NetworkShape, layers_of_row, row_of_layers
from lab.fleet.ppo import PpoFleet
from lab.fleet.slots import FleetError, make_training_slots
from legible.environments import EnvironmentSpec
from legible.policies import NetworkPolicy, Plain, load_policy, save_policy
from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.measuring import EVALUATION_EPISODES, PolicyEvaluation, action_names, measure_policy
from legible.training.presets import short_name
from legible.training.rules import RuleSettings, TrainingRules

Settings: TypeAlias = DqnSettings | PpoSettings

_CRITIC_SHARE = 0.05  # of the training, in which critics that begin anew learn alone
Training = Literal["base", "extended", "rules"]


@dataclass(frozen=True)
class Member:
    """One policy of a fleet."""

    environment: EnvironmentSpec
    seed: int
    algorithm: str
    training: Training

    @property
    def path(self) -> PurePosixPath:
        """Its path in a zoo."""
        return self._path("" if self.training == "base" else f"-{self.training}")

    @property
    def base_path(self) -> PurePosixPath:
        """The path of the policy from which its extended training begins."""
        return self._path("")

    def _path(self, ending: str) -> PurePosixPath:
        return PurePosixPath(short_name(self.environment.name), self.algorithm, f"{self.seed}{ending}.safetensors")


@dataclass(frozen=True)
class FleetPlan:
    """The policies that are trained together, and their settings.

    Parameters
    ----------
    environments
        Environments with observations of one width and the same actions.
    seeds
        Every environment is trained with each of them.
    settings
        The hyperparameters.
    total_steps
        Environment steps of every policy.
    reward_scale
        What rewards are multiplied by while training.
    extended
        Whether the training begins with the parameters of the policies that a first training made. The replay buffer
        is empty, Adam is new and the exploration schedule begins again, as in a first training. Files hold no critics:
        those of PPO begin anew, and learn alone for the first twentieth of the training.
    rules
        For each of `members`, rules that guide its extended training; none by default.
    rule_settings
        How rules fade out.
    """

    environments: tuple[EnvironmentSpec, ...]
    seeds: tuple[int, ...]
    settings: Settings
    total_steps: int
    reward_scale: float = 1.0
    extended: bool = False
    rules: tuple[TrainingRules, ...] = ()
    rule_settings: RuleSettings = field(default_factory=RuleSettings)

    @property
    def training(self) -> Training:
        """The kind of training: the first, the paper's extended one, or one with rules."""
        return "rules" if self.rules else "extended" if self.extended else "base"

    @property
    def algorithm(self) -> str:
        """The name of the algorithm, in small letters."""
        return "dqn" if isinstance(self.settings, DqnSettings) else "ppo"

    @property
    def members(self) -> list[Member]:
        """The policies, in the order of the fleet."""
        return [
            Member(environment, seed, self.algorithm, self.training)
            for environment in self.environments
            for seed in self.seeds
        ]

    def extended_training(self) -> FleetPlan:
        """Return the extended training of the same policies."""
        return replace(self, extended=True)

    def training_with_rules(self, rules: Sequence[TrainingRules], settings: RuleSettings | None = None) -> FleetPlan:
        """Return the extended training of the same policies with rules, those of each of `members`."""
        return replace(self, extended=True, rules=tuple(rules), rule_settings=settings or RuleSettings())


def make_fleet(
    plan: FleetPlan,
    *,
    device: torch.device | str = "cpu",
    backend: Backend = "torch",
    fused: Mapping[str, Any] | None = None,
    threads: int = 1,
    zoo: str | Path | None = None,
) -> Fleet:
    """Make the fleet of a plan, at the beginning of its training.

    Parameters
    ----------
    plan
        The plan.
    device, backend, fused
        Where and with what the updates are computed; see `DqnFleet`. With rules the fused kernels are not used.
    threads
        How many threads step the environments.
    zoo
        Folder with the policies from which an extended training begins.
    """
    n_envs = plan.settings.n_envs
    slots = make_training_slots(
        [(environment, len(plan.seeds) * n_envs) for environment in plan.environments],
        reward_scale=plan.reward_scale,
        threads=threads,
    )
    seeds = [member.seed for member in plan.members]
    rules = FleetRules(plan.rules, plan.rule_settings) if plan.rules else None
    if isinstance(plan.settings, PpoSettings):
        return PpoFleet(
            slots,
            seeds,
            plan.settings,
            plan.total_steps,
            device=device,
            initial_actors=_initial_parameters(plan, zoo),
            critic_steps=max(round(_CRITIC_SHARE * plan.total_steps), plan.settings.rollout) if plan.extended else 0,
            stage=int(plan.extended),
            rules=rules,
        )
    return DqnFleet(
        slots,
        seeds,
        plan.settings,
        plan.total_steps,
        device=device,
        backend=backend,
        fused=fused,
        initial_parameters=_initial_parameters(plan, zoo),
        stage=int(plan.extended),
        rules=rules,
    )


def _initial_parameters(plan: FleetPlan, zoo: str | Path | None) -> NDArray[np.float32] | None:
    if not plan.extended:
        return None
    if zoo is None:
        raise FleetError("an extended training begins with trained policies; say in which folder they lie (zoo=…).")
    rows = []
    for member in plan.members:
        policy = load_policy(Path(zoo) / member.base_path)
        if not isinstance(policy, NetworkPolicy):
            raise FleetError(f"{Path(zoo) / member.base_path}: this is no plain network.")
        shape = NetworkShape((policy.n_features, *(layer.n_outputs for layer in policy.layers)))
        if shape.widths[1:-1] != plan.settings.hidden:
            raise FleetError(
                f"{Path(zoo) / member.base_path}: its hidden layers have {shape.widths[1:-1]} units, those of the plan "
                f"{plan.settings.hidden}."
            )
        rows.append(row_of_layers(shape, [(layer.weight, layer.bias) for layer in policy.layers]))
    return np.stack(rows)


def policies_of(fleet: Fleet, plan: FleetPlan) -> list[NetworkPolicy]:
    """Return the policies as they are now, in the order of `FleetPlan.members`."""
    actions = {environment.name: action_names(environment) for environment in plan.environments}
    policies = []
    rules = [{"rules": {**each.description(), **asdict(plan.rule_settings)}} for each in plan.rules]
    more: list[dict[str, Any]] = rules or [{} for _ in plan.members]
    for member, row, extra in zip(plan.members, fleet.policy_rows(), more, strict=True):
        metadata = {
            "algorithm": member.algorithm.upper(),
            "environment": {"id": member.environment.name, "arguments": dict(member.environment.arguments)},
            "hyperparameters": asdict(plan.settings),
            "reward_scale": plan.reward_scale,
            "seed": member.seed,
            "steps": fleet.steps,
            "training": plan.training,
            "trainer": "legible fleet",
            **extra,
        }
        policies.append(
            NetworkPolicy(
                layers_of_row(fleet.shape, row),
                "values" if member.algorithm == "dqn" else "log-probabilities",
                Plain(fleet.slots.width),
                action_names=actions[member.environment.name],
                env_id=member.environment.name,
                metadata=metadata,
            )
        )
    return policies


def save_to_zoo(
    fleet: Fleet, plan: FleetPlan, zoo: str | Path, *, n_episodes: int = EVALUATION_EPISODES
) -> dict[Path, PolicyEvaluation]:
    """Measure every policy and write it into the zoo; returns the files and how their policies play."""
    results = {}
    for member, policy in zip(plan.members, policies_of(fleet, plan), strict=True):
        result = measure_policy(policy, member.environment, n_episodes)
        file = Path(zoo) / member.path
        file.parent.mkdir(parents=True, exist_ok=True)
        save_policy(policy, file, metadata={"evaluation": result.as_json()})
        results[file] = result
    return results
