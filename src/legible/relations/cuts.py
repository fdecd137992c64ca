"""Intervals that relations share.

- `share_cuts`: gives features that a relation maps to each other the same intervals, so that intervals have images.
- `link_groups`: finds groups of choices that relations map to each other, so that their regions have images.
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
    """Return intervals whose cuts agree between related features, so that relations map intervals to intervals exactly.

    The cuts are closed under the maps: a negated feature gets the mirror image of every cut. The mirror image of
    ``x <= 3`` is ``x >= -3``, so a feature with cuts at 3 and -3 also gets intervals for exactly 3 and exactly -3.
    Categorical features share the union of their values in the same way.

    Parameters
    ----------
    intervals
        Intervals of all features.
    space
        The features; related features must be of the same kind.
    relations
        The relations; ignored features share nothing.
    most_cuts
        Maximum number of cuts of a feature; maps may add new cuts without end.
    """
    links = list(
        dict.fromkeys(
            _Link(pair.feature, pair.image_feature, pair.relation)
            for relation in relations
            for pair in relation.features
            if not isinstance(pair.relation, Anything)
        )
    )
    linked = sorted({i for link in links for i in (link.feature, link.image_feature)})
    # The ends of intervals by feature: cuts of numeric features, values of categorical ones.
    ends = {i: _Ends(space, i, links) for i in linked}
    without_images: list[tuple[int, float]] = []  # ends whose images are still to be added

    def add(feature: int, end: float) -> None:
        added = ends[feature].add(end)
        if added is not None:
            without_images.append((feature, added))
            if len(ends[feature].values) > most_cuts:
                raise RelationError(
                    f"feature {space.names[feature]!r} needs more than {most_cuts} cuts: the relations map its cuts to "
                    "new ones without end."
                )

    for i, feature_ends in ends.items():
        # The high end of the interval of a category is its value.
        bounds = [intervals.lows[i], intervals.highs[i]] if feature_ends.numeric else [intervals.highs[i]]
        for end in np.concatenate(bounds):
            add(i, float(end))
    for link in links:
        for feature, end in link.own_ends(space):
            add(feature, end)
    while without_images:
        feature, end = without_images.pop()
        for other, image in ends[feature].images(end):
            add(other, image)
    lows, highs = list(intervals.lows), list(intervals.highs)
    for i, feature_ends in ends.items():
        values = np.array(sorted(feature_ends.values), np.float32)
        shared = Intervals.from_cuts([values]) if feature_ends.numeric else Intervals((below(values),), (values,))
        lows[i], highs[i] = shared.lows[0], shared.highs[0]
    return Intervals(tuple(lows), tuple(highs))


def link_groups(relations: Iterable[MetamorphicRelation], space: FeatureSpace) -> tuple[GroupLink, ...]:
    """Return the groups of choices that relations map to each other, in the same order or reversed.

    A choice that is mapped to the same place of a group implies the same order, and one that is mapped to the mirrored
    place the reversed order. The middle choice implies neither.
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
    """Two features and the relation of their values, for any actions."""

    feature: int
    image_feature: int
    relation: Equal | Affine | ValueTable

    def own_ends(self, space: FeatureSpace) -> Iterable[tuple[int, float]]:
        """Yield the cuts around the values of a table, which must be separate intervals."""
        if not isinstance(self.relation, ValueTable):
            return
        for x, y in self.relation.pairs:
            for feature, value in ((self.feature, x), (self.image_feature, y)):
                yield feature, value
                if space[feature].kind == "numeric":
                    yield feature, float(below(value))


class _Ends:
    """Cuts of a numeric feature or values of a categorical one, and their images under links."""

    def __init__(self, space: FeatureSpace, feature: int, links: Iterable[_Link]) -> None:
        self.numeric = space[feature].kind == "numeric"
        self.values: set[float] = set()
        self._forth = [link for link in links if link.feature == feature]
        self._back = [link for link in links if link.image_feature == feature]
        for link in self._forth:
            if space[link.image_feature].kind != space[feature].kind:
                one, other = space[feature], space[link.image_feature]
                raise RelationError(
                    f"a relation pairs {one.name!r} with {other.name!r}, but the first is {one.kind} and the second "
                    f"{other.kind}."
                )

    def add(self, end: float) -> float | None:
        """Add a cut or value and return it as added, or None if it is infinite or not new."""
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
        """Yield images and sources of a cut or value, with their features."""
        for links, forth in ((self._forth, True), (self._back, False)):
            for link in links:
                other, relation = link.image_feature if forth else link.feature, link.relation
                if isinstance(relation, Equal):
                    yield other, end
                elif isinstance(relation, Affine) and self.numeric:
                    yield other, relation.image_cut(end) if forth else relation.source_cut(end)
                elif isinstance(relation, Affine):
                    yield other, float(relation.apply(end) if forth else relation.undo(end))
                # All values of a table are added in the beginning, see `own_ends`.
