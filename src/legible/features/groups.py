"""Groups of choices: the parts of an action.

An action of a ``Discrete`` space is one choice among all, so there is one group. Actions with several parts have one
group per part. The values of a continuous part are cut into regions, which are its choices.

- `Regions`: the regions of a continuous part, with a typical action for each.
- `ActionGroup`: consecutive choices of which every action takes one.
- `choices_of`, `scores_of`, `move_to`: conversion between actions, choices and scores.
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
    """Regions ``low < x <= high`` of a continuous part of actions, in float32; the outer regions include the bounds.

    >>> steering = Regions(-1.0, 1.0, (-0.25, 0.25), (-0.5, 0.0, 0.5), spread=0.5)
    >>> steering.region_of([-1.0, -0.25, 0.0, 0.9]).tolist()
    [0, 0, 1, 2]
    >>> steering.scores([0.0]).tolist()
    [[-0.5, 0.5, -0.5]]
    """

    # The bounds, possibly infinite
    low: float
    high: float
    cuts: tuple[float, ...] | None = None  # inner bounds of the regions, in ascending order; None until they are known
    typical: tuple[float, ...] = ()  # typical action of the policy in each region; empty until they are known
    spread: float = 1.0  # spread of the values: the unit of scores

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise FeatureError(f"bounds of continuous actions must be ascending, got {self.low:g} and {self.high:g}.")
        if self.cuts is None:
            return
        object.__setattr__(self, "cuts", tuple(float(np.float32(cut)) + 0.0 for cut in self.cuts))
        ends = (*self.cuts, self.high)
        if self.low > ends[0] or not all(one < other for one, other in pairwise(ends)):
            raise FeatureError(f"cuts must be ascending between {self.low:g} and {self.high:g}, got {list(self.cuts)}.")
        if self.typical and len(self.typical) != len(self.cuts) + 1:
            raise FeatureError(f"{len(self.cuts) + 1} regions need as many typical actions, got {len(self.typical)}.")
        if not (self.spread > 0 and np.isfinite(self.spread)):
            raise FeatureError(f"the spread of actions must be positive and finite, got {self.spread}.")

    @property
    def is_cut(self) -> bool:
        """True if cuts and typical actions are known."""
        return self.cuts is not None and bool(self.typical)

    def _ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the low and high bounds of the regions; the outer regions are unbounded here."""
        cuts = self.cuts or ()
        return np.array([-np.inf, *cuts]), np.array([*cuts, np.inf])

    def region_of(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the index of the region of each value."""
        return np.searchsorted(np.array(self.cuts or ()), np.asarray(values, np.float32).astype(np.float64))

    def scores(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return ``float64[n, regions]``: the depth of each value in each region in spreads, negative outside.

        Only the inner bound of the outer regions counts. The highest score, the first of equals, belongs to the region
        of a value.
        """
        column = np.asarray(values, np.float32).astype(np.float64)[:, None]
        lows, highs = self._ends()
        inside: NDArray[np.float64] = np.minimum(column - lows, highs - column) / self.spread
        return inside

    def nearest(self, values: ArrayLike, regions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the value of a region that is nearest to each value."""
        column = np.asarray(values, np.float32)
        lows, highs = (ends.astype(np.float32)[regions] for ends in self._ends())
        return np.where(column > lows, np.minimum(column, highs), above(lows))

    def middle(self, region: int) -> float:
        """Return the middle of a region; one spread from the finite bound of an unbounded region."""
        cuts = self.cuts or ()
        low, high = (self.low, *cuts)[region], (*cuts, self.high)[region]
        if np.isinf(low) and np.isinf(high):
            return 0.0
        if np.isinf(low) or np.isinf(high):
            return high - self.spread if np.isinf(low) else low + self.spread
        return float(np.float32((low + high) / 2))


@dataclass(frozen=True)
class ActionGroup:
    """Choices ``first … first + count - 1``, of which every action takes one."""

    name: str  # name of the part, such as "steer"; "" for the only group of a ``Discrete`` space
    # Index of the first choice, and number of choices
    first: int
    count: int
    regions: Regions | None = None  # the regions of a continuous part, else None

    def __post_init__(self) -> None:
        if self.name:
            check_name(self.name, "group")
            least = 1 if self.regions is None else 2
            if self.count < least:
                raise FeatureError(f"group {self.name!r} needs at least {least} choices, got {self.count}.")
        if self.regions is not None and self.regions.cuts is not None and len(self.regions.cuts) + 1 != self.count:
            raise FeatureError(
                f"group {self.name!r} has {self.count} choices, but {len(self.regions.cuts) + 1} regions."
            )

    @property
    def choices(self) -> slice:
        """Slice of its choices among all choices."""
        return slice(self.first, self.first + self.count)


def choices_of(groups: Sequence[ActionGroup], actions: NDArray[Any]) -> NDArray[np.int64]:
    """Return the choices of actions ``[n, groups]`` as ``int64[n, groups]``, numbered over all groups."""
    chosen = np.empty((len(actions), len(groups)), np.int64)
    for number, group in enumerate(groups):
        column = actions[:, number]
        inside = column if group.regions is None else group.regions.region_of(column)
        chosen[:, number] = group.first + inside.astype(np.int64)
    return chosen


def scores_of(groups: Sequence[ActionGroup], actions: NDArray[Any]) -> NDArray[np.float64]:
    """Return the scores of all choices, ``float64[n, choices]``, for actions ``[n, groups]``.

    See `Regions.scores` for continuous parts. For other parts the choice taken has 1, all others 0.
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
    """Return actions ``[n, groups]`` that are changed as little as needed to make the given choices.

    `groups` are the parts of an action, `choices` the wanted choice of each part, ``int64[n, groups]``, numbered over
    the choices of all parts. A continuous part that already lies in the wanted region keeps its exact value; another
    one becomes the policy's typical action in that region, or its nearest value, as `enforce` says.
    """
    moved = np.array(actions)
    for i, group in enumerate(groups):
        wanted = choices[:, i] - group.first  # the number of the choice within this part
        if group.regions is None:
            moved[:, i] = wanted
            continue
        is_outside = group.regions.region_of(actions[:, i]) != wanted
        if is_outside.any():
            values = np.array(group.regions.typical)[wanted[is_outside]]
            if enforce == "nearest":
                values = group.regions.nearest(actions[is_outside, i], wanted[is_outside])
            # Environments may have continuous parts of whole numbers only: the action keeps its type.
            moved[is_outside, i] = values if moved.dtype.kind == "f" else np.rint(values)
    return moved


# --- Plain data ------------------------------------------------------------------------------------------------------


def write_groups(groups: Sequence[ActionGroup], names: Sequence[str]) -> dict[str, Any]:
    """Return groups as plain data by name; `names` are the names of all choices."""
    written: dict[str, Any] = {}
    for group in groups:
        entry: dict[str, Any] = {"choices": [name.removeprefix(f"{group.name}.") for name in names[group.choices]]}
        regions = group.regions
        if regions is not None:
            bounds = {"low": regions.low, "high": regions.high}
            entry |= {end: bound if np.isfinite(bound) else None for end, bound in bounds.items()}
            if regions.cuts is not None:
                entry["cuts"] = list(regions.cuts)
            if regions.typical:
                entry |= {"typical": list(regions.typical), "spread": regions.spread}
        written[group.name] = entry
    return written


def read_groups(data: Any, where: str) -> tuple[tuple[ActionGroup, tuple[str, ...]], ...]:
    """Return the groups of choices in a names file, each with the short names of its choices.

    `data` maps the name of each group, which is a part of an action, to its description: a list of names for its
    choices, a table from names to regions ``[low, high]``, or the output of `write_groups`. `where` is the place in the
    file, for error messages.
    """
    if not isinstance(data, Mapping) or not data:
        raise FeatureError(f"{where}: expected a table of groups, such as steer = ['left', 'right'].")
    read: list[tuple[ActionGroup, tuple[str, ...]]] = []
    for name, description in data.items():
        try:
            table: Any = {"choices": description} if isinstance(description, list) else description
            if not isinstance(table, Mapping) or not table:
                raise FeatureError(
                    f"expected a list of names, or a table from names to [low, high], got {description!r}."
                )
            regions: Regions | None
            if isinstance(table.get("choices"), list) and set(table) <= set(_KEYS):
                # A list of names, or the output of `write_groups`; only continuous parts have bounds or cuts.
                choices, regions = tuple(str(choice) for choice in table["choices"]), None
                if "low" in table or "cuts" in table:
                    low = -np.inf if table.get("low") is None else float(table["low"])
                    high = np.inf if table.get("high") is None else float(table["high"])
                    cuts = tuple(map(float, table["cuts"])) if "cuts" in table else None
                    typical = tuple(map(float, table.get("typical", ())))
                    regions = Regions(low, high, cuts, typical, spread=table.get("spread", 1.0))
            else:
                regions, choices = _read_regions(table)
            # Choices are numbered over all groups.
            first = sum(group.count for group, _ in read)
            read.append((ActionGroup(str(name), first, len(choices), regions), choices))
        except (FeatureError, TypeError, ValueError) as error:
            raise FeatureError(f"{where}.{name}: {error}") from error
    return tuple(read)


def _read_regions(given: Mapping[str, Any]) -> tuple[Regions, tuple[str, ...]]:
    """Return the regions of a table from names to bounds, and the names in the order of the regions."""
    bounds: dict[str, tuple[float, float]] = {}
    for choice, region in given.items():
        if not isinstance(region, Sequence) or isinstance(region, str) or len(region) != 2:
            raise FeatureError(f"region {choice!r} must be given by its two bounds, [low, high], got {region!r}.")
        low, high = float(region[0]), float(region[1])
        if not low < high:
            raise FeatureError(f"region {choice!r} is empty: its bounds are {low:g} and {high:g}.")
        bounds[str(choice)] = (low, high)
    names = sorted(bounds, key=lambda name: bounds[name])
    for name, next_name in pairwise(names):
        end, start = bounds[name][1], bounds[next_name][0]
        if start != end:
            fault = f"leave a gap from {end:g} to {start:g}"
            if start < end:
                fault = f"overlap between {start:g} and {min(end, bounds[next_name][1]):g}"
            pair = f"{name!r} and {next_name!r}"
            raise FeatureError(f"regions {pair} {fault}; each must begin where the previous one ends.")
    cuts = tuple(bounds[name][1] for name in names[:-1])
    return Regions(bounds[names[0]][0], bounds[names[-1]][1], cuts), tuple(names)


def with_regions(groups: Sequence[ActionGroup], regions: Sequence[Regions | None]) -> tuple[ActionGroup, ...]:
    """Return groups with new regions, renumbered; a group with regions has one choice per region."""
    made: list[ActionGroup] = []
    for group, new in zip(groups, regions, strict=True):
        count = group.count if new is None or new.cuts is None else len(new.cuts) + 1
        made.append(replace(group, first=sum(other.count for other in made), count=count, regions=new))
    return tuple(made)
