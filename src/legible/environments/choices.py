"""Choices that actions of any space consist of.

- `default_choices`: names for the choices of an action space that has none.
- `fit_choices`: named choices with the bounds of an action space.
- `check_action_space`: raises for action spaces that rules do not support.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.environments.spaces import UnfitEnvironmentError
from legible.features import Action, ActionGroup, FeatureSpace, Regions
from legible.features.sizes import choice_sizes

REGION_NAMES = ("low", "middle", "high")


def check_action_space(space: spaces.Space[Any]) -> None:
    """Raise unless rules support an action space."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return
    if not isinstance(space, spaces.Box):
        raise UnfitEnvironmentError(
            f"actions are a {type(space).__name__} space; rules support Discrete, MultiDiscrete, MultiBinary and Box "
            "actions; a wrapper can turn others into one of them (--wrap)."
        )
    if 0 in space.shape or not (space.low < space.high).all():
        raise UnfitEnvironmentError(f"actions are {space}, which leaves nothing to choose.")


def default_choices(
    space: spaces.Space[Any], part_names: Sequence[str] | None = None
) -> tuple[tuple[Action, ...], tuple[ActionGroup, ...]]:
    """Return default names for the choices of an action space other than ``Discrete``, and the groups that they form.

    Each part of an action is one group, and an action takes one choice of each group. Continuous parts have three
    choices: ``action0.low``, ``action0.middle`` and ``action0.high``.

    - `space`: the action space: Box, MultiDiscrete or MultiBinary.
    - `part_names`: a name for each part, such as "steering"; ignored if their number does not fit. By default
      ``action0``, ….
    """
    check_action_space(space)
    # The number of choices of each part. Continuous spaces have none of their own: they get three regions per part.
    sizes = choice_sizes(space) or (len(REGION_NAMES),) * int(np.prod(space.shape or (1,)))
    if part_names is None or len(part_names) != len(sizes):
        part_names = [f"action{i}" for i in range(len(sizes))]
    actions: list[Action] = []
    groups: list[ActionGroup] = []
    for part, (part_words, size) in enumerate(zip(part_names, sizes, strict=True)):
        name = re.sub(r"\W+", "_", part_words)
        groups.append(ActionGroup(name, len(actions), size, _bounds(space, part)))

        # Values of MultiDiscrete parts are named by their numbers, regions and switches by words.
        choice_names: Sequence[str] = [str(value) for value in range(size)]
        if isinstance(space, (spaces.Box, spaces.MultiBinary)):
            choice_names = REGION_NAMES if isinstance(space, spaces.Box) else ("off", "on")
        for choice in choice_names:
            value_words = f"to {choice}" if isinstance(space, spaces.MultiDiscrete) else choice
            actions.append(Action(f"{name}.{choice}", f"set {part_words} {value_words}"))
    return tuple(actions), tuple(groups)


def _bounds(space: spaces.Space[Any], part: int) -> Regions | None:
    if not isinstance(space, spaces.Box):
        return None
    return Regions(float(space.low.ravel()[part]), float(space.high.ravel()[part]))


def fit_choices(named: FeatureSpace, space: spaces.Space[Any], source: str) -> FeatureSpace:
    """Return named choices completed with the bounds of the action space, or raise if they do not fit it.

    - `named`: features and actions with names. Each part of an action is one group of choices, in the order of the
      parts.
    - `space`: the environment's action space, other than ``Discrete``.
    - `source`: the source of the names, such as "the names file FILE", for error messages.
    """
    # `sizes` has the number of choices of each part; it is empty for continuous actions (Box).
    sizes = choice_sizes(space)
    n_parts = len(sizes) or int(np.prod(space.shape or (1,)))
    if named.is_discrete:
        parts = f"each of its {n_parts} parts" if n_parts > 1 else "its part"
        raise UnfitEnvironmentError(
            f"{source} names {len(named.actions)} actions, but the action space is {space}. Name the choices of "
            f"{parts} in a table [groups], or leave actions out."
        )
    if len(named.groups) != n_parts:
        raise UnfitEnvironmentError(
            f"{source} names {len(named.groups)} groups of choices, but actions have {n_parts} parts; name each or "
            "none."
        )

    fitted = []
    for part, group in enumerate(named.groups):
        # Continuous part: the choices are regions of its range. Regions that the names give must cover exactly the
        # environment's range, compared in float32, the type of actions.
        bounds, regions = _bounds(space, part), group.regions
        if bounds is not None:
            if regions is None and group.count < 2:
                raise UnfitEnvironmentError(f"{source} names one region of group {group.name!r}; name at least two.")
            regions = bounds if regions is None else regions
            if (np.float32(regions.low), np.float32(regions.high)) != (np.float32(bounds.low), np.float32(bounds.high)):
                raise UnfitEnvironmentError(
                    f"{source}: the regions of group {group.name!r} reach from {regions.low:g} to {regions.high:g}, "
                    f"but the environment's bounds are {bounds.low:g} and {bounds.high:g}."
                )
            fitted.append(replace(group, regions=replace(regions, low=bounds.low, high=bounds.high)))
            continue

        # Discrete part: one choice for every value.
        if group.regions is not None:
            raise UnfitEnvironmentError(
                f"{source} gives regions of group {group.name!r}, but it has whole numbers; name its {sizes[part]} "
                "values."
            )
        if group.count != sizes[part]:
            raise UnfitEnvironmentError(
                f"{source} names {group.count} choices of group {group.name!r}, but the environment has {sizes[part]}."
            )
        fitted.append(group)
    return replace(named, groups=tuple(fitted))
