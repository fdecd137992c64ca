"""What a study finds out about its environment before anything else.

- `look_at_environment`: makes the environment once, checks the policy, decides on features, names and relations, and
  takes the fingerprint; returns a `Look`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from legible.engines import Engine
from legible.environments import EnvironmentSpec, feature_map_of, is_flat, map_features, with_features
from legible.features import FeatureSpace
from legible.play import check_studied, on_rows
from legible.policies import Policy
from legible.relations import ChosenRelations, RelationsArgument, resolve_relations
from legible.study.fingerprint import fingerprint_of
from legible.study.inputs import names_to_keep


class Look(NamedTuple):
    """What was found out.

    Parameters
    ----------
    environment
        The environment, showing rows of features where rules see something else than the observation.
    space
        Names of features and actions.
    names
        Those that the folder has to keep; None where the environment brings them along.
    relations
        The relations that are meant.
    fingerprint
        Stands for how policy and environment behave.
    """

    environment: EnvironmentSpec
    space: FeatureSpace
    names: FeatureSpace | None
    relations: ChosenRelations
    fingerprint: str


def look_at_environment(
    environment: EnvironmentSpec,
    policy: Policy,
    names: str | Path | FeatureSpace | None,
    features: str | None,
    relations: RelationsArgument,
    *,
    engine: Engine,
    time_limit: float | None,
) -> Look:
    """Make the environment once, and find out all that a study needs to know; see `legible.study.Study`."""
    env = environment.make()
    try:
        mapped = map_features(env, names, features)
        check_studied(policy, env, None if feature_map_of(env) is not None else mapped)
        chosen = resolve_relations(env, mapped.space, relations)
        shown = with_features(environment, mapped)
        walked = env if time_limit is None and is_flat(mapped) else shown
        fingerprint = fingerprint_of(on_rows(policy, shown), walked, engine=engine, time_limit=time_limit)
    finally:
        env.close()
    return Look(shown, mapped.space, names_to_keep(mapped, names), chosen, fingerprint)
