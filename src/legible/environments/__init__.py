"""Environments by name, and those that come with legible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.environments.registration import PACMAN_LEVELS, SCENARIOS, register_envs
    from legible.environments.spaces import ObservationEncoder, UnfitEnvironmentError, count_actions, first_action
    from legible.environments.spec import (
        CannotDrawError,
        Env,
        EnvironmentSpec,
        UntrustedCodeError,
        as_environment,
        feature_space_of,
        own_feature_space,
        refuse_named_code,
    )

__all__ = [
    "PACMAN_LEVELS",
    "SCENARIOS",
    "CannotDrawError",
    "Env",
    "EnvironmentSpec",
    "ObservationEncoder",
    "UnfitEnvironmentError",
    "UntrustedCodeError",
    "as_environment",
    "count_actions",
    "feature_space_of",
    "first_action",
    "own_feature_space",
    "refuse_named_code",
    "register_envs",
]

__getattr__ = lazy_names(
    __name__,
    {
        "registration": (
            "PACMAN_LEVELS",
            "SCENARIOS",
            "register_envs",
        ),
        "spaces": (
            "ObservationEncoder",
            "UnfitEnvironmentError",
            "count_actions",
            "first_action",
        ),
        "spec": (
            "CannotDrawError",
            "Env",
            "EnvironmentSpec",
            "UntrustedCodeError",
            "as_environment",
            "feature_space_of",
            "own_feature_space",
            "refuse_named_code",
        ),
    },
)
