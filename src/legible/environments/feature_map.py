"""What rules see of an environment: the features, and the rows of numbers that hold them in play.

- `FeatureMap`: the features of rules, how they are read and computed, and where a policy's own observation stands.
- `map_features`: the map of an environment, from the user's names and from what the user says rules see.
- `is_flat`: whether rules see the observation itself, so that nothing has to be mapped.

A row of play begins with the features, derived ones last. After them come the numbers of the observation, where a
policy needs it and the features do not hold it: only those who ask the policy look at them, and no record keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.environments.feature_readers import EntryReader, FeatureReader, ObservationReader, flat_width, reader_of
from legible.environments.names import NOBODY, NamedSpace, fit_actions, read_names, resolve_names
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.spec import Env
from legible.errors import did_you_mean
from legible.features import FeatureSpace


@dataclass(frozen=True)
class FeatureMap:
    """What rules see of an environment.

    Parameters
    ----------
    space
        The features, derived ones last, and the actions.
    reader
        Where those that are not derived are read from.
    observation_space
        What the policy is shown.
    named_by
        Who named them, see `legible.environments.NamedSpace`.
    """

    space: FeatureSpace
    reader: FeatureReader
    observation_space: spaces.Space[Any] = field(hash=False, repr=False)
    named_by: str = NOBODY

    def __deepcopy__(self, _: dict[int, Any]) -> FeatureMap:
        return self  # it never changes, and environments are copied often

    def __repr__(self) -> str:
        derived = {f.name: f.expression for f in self.space.features if f.expression}
        return f"FeatureMap({self.reader.text!r}, {self.space.own.names!r}, {derived!r})"

    @property
    def n_features(self) -> int:
        """How many columns of a row are features."""
        return len(self.space)

    @cached_property
    def shown(self) -> slice:
        """The columns of a row that hold the policy's observation."""
        first = 0 if self.reader.holds_observation else len(self.space)
        return slice(first, first + flat_width(self.observation_space))

    @property
    def width(self) -> int:
        """How many columns a row has."""
        return len(self.space) if self.reader.holds_observation else self.shown.stop

    @property
    def row_space(self) -> spaces.Box:
        """The rows as observations of an environment."""
        return spaces.Box(-np.inf, np.inf, (self.width,), np.float32)

    @property
    def needs(self) -> str:
        """What features are read from besides the observation, in words; "" for nothing."""
        return self.reader.needs

    @property
    def names(self) -> NamedSpace:
        """The features and actions, and who named them."""
        return NamedSpace(self.space, self.named_by)

    def with_space(self, space: FeatureSpace) -> FeatureMap:
        """Return the same map with other kinds and words of the same features."""
        return replace(self, space=space)


def map_features(env: Env, names: str | Path | FeatureSpace | None = None, features: str | None = None) -> FeatureMap:
    """Decide what rules see of an environment.

    Parameters
    ----------
    env
        The environment.
    names
        The user's names, and derived features: a feature space or a TOML file.
    features
        What rules see, if that is not the observation: see `legible.environments.feature_readers.reader_of`. Without,
        entries of dictionaries are found by themselves.
    """
    if env.has_wrapper_attr("feature_map"):
        own: FeatureMap = env.get_wrapper_attr("feature_map")
        return own
    if features is None and not isinstance(env.observation_space, spaces.Dict):
        named = resolve_names(env, names)
        return FeatureMap(named.space, ObservationReader(named.space.own.features), env.observation_space, named.source)
    reader = EntryReader.of(env.observation_space) if features is None else reader_of(features, env)
    user_names, source = read_names(names)
    given = FeatureSpace(()) if user_names is None else user_names
    renamed = {feature.name: feature for feature in given.features[: given.n_own]}
    known = [feature.name for feature in reader.features]
    for name in renamed:
        if name not in known:
            hint = did_you_mean(name, known) or f" The features are {', '.join(known[:20])}."
            raise UnfitEnvironmentError(f"{source}: there is no feature {name!r} here.{hint}")
    own_features = [renamed.get(feature.name, feature) for feature in reader.features]
    derived = given.features[given.n_own :]
    space = FeatureSpace((*own_features, *derived), given.actions, given.groups if given.actions else ())
    space = fit_actions(space, env, source).with_derived_words()
    names_all = user_names is not None and given.n_own == len(own_features)
    return FeatureMap(space, reader, env.observation_space, source if names_all else NOBODY)


def is_flat(mapped: FeatureMap) -> bool:
    """Whether rules see the observation itself, and nothing else."""
    return isinstance(mapped.reader, ObservationReader) and mapped.space.n_own == len(mapped.space)
