"""Environments by name, and those that come with legible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.environments.domains import (
        Domain,
        RelationsFile,
        all_domains,
        domain_groups,
        domain_of,
        load_by_name,
        register_domain,
        shipped_features,
        shipped_relations,
    )
    from legible.environments.names import NamedSpace, feature_space_of, resolve_names
    from legible.environments.registration import PACMAN_LEVELS, SCENARIOS, register_envs
    from legible.environments.spaces import ObservationEncoder, UnfitEnvironmentError, count_actions, first_action
    from legible.environments.spec import (
        CannotDrawError,
        Env,
        EnvironmentSpec,
        as_environment,
    )

__all__ = [
    "PACMAN_LEVELS",
    "SCENARIOS",
    "CannotDrawError",
    "Domain",
    "Env",
    "EnvironmentSpec",
    "NamedSpace",
    "ObservationEncoder",
    "RelationsFile",
    "UnfitEnvironmentError",
    "all_domains",
    "as_environment",
    "count_actions",
    "domain_groups",
    "domain_of",
    "feature_space_of",
    "first_action",
    "load_by_name",
    "register_domain",
    "register_envs",
    "resolve_names",
    "shipped_features",
    "shipped_relations",
]

__getattr__ = lazy_names(
    __name__,
    {
        "domains": (
            "Domain",
            "RelationsFile",
            "all_domains",
            "domain_groups",
            "domain_of",
            "load_by_name",
            "register_domain",
            "shipped_features",
            "shipped_relations",
        ),
        "names": (
            "NamedSpace",
            "feature_space_of",
            "resolve_names",
        ),
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
            "as_environment",
        ),
    },
)
