"""Settings: every number of a study, written once.

The dataclasses here are the single source of the command line's options, of settings files (TOML) and of their help:
every field is annotated with its type and with the sentence that people read.

- `sections`: the settings of each step.
- `study`: `StudySettings`, all of them; presets; `all_settings`.
- `values`: settings from plain data, checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.settings.sections import (
        FEWEST_CHANGES,
        FEWEST_RUNG_CHANGES,
        MOST_DECISIONS,
        MOST_FAILED,
        MOST_ROLLOUTS,
        MOST_RUNGS,
        SINGLE_ALIKE,
        SINGLE_BATCH,
        SINGLE_STEPS,
        SINGLE_UNIT,
        STEP_LIMIT,
        Candidates,
        Criterion,
        DistillationSettings,
        Enforce,
        EvaluationSettings,
        ImprovementSettings,
        Method,
        MiningSettings,
        MistakeSettings,
        MistakesWhen,
        Order,
        PlaySettings,
        Precedence,
        ReferenceSettings,
        SearchSettings,
    )
    from legible.settings.study import (
        PRESETS,
        Setting,
        StudySettings,
        all_settings,
        read_distillation_settings,
        read_settings_file,
        settings_in,
    )
    from legible.settings.values import SettingsError

__all__, __getattr__, __dir__ = lazy_exports(__name__)
