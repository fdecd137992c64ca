"""Features that rules see of an environment, and the rows of numbers that hold them in play.

- `FeatureMap`: the features of rules, how they are read and computed, and the columns of a policy's own observation.
- `map_features`: the map of an environment, from the user's names and ``--features``.
- `is_flat`: whether rules see the observation itself, so that nothing has to be mapped.

A row begins with the features, derived ones last. The numbers of the observation follow where a policy needs it and the
features do not hold it: only the policy reads them, and records leave them out. Action masks come last.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.environments.feature_readers import EntryReader, FeatureReader, ObservationReader, flat_width, reader_of
from legible.environments.masks import ENTRY, MaskReader, find_masks
from legible.environments.names import UNNAMED, NamedSpace, fit_actions, read_names, resolve_names
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.spec import Env
from legible.errors import did_you_mean
from legible.features import FeatureSpace


@dataclass(frozen=True)
class FeatureMap:
    """The features that rules see of an environment."""

    space: FeatureSpace  # the features, derived ones last, and the actions
    reader: FeatureReader  # reads the features that are not derived
    observation_space: spaces.Space[Any] = field(hash=False, repr=False)  # the space of the policy's observations
    named_by: str = UNNAMED  # the source of the names, see `legible.environments.NamedSpace`
    masks: MaskReader | None = None  # reads the action masks; None if the environment has none

    def __deepcopy__(self, _: dict[int, Any]) -> FeatureMap:
        return self  # it never changes, and environments are copied often

    def __repr__(self) -> str:
        derived = {f.name: f.expression for f in self.space.features if f.expression}
        masks = "" if self.masks is None else f", {self.masks!r}"
        return f"FeatureMap({self.reader.text!r}, {self.space.own.names!r}, {derived!r}{masks})"

    @property
    def n_features(self) -> int:
        """The number of columns of a row that are features."""
        return len(self.space)

    @cached_property
    def shown(self) -> slice:
        """The columns of a row that hold the policy's observation."""
        first = 0 if self.reader.holds_observation else len(self.space)
        return slice(first, first + flat_width(self.observation_space))

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return self.masked.stop

    @cached_property
    def masked(self) -> slice:
        """The columns of a row that hold the action mask; there are none without masks."""
        first: int = len(self.space) if self.reader.holds_observation else self.shown.stop
        return slice(first, first + (0 if self.masks is None else self.masks.width))

    @property
    def row_space(self) -> spaces.Box:
        """The space of the rows."""
        return spaces.Box(-np.inf, np.inf, (self.width,), np.float32)

    @property
    def names(self) -> NamedSpace:
        """The features and actions, and the source of their names."""
        return NamedSpace(self.space, self.named_by)

    def with_space(self, space: FeatureSpace) -> FeatureMap:
        """Return the same map with other kinds and words of the same features."""
        return replace(self, space=space)


def map_features(
    env: Env, names: str | Path | FeatureSpace | None = None, features: str | None = None, *, masks: bool = True
) -> FeatureMap:
    """Return the features that rules see of an environment: their names, and how they are read in each step.

    - `names`: the user's names, and derived features: a feature space or a TOML file.
    - `features`: what rules see instead of the observation, as the option ``--features`` says it:
      ``"entries:NAME,NAME"`` for entries of a dictionary, ``"info:NAME,NAME"`` for entries of info, ``"objects"`` for
      Atari's objects, or ``"module:function"``. By default the observation, or its entries where it is a dictionary.
    - `masks`: whether to respect the environment's action masks, which say which actions are allowed in a state.
    """
    # An environment that already shows features has its map.
    if env.has_wrapper_attr("feature_map"):
        wrapped_map: FeatureMap = env.get_wrapper_attr("feature_map")
        return wrapped_map

    # By default rules see the observation itself.
    mask_reader = find_masks(env) if masks else None
    if features is None and not isinstance(env.observation_space, spaces.Dict):
        named = resolve_names(env, names)
        reader: FeatureReader = ObservationReader(named.space.own.features)
        return FeatureMap(named.space, reader, env.observation_space, named.source, mask_reader)

    # Otherwise a reader chooses numbers. Of a dictionary it takes all small entries, but not the action mask.
    if features is None:
        in_entry = mask_reader is not None and mask_reader.source == "entry"
        reader = EntryReader.of(env.observation_space, left_out=ENTRY if in_entry else "")
    else:
        reader = reader_of(features, env)

    # A user's feature replaces the reader's feature of the same name, with its words and kind; an unknown name is an
    # error. In a feature space, the first `n_own` features are read from the environment; derived ones follow.
    user_names, source = read_names(names)
    user_space = FeatureSpace(()) if user_names is None else user_names
    by_user = {feature.name: feature for feature in user_space.features[: user_space.n_own]}
    readable = [feature.name for feature in reader.features]
    for name in by_user:
        if name not in readable:
            hint = did_you_mean(name, readable) or f" The features are {', '.join(readable[:20])}."
            raise UnfitEnvironmentError(f"{source}: there is no feature {name!r}.{hint}")
    own_features = [by_user.get(feature.name, feature) for feature in reader.features]
    derived = user_space.features[user_space.n_own :]
    space = FeatureSpace((*own_features, *derived), user_space.actions, user_space.groups if user_space.actions else ())
    space = fit_actions(space, env, source).with_derived_words()
    # Names count as the user's only if the user named every feature.
    names_all = user_names is not None and user_space.n_own == len(own_features)
    return FeatureMap(space, reader, env.observation_space, source if names_all else UNNAMED, mask_reader)


def is_flat(mapped: FeatureMap) -> bool:
    """Return whether rules see the observation itself, and nothing else, and no actions are masked."""
    derives = mapped.space.n_own < len(mapped.space)
    return isinstance(mapped.reader, ObservationReader) and not derives and mapped.masks is None
