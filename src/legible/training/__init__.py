"""Training with Stable-Baselines3, alone or guided by rules.

- `sb3`, `sb3_checkpoint`, `sb3_rules`: train a policy; stop and resume; follow rules.
- `sb3_export`: policies as zip files of Stable-Baselines3.
- `starting`: a trained policy to begin with; `rules`: rules that guide a training and fade out.
- `hyperparameters`, `presets`: the settings of each algorithm, and good ones by environment.
- `measuring`: evaluation of a policy after its training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.training.errors import TrainingError
    from legible.training.hyperparameters import (
        ContinuousPpoSettings,
        DqnSettings,
        PpoSettings,
        SacSettings,
        Td3Settings,
    )
    from legible.training.measuring import PolicyEvaluation, measure_policy
    from legible.training.presets import Preset, preset, short_name
    from legible.training.rules import RuleSettings, TrainingRules, read_rules
    from legible.training.sb3 import TrainingResult, choose_algorithm, sb3_arguments, train
    from legible.training.sb3_export import check_exported, export_sb3
    from legible.training.starting import StartingPoint, environment_of_start, read_start

__all__, __getattr__, __dir__ = lazy_exports(__name__)
