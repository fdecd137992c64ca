"""Intervals that relations share.

- `share_cuts`: gives features that a relation maps to each other the same intervals, so that an interval has an image.
- `link_groups`: which groups of choices relations map to each other, so that their regions have images, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from legible.features import FeatureSpace, GroupLink, Intervals, below
from legible.relations.relation import MetamorphicRelation
from legible.relations.values import Affine, Anything, Equal, RelationError, ValueTable

MOST_CUTS = 1024


def share_cuts(
    intervals: Intervals, space: FeatureSpace, relations: Iterable[MetamorphicRelation], *, most_cuts: int = MOST_CUTS
) -> Intervals:
    """Give features that relations map to each other the union of their cuts, so that intervals have exact images.

    The cuts are closed under the maps: a negated feature gets the mirror image of every cut. The mirror image of
    ``x <= 3`` is ``x >= -3``, so a feature with cuts at 3 and -3 also gets intervals for exactly 3 and exactly -3.
    Categorical features share the union of their values in the same way.

    Parameters
    ----------
    intervals
        Intervals of all features.
    space
        The features; what is related must be of one kind.
    relations
        The relations; ignored features share nothing.
    most_cuts
        More cuts of a feature than this are refused: the maps never come back to where they started.
    """
    named = [fr for relation in relations for fr in relation.features]
    links = list(
        dict.fromkeys(
            _Link(fr.feature, fr.image_feature, fr.relation) for fr in named if not isinstance(fr.relation, Anything)
        )
    )
    ends = {
        i: _Ends(space, i, links) for i in sorted({i for link in links for i in (link.feature, link.image_feature)})
    }
    waiting: list[tuple[int, float]] = []

    def add(feature: int, end: float) -> None:
        added = ends[feature].add(end)
        if added is not None:
            waiting.append((feature, added))
            if len(ends[feature].values) > most_cuts:
                raise RelationError(
                    f"feature {space.names[feature]!r} would need more than {most_cuts} cuts: the relations keep "
                    "moving its values to new places."
                )

    for i, feature_ends in ends.items():
        given = [intervals.lows[i], intervals.highs[i]] if feature_ends.numeric else [intervals.highs[i]]
        for end in np.concatenate(given):
            add(i, float(end))
    for link in links:
        for feature, end in link.own_ends(space):
            add(feature, end)
    while waiting:
        feature, end = waiting.pop()
        for other, image in ends[feature].images(end):
            add(other, image)
    lows, highs = list(intervals.lows), list(intervals.highs)
    for i, found in ends.items():
        values = np.array(sorted(found.values), np.float32)
        shared = Intervals.from_cuts([values]) if found.numeric else Intervals((below(values),), (values,))
        lows[i], highs[i] = shared.lows[0], shared.highs[0]
    return Intervals(tuple(lows), tuple(highs))


def link_groups(relations: Iterable[MetamorphicRelation], space: FeatureSpace) -> tuple[GroupLink, ...]:
    """Return which groups of choices relations map to each other, in the same order or reversed.

    A choice that goes to the one in the same place of its group says the one, a choice that goes to the one in the
    mirrored place the other; the middle one of a group says neither.
    """
    links: dict[GroupLink, None] = {}
    for relation in relations:
        numbers = [space.group_of(action) for action in (relation.action, relation.image_action)]
        one, other = (space.groups[number] for number in numbers)
        place, image = relation.action - one.first, relation.image_action - other.first
        mirrored = one.count - 1 - place
        if one.count == other.count and image in {place, mirrored} and place != mirrored:
            links[GroupLink(numbers[0], numbers[1], image != place)] = None
    return tuple(links)


class _Link(NamedTuple):
    """Two features and how their values are related, whatever the actions."""

    feature: int
    image_feature: int
    relation: Equal | Affine | ValueTable

    def own_ends(self, space: FeatureSpace) -> Iterable[tuple[int, float]]:
        """Values of a table: each must be an interval of its own."""
        if not isinstance(self.relation, ValueTable):
            return
        for x, y in self.relation.pairs:
            for feature, value in ((self.feature, x), (self.image_feature, y)):
                yield feature, value
                if space[feature].kind == "numeric":
                    yield feature, float(below(value))


class _Ends:
    """Cuts of a numeric feature or values of a categorical one, and where links send them."""

    def __init__(self, space: FeatureSpace, feature: int, links: Iterable[_Link]) -> None:
        self.numeric = space[feature].kind == "numeric"
        self.values: set[float] = set()
        self._forth = [link for link in links if link.feature == feature]
        self._back = [link for link in links if link.image_feature == feature]
        for link in self._forth:
            if space[link.image_feature].kind != space[feature].kind:
                raise RelationError(
                    f"{space.names[feature]!r} is {space[feature].kind} but {space.names[link.image_feature]!r}, which "
                    f"a relation pairs with it, is {space[link.image_feature].kind}."
                )

    def add(self, end: float) -> float | None:
        """Add an end and return it as it was added, or None when it is no number or was there."""
        if not math.isfinite(end):
            return None
        if self.numeric:
            for links, on_image in ((self._forth, False), (self._back, True)):
                for link in links:
                    if isinstance(link.relation, Affine):
                        end = link.relation.settle(end, on_image=on_image)
        if end in self.values:
            return None
        self.values.add(end)
        return end

    def images(self, end: float) -> Iterable[tuple[int, float]]:
        """Yield the features and ends that an end is sent to, forwards and backwards."""
        for link in self._forth:
            for image in self._sent(link.relation, end, forth=True):
                yield link.image_feature, image
        for link in self._back:
            for source in self._sent(link.relation, end, forth=False):
                yield link.feature, source

    def _sent(self, relation: Equal | Affine | ValueTable, end: float, *, forth: bool) -> tuple[float, ...]:
        if isinstance(relation, Equal):
            return (end,)
        if isinstance(relation, ValueTable):
            return ()  # all its values are ends already, see `own_ends`
        if self.numeric:
            return (relation.image_cut(end) if forth else relation.source_cut(end),)
        return (float(relation.apply(end) if forth else relation.undo(end)),)
