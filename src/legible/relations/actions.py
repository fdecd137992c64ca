"""Images of whole actions that are continuous or have several parts.

A relation maps choices. Relations with the same name together map every part of an action to a part: discrete parts by
a table; continuous values unchanged if regions keep their order, or mirrored about the middle of the bounds if the
order is reversed.

- `whole_groups`: groups that are mapped as a whole.
- `map_actions`: images of whole actions, to check relations in an environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import ActionGroup, FeatureSpace, GroupLink, choices_of
from legible.relations.relation import MetamorphicRelation
from legible.relations.values import RelationError


def whole_groups(images: Mapping[int, int], space: FeatureSpace) -> list[GroupLink]:
    """Return the groups whose choices are all mapped to the choices of one group, in order or reversed.

    >>> from legible.features import Action
    >>> names = [Action(f"steer.{name}") for name in ("left", "straight", "right")]
    >>> space = FeatureSpace((), tuple(names), (ActionGroup("steer", 0, 3),))
    >>> whole_groups({0: 2, 1: 1, 2: 0}, space)
    [GroupLink(group=0, image=0, negated=True)]
    """
    links = []
    for number, group in enumerate(space.groups):
        reached = [images.get(choice, -1) for choice in range(group.first, group.first + group.count)]
        image = space.group_of(max(reached[0], 0))
        to = space.groups[image]
        choices = list(range(to.first, to.first + to.count))
        if reached in (choices, choices[::-1]):
            links.append(GroupLink(number, image, negated=reached != choices))
    return links


def map_actions(
    together: Sequence[MetamorphicRelation], space: FeatureSpace, actions: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the images of whole actions ``[n, groups]`` under relations of one name, and which of them are defined.

    A relation maps one choice to another, so the relations of a name together map the choices of all groups. Groups
    that no relation names do not change.

    Parameters
    ----------
    together
        All relations of one name.
    space
        The groups; regions must be cut.
    actions
        The actions, one per row; discrete parts count from 0.

    Raises
    ------
    RelationError
        If a part is mapped to several parts, or the regions of a continuous part to another order.
    """
    choices = choices_of(space.groups, actions)
    image_of = {relation.action: relation.image_action for relation in together}
    mapped, defined = np.array(actions), np.ones(len(actions), np.bool_)
    for number, group in enumerate(space.groups):
        images = {c: image_of[c] for c in range(group.first, group.first + group.count) if c in image_of}
        if not images:
            continue
        image_groups = {space.group_of(image) for image in images.values()}
        if len(image_groups) > 1:
            raise RelationError(
                f"relation {together[0].name!r} cannot map whole actions: it maps choices of {group.name!r} to several "
                "groups."
            )
        (image_number,) = image_groups
        image_group = space.groups[image_number]
        defined &= np.isin(choices[:, number], list(images))
        # Choices counted within their groups, from 0.
        image_inside = {c - group.first: image - image_group.first for c, image in images.items()}
        if group.regions is None:
            table = np.array([image_inside.get(value, 0) for value in range(group.count)])  # 0 where it is not defined
            mapped[:, image_number] = table[choices[:, number] - group.first]
        else:
            values = actions[:, number]
            mapped[:, image_number] = _map_values(together[0].name, group, image_group, image_inside, values)
    return mapped, defined


def _map_values(
    name: str, group: ActionGroup, image_group: ActionGroup, inside: dict[int, int], values: NDArray[Any]
) -> NDArray[Any]:
    """Return continuous values unchanged or mirrored."""
    if all(place == image for place, image in inside.items()):
        return values
    bounds = group.regions
    if image_group.regions is None or any(image != group.count - 1 - place for place, image in inside.items()):
        raise RelationError(
            f"relation {name!r} cannot map whole actions: it maps the regions of {group.name!r} neither in order nor "
            "reversed."
        )
    assert bounds is not None
    twice_centre = bounds.low + bounds.high if np.isfinite(bounds.low) and np.isfinite(bounds.high) else 0.0
    mirrored: NDArray[Any] = values.dtype.type(twice_centre) - values
    return mirrored
