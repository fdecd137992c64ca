"""Environments by name, and those that come with legible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.environments.choices import check_choosable, default_choices, fit_choices
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
    from legible.environments.feature_env import (
        FeaturedSpec,
        FeatureEnv,
        FeatureVectorEnv,
        feature_map_of,
        plain_environment,
        with_features,
    )
    from legible.environments.feature_map import FeatureMap, is_flat, map_features
    from legible.environments.known_wrappers import KNOWN_WRAPPERS, known_name, parse_wrapper, wrapper_text
    from legible.environments.names import NamedSpace, action_words, feature_space_of, resolve_names
    from legible.environments.registration import PACMAN_LEVELS, SCENARIOS, register_envs
    from legible.environments.spaces import (
        ObservationEncoder,
        UnfitEnvironmentError,
        as_taken,
        check_playable,
        choice_sizes,
        count_actions,
        first_action,
        map_arrays,
        stack_observations,
    )
    from legible.environments.spec import (
        NO_WRAPPERS,
        CannotDrawError,
        Env,
        EnvironmentSpec,
        UntrustedCodeError,
        as_environment,
        refuse_named_code,
    )

__all__ = [
    "KNOWN_WRAPPERS",
    "NO_WRAPPERS",
    "PACMAN_LEVELS",
    "SCENARIOS",
    "CannotDrawError",
    "Domain",
    "Env",
    "EnvironmentSpec",
    "FeatureEnv",
    "FeatureMap",
    "FeatureVectorEnv",
    "FeaturedSpec",
    "NamedSpace",
    "ObservationEncoder",
    "RelationsFile",
    "UnfitEnvironmentError",
    "UntrustedCodeError",
    "action_words",
    "all_domains",
    "as_environment",
    "as_taken",
    "check_choosable",
    "check_playable",
    "choice_sizes",
    "count_actions",
    "default_choices",
    "domain_groups",
    "domain_of",
    "feature_map_of",
    "feature_space_of",
    "first_action",
    "fit_choices",
    "is_flat",
    "known_name",
    "load_by_name",
    "map_arrays",
    "map_features",
    "parse_wrapper",
    "plain_environment",
    "refuse_named_code",
    "register_domain",
    "register_envs",
    "resolve_names",
    "shipped_features",
    "shipped_relations",
    "stack_observations",
    "with_features",
    "wrapper_text",
]

__getattr__ = lazy_names(
    __name__,
    {
        "choices": (
            "check_choosable",
            "default_choices",
            "fit_choices",
        ),
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
        "feature_env": (
            "FeatureEnv",
            "FeatureVectorEnv",
            "FeaturedSpec",
            "feature_map_of",
            "plain_environment",
            "with_features",
        ),
        "feature_map": (
            "FeatureMap",
            "is_flat",
            "map_features",
        ),
        "known_wrappers": (
            "KNOWN_WRAPPERS",
            "known_name",
            "parse_wrapper",
            "wrapper_text",
        ),
        "names": (
            "NamedSpace",
            "action_words",
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
            "as_taken",
            "check_playable",
            "choice_sizes",
            "count_actions",
            "first_action",
            "map_arrays",
            "stack_observations",
        ),
        "spec": (
            "NO_WRAPPERS",
            "CannotDrawError",
            "Env",
            "EnvironmentSpec",
            "UntrustedCodeError",
            "as_environment",
            "refuse_named_code",
        ),
    },
)
