"""Training: many policies at once as a fleet, or one with Stable-Baselines3.

- `plan`: plans of fleets, and how policies come out as files of a zoo.
- `fleet`, `dqn`, `ppo`: N policies that are trained side by side, and the algorithms.
- `presets`: hyperparameters by environment.
- `checkpoint`: stopping and going on.
- `slots`: environments side by side.
- `networks`, `adam`, `replay`, `gradient_step`, `random_numbers`: what the algorithms are made of.
- `fused`, `cuda_graphs`: the same on a GPU, in few launches.
- `check_fused`: the fused kernels against double precision, and their times.
- `sb3`, `sb3_checkpoint`, `sb3_rules`: one policy with Stable-Baselines3.
- `sb3_export`: policies as zip files of Stable-Baselines3.
- `starting`: a trained policy to begin with; `rules`: rules that guide a training and fade out.
- `continuous`: hyperparameters for continuous actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.training.checkpoint import load_checkpoint, remove_checkpoint, save_checkpoint
    from legible.training.continuous import ContinuousPpoSettings, SacSettings, Td3Settings
    from legible.training.dqn import DqnFleet, DqnSettings
    from legible.training.errors import TrainingError
    from legible.training.fleet import Fleet, FleetProgress
    from legible.training.plan import (
        FleetPlan,
        Member,
        PolicyEvaluation,
        evaluate_policy,
        make_fleet,
        policies_of,
        save_to_zoo,
    )
    from legible.training.ppo import PpoFleet, PpoSettings
    from legible.training.presets import Preset, preset, short_name
    from legible.training.rules import RuleSettings, TrainingRules, read_rules
    from legible.training.sb3 import TrainingResult, choose_algorithm, sb3_arguments, train
    from legible.training.sb3_export import check_exported, export_sb3
    from legible.training.slots import FleetError, TrainingSlots, make_training_slots
    from legible.training.starting import StartingPoint, environment_of_start, read_start

__all__ = [
    "ContinuousPpoSettings",
    "DqnFleet",
    "DqnSettings",
    "Fleet",
    "FleetError",
    "FleetPlan",
    "FleetProgress",
    "Member",
    "PolicyEvaluation",
    "PpoFleet",
    "PpoSettings",
    "Preset",
    "RuleSettings",
    "SacSettings",
    "StartingPoint",
    "Td3Settings",
    "TrainingError",
    "TrainingResult",
    "TrainingRules",
    "TrainingSlots",
    "check_exported",
    "choose_algorithm",
    "environment_of_start",
    "evaluate_policy",
    "export_sb3",
    "load_checkpoint",
    "make_fleet",
    "make_training_slots",
    "policies_of",
    "preset",
    "read_rules",
    "read_start",
    "remove_checkpoint",
    "save_checkpoint",
    "save_to_zoo",
    "sb3_arguments",
    "short_name",
    "train",
]

__getattr__ = lazy_names(
    __name__,
    {
        "checkpoint": ("load_checkpoint", "remove_checkpoint", "save_checkpoint"),
        "continuous": ("ContinuousPpoSettings", "SacSettings", "Td3Settings"),
        "dqn": ("DqnFleet", "DqnSettings"),
        "errors": ("TrainingError",),
        "fleet": ("Fleet", "FleetProgress"),
        "plan": (
            "FleetPlan",
            "Member",
            "PolicyEvaluation",
            "evaluate_policy",
            "make_fleet",
            "policies_of",
            "save_to_zoo",
        ),
        "ppo": ("PpoFleet", "PpoSettings"),
        "presets": ("Preset", "preset", "short_name"),
        "rules": ("RuleSettings", "TrainingRules", "read_rules"),
        "sb3": ("TrainingResult", "choose_algorithm", "sb3_arguments", "train"),
        "sb3_export": ("check_exported", "export_sb3"),
        "starting": ("StartingPoint", "environment_of_start", "read_start"),
        "slots": ("FleetError", "TrainingSlots", "make_training_slots"),
    },
)
