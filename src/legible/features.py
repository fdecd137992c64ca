"""Features, their names and words, and the intervals that turn observations into small integers.

- `Feature`, `Action`: one column of an observation, one action; with a name for code and words for people.
- `FeatureSpace`: all of them, in the order of the vector; read from an environment, a TOML file or guessed from data.
- `Intervals`: for every feature a sorted list of disjoint intervals ``low < x <= high`` in float32. Mining, LIME and
  rule matching all use this one definition, so a state lies in an interval for all of them or for none.
- `deciles`, `equal_width`: ways to choose intervals.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError, did_you_mean

Kind = Literal["numeric", "categorical"]
Observations = NDArray[np.float32]

# A name must survive in a rule's text ("+North <- food.north & 2 < ghost1.path.length <= 5") and parse back.
_NAME = re.compile(r"[A-Za-z_][\w.\-:\[\]']*")
_RESERVED = {"not", "and", "in", "true"}
GUESSED_CATEGORIES = 10


class FeatureError(LegibleError):
    """A feature, its name, or observations that do not fit the features."""


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise FeatureError(
            f"{what} name {name!r} cannot be used: a name starts with a letter and holds only letters, digits "
            "and _ . - : [ ] ' (put the words for people into 'words')."
        )


@dataclass(frozen=True)
class Feature:
    """One column of the observation.

    Parameters
    ----------
    name
        Short name without spaces, used in rules and relations: ``"food.north"``.
    kind
        ``"categorical"`` features are compared value by value, ``"numeric"`` ones interval by interval.
    words
        What it measures, for people: ``"the distance to the closest food"``. The name when left out.
    values
        Whole phrases for particular values: ``{1: "the closest food is north"}``.
    sentinels
        Values of a numeric feature that mean something else than a number (−1 for "none left"). Each gets an
        interval of its own.
    group
        Features of one group answer one question together, such as the four directions to the closest food.
    cuts
        Inner ends of the intervals where the domain fixes them; None lets the data decide.
    """

    name: str
    kind: Kind = "numeric"
    words: str = ""
    values: Mapping[float, str] = field(default_factory=dict, hash=False)
    sentinels: tuple[float, ...] = ()
    group: str = ""
    cuts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name, "feature")
        if self.kind not in {"numeric", "categorical"}:
            raise FeatureError(f"feature {self.name!r}: kind is {self.kind!r}, must be 'numeric' or 'categorical'.")
        object.__setattr__(self, "values", {float(value): str(words) for value, words in self.values.items()})
        object.__setattr__(self, "sentinels", tuple(float(value) for value in self.sentinels))
        if self.cuts is not None:
            cuts = tuple(float(cut) for cut in self.cuts)
            if list(cuts) != sorted(set(cuts)) or not np.isfinite(cuts).all():
                raise FeatureError(f"feature {self.name!r}: cuts must be finite numbers that rise, got {list(cuts)}.")
            object.__setattr__(self, "cuts", cuts)

    @property
    def label(self) -> str:
        """The words for people, or the name where there are none."""
        return self.words or self.name

    @property
    def is_flag(self) -> bool:
        """Whether the feature says yes (1) or no (0), so that a rule can name it without a value."""
        return self.kind == "categorical" and set(self.values) == {0.0, 1.0}


@dataclass(frozen=True)
class Action:
    """One action: a name ("North") and words that follow "to" ("go north")."""

    name: str
    words: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name, "action")

    @property
    def label(self) -> str:
        """The words for people, or the name where there are none."""
        return self.words or f"do {self.name}"


@dataclass(frozen=True)
class FeatureSpace:
    """The features of an observation in the order of the vector, and the actions.

    >>> space = FeatureSpace.of(["open.north", "food.north"], ["North", "Stop"])
    >>> space.feature_index("food.north"), space.action_index("Stop")
    (1, 1)
    """

    features: tuple[Feature, ...]
    actions: tuple[Action, ...] = ()

    def __post_init__(self) -> None:
        for what, names in (("feature", self.names), ("action", self.action_names)):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise FeatureError(f"{what} name {twice[0]!r} is used for more than one {what}; names must differ.")

    @classmethod
    def of(cls, names: Iterable[str], actions: Iterable[str] = (), kind: Kind = "numeric") -> FeatureSpace:
        """Make a space from bare names."""
        return cls(tuple(Feature(name, kind) for name in names), tuple(Action(name) for name in actions))

    @classmethod
    def unnamed(cls, n_features: int, n_actions: int) -> FeatureSpace:
        """Names for an environment that has none: ``f0, f1, …`` and ``action0, action1, …``."""
        return cls.of((f"f{i}" for i in range(n_features)), (f"action{i}" for i in range(n_actions)))

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> Feature:
        return self.features[index]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Feature names in the order of the vector."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """Action names in the order of their numbers."""
        return tuple(action.name for action in self.actions)

    @cached_property
    def _feature_indices(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _action_indices(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.action_names)}

    def feature_index(self, name: str) -> int:
        """Position of a feature, by name."""
        try:
            return self._feature_indices[name]
        except KeyError:
            hint = did_you_mean(name, self.names)
            raise FeatureError(f"there is no feature called {name!r}.{hint}") from None

    def action_index(self, name: str) -> int:
        """Number of an action, by name."""
        try:
            return self._action_indices[name]
        except KeyError:
            hint = did_you_mean(name, self.action_names) or f" The actions are {', '.join(self.action_names)}."
            raise FeatureError(f"there is no action called {name!r}.{hint}") from None

    def check(self, observations: ArrayLike) -> Observations:
        """Return observations as ``float32[n, features]``, or say why they do not fit."""
        array = np.asarray(observations, dtype=np.float32)
        if array.ndim != 2 or array.shape[1] != len(self):
            raise FeatureError(f"observations of shape (n, {len(self)}) are expected, got {array.shape}.")
        return array

    def with_kinds(self, kinds: Mapping[str, Kind]) -> FeatureSpace:
        """Return the same space with some kinds changed."""
        for name in kinds:
            self.feature_index(name)
        features = tuple(replace(f, kind=kinds.get(f.name, f.kind)) for f in self.features)
        return replace(self, features=features)

    def guess_kinds(self, observations: ArrayLike) -> FeatureSpace:
        """Call a feature categorical when all its values are whole numbers and there are few of them."""
        columns = self.check(observations).T
        guessed = (_looks_categorical(column) for column in columns)
        kinds: dict[str, Kind] = {
            name: "categorical" if yes else "numeric" for name, yes in zip(self.names, guessed, strict=True)
        }
        return self.with_kinds(kinds)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON or TOML; `from_dict` reads it back."""
        features = []
        for feature in self.features:
            entry = {key: value for key, value in asdict(feature).items() if value not in ("", (), {}, None)}
            if "values" in entry:
                entry["values"] = {repr(value).removesuffix(".0"): words for value, words in feature.values.items()}
            features.append(entry)
        actions = [{k: v for k, v in asdict(action).items() if v} for action in self.actions]
        return {"features": features, "actions": actions}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "feature space") -> FeatureSpace:
        """Read what `to_dict` wrote, or a TOML file of the same shape."""
        features = tuple(
            _entry(Feature, item, f"{where}: features[{i}]") for i, item in enumerate(data.get("features", ()))
        )
        actions = tuple(
            _entry(Action, item, f"{where}: actions[{i}]") for i, item in enumerate(data.get("actions", ()))
        )
        unknown = sorted(set(data) - {"features", "actions"})
        if unknown:
            raise FeatureError(f"{where}: unknown key {unknown[0]!r}; the keys are 'features' and 'actions'.")
        return cls(features, actions)

    @classmethod
    def from_toml(cls, path: str | Path) -> FeatureSpace:
        """Read names, kinds and words from a TOML file with tables ``[[features]]`` and ``[[actions]]``."""
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise FeatureError(f"{path}: cannot be read ({error.strerror}).") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FeatureError(f"{path}: is not valid TOML: {error}.") from error
        return cls.from_dict(data, str(path))


def _entry(kind: type[Any], item: Any, where: str) -> Any:
    """Build a Feature or an Action from a table or a bare name."""
    if isinstance(item, str):
        item = {"name": item}
    if not isinstance(item, Mapping):
        raise FeatureError(f"{where}: a name or a table is expected, got {item!r}.")
    item = dict(item)
    known = kind.__dataclass_fields__
    for key in item:
        if key not in known:
            raise FeatureError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")
    if "name" not in item:
        raise FeatureError(f"{where}: 'name' is missing.")
    try:
        if "values" in item:
            item["values"] = {float(value): words for value, words in item["values"].items()}
        for key in ("sentinels", "cuts"):
            if key in item:
                item[key] = tuple(item[key])
        return kind(**item)
    except (FeatureError, TypeError, ValueError, AttributeError) as error:
        raise FeatureError(f"{where}: {error}") from error


def _looks_categorical(column: NDArray[np.float32]) -> bool:
    values = np.unique(column)
    return bool(len(values) <= GUESSED_CATEGORIES and np.equal(values, np.round(values)).all())


def below(value: ArrayLike) -> NDArray[np.float32]:
    """Return the next float32 below: ``below(v) < x <= v`` is the interval that holds v alone."""
    return np.nextafter(np.asarray(value, np.float32), np.float32(-np.inf))


def above(value: ArrayLike) -> NDArray[np.float32]:
    """Return the next float32 above; the inverse of `below`."""
    return np.nextafter(np.asarray(value, np.float32), np.float32(np.inf))


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals ``lows[i][k] < x <= highs[i][k]`` of every feature i, rising, in float32.

    A categorical value is an interval that holds this one number. A value between two categories, or NaN, lies in no
    interval; `encode` gives it the code ``sizes[i]``.
    """

    lows: tuple[NDArray[np.float32], ...]
    highs: tuple[NDArray[np.float32], ...]

    def __post_init__(self) -> None:
        for i, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            if low.shape != high.shape or low.size == 0:
                raise FeatureError(f"feature {i} needs at least one interval, and as many low as high ends.")
            if (low >= high).any() or (low[1:] < high[:-1]).any():
                raise FeatureError(f"the intervals of feature {i} must rise and must not overlap.")

    @classmethod
    def from_cuts(cls, cuts: Sequence[ArrayLike]) -> Intervals:
        """Intervals between neighbouring cuts, the first and the last one open-ended."""
        inner = [np.unique(np.asarray(c, np.float32)) for c in cuts]
        infinity = np.array([np.inf], np.float32)
        lows = tuple(np.concatenate([-infinity, c]) for c in inner)
        highs = tuple(np.concatenate([c, infinity]) for c in inner)
        return cls(lows, highs)

    def __len__(self) -> int:
        return len(self.lows)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of intervals of every feature."""
        return np.array([len(low) for low in self.lows], np.int64)

    def encode(self, observations: ArrayLike) -> NDArray[np.uint16]:
        """Return the number of the interval of every value; ``sizes[i]`` for a value in none of them."""
        array = np.ascontiguousarray(observations, np.float32)
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        return _encode(array, np.concatenate(self.lows), np.concatenate(self.highs), starts)

    def replace(self, index: int, cuts: ArrayLike) -> Intervals:
        """Return the same intervals but for one feature, which is cut anew."""
        new = Intervals.from_cuts([cuts])
        lows, highs = list(self.lows), list(self.highs)
        lows[index], highs[index] = new.lows[0], new.highs[0]
        return Intervals(tuple(lows), tuple(highs))


@njit(cache=True)
def _encode(
    array: NDArray[np.float32], lows: NDArray[np.float32], highs: NDArray[np.float32], starts: NDArray[np.int64]
) -> NDArray[np.uint16]:
    codes = np.empty(array.shape, np.uint16)
    for row in range(array.shape[0]):
        for i in range(array.shape[1]):
            x = array[row, i]
            first, last = starts[i], starts[i + 1]
            # Count the intervals that end below x. There are few, and a loop without branches beats bisection.
            low = first
            for k in range(first, last):
                low += x > highs[k]
            codes[row, i] = low - first if low < last and lows[low] < x <= highs[low] else last - first
    return codes


def _points(values: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """One interval for each value and for nothing else."""
    highs = np.unique(np.asarray(values, np.float32) + np.float32(0.0))
    return below(highs), highs


def _numeric(cuts: ArrayLike, sentinels: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Intervals between cuts, with every sentinel cut out as an interval of its own."""
    sentinels = np.asarray(sentinels, np.float32)
    ends = np.concatenate([np.asarray(cuts, np.float32), sentinels, below(sentinels)])
    made = Intervals.from_cuts([ends])
    return made.lows[0], made.highs[0]


def _build(space: FeatureSpace, observations: Observations, cuts_of: Any) -> Intervals:
    lows, highs = [], []
    for feature, column in zip(space.features, observations.T, strict=True):
        if feature.kind == "categorical":
            low, high = _points(
                np.concatenate([column[np.isfinite(column)], np.array(list(feature.values), np.float32)])
            )
        else:
            cuts = feature.cuts if feature.cuts is not None else cuts_of(feature, column)
            low, high = _numeric(cuts, feature.sentinels)
        lows.append(low)
        highs.append(high)
    return Intervals(tuple(lows), tuple(highs))


def _measured(feature: Feature, column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values of a numeric feature that are numbers: neither sentinels nor NaN."""
    sentinels = np.asarray(feature.sentinels, np.float32)
    return column[np.isfinite(column) & ~np.isin(column, sentinels)]


def deciles(space: FeatureSpace, observations: ArrayLike) -> Intervals:
    """LIME's discretisation: percentiles 10, 20 … 90 of numeric features, duplicates removed; categories as they are.

    Sentinels take no part in the percentiles. Features with fixed ``cuts`` keep them.
    """

    def cuts(feature: Feature, column: NDArray[np.float32]) -> ArrayLike:
        measured = _measured(feature, column)
        return np.percentile(measured, np.arange(10, 100, 10)) if measured.size else ()

    return _build(space, space.check(observations), cuts)


def equal_width(
    space: FeatureSpace,
    observations: ArrayLike,
    *,
    low: float | None = None,
    high: float | None = None,
    bins: int = 10,
) -> Intervals:
    """Cut numeric features into intervals of equal width between low and high (by default their extremes)."""
    if bins < 1:
        raise FeatureError(f"bins must be at least 1, got {bins}.")

    def cuts(feature: Feature, column: NDArray[np.float32]) -> ArrayLike:
        measured = _measured(feature, column)
        first = low if low is not None else (float(measured.min()) if measured.size else 0.0)
        last = high if high is not None else (float(measured.max()) if measured.size else 0.0)
        return np.linspace(first, last, bins + 1)[1:-1]

    return _build(space, space.check(observations), cuts)
