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

MOST_CUTS = 1024  # of a feature; maps may add new cuts without end


def share_cuts(intervals: Intervals, space: FeatureSpace, relations: Iterable[MetamorphicRelation]) -> Intervals:
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
    """
    links = list(
        dict.fromkeys(
            _Link(pair.feature, pair.image_feature, pair.relation)
            for relation in relations
            for pair in relation.features
            if not isinstance(pair.relation, Anything)
        )
    )
    linked_features = sorted({i for link in links for i in (link.feature, link.image_feature)})
    # The ends of intervals by feature: cuts of numeric features, values of categorical ones.
    ends = {i: _Ends(space, i, links) for i in linked_features}
    without_images: list[tuple[int, float]] = []  # (feature, end): ends whose images are still to be added

    def add(feature: int, end: float) -> None:
        added = ends[feature].add(end)
        if added is not None:
            without_images.append((feature, added))
            if len(ends[feature].values) > MOST_CUTS:
                raise RelationError(
                    f"feature {space.names[feature]!r} needs more than {MOST_CUTS} cuts: the relations map its cuts to "
                    "new ones without end."
                )

    # Begin with the ends of the given intervals, and the values that relations list in tables (such as {1 -> 3}); then
    # add images until there are no new ones.
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
        for image_feature, image in ends[feature].images(end):
            add(image_feature, image)

    lows, highs = list(intervals.lows), list(intervals.highs)
    for i, feature_ends in ends.items():
        values = np.array(sorted(feature_ends.values), np.float32)
        shared = Intervals.from_cuts([values]) if feature_ends.numeric else Intervals((below(values),), (values,))
        lows[i], highs[i] = shared.lows[0], shared.highs[0]
    return Intervals(tuple(lows), tuple(highs))


def link_groups(relations: Iterable[MetamorphicRelation], space: FeatureSpace) -> tuple[GroupLink, ...]:
    """Return the groups of choices that relations map to each other, in the same order or reversed.

    A choice that is mapped to the same position in a group implies the same order, and one that is mapped to the
    mirrored position the reversed order. The middle choice implies neither.
    """
    links: dict[GroupLink, None] = {}
    for relation in relations:
        group_number, image_number = space.group_of(relation.action), space.group_of(relation.image_action)
        group, image_group = space.groups[group_number], space.groups[image_number]
        position, image_position = relation.action - group.first, relation.image_action - image_group.first
        mirrored = group.count - 1 - position
        if group.count == image_group.count and position != mirrored and image_position in {position, mirrored}:
            links[GroupLink(group_number, image_number, negated=image_position == mirrored)] = None
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
            source, image = space[feature], space[link.image_feature]
            if image.kind != source.kind:
                raise RelationError(
                    f"a relation pairs {source.name!r} with {image.name!r}, but the first is {source.kind} and the "
                    f"second {image.kind}."
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
                target, relation = link.image_feature if forth else link.feature, link.relation
                if isinstance(relation, Equal):
                    yield target, end
                elif isinstance(relation, Affine) and self.numeric:
                    yield target, relation.image_cut(end) if forth else relation.source_cut(end)
                elif isinstance(relation, Affine):
                    yield target, float(relation.apply(end) if forth else relation.undo(end))
                # All values of a table are added in the beginning, see `own_ends`.
