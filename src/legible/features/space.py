"""Features and actions, with names for rules and words for explanations.

- `Feature`, `Action`: one column of an observation; one action, or one choice of a group.
- `FeatureSpace`: all features and actions of an environment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import suggest_names
from legible.features.derived import NO_ACTION, DerivedFeatures, derived_kind, derived_words
from legible.features.expressions import LAST_ACTION, parse_expression
from legible.features.groups import ActionGroup, read_groups, write_groups
from legible.features.names import FeatureError, check_name
from legible.files import read_toml

Kind = Literal["numeric", "categorical"]
Observations = NDArray[np.float32]

GUESSED_CATEGORIES = 10


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
        Description: ``"the distance to the closest food"``. Defaults to the name.
    values
        Phrases for single values: ``{1: "the closest food is north"}``.
    sentinels
        Special values of a numeric feature (−1 for "none left"). Each gets a separate interval.
    group
        Features of one group belong together, such as the four directions to the closest food.
    cuts
        Inner bounds of the intervals, if the domain fixes them; None to choose them from data.
    least
        The smallest possible value, if known: "at most 0" is then described as 0.
    needs
        Name of a feature that must be 1 for this one to have a meaning, such as the presence of a vehicle: rows of
        absent vehicles are padded with zeros, which are not distances.
    unit, scale
        Unit of the values, if known: 1 stands for `scale` of this unit.
    sides
        Words for values below and above 0, such as "behind" and "ahead".
    expression
        Expression of a derived feature (`legible.features.expressions`); "" for a feature of the observation.
    """

    name: str
    kind: Kind = "numeric"
    words: str = ""
    values: Mapping[float, str] = field(default_factory=dict, hash=False)
    sentinels: tuple[float, ...] = ()
    group: str = ""
    cuts: tuple[float, ...] | None = None
    least: float | None = None
    needs: str = ""
    unit: str = ""
    scale: float | None = None
    sides: tuple[str, ...] = ()
    expression: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "feature")
        if self.kind not in {"numeric", "categorical"}:
            raise FeatureError(f"feature {self.name!r}: kind is {self.kind!r}, must be 'numeric' or 'categorical'.")
        object.__setattr__(self, "values", {float(value): str(words) for value, words in self.values.items()})
        object.__setattr__(self, "sentinels", tuple(float(value) for value in self.sentinels))
        if self.cuts is not None:
            cuts = tuple(float(cut) for cut in self.cuts)
            if list(cuts) != sorted(set(cuts)) or not np.isfinite(cuts).all():
                raise FeatureError(f"feature {self.name!r}: cuts must be finite and ascending, got {list(cuts)}.")
            object.__setattr__(self, "cuts", cuts)

    @property
    def label(self) -> str:
        """The words, or else the name; with the unit, if known."""
        words = self.words or self.name
        if not self.unit:
            return words
        return f"{words} (in {self.unit})" if self.scale is None else f"{words} (1 is {self.scale:g} {self.unit})"

    @property
    def question(self) -> str:
        """Words for the feature as such, not for its value: "whether north is open", "the distance to the food"."""
        return f"whether {self.values[1.0]}" if self.is_flag else self.label

    @property
    def is_flag(self) -> bool:
        """True if the feature has the values 0 (no) and 1 (yes), so that a rule can name it without a value."""
        return self.kind == "categorical" and set(self.values) == {0.0, 1.0}


@dataclass(frozen=True)
class Action:
    """One action, or one choice of a group: a name ("North", "steer.left") and words in the infinitive ("go north")."""

    name: str
    words: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "action")

    @property
    def label(self) -> str:
        """The words, or else the name."""
        return self.words or f"do “{self.name}”"


@dataclass(frozen=True)
class FeatureSpace:
    """The features of an observation in the order of the vector, and the actions.

    Parameters
    ----------
    features
        The features.
    actions
        The actions; for actions that are continuous or have several parts, the choices of all groups.
    groups
        Groups of which an action takes one choice each; by default one group of all actions.

    Examples
    --------
    >>> space = FeatureSpace.of(["open.north", "food.north"], ["North", "Stop"])
    >>> space.feature_index("food.north"), space.action_index("Stop")
    (1, 1)
    """

    features: tuple[Feature, ...]
    actions: tuple[Action, ...] = ()
    groups: tuple[ActionGroup, ...] = ()

    def __post_init__(self) -> None:
        if not self.groups:
            object.__setattr__(self, "groups", (ActionGroup("", 0, len(self.actions)),))
        ends = np.cumsum([0, *(group.count for group in self.groups)]).tolist()
        if [group.first for group in self.groups] != ends[:-1] or ends[-1] != len(self.actions):
            raise FeatureError(f"groups must cover the {len(self.actions)} choices in order, got {self.groups}.")
        groups = Counter(group.name for group in self.groups)
        if max(groups.values()) > 1 or (len(groups) > 1 and "" in groups):
            raise FeatureError(f"groups need different names, got {', '.join(map(repr, groups.elements()))}.")
        are_derived = [bool(feature.expression) for feature in self.features]
        if are_derived != sorted(are_derived):
            raise FeatureError("derived features must come after the features of the observation.")
        for what, names in (("feature", self.names), ("action", self.action_names)):
            repeated = sorted(name for name, times in Counter(names).items() if times > 1)
            if repeated:
                raise FeatureError(f"{what} name {repeated[0]!r} is used for more than one {what}; names must differ.")

    @classmethod
    def of(cls, names: Iterable[str], actions: Iterable[str] = (), kind: Kind = "numeric") -> FeatureSpace:
        """Return a space of bare names."""
        return cls(tuple(Feature(name, kind) for name in names), tuple(Action(name) for name in actions))

    @classmethod
    def unnamed(cls, n_features: int, n_actions: int) -> FeatureSpace:
        """Return a space with the names ``f0, f1, …`` and ``action0, action1, …``."""
        return cls.of((f"f{i}" for i in range(n_features)), (f"action{i}" for i in range(n_actions)))

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> Feature:
        return self.features[index]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""
        return tuple(action.name for action in self.actions)

    @cached_property
    def n_own(self) -> int:
        """Number of features of the observation; derived ones follow them."""
        return sum(not feature.expression for feature in self.features)

    @property
    def own(self) -> FeatureSpace:
        """The space without derived features."""
        return self if self.n_own == len(self) else replace(self, features=self.features[: self.n_own])

    @cached_property
    def derived(self) -> DerivedFeatures | None:
        """The derived features, parsed; None if there are none."""
        if self.n_own == len(self):
            return None
        expressions = {feature.name: feature.expression for feature in self.features[self.n_own :]}
        parts = {f"{LAST_ACTION}.{g.name}": NO_ACTION if g.regions is None else 0.0 for g in self.groups}
        own_names = self.names[: self.n_own]
        return DerivedFeatures.of(own_names, expressions, self.action_names, None if self.is_discrete else parts)

    @property
    def is_discrete(self) -> bool:
        """True if an action is one of `actions`, as in a ``Discrete`` space, and not one choice of each group."""
        return self.groups[0].name == ""

    @cached_property
    def group_starts(self) -> NDArray[np.int64]:
        """First choice of each group, and the number of choices: ``int64[groups + 1]``."""
        return np.cumsum([0, *(group.count for group in self.groups)], dtype=np.int64)

    def group_of(self, action: int) -> int:
        """Return the index of the group of a choice."""
        return int(np.searchsorted(self.group_starts, action, side="right")) - 1

    @cached_property
    def _feature_indices(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def feature_index(self, name: str) -> int:
        """Return the index of a feature."""
        if name not in self._feature_indices:
            hint = suggest_names(name, self.names, "features", "; legible check ENV lists them")
            raise FeatureError(f"there is no feature called {name!r}.{hint}")
        return self._feature_indices[name]

    def action_index(self, name: str) -> int:
        """Return the index of an action."""
        if name not in self.action_names:
            hint = suggest_names(name, self.action_names, "actions", "; legible check ENV lists them")
            raise FeatureError(f"there is no action called {name!r}.{hint}")
        return self.action_names.index(name)

    def check(self, observations: ArrayLike) -> Observations:
        """Return observations as ``float32[n, features]``; raise `FeatureError` if the shape does not fit."""
        array = np.asarray(observations, dtype=np.float32)
        if array.ndim != 2 or array.shape[1] != len(self):
            raise FeatureError(f"observations of shape (n, {len(self)}) are expected, got {array.shape}.")
        return array

    def with_kinds(self, kinds: Mapping[str, Kind]) -> FeatureSpace:
        """Return the space with some kinds changed."""
        for name in kinds:
            self.feature_index(name)
        features = tuple(replace(f, kind=kinds.get(f.name, f.kind)) for f in self.features)
        return replace(self, features=features)

    def guess_kinds(self, observations: ArrayLike) -> FeatureSpace:
        """Return the space with guessed kinds: features with few distinct values, all whole, are categorical."""
        kinds: dict[str, Kind] = {}
        for name, column in zip(self.own.names, self.check(observations).T[: self.n_own], strict=True):
            values = np.unique(column)
            few_whole = len(values) <= GUESSED_CATEGORIES and np.equal(values, np.round(values)).all()
            kinds[name] = "categorical" if few_whole else "numeric"
        if self.derived is not None:  # some are earlier values of a feature
            derived = zip(self.derived.names, self.derived.expressions, strict=True)
            kinds |= {name: kinds[expression.same_as] for name, expression in derived if expression.same_as in kinds}
        return self.with_kinds(kinds)

    def with_derived_words(self) -> FeatureSpace:
        """Return the space with the kinds and words of derived features that follow from their expressions.

        >>> last = Feature("before", "categorical", expression="last_action")
        >>> space = FeatureSpace((last,), (Action("Left"), Action("Right"))).with_derived_words()
        >>> space[0].values[1]
        'the last action was Right'
        """
        if self.derived is None:
            return self
        features, own_kinds = list(self.own.features), {feature.name: feature.kind for feature in self.own.features}
        for feature, expression in zip(self.features[self.n_own :], self.derived.expressions, strict=True):
            # An earlier value of a feature, such as ``previous(gap)``, has the kind of that feature.
            kind = own_kinds.get(expression.same_as, feature.kind) if feature.kind == "numeric" else feature.kind
            has_words = feature.values or feature.words
            values = feature.values if has_words else derived_words(expression, feature.name, self.actions)
            features.append(replace(feature, kind=kind, values=values))
        return replace(self, features=tuple(features))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON or TOML; `from_dict` reads it back."""
        features = []
        for feature in self.features:
            entry = {key: value for key, value in asdict(feature).items() if value not in ("", (), {}, None)}
            if "values" in entry:
                entry["values"] = {repr(value).removesuffix(".0"): words for value, words in feature.values.items()}
            features.append(entry)
        actions = [{k: v for k, v in asdict(action).items() if v} for action in self.actions]
        groups = {} if self.is_discrete else {"groups": write_groups(self.groups, self.action_names)}
        return {"features": features, "actions": actions, **groups}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "feature space") -> FeatureSpace:
        """Return the features and actions that plain data describes, or raise an error that names the wrong entry.

        `data` is the output of `to_dict`, or the contents of a names file: lists of ``features`` and ``actions`` (names
        or tables), and tables of ``derived`` features and of ``groups`` of choices. `where` is its name in errors.
        """
        if not isinstance(data, Mapping) or not all(isinstance(data.get(k, []), list) for k in ("features", "actions")):
            raise FeatureError(f"{where}: expected a table with lists of features and actions.")
        features, actions = (
            tuple(_read_entry(kind, item, f"{where}: {key}[{i}]") for i, item in enumerate(data.get(key, ())))
            for key, kind in (("features", Feature), ("actions", Action))
        )
        unknown = sorted(set(data) - {"features", "derived", "actions", "groups"})
        if unknown:
            raise FeatureError(
                f"{where}: unknown key {unknown[0]!r}; the keys are 'features', 'derived', 'actions' and 'groups'."
            )
        features = (*features, *_read_derived(data.get("derived", {}), f"{where}: derived"))

        # Without groups, an action is one choice among `actions`. With groups, it takes one choice of each group, and
        # `actions` may only describe those choices ("group.choice") in other words.
        if "groups" not in data:
            return cls(features, actions)
        groups = read_groups(data["groups"], f"{where}: groups")
        plain_choices = {
            f"{group.name}.{choice}": Action(f"{group.name}.{choice}", f"{group.name} {choice}")
            for group, choices in groups
            for choice in choices
        }
        described_choices = {action.name: action for action in actions}
        for name in described_choices:
            if name not in plain_choices:
                hint = suggest_names(name, plain_choices, "choices")
                raise FeatureError(f"{where}: actions: there is no choice {name!r} in the groups.{hint}")
        return cls(features, tuple((plain_choices | described_choices).values()), tuple(group for group, _ in groups))

    @classmethod
    def from_toml(cls, path: str | Path) -> FeatureSpace:
        """Return the space that a TOML file with tables ``[[features]]`` and ``[[actions]]`` describes.

        The table ``[derived]`` has features that are computed from others: ``closing = "gap / max(1, -change(gap))"``.
        The table ``[groups]`` has the choices of actions that are continuous or have several parts; ``[[actions]]`` can
        give words to a choice such as "steer.left".
        """
        return cls.from_dict(read_toml(path, FeatureError), str(path))


def _read_entry(record_class: type[Any], entry: Any, where: str) -> Any:
    """Return the `Feature` or `Action` that an entry describes: a name, or a table with the fields of the class."""
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, Mapping):
        raise FeatureError(f"{where}: expected a name or a table, got {entry!r}.")
    entry = dict(entry)
    fields = record_class.__dataclass_fields__
    for key in entry:
        if key not in fields:
            raise FeatureError(f"{where}: unknown key {key!r}.{suggest_names(key, fields, 'keys')}")
    if "name" not in entry:
        raise FeatureError(f"{where}: 'name' is missing.")
    # TOML has neither numbers as keys nor tuples.
    try:
        if "values" in entry:
            entry["values"] = {float(value): words for value, words in entry["values"].items()}
        for key in ("sentinels", "cuts", "sides"):
            if key in entry:
                entry[key] = tuple(entry[key])
        return record_class(**entry)
    except (FeatureError, TypeError, ValueError, AttributeError) as error:
        raise FeatureError(f"{where}: {error}") from error


def _read_derived(table: Any, where: str, prefix: str = "") -> Iterator[Feature]:
    """Yield the derived features of a table: expressions by name, or tables with an expression and words.

    TOML reads dotted names as nested tables; `prefix` holds the part of the name before this table.
    """
    if not isinstance(table, Mapping):
        raise FeatureError(f"{where}: expected a table of expressions by name, got {table!r}.")
    for key, item in table.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping) and "expression" not in item:
            yield from _read_derived(item, where, f"{name}.")
            continue
        entry = dict(item) if isinstance(item, Mapping) else {"expression": str(item)}
        expression = parse_expression(entry["expression"], f"{where}.{name}")
        yield _read_entry(Feature, {"kind": derived_kind(expression), **entry, "name": name}, f"{where}.{name}")
