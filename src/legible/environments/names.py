"""Names of features and actions, and where they come from.

- `resolve_names`: the user's names, else the environment's own, else those of its domain, else numbers, as a
  `NamedSpace`, which also holds their source; `feature_space_of`: the same without the source.
- `action_words`: an action of any space in words.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

from legible.environments.choices import check_action_space, default_choices, fit_choices
from legible.environments.domains import shipped_features
from legible.environments.spaces import ObservationEncoder, UnfitEnvironmentError, count_actions
from legible.environments.spec import Env
from legible.environments.wrappers import stacked_names
from legible.features import Feature, FeatureError, FeatureSpace, Kind
from legible.formatting import number

ENVIRONMENT, SHIPPED, UNNAMED = "the environment", "legible", "unnamed"

# Names of the numbers of continuous actions in Gymnasium's documentation.
_PARTS = {
    "Pendulum": ("torque",),
    "MountainCarContinuous": ("force",),
    "LunarLander": ("main engine", "side engines"),
    "LunarLanderContinuous": ("main engine", "side engines"),
    "BipedalWalker": ("hip 1", "knee 1", "hip 2", "knee 2"),
    "BipedalWalkerHardcore": ("hip 1", "knee 1", "hip 2", "knee 2"),
    "CarRacing": ("steering", "gas", "brake"),
}


class NamedSpace(NamedTuple):
    """Features and actions with the source of their names."""

    space: FeatureSpace  # the features and actions
    source: str  # "the names file FILE", "the given feature space", "the environment", "legible" or "unnamed"

    @property
    def is_named(self) -> bool:
        """True where there are names, and therefore kinds."""
        return self.source != UNNAMED

    @property
    def is_shipped(self) -> bool:
        """True where the names come with legible."""
        return self.source == SHIPPED

    @property
    def is_given(self) -> bool:
        """True where the user gave the names."""
        return self.source not in {ENVIRONMENT, SHIPPED, UNNAMED}


def resolve_names(env: Env, names: str | Path | FeatureSpace | None = None) -> NamedSpace:
    """Return the names of an environment's features and actions, and the source of the names.

    The first of these sources that has names is used:

    1. `names`, the user's;
    2. the attribute ``feature_space`` of the environment or of its outermost wrapper that has one;
    3. what legible knows about this environment (its domain);
    4. ``f0, f1, …`` for features, and for actions the environment's own names (Atari's meanings, MiniGrid's
       ``actions``) or ``action0, action1, …``.

    Unknown kinds are "numeric" for a box and "categorical" for discrete observations; `FeatureSpace.guess_kinds`
    derives them from data. It is an error if the number of the user's or the environment's own names does not fit.
    Names of a domain that do not fit are ignored: a wrapper changes the observations.
    """
    # An environment that shows features instead of observations has named them.
    if env.has_wrapper_attr("feature_map"):
        return cast("NamedSpace", env.get_wrapper_attr("feature_map").names)
    encoder = ObservationEncoder.of(env.observation_space)  # knows the width of flat observations
    check_action_space(env.action_space)

    # 1. The user's names. `_checked` raises an error if their number does not fit.
    user_space, source = read_names(names)
    if user_space is not None and not user_space.n_own and len(user_space):
        # The user names derived features only; names of the others come from the environment or its domain.
        named = resolve_names(env)
        space = replace(named.space, features=(*named.space.features, *user_space.features))
        if user_space.actions:
            space = fit_actions(replace(space, actions=user_space.actions, groups=user_space.groups), env, source)
        return NamedSpace(space.with_derived_words(), named.source)
    if user_space is not None:
        return _checked(user_space, source, encoder, env)

    # 2. The environment's own names; those of stacked frames are made from the names of one frame.
    own_space = _stacked(env, encoder.width)
    if own_space is None and env.has_wrapper_attr("feature_space"):
        own_space = env.get_wrapper_attr("feature_space")
    if isinstance(own_space, FeatureSpace):
        return _checked(own_space, ENVIRONMENT, encoder, env)

    # 3. The domain's names, if their number fits, and 4. numbered names.
    shipped = shipped_features(env)
    shipped_space = None if shipped is None or len(shipped) != encoder.width else _fitting(shipped, env)
    if shipped_space is not None:
        return NamedSpace(shipped_space, SHIPPED)
    kind: Kind = "categorical" if encoder.categorical else "numeric"
    features = tuple(Feature(name, kind) for name in FeatureSpace.unnamed(encoder.width, 0).names)
    return NamedSpace(FeatureSpace(features, **_own_choices(env)), UNNAMED)


def _stacked(env: Env, width: int) -> FeatureSpace | None:
    """Return the names of the frames that Gymnasium's own wrapper stacks, where the environment inside has names."""
    while isinstance(env, gymnasium.Wrapper) and not isinstance(env, FrameStackObservation):
        if not isinstance(env, FlattenObservation) and env.observation_space != env.env.observation_space:
            return None
        env = env.env
    if not isinstance(env, FrameStackObservation):
        return None
    named = resolve_names(env.env)
    frames = width // max(1, len(named.space))
    if not named.is_named or frames * len(named.space) != width:
        return None
    return stacked_names(named.space, frames)


def read_names(names: str | Path | FeatureSpace | None) -> tuple[FeatureSpace | None, str]:
    """Return the user's names, where there are any, and their source for error messages."""
    if names is None:
        return None, UNNAMED
    if isinstance(names, FeatureSpace):
        return names, "the given feature space"
    return FeatureSpace.from_toml(names), f"the names file {names}"


def feature_space_of(env: Env, names: str | Path | FeatureSpace | None = None) -> FeatureSpace:
    """Return the features and actions of an environment with the names that `resolve_names` finds."""
    return resolve_names(env, names).space


def action_words(env: Env, action: Any) -> str:
    """Return an action in words: its name if it has one, otherwise its numbers. Discrete ones are counted from 0.

    Numbers of continuous actions have the names in the environment's ``action_names`` or in Gymnasium's documentation,
    if there are any.

    >>> import gymnasium
    >>> action_words(gymnasium.make("Pendulum-v1"), np.array([0.25]))
    'torque 0.25'
    >>> action_words(gymnasium.make("CartPole-v1"), np.int64(1))
    'Right'
    """
    if isinstance(env.action_space, spaces.Discrete):
        try:
            return feature_space_of(env).action_names[int(action)]
        except UnfitEnvironmentError:
            return f"action {int(action)}"
    values, names = np.asarray(action).ravel(), _part_names(env)
    if names is None or len(names) != values.size:
        return "action " + " ".join(number(value) for value in values.tolist())
    return ", ".join(f"{name} {number(value)}" for name, value in zip(names, values.tolist(), strict=True))


def _checked(space: FeatureSpace, source: str, encoder: ObservationEncoder, env: Env) -> NamedSpace:
    if space.n_own != encoder.width:
        raise UnfitEnvironmentError(
            f"{source} names {space.n_own} features, but observations have {encoder.width}; name each of them."
        )
    return NamedSpace(fit_actions(space, env, source).with_derived_words(), source)


def fit_actions(space: FeatureSpace, env: Env, source: str) -> FeatureSpace:
    """Return a space with the actions of an environment; raise where the space names actions that do not fit."""
    if not space.actions:
        return replace(space, **_own_choices(env))
    if not isinstance(env.action_space, spaces.Discrete):
        return fit_choices(space, env.action_space, source)
    n_actions = count_actions(env.action_space)
    if len(space.actions) != n_actions or not space.is_discrete:
        raise UnfitEnvironmentError(
            f"{source} names {len(space.actions)} actions, but the environment has {n_actions}; name each or none."
        )
    return space


def _fitting(shipped: FeatureSpace, env: Env) -> FeatureSpace | None:
    """Return the shipped names with the environment's actions, or None where they do not fit."""
    if isinstance(env.action_space, spaces.Discrete):
        fits = shipped.is_discrete and len(shipped.actions) == count_actions(env.action_space)
        return shipped if fits else None
    if shipped.is_discrete:
        return replace(shipped, **_own_choices(env))
    try:
        return fit_choices(shipped, env.action_space, SHIPPED)
    except UnfitEnvironmentError:
        return None


def _own_choices(env: Env) -> dict[str, Any]:
    """Return the actions and groups with the environment's own names, else with numbers."""
    if isinstance(env.action_space, spaces.Discrete):
        n_actions = count_actions(env.action_space)
        names: list[str] = []
        if env.has_wrapper_attr("get_action_meanings"):  # as in Atari
            names = [str(name) for name in env.get_wrapper_attr("get_action_meanings")()]
        elif env.has_wrapper_attr("actions"):  # as in MiniGrid, an enumeration of the numbers from 0
            actions = env.get_wrapper_attr("actions")
            ordered = sorted(actions) if isinstance(actions, type) and issubclass(actions, enum.IntEnum) else []
            if [*map(int, ordered)] == [*range(len(ordered))]:
                names = [action.name for action in ordered]
        if len(names) == n_actions:
            with suppress(FeatureError):  # invalid or repeated names
                return {"actions": FeatureSpace.of([], names).actions, "groups": ()}
        return {"actions": FeatureSpace.unnamed(0, n_actions).actions, "groups": ()}
    return dict(zip(("actions", "groups"), default_choices(env.action_space, _part_names(env)), strict=True))


def _part_names(env: Env) -> Sequence[str] | None:
    """Return the names of the parts of actions: the environment's ``action_names``, or Gymnasium's documented ones."""
    names = env.get_wrapper_attr("action_names") if env.has_wrapper_attr("action_names") else None
    if names is None and env.spec is not None:
        names = _PARTS.get(env.spec.id.rpartition("-v")[0])
    return names
