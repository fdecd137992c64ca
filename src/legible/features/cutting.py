"""Continuous parts of actions cut into regions, from what a policy does.

- `cut_choices`: gives every continuous part its regions, typical actions and spread.
- `GroupLink`: two groups that a relation maps to each other; they share cuts.
- `is_cut`: whether all that is known.

Cuts lie at quantiles, always midway between neighbouring distinct values, so that an action that is taken again and
again lies on one side whole. Values are distinct when they differ by about a thousandth of the range: what hardly
anybody could tell apart, such as actions that are all but saturated, makes no regions. Of all such places the one is
taken whose share of actions below is nearest to the quantile; quantiles that get the same place become one cut, and
what would lie between them is no region. A part that never varies is cut into equal pieces of its range. A part that a
relation negates is cut at quantiles of the distance from its centre, on both sides: then the regions of one side are
exact images of those on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.features.floats import below
from legible.features.groups import ActionGroup, Regions, with_regions
from legible.features.names import FeatureError
from legible.features.space import FeatureSpace

Values = NDArray[np.float32]
# How many values of a part are distinguished when it is cut.
RESOLUTION = 1000


class GroupLink(NamedTuple):
    """A relation maps the choices of a group to those of another, or of itself, in the same order or reversed."""

    group: int
    image: int
    negated: bool


def is_cut(space: FeatureSpace) -> bool:
    """Whether regions and typical actions of all continuous parts are known."""
    return all(group.regions is None or group.regions.is_cut for group in space.groups)


def cut_choices(
    space: FeatureSpace, actions: NDArray[Any] | None = None, links: Iterable[GroupLink] = ()
) -> FeatureSpace:
    """Cut continuous parts into regions; choices that lie in none of them are left out.

    Parameters
    ----------
    space
        Features and choices; what is cut already stays as it is. A group has as many choices as it is to have regions.
    actions
        What the policy did, ``[n, groups]``. Without it, parts are cut into equal pieces of their range.
    links
        Which groups share cuts. Groups of other bounds or numbers of choices share nothing.

    Examples
    --------
    >>> from legible.features.groups import ActionGroup, Regions
    >>> from legible.features.space import Action
    >>> names = [Action(f"steer.{name}") for name in ("left", "straight", "right")]
    >>> steer = FeatureSpace((), tuple(names), (ActionGroup("steer", 0, 3, Regions(-1.0, 1.0)),))
    >>> cut = cut_choices(steer, np.array([[-0.5], [-0.25], [0.0], [0.25], [1.0], [1.0]])).groups[0].regions
    >>> cut.cuts, cut.typical
    ((-0.125, 0.625), (-0.5, 0.0, 1.0))
    """
    groups = space.groups
    open_groups = [i for i, group in enumerate(groups) if group.regions is not None and not group.regions.is_cut]
    if not open_groups:
        return space
    made: dict[int, _Cut] = {}
    for family in _families(groups, open_groups, links):
        values = np.zeros(0, np.float32)
        if actions is not None:
            # As the first group of the family has them.
            columns = {i: np.asarray(actions[:, i], np.float32) for i in family.signs}
            mirror = np.float32(family.twice_centre)
            values = np.concatenate([c if family.signs[i] > 0 else mirror - c for i, c in columns.items()])
        frame = _cut_frame(family, values)
        made |= {i: frame if family.signs[i] > 0 else frame.mirrored(family.twice_centre) for i in family.signs}
    kept = [
        space.actions[group.first + place]
        for i, group in enumerate(groups)
        for place in (made[i].kept if i in made else range(group.count))
    ]
    regions = [made[i].regions if i in made else group.regions for i, group in enumerate(groups)]
    return replace(space, actions=tuple(kept), groups=with_regions(groups, regions))


class _Cut(NamedTuple):
    """Regions, and which of the places of a group's choices are left; `of` is how many there were."""

    regions: Regions
    kept: tuple[int, ...]
    of: int

    def mirrored(self, twice_centre: float) -> _Cut:
        """The same on the other side of the centre."""
        cuts, typical = self.regions.cuts or (), self.regions.typical
        regions = replace(
            self.regions,
            cuts=tuple(_mirrored_cut(cut, twice_centre) for cut in reversed(cuts)),
            typical=tuple(twice_centre - value + 0.0 for value in reversed(typical)),
        )
        return _Cut(regions, tuple(self.of - 1 - place for place in reversed(self.kept)), self.of)


@dataclass(frozen=True)
class _Family:
    """Groups that share cuts: each as it is (1) or mirrored (−1), seen from the first of them."""

    groups: Sequence[ActionGroup]
    signs: dict[int, int]
    symmetric: bool

    @property
    def bounds(self) -> Regions:
        regions = self.groups[min(self.signs)].regions
        assert regions is not None
        return regions

    @property
    def count(self) -> int:
        return self.groups[min(self.signs)].count

    @property
    def twice_centre(self) -> float:
        low, high = self.bounds.low, self.bounds.high
        return low + high if np.isfinite(low) and np.isfinite(high) else 0.0

    def given_cuts(self) -> tuple[float, ...] | None:
        """Cuts that a names file gives, as the first group has them; they must not contradict each other."""
        found: dict[tuple[float, ...], str] = {}
        for number, sign in self.signs.items():
            regions = self.groups[number].regions
            if regions is not None and regions.cuts is not None:
                cuts = regions.cuts
                flipped = tuple(float(np.float32(self.twice_centre - cut)) for cut in reversed(cuts))
                found[cuts if sign > 0 else flipped] = self.groups[number].name
                if self.symmetric and cuts != flipped:
                    raise FeatureError(
                        f"group {self.groups[number].name!r}: a relation mirrors it, but its regions, cut at "
                        f"{', '.join(f'{cut:g}' for cut in cuts)}, are no mirror images of each other."
                    )
        if len(found) > 1:
            one, other = list(found.values())[:2]
            raise FeatureError(f"a relation maps {one!r} to {other!r}, but their regions are no images of each other.")
        return next(iter(found), None)


def _families(groups: Sequence[ActionGroup], members: Sequence[int], links: Iterable[GroupLink]) -> list[_Family]:
    """Put together what links connect."""
    known = []
    for link in links:
        group, image = groups[link.group], groups[link.image]
        if link.group in members and link.image in members and group.regions is not None and image.regions is not None:
            bounds, image_bounds = ((each.low, each.high) for each in (group.regions, image.regions))
            if group.count == image.count and bounds == image_bounds:
                known.append(link)
    families: list[_Family] = []
    left = list(members)
    while left:
        signs, waiting, symmetric = {left[0]: 1}, [left[0]], False
        for current in waiting:
            for link in known:
                for one, other in ((link.group, link.image), (link.image, link.group)):
                    if one != current:
                        continue
                    sign = -signs[current] if link.negated else signs[current]
                    if other not in signs:
                        signs[other] = sign
                        waiting.append(other)
                    symmetric |= signs[other] != sign
        left = [number for number in left if number not in signs]
        families.append(_Family(groups, dict(sorted(signs.items())), symmetric))
    return families


def _cut_frame(family: _Family, values: Values) -> _Cut:
    """Cut the first group of a family."""
    given = family.given_cuts()
    if given is not None:
        cuts = list(given)
        if family.symmetric:
            middle = family.twice_centre / 2
            inner, upper = [cut for cut in cuts if cut == middle], [cut for cut in cuts if cut > middle]
            cuts = _both_sides(inner, upper, family.twice_centre)
    elif family.symmetric:
        cuts = _symmetric_cuts(family, values)
    else:
        shares = [k / family.count for k in range(1, family.count)]
        cuts = _quantile_cuts(values, shares, _step(family, values)) or _equal_pieces(family, values)
    kept = [i for i in range(len(cuts) + 1) if i == 0 or i == len(cuts) or cuts[i - 1] < cuts[i]]
    centre = family.twice_centre / 2 if family.symmetric else values.mean(dtype=np.float64) if values.size else 0.0
    spread = float(np.sqrt(np.mean((values.astype(np.float64) - centre) ** 2))) if values.size else 0.0
    if not spread > 0:
        width = family.bounds.high - family.bounds.low
        spread = width / family.count if np.isfinite(width) else 1.0
    regions = replace(family.bounds, cuts=tuple(sorted(set(cuts))), typical=(), spread=spread)
    return _Cut(replace(regions, typical=_typical(family, regions, values)), tuple(kept), family.count)


def _step(family: _Family, values: Values) -> float:
    """What values must differ by, about, to be distinct."""
    width = family.bounds.high - family.bounds.low
    if not np.isfinite(width):
        width = float(values.max() - values.min()) if values.size else 0.0
    return width / RESOLUTION


def _quantile_cuts(values: Values, shares: Sequence[float], step: float) -> list[float]:
    """For every share the place between distinct values with about that share below it; none where all are one."""
    if not step > 0:
        return []
    ordered = np.sort(values)
    ends = np.flatnonzero(np.diff(np.rint(ordered.astype(np.float64) / step)))
    if not ends.size:
        return []
    passed = (ends + 1) / values.size
    chosen = [int(ends[np.abs(passed - share).argmin()]) for share in shares]
    cuts = []
    for one, other in ((ordered[last], ordered[last + 1]) for last in chosen):
        middle = np.float32((float(one) + float(other)) / 2)
        cuts.append(float(middle if middle < other else one))  # one lies below it or at it, the other above it
    return cuts


def _symmetric_cuts(family: _Family, values: Values) -> list[float]:
    """Cuts at quantiles of the distance from the centre, on both sides."""
    count, twice = family.count, family.twice_centre
    centre = np.float32(twice / 2)
    distances = np.abs(values - centre)
    shares = [k / count for k in range(1 if count % 2 else 2, count, 2)]
    inner = [] if count % 2 else [float(centre)]
    step = _step(family, values)
    found = _quantile_cuts(distances, shares, step)
    if not found and _quantile_cuts(values, [0.5], step):  # as far on one side as on the other
        found = [float(distances.min()) / 2] * len(shares)
    upper = [float(np.float32(centre + distance)) for distance in found]
    if not found:
        upper = [cut for cut in _equal_pieces(family, values) if cut > centre]
    return _both_sides(inner, upper, twice)


def _both_sides(inner: Sequence[float], upper: Sequence[float], twice_centre: float) -> list[float]:
    """Cuts above the centre with their mirror images, and one at the centre, if there is one, between them."""
    return [*(_mirrored_cut(cut, twice_centre) for cut in reversed(upper)), *inner, *upper]


def _mirrored_cut(cut: float, twice_centre: float) -> float:
    """The cut that makes ``x <= cut`` on one side the exact image of ``x > cut`` on the other."""
    return float(below(twice_centre - cut)) + 0.0


def _equal_pieces(family: _Family, values: Values) -> list[float]:
    """Cuts of a part that never varies: equal pieces of its range, or of some room around its value."""
    low, high = family.bounds.low, family.bounds.high
    if not (np.isfinite(low) and np.isfinite(high)):
        at = 0.0 if not values.size or family.symmetric else float(values[0])
        low, high = max(low, at - 1.0), min(high, at + 1.0)
    return [float(np.float32(cut)) for cut in np.linspace(low, high, family.count + 1)[1:-1]]


def _typical(family: _Family, regions: Regions, values: Values) -> tuple[float, ...]:
    """The median of the actions in every region, mirrored ones among them; the middle of one that was never visited."""
    count = len(regions.cuts or ()) + 1
    twice = np.float32(family.twice_centre)
    pooled = np.concatenate([values, twice - values]) if family.symmetric else values
    places = regions.region_of(pooled)
    found = []
    for k in range(count):
        inside = np.sort(pooled[places == k])  # the lower median is something that was really done
        found.append(float(inside[(inside.size - 1) // 2]) + 0.0 if inside.size else regions.middle(k))
    if family.symmetric:
        for k in range(count // 2):
            found[k] = float(twice) - found[count - 1 - k] + 0.0
        if count % 2:
            found[count // 2] = float(twice) / 2
    return tuple(found)
