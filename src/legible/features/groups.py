"""Groups of choices: what an action is made of.

An action of a ``Discrete`` space is one choice among all, so there is one group. Actions of several parts have one
group for each part, and the values of a continuous part are cut into regions, which are its choices.

- `Regions`: how a continuous part is cut, what is typical of each region, and how far a value is from each.
- `ActionGroup`: some of the choices, next to each other, of which every action takes one.
- `choices_of`, `scores_of`, `move_to`: from the numbers of actions to choices and their scores, and back.
- `read_groups`, `write_groups`: groups as plain data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.features.floats import above
from legible.features.names import FeatureError, check_name
from legible.settings import Enforce

_KEYS = ("choices", "low", "high", "cuts", "typical", "spread")


@dataclass(frozen=True)
class Regions:
    """A continuous part of actions, cut into regions ``low < x <= high`` in float32; the outer ones hold the bounds.

    Parameters
    ----------
    low, high
        The bounds, perhaps infinite.
    cuts
        Inner ends of the regions, rising; None while what the policy does has not been seen yet.
    typical
        What the policy does in each region; empty until that is known.
    spread
        How far its values are spread: the unit of scores.

    Examples
    --------
    >>> steering = Regions(-1.0, 1.0, (-0.25, 0.25), (-0.5, 0.0, 0.5), spread=0.5)
    >>> steering.region_of([-1.0, -0.25, 0.0, 0.9]).tolist()
    [0, 0, 1, 2]
    >>> steering.scores([0.0]).tolist()
    [[-0.5, 0.5, -0.5]]
    """

    low: float
    high: float
    cuts: tuple[float, ...] | None = None
    typical: tuple[float, ...] = ()
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise FeatureError(f"continuous actions from {self.low:g} to {self.high:g} leave no room for regions.")
        if self.cuts is None:
            return
        object.__setattr__(self, "cuts", tuple(float(np.float32(cut)) + 0.0 for cut in self.cuts))
        ends = (*self.cuts, self.high)
        if self.low > ends[0] or not all(one < other for one, other in pairwise(ends)):
            raise FeatureError(f"cuts must rise between {self.low:g} and {self.high:g}, got {list(self.cuts)}.")
        if self.typical and len(self.typical) != len(self.cuts) + 1:
            raise FeatureError(f"{len(self.cuts) + 1} regions have {len(self.typical)} typical actions.")
        if not (self.spread > 0 and np.isfinite(self.spread)):
            raise FeatureError(f"the spread of actions is a positive number, got {self.spread}.")

    @property
    def is_cut(self) -> bool:
        """Whether cuts and typical actions are known."""
        return self.cuts is not None and bool(self.typical)

    def _ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where regions begin and end; the outer ones never do."""
        cuts = self.cuts or ()
        return np.array([-np.inf, *cuts]), np.array([*cuts, np.inf])

    def region_of(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the region in which each value lies."""
        return np.searchsorted(np.array(self.cuts or ()), np.asarray(values, np.float32).astype(np.float64))

    def scores(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return ``float64[n, regions]``: how deep each value lies in a region, below 0 how far from it, in spreads.

        Of the outer regions only the inner end counts. So the highest score, the first of equals, is that of the region
        in which a value lies.
        """
        column = np.asarray(values, np.float32).astype(np.float64)[:, None]
        lows, highs = self._ends()
        inside: NDArray[np.float64] = np.minimum(column - lows, highs - column) / self.spread
        return inside

    def nearest(self, values: ArrayLike, regions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return for each value the nearest one of a region."""
        column = np.asarray(values, np.float32)
        lows, highs = (ends.astype(np.float32)[regions] for ends in self._ends())
        return np.where(column > lows, np.minimum(column, highs), above(lows))

    def middle(self, region: int) -> float:
        """Return the middle of a region; of one without an end, what lies a spread beyond the other."""
        cuts = self.cuts or ()
        low, high = (self.low, *cuts)[region], (*cuts, self.high)[region]
        if np.isinf(low) and np.isinf(high):
            return 0.0
        if np.isinf(low) or np.isinf(high):
            return high - self.spread if np.isinf(low) else low + self.spread
        return float(np.float32((low + high) / 2))


@dataclass(frozen=True)
class ActionGroup:
    """Choices ``first … first + count - 1``, of which every action takes one.

    Parameters
    ----------
    name
        What they decide: "steer"; "" for the only group of a ``Discrete`` space.
    first, count
        Which choices.
    regions
        How the values of a continuous part are cut into these choices, else None.
    """

    name: str
    first: int
    count: int
    regions: Regions | None = None

    def __post_init__(self) -> None:
        if self.name:
            check_name(self.name, "group")
            if self.count < 1 + (self.regions is not None):
                raise FeatureError(f"group {self.name!r} has {self.count} choices, which leaves nothing to choose.")
        if self.regions is not None and self.regions.cuts is not None and len(self.regions.cuts) + 1 != self.count:
            raise FeatureError(
                f"group {self.name!r} has {self.count} choices, but {len(self.regions.cuts) + 1} regions."
            )

    @property
    def choices(self) -> slice:
        """Where its choices are among all."""
        return slice(self.first, self.first + self.count)


def choices_of(groups: Sequence[ActionGroup], actions: NDArray[Any]) -> NDArray[np.int64]:
    """Return ``int64[n, groups]``: the choices that actions ``[n, groups]`` are, in the numbers of all choices."""
    chosen = np.empty((len(actions), len(groups)), np.int64)
    for number, group in enumerate(groups):
        column = actions[:, number]
        inside = column if group.regions is None else group.regions.region_of(column)
        chosen[:, number] = group.first + inside.astype(np.int64)
    return chosen


def scores_of(groups: Sequence[ActionGroup], actions: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``float64[n, choices]``: how much actions speak for each choice.

    Of continuous parts see `Regions.scores`; of others the choice has 1 and all that are not taken 0.
    """
    parts = []
    for number, group in enumerate(groups):
        column = actions[:, number]
        if group.regions is None:
            parts.append((column[:, None] == np.arange(group.count)).astype(np.float64))
        else:
            parts.append(group.regions.scores(column))
    return np.concatenate(parts, axis=1)


def move_to(
    groups: Sequence[ActionGroup], actions: NDArray[Any], choices: NDArray[np.int64], enforce: Enforce = "typical"
) -> NDArray[Any]:
    """Return actions ``[n, groups]`` that are these choices, in the numbers of all choices; others stay as they are.

    A continuous part that already lies in the region stays as it is, to the bit.
    """
    moved = np.array(actions)
    for number, group in enumerate(groups):
        wanted = choices[:, number] - group.first
        if group.regions is None:
            moved[:, number] = wanted
            continue
        elsewhere = group.regions.region_of(actions[:, number]) != wanted
        if elsewhere.any():
            there = wanted[elsewhere]
            values = (
                np.array(group.regions.typical)[there]
                if enforce == "typical"
                else group.regions.nearest(actions[elsewhere, number], there)
            )
            moved[elsewhere, number] = values if moved.dtype.kind == "f" else np.rint(values)
    return moved


# --- Plain data ------------------------------------------------------------------------------------------------------


def write_groups(groups: Sequence[ActionGroup], names: Sequence[str]) -> dict[str, Any]:
    """Groups as plain data by name; `names` are those of all choices."""
    written: dict[str, Any] = {}
    for group in groups:
        entry: dict[str, Any] = {"choices": [name.removeprefix(f"{group.name}.") for name in names[group.choices]]}
        regions = group.regions
        if regions is not None:
            entry |= {
                end: bound if np.isfinite(bound) else None
                for end, bound in (("low", regions.low), ("high", regions.high))
            }
            if regions.cuts is not None:
                entry["cuts"] = list(regions.cuts)
            if regions.typical:
                entry |= {"typical": list(regions.typical), "spread": regions.spread}
        written[group.name] = entry
    return written


def read_groups(data: Any, where: str) -> tuple[tuple[ActionGroup, tuple[str, ...]], ...]:
    """Read groups from plain data: each with the short names of its choices.

    A group is a list of names, a table from names to regions ``[low, high]``, or what `write_groups` wrote.
    """
    if not isinstance(data, Mapping) or not data:
        raise FeatureError(f"{where}: a table of groups is expected, such as steer = ['left', 'right'].")
    read: list[tuple[ActionGroup, tuple[str, ...]]] = []
    for name, given in data.items():
        try:
            table: Any = {"choices": given} if isinstance(given, list) else given
            if not isinstance(table, Mapping) or not table:
                raise FeatureError(f"a list of names, or a table from names to [low, high] is expected, got {given!r}.")
            if not isinstance(table.get("choices"), list) or set(table) - set(_KEYS):
                regions, choices = _read_regions(table)
            else:
                choices, regions = tuple(str(choice) for choice in table["choices"]), None
                if "low" in table or "cuts" in table:
                    low, high = table.get("low"), table.get("high")
                    bounds = -np.inf if low is None else float(low), np.inf if high is None else float(high)
                    cuts = None if "cuts" not in table else tuple(float(cut) for cut in table["cuts"])
                    typical = tuple(float(value) for value in table.get("typical", ()))
                    regions = Regions(*bounds, cuts, typical, table.get("spread", 1.0))
            first = sum(group.count for group, _ in read)
            read.append((ActionGroup(str(name), first, len(choices), regions), choices))
        except (FeatureError, TypeError, ValueError) as error:
            raise FeatureError(f"{where}.{name}: {error}") from error
    return tuple(read)


def _read_regions(given: Mapping[str, Any]) -> tuple[Regions | None, tuple[str, ...]]:
    """Read a table from the names of regions to their ends."""
    ends: dict[str, tuple[float, float]] = {}
    for choice, region in given.items():
        if not isinstance(region, Sequence) or isinstance(region, str) or len(region) != 2:
            raise FeatureError(f"region {choice!r} is given by its two ends, [low, high], got {region!r}.")
        low, high = float(region[0]), float(region[1])
        if not low < high:
            raise FeatureError(f"nothing lies in region {choice!r}, from {low:g} to {high:g}.")
        ends[str(choice)] = (low, high)
    ordered = sorted(ends, key=lambda choice: ends[choice])
    for one, other in pairwise(ordered):
        until, begins = ends[one][1], ends[other][0]
        if begins < until:
            raise FeatureError(
                f"regions {one!r} and {other!r} overlap between {begins:g} and {min(until, ends[other][1]):g}; each "
                "must begin where the one before it ends."
            )
        if begins > until:
            raise FeatureError(
                f"regions {one!r} and {other!r} leave a gap from {until:g} to {begins:g}; each must begin where the "
                "one before it ends."
            )
    cuts = tuple(ends[choice][1] for choice in ordered[:-1])
    return Regions(ends[ordered[0]][0], ends[ordered[-1]][1], cuts), tuple(ordered)


def with_regions(groups: Sequence[ActionGroup], regions: Sequence[Regions | None]) -> tuple[ActionGroup, ...]:
    """Return groups with other regions, one after the other; those of regions have as many choices as there are."""
    made: list[ActionGroup] = []
    for group, new in zip(groups, regions, strict=True):
        count = group.count if new is None or new.cuts is None else len(new.cuts) + 1
        made.append(replace(group, first=sum(other.count for other in made), count=count, regions=new))
    return tuple(made)
