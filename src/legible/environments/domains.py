"""Names, relations, groups of features and words that the domain of an environment provides.

- `domain_of`: the domain of an environment, or None.
- `shipped_relations`: its relations files for an environment, each a `RelationsFile`.
- `shipped_features`: its names of features and actions.
- `domain_groups`: its groups of features.
- `success_words`: its definition of success.

No other module asks whether an environment is PAC-Man.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import cast

from legible.environments.domain_registry import Domain, RelationsFile, all_domains, id_of, load_by_name
from legible.environments.spec import Env, EnvironmentSpec
from legible.features import FeatureSpace
from legible.features.patterns import match_pattern


def domain_of(environment: str | EnvironmentSpec | Env) -> Domain | None:
    """Return the domain that an environment belongs to, or None.

    The class of an environment decides; one is made from a spec. For a name, the id decides, so that a
    ``module:factory`` has no domain.

    >>> domain_of("legible/PacmanSmall-v0").name, domain_of("mymodule:cartpole")
    ('pacman', None)
    """
    with _made(environment) as known:
        return next((domain for domain in reversed(all_domains()) if domain.covers(known)), None)


def shipped_relations(environment: str | EnvironmentSpec | Env) -> list[RelationsFile]:
    """Return the relations files of the domain for an environment, see `domain_of`.

    >>> [(file.name, file.default) for file in shipped_relations("legible/PacmanSmall-v0")][:2]
    [('turn', True), ('mirror-east-west', False)]
    """
    with _made(environment) as known:
        domain, env_id = domain_of(known), id_of(known)
    return [] if domain is None else [file for file in domain.relations if re.fullmatch(file.ids, env_id)]


def success_words(environment: str | EnvironmentSpec | Env) -> str:
    """Return the words that follow "an episode succeeds when" for an environment; nothing where they are unknown.

    >>> success_words("legible/Roundabout-v0")
    'ego has not crashed by its end'
    """
    with _made(environment) as known:
        domain, env_id = domain_of(known), id_of(known)
    success = {} if domain is None else domain.success
    return next((words for ids, words in success.items() if re.fullmatch(ids, env_id)), "")


def domain_groups(environment: str | EnvironmentSpec | Env, space: FeatureSpace) -> dict[str, tuple[str, ...]] | None:
    """Return the names of features by the groups of the environment's domain.

    None where the domain has no groups, or where it does not know the names of the features.
    """
    domain = domain_of(environment)
    if domain is None or not domain.groups:
        return None
    groups: dict[str, tuple[str, ...]] = {}
    for group, patterns in domain.groups.items():
        matches = [{name for name in space.names if match_pattern(pattern, name) is not None} for pattern in patterns]
        if not all(matches):
            return None
        members = set().union(*matches)
        groups[group] = tuple(name for name in space.names if name in members)
    return groups


def shipped_features(environment: str | Env) -> FeatureSpace | None:
    """Return the names and words of the domain for an environment, or None where there are none.

    For an id, names must be a file; names that a function returns need the environment.
    """
    domain, env_id = domain_of(environment), id_of(environment)
    names = {} if domain is None else domain.names
    source = next((source for ids, source in names.items() if re.fullmatch(ids, env_id)), None)
    if isinstance(source, Path):
        return FeatureSpace.from_toml(source)
    if source is None or isinstance(environment, str):
        return None
    return cast("FeatureSpace | None", load_by_name(source)(environment))


def _made(environment: str | EnvironmentSpec | Env) -> AbstractContextManager[str | Env]:
    """Make the environment of a spec and close it afterwards; ids and environments stay as they are."""
    return closing(environment.make()) if isinstance(environment, EnvironmentSpec) else nullcontext(environment)
