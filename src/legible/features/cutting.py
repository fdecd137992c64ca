"""Cutting continuous parts of actions into regions, from the actions of a policy.

- `cut_choices`: gives every continuous part its regions, typical actions and spread.
- `GroupLink`: two groups that a relation maps to each other; they share cuts.
- `is_cut`: checks whether all regions and typical actions are known.

Cuts lie at quantiles, always midway between neighbouring distinct values, so that repetitions of one action end up in
one region. Values are distinct if they differ by about a thousandth of the range, so actions that are nearly saturated
make no regions. The cut for a quantile is the place whose share of actions below it is nearest to the quantile.
Quantiles that share a place become one cut, without a region between them. A part that never varies is cut into
equal pieces of its range. A part that a relation negates is cut at quantiles of the distance from its centre, on both
sides, so that the regions of one side are exact images of those on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.features.floats import below
from legible.features.groups import ActionGroup, Regions, with_regions
from legible.features.names import FeatureError
from legible.features.space import FeatureSpace

Values = NDArray[np.float32]
# Number of values of a part that are distinguished when it is cut.
RESOLUTION = 1000


class GroupLink(NamedTuple):
    """A group and the group that a relation maps its choices to, in the same order or reversed."""

    group: int
    image: int
    negated: bool


def is_cut(space: FeatureSpace) -> bool:
    """Return whether regions and typical actions of all continuous parts are known."""
    return all(group.regions is None or group.regions.is_cut for group in space.groups)


def cut_choices(
    space: FeatureSpace, actions: NDArray[Any] | None = None, links: Iterable[GroupLink] = ()
) -> FeatureSpace:
    """Return the space with the continuous parts of its actions cut into regions, each of which is one choice.

    A part is cut where it divides the policy's own actions into equally many, so every region is one that the policy
    uses. If the actions have too few distinct values for this, some regions are empty, and their choices are left out.

    - `space`: features and choices. Each part of an action is a group; its number of choices is the number of regions
      to cut. Groups that are already cut, and discrete ones, are unchanged.
    - `actions`: actions of the policy, ``float[n, groups]``. Without them, parts are cut into equal pieces of their
      range.
    - `links`: groups that a symmetry of the task maps to each other: they get the same cuts, or mirrored ones, if they
      have the same bounds and number of choices.

    >>> from legible.features.groups import ActionGroup, Regions
    >>> from legible.features.space import Action
    >>> names = [Action(f"steer.{name}") for name in ("left", "straight", "right")]
    >>> steer = FeatureSpace((), tuple(names), (ActionGroup("steer", 0, 3, Regions(-1.0, 1.0)),))
    >>> cut = cut_choices(steer, np.array([[-0.5], [-0.25], [0.0], [0.25], [1.0], [1.0]])).groups[0].regions
    >>> cut.cuts, cut.typical
    ((-0.125, 0.625), (-0.5, 0.0, 1.0))
    """
    groups = space.groups
    uncut = {i: group.regions for i, group in enumerate(groups) if group.regions and not group.regions.is_cut}
    if not uncut:
        return space

    # By the number of a group: its regions, and the positions of the choices that keep a region.
    cut_groups: dict[int, tuple[Regions, list[int]]] = {}
    for family in _families(groups, uncut, links):
        # Groups that share cuts are cut once, from the actions of all of them.
        values, twice_centre = np.zeros(0, np.float32), family.twice_centre
        if actions is not None:
            # Actions of mirrored groups (sign -1) are mirrored at the centre of the range: x becomes 2 · centre - x.
            columns = {i: np.asarray(actions[:, i], np.float32) for i in family.signs}
            mirror = np.float32(twice_centre)
            values = np.concatenate(
                [column if family.signs[i] > 0 else mirror - column for i, column in columns.items()]
            )
        regions, kept_choices = _cut_family(family, values)
        # Mirrored groups get the mirror image, in which the order of the regions is reversed.
        for i, sign in family.signs.items():
            if sign > 0:
                cut_groups[i] = regions, kept_choices
                continue
            cuts = tuple(_mirror_cut(cut, twice_centre) for cut in reversed(regions.cuts or ()))
            typical = tuple(twice_centre - value + 0.0 for value in reversed(regions.typical))  # adding 0: no -0.0
            mirrored_kept = [family.count - 1 - position for position in reversed(kept_choices)]
            cut_groups[i] = replace(regions, cuts=cuts, typical=typical), mirrored_kept

    # All choices in their order, without the dropped ones.
    kept_actions = [
        space.actions[group.first + position]
        for i, group in enumerate(groups)
        for position in (cut_groups[i][1] if i in cut_groups else range(group.count))
    ]
    all_regions = [cut_groups[i][0] if i in cut_groups else group.regions for i, group in enumerate(groups)]
    return replace(space, actions=tuple(kept_actions), groups=with_regions(groups, all_regions))


@dataclass(frozen=True)
class _Family:
    """Groups that share cuts, bounds and the number of choices."""

    signs: dict[int, int]  # 1 for groups with the orientation of the first one, −1 for mirrored ones
    symmetric: bool  # whether a relation maps a group to its mirror image
    bounds: Regions
    twice_centre: float  # low + high of the range, so that x and twice_centre - x are mirror images; 0 without bounds
    count: int  # number of choices
    given: tuple[float, ...] | None  # cuts that a names file gives, in the orientation of the first group

    def resolution(self, values: Values) -> float:
        """Return the difference from which on values count as distinct, approximately."""
        width = self.bounds.high - self.bounds.low
        if not np.isfinite(width):
            width = float(values.max() - values.min()) if values.size else 0.0
        return width / RESOLUTION


def _families(
    groups: Sequence[ActionGroup], uncut: Mapping[int, Regions], links: Iterable[GroupLink]
) -> Iterator[_Family]:
    """Yield the groups that share cuts, as families: groups that links connect, directly or by way of others.

    `uncut` holds the bounds of the groups that are still to be cut, by the number of the group, with the cuts if a
    names file gives them. `links` are the pairs of groups that a symmetry of the task maps to each other; a negated
    link mirrors the values: left becomes right.
    """
    # Only groups with the same number of choices and the same bounds can share cuts.
    shapes = {i: (groups[i].count, regions.low, regions.high) for i, regions in uncut.items()}
    usable = [link for link in links if link.group in shapes and shapes[link.group] == shapes.get(link.image)]
    remaining = list(uncut)
    while remaining:
        # Walk along the links from the first remaining group. Sign 1: oriented like the first group; -1: mirrored.
        # If a group is reached with both signs, the family is its own mirror image, so its cuts must be symmetric.
        signs, to_visit, symmetric = {remaining[0]: 1}, [remaining[0]], False
        for current in to_visit:  # the list grows on the way
            for link in usable:
                for group, other in ((link.group, link.image), (link.image, link.group)):
                    if group != current:
                        continue
                    sign = -signs[current] if link.negated else signs[current]
                    if other not in signs:
                        signs[other] = sign
                        to_visit.append(other)
                    symmetric |= signs[other] != sign
        remaining = [i for i in remaining if i not in signs]

        # Cuts that the user gave for groups of the family, seen in the orientation of the first group, must agree.
        signs = dict(sorted(signs.items()))
        count, low, high = shapes[min(signs)]
        twice_centre = low + high if np.isfinite(low) and np.isfinite(high) else 0.0
        names_by_cuts: dict[tuple[float, ...], str] = {}
        for i, sign in signs.items():
            name, cuts = groups[i].name, uncut[i].cuts
            if cuts is not None:
                flipped = tuple(float(np.float32(twice_centre - cut)) for cut in reversed(cuts))
                names_by_cuts[cuts if sign > 0 else flipped] = name
                if symmetric and cuts != flipped:
                    raise FeatureError(
                        f"group {name!r}: a relation mirrors this group, but its regions are not symmetric: they are "
                        f"cut at {', '.join(f'{cut:g}' for cut in cuts)}. Make them symmetric about "
                        f"{twice_centre / 2:g}."
                    )
        if len(names_by_cuts) > 1:
            first, second = list(names_by_cuts.values())[:2]
            raise FeatureError(
                f"a relation maps {first!r} to {second!r}, but the regions given for them do not match. Give both the "
                "same regions, or mirrored ones if the relation mirrors them."
            )
        yield _Family(signs, symmetric, uncut[min(signs)], twice_centre, count, next(iter(names_by_cuts), None))


def _cut_family(family: _Family, values: Values) -> tuple[Regions, list[int]]:
    """Return the regions of groups that share cuts, and the positions of the choices that keep a region.

    The result is in the orientation of the family's first group. `values` are the policy's actions in all groups of the
    family, ``float32[n]``, already mirrored for mirrored groups; there may be none.
    """
    # The cuts: given by the user; symmetric about the centre; otherwise at quantiles of the actions, which give every
    # region the same share, or in equal pieces if the actions do not vary.
    if family.given is not None:
        cuts = list(family.given)
        if family.symmetric:
            middle = family.twice_centre / 2
            # The cuts are symmetric numbers, but a cut itself belongs to the region below it: mirror that exactly.
            centre_cut, upper_cuts = [cut for cut in cuts if cut == middle], [cut for cut in cuts if cut > middle]
            cuts = _on_both_sides(centre_cut, upper_cuts, family.twice_centre)
    elif family.symmetric:
        cuts = _symmetric_cuts(family, values)
    else:
        shares = [i / family.count for i in range(1, family.count)]
        cuts = _quantile_cuts(values, shares, family.resolution(values)) or _equal_cuts(family, values)

    # Two equal cuts leave no region between them: its choice is dropped. The outer regions always stay.
    kept_choices = [i for i in range(len(cuts) + 1) if i == 0 or i == len(cuts) or cuts[i - 1] < cuts[i]]

    # The spread of the actions (root mean square distance from their centre) is the unit in which scores are given. If
    # they do not vary, it is the width of a region.
    spread = 0.0
    if values.size:
        centre = family.twice_centre / 2 if family.symmetric else values.mean(dtype=np.float64)
        spread = float(np.sqrt(np.mean((values.astype(np.float64) - centre) ** 2)))
    if not spread > 0:  # also if it is NaN
        width = family.bounds.high - family.bounds.low
        spread = width / family.count if np.isfinite(width) else 1.0
    regions = replace(family.bounds, cuts=tuple(sorted(set(cuts))), typical=(), spread=spread)
    return replace(regions, typical=_typical_actions(family, regions, values)), kept_choices


def _quantile_cuts(values: Values, shares: Sequence[float], step: float) -> list[float]:
    """Return the cuts between distinct values with about these shares below them; none if all values are equal."""
    if not step > 0:
        return []
    ordered = np.sort(values)
    # Positions of the last value before each rise: a cut can lie between it and the next value.
    before_rise = np.flatnonzero(np.diff(np.rint(ordered.astype(np.float64) / step)))
    if not before_rise.size:
        return []
    shares_below = (before_rise + 1) / values.size
    cuts = []
    for share in shares:
        position = before_rise[np.abs(shares_below - share).argmin()]
        below_cut, above_cut = ordered[position], ordered[position + 1]
        middle = np.float32((float(below_cut) + float(above_cut)) / 2)
        cuts.append(float(middle if middle < above_cut else below_cut))  # a region holds x with low < x <= high
    return cuts


def _symmetric_cuts(family: _Family, values: Values) -> list[float]:
    """Return cuts at quantiles of the distance from the centre, on both sides."""
    count, step = family.count, family.resolution(values)
    centre = np.float32(family.twice_centre / 2)
    distances = np.abs(values - centre)
    # An odd number of regions has one around the centre; an even number has a cut there.
    shares = [k / count for k in range(1 if count % 2 else 2, count, 2)]
    centre_cut = [] if count % 2 else [float(centre)]
    distance_cuts = _quantile_cuts(distances, shares, step)
    if not distance_cuts and _quantile_cuts(values, [0.5], step):  # all actions have the same distance, on both sides
        distance_cuts = [float(distances.min()) / 2] * len(shares)
    upper_cuts = [float(np.float32(centre + distance)) for distance in distance_cuts]
    if not distance_cuts:
        upper_cuts = [cut for cut in _equal_cuts(family, values) if cut > centre]
    return _on_both_sides(centre_cut, upper_cuts, family.twice_centre)


def _on_both_sides(centre_cut: Sequence[float], upper_cuts: Sequence[float], twice_centre: float) -> list[float]:
    """Return cuts above the centre with their mirror images, and the cut at the centre, if any, between them."""
    return [*(_mirror_cut(cut, twice_centre) for cut in reversed(upper_cuts)), *centre_cut, *upper_cuts]


def _mirror_cut(cut: float, twice_centre: float) -> float:
    """Return the cut that makes ``x <= cut`` on one side the exact image of ``x > cut`` on the other."""
    return float(below(twice_centre - cut)) + 0.0


def _equal_cuts(family: _Family, values: Values) -> list[float]:
    """Return cuts for a part that never varies: equal pieces of its range, or of an interval around its value."""
    low, high = family.bounds.low, family.bounds.high
    if not (np.isfinite(low) and np.isfinite(high)):
        only_value = 0.0 if not values.size or family.symmetric else float(values[0])
        low, high = max(low, only_value - 1.0), min(high, only_value + 1.0)
    return [float(np.float32(cut)) for cut in np.linspace(low, high, family.count + 1)[1:-1]]


def _typical_actions(family: _Family, regions: Regions, values: Values) -> tuple[float, ...]:
    """Return the median action of every region, or the middle of a region that was never visited."""
    count = len(regions.cuts or ()) + 1
    twice_centre = np.float32(family.twice_centre)
    pooled = np.concatenate([values, twice_centre - values]) if family.symmetric else values
    region_of_value = regions.region_of(pooled)
    typical = []
    for region in range(count):
        inside = np.sort(pooled[region_of_value == region])  # the lower median is an action that was taken
        typical.append(float(inside[(inside.size - 1) // 2]) + 0.0 if inside.size else regions.middle(region))
    if family.symmetric:  # the lower half becomes the exact mirror image of the upper half
        for region in range(count // 2):
            typical[region] = float(twice_centre) - typical[count - 1 - region] + 0.0
        if count % 2:
            typical[count // 2] = float(twice_centre) / 2
    return tuple(typical)
