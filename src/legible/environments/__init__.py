"""Environments by name, and what is known about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.environments.choices import check_action_space, default_choices, fit_choices
    from legible.environments.domain_registry import Domain, RelationsFile, all_domains, load_by_name, register_domain
    from legible.environments.domains import domain_groups, domain_of, shipped_features, shipped_relations
    from legible.environments.endings import Ending, EndingReader, LastStep
    from legible.environments.faults import (
        EpisodeFailedError,
        check_finite,
        explain_outside,
        reset_environment,
        step_environment,
    )
    from legible.environments.feature_env import (
        FeaturedSpec,
        FeatureEnv,
        FeatureVectorEnv,
        allowed_action,
        find_feature_map,
        with_features,
        without_features,
    )
    from legible.environments.feature_map import FeatureMap, is_flat, map_features
    from legible.environments.known_wrappers import KNOWN_WRAPPERS, known_name, parse_wrapper, wrapper_text
    from legible.environments.masks import MaskReader, find_masks
    from legible.environments.names import NamedSpace, action_words, feature_space_of, resolve_names
    from legible.environments.reward_terms import TermReader
    from legible.environments.spaces import (
        ObservationEncoder,
        UnfitEnvironmentError,
        check_policy_spaces,
        count_actions,
        first_action,
        map_arrays,
        stack_observations,
        to_environment_actions,
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
    from legible.features.sizes import choice_sizes

__all__, __getattr__, __dir__ = lazy_exports(__name__)
