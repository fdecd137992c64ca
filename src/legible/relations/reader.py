"""The relations file: metamorphic relations as TOML, which never runs code.

- `load_relations`, `parse_relations`: read a file, or its text.

A file holds one or more relations. This one is PAC-Man's 90° turn::

    [[relation]]
    name = "turn"
    words = "the same situation, turned by 90° clockwise"
    actions = { cycle = ["North", "East", "South", "West"] }
    cycle = [
      ["*.north", "*.east", "*.south", "*.west"],
      ["*.n", "*.e", "*.s", "*.w"],
      ["*.ne", "*.se", "*.sw", "*.nw"],
    ]
    ignore = ["*.x", "*.y"]

It means: where North is right, East is right in the turned situation, and the value of food.north becomes that of
food.east. Features that no statement names do not change.

Keys of a relation
------------------
``name``, ``words``
    Name (required), and description.
``actions``
    Required. Either ``"same"`` (every action to itself) or a table with one or more of

    - ``cycle = ["North", "East", "South", "West"]``: each becomes the next, the last one the first;
    - ``swap = ["Left", "Right"]``: a cycle of two;
    - ``same = ["Stop"]``: these do not change;
    - ``map = { Left = "Right" }``: in this direction only.

    Rules for other actions have no related forms. If actions are continuous or have several parts, names are those of
    choices, such as "steer.left", or of groups, such as "steer" or "leg1.*": ``swap = ["leg1.*", "leg2.*"]``. Groups
    have two more statements:

    - ``negate = "steer"``: left becomes right, and a number changes its sign (mirrored about the middle of its bounds);
    - ``pair = { from = "hip1", to = "hip2", negate = true }``: one group becomes another, mirrored.
``holds``, ``note``
    A table from environment to "yes", "nearly", "partly" or "no"; and further remarks.

Statements on features
----------------------
``cycle = ["*.north", "*.east", "*.south", "*.west"]``
    The value of each becomes that of the next, and the value of the last that of the first.
``swap = ["ghost0.*", "ghost1.*"]``
    Two features exchange their values.
``shift = { features = "vehicle{n}.*", by = 1 }``
    Row n becomes row n + 1. The last row has no image.
``negate = ["*.vy", "*.sin_h"]``
    x becomes -x.
``reflect = { features = "ego.y", about = 0.25 }``
    x becomes 2 · 0.25 - x.
``map = { features = "position", values = [[0, 3], [1, 7]] }``
    0 becomes 3 and 1 becomes 7; other values have no image. A value in several pairs has several images.
``ignore = ["*.x", "*.y"]``
    The values do not matter: conditions on these features are removed.
``drop = "obstacle.*"``
    Rules with conditions on these features have no image.
``pair = { from = "x", to = "y", negate = true }``
    The general case: the value of one feature becomes that of another. Instead of ``negate`` one of ``about = 0.5``,
    ``times = 2.0, plus = 1.0`` (or one of them), ``values = [[0, 1]]`` or ``any = true``; by default values are equal.

Each statement takes one such example or a list of them. ``*`` stands for any text, the same on all sides of a
statement; ``{n}``, in ``shift``, for a whole number. A statement that matches nothing, contradicts an earlier one, or
maps two features to one is an error that names the line. In statements on single features (``negate``, ``reflect``,
``map``, ``ignore``, ``drop``) a name that ends in ``?`` may match nothing: ``negate = ["*.vy", "*.sin_h?"]`` fits
observations with and without a heading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from legible.errors import did_you_mean
from legible.features import FeatureSpace
from legible.features.patterns import match_pattern
from legible.files import parse_toml, read_text
from legible.relations.action_statements import read_actions
from legible.relations.places import KindError, Place, RelationFileError, Source, UnknownNameError
from legible.relations.relation import FeatureRelation, MetamorphicRelation
from legible.relations.statements import lists, matching_rows, read_number, tables, texts
from legible.relations.values import (
    ANY,
    EQUAL,
    NEGATE,
    Affine,
    Anything,
    RelationError,
    ValueRelation,
    ValueTable,
    reflect,
)

HOLDS = ("yes", "nearly", "partly", "no")
_GENERAL_KEYS = ("name", "words", "actions", "holds", "note")


def load_relations(path: str | Path, space: FeatureSpace) -> tuple[MetamorphicRelation, ...]:
    """Return the relations of a TOML file for a space: one for every relation and pair of actions in the file."""
    return parse_relations(read_text(path, RelationError), space, str(path))


def parse_relations(text: str, space: FeatureSpace, where: str = "relations") -> tuple[MetamorphicRelation, ...]:
    r"""Return the relations that the text of a file defines; `where` names the file in errors.

    >>> space = FeatureSpace.of(["x", "vx"], ["Left", "Right"])
    >>> toml = '[[relation]]\nname = "mirror"\nactions = { swap = ["Left", "Right"] }\nnegate = "*"'
    >>> [(r.name, r.action, r.image_action, len(r.features)) for r in parse_relations(toml, space)]
    [('mirror', 0, 1, 2), ('mirror', 1, 0, 2)]
    """
    try:
        data = parse_toml(text, where, RelationError)
    except RelationError as error:
        # Python's TOML reader names the line in its message, except at the end of the file.
        message = str(error).removeprefix(f"{where}: ")
        position = re.search(r"\bline (\d+)", message)
        line = int(position[1]) if position else text.count("\n") + 1
        raise RelationFileError(where, line, message) from error
    source = Source(where, text)
    for key in data:
        if key != "relation":
            raise Place(source, None, key).error(
                f"unknown key {key!r}; a relations file consists of [[relation]] tables."
            )
    relations = data.get("relation")
    if not isinstance(relations, list) or not relations or not all(isinstance(item, dict) for item in relations):
        raise Place(source, None, "relation").error("there is no [[relation]] in this file.")
    return tuple(
        relation for i, item in enumerate(relations) for relation in _RelationReader(source, i, item, space).read()
    )


# --- Reading one relation --------------------------------------------------------------------------------------------


class _RelationReader:
    """Reader of one [[relation]] table."""

    def __init__(self, source: Source, number: int, data: Mapping[str, Any], space: FeatureSpace) -> None:
        self.source = source
        self.number = number
        self.data = data
        self.space = space
        self.pairing = _Pairing(space)
        self.statements: dict[str, Callable[[Any, Place], None]] = {
            "cycle": self._cycle,
            "swap": self._cycle,
            "shift": self._shift,
            "negate": self._map_single,
            "reflect": self._map_single,
            "map": self._map_single,
            "ignore": self._map_single,
            "drop": self._map_single,
            "pair": self._pair,
        }

    def read(self) -> tuple[MetamorphicRelation, ...]:
        """Return the relations of a table, one for each pair (action, image) of its ``actions`` statement."""
        keys = (*_GENERAL_KEYS, *self.statements)
        for key in self.data:
            if key not in keys:
                hint = did_you_mean(key, keys) or f" The keys are {', '.join(keys)}."
                raise self._place(key).error(f"unknown key {key!r}.{hint}")
        name, words, note = (self._text(key) for key in ("name", "words", "note"))
        holds, place = self.data.get("holds", {}), self._place("holds")
        if not isinstance(holds, dict):
            raise place.error('\'holds\' must be a table such as { "highway-v0" = "nearly" }.')
        for env, answer in holds.items():
            if answer not in HOLDS:
                raise place.error(f"'holds' for {env!r} is {answer!r}; it must be one of {', '.join(HOLDS)}.", env)
        if "actions" not in self.data:
            raise self._place("").error(f"relation {name!r} has no 'actions'; write for example actions = \"same\".")
        actions = read_actions(self.data["actions"], self.space, self._place("actions"))

        # The features: every statement adds pairs to `self.pairing`.
        for key, value in self.data.items():
            if key in self.statements:
                self.statements[key](value, self._place(key))
        unmapped, derived = list(self.pairing.unmapped), self.space.derived
        if derived is not None:
            # Derived features that the relation does not name, but whose inputs it changes, have no known image.
            # A relation changes actions, so what is computed from the last action (`derived.parts`) changes, too.
            changed = {self.space.names[i] for i in self.pairing.named} | set(derived.parts)
            for i in derived.order:
                if not changed.isdisjoint(derived.expressions[i].names):
                    changed.add(derived.names[i])
            changed_numbers = [self.space.n_own + i for i, feature in enumerate(derived.names) if feature in changed]
            unmapped += [i for i in changed_numbers if i not in self.pairing.named]
        return tuple(
            MetamorphicRelation(
                action, image, self.pairing.relations(action, image), tuple(unmapped), name, words, holds, note
            )
            for action, image in actions
        )

    def _place(self, key: str) -> Place:
        return Place(self.source, self.number, key)

    def _text(self, key: str) -> str:
        if key == "name" and key not in self.data:
            raise self._place("").error("the relation has no 'name'.")
        value = self.data.get(key, "")
        if not isinstance(value, str):
            raise self._place(key).error(f"{key!r} must be a text, got {value!r}.")
        return value

    # Statements on features

    def _cycle(self, value: Any, place: Place) -> None:
        for patterns in lists(value, place.key, place):
            for row in self._rows(patterns, place):
                if len(set(row)) < len(row):
                    name = next(self.space.names[i] for i in row if row.count(i) > 1)
                    raise place.error(f"{name!r} occurs more than once in the {place.key}.", patterns[0])
                for i, j in zip(row, [*row[1:], row[0]], strict=True):
                    self.pairing.add(i, j, EQUAL, place, patterns[0])

    def _shift(self, value: Any, place: Place) -> None:
        for table in tables(value, place, ("features", "by")):
            by = table["by"]
            if not isinstance(by, int) or isinstance(by, bool) or by == 0:
                raise place.error(f"'by' must be a whole number of rows other than 0, got {by!r}.")
            for pattern in texts(table["features"], "features", place):
                if pattern.count("{n}") != 1:
                    raise place.error(
                        f'{pattern!r} must hold {{n}}, the row\'s number, once: "vehicle{{n}}.*".', pattern
                    )
                rows = [(name, found) for name in self.space.own.names if (found := _row_number(pattern, name))]
                if not rows:
                    raise place.error(f"{pattern!r} matches no feature.", pattern, UnknownNameError)
                for name, (first, last) in rows:
                    i = self.space.feature_index(name)
                    image = f"{name[:first]}{int(name[first:last]) + by}{name[last:]}"
                    j = self.space.feature_index(image) if image in self.space.names else None
                    self.pairing.add(i, j, EQUAL, place, pattern)

    def _map_single(self, value: Any, place: Place) -> None:
        """Read a statement that maps features to themselves, or drops them."""
        # Names of features, which may be patterns, and the relation of their values.
        items: list[tuple[list[str], ValueRelation]] = []
        match place.key:
            case "reflect":
                for table in tables(value, place, ("features", "about")):
                    middle = read_number(table["about"], "about", place)
                    items.append((texts(table["features"], "features", place), reflect(middle)))
            case "map":
                for table in tables(value, place, ("features", "values")):
                    pairs = _table_of_values(table["values"], place)
                    items.append((texts(table["features"], "features", place), pairs))
            case key:
                relation_of_key: dict[str, ValueRelation] = {"negate": NEGATE, "ignore": ANY, "drop": EQUAL}
                items.append((texts(value, key, place), relation_of_key[key]))
        for patterns, relation in items:
            for pattern in patterns:
                for i in self._named(pattern, place):
                    self.pairing.add(i, None if place.key == "drop" else i, relation, place, pattern)

    def _pair(self, value: Any, place: Place) -> None:
        optional = ("negate", "about", "times", "plus", "values", "any")
        for table in tables(value, place, ("from", "to"), optional):
            patterns = [table["from"], table["to"]]
            if not all(isinstance(pattern, str) for pattern in patterns):
                raise place.error("'from' and 'to' of a pair must be names of features.")
            relation = _relation_of_pair(table, place)
            for i, j in self._rows(patterns, place):
                self.pairing.add(i, j, relation, place, patterns[0])

    def _named(self, pattern: str, place: Place) -> list[int]:
        """Return the features that a name stands for; only a name that ends in ``?`` may stand for none."""
        name = pattern.removesuffix("?")
        if name != pattern and all(match_pattern(name, known) is None for known in self.space.names):
            return []
        return [i for (i,) in self._rows([name], place)]

    def _rows(self, patterns: Sequence[str], place: Place) -> list[tuple[int, ...]]:
        """Return the features that patterns stand for together, one row for every text that `*` can stand for."""
        # Patterns match only features of the observation; derived ones must be named.
        meant = self.space.own if any("*" in pattern for pattern in patterns) else self.space
        rows = matching_rows(patterns, meant.names, "feature", place)
        return [tuple(self.space.feature_index(name) for name in row) for row in rows]


class _Pairing:
    """The pairs of features of one relation, without contradictions."""

    def __init__(self, space: FeatureSpace) -> None:
        self._space = space
        # By feature: its image, the relation of values, and the statement.
        self._sources: dict[int, tuple[int | None, ValueRelation, Place, str]] = {}
        self._images: dict[int, int] = {}

    def add(self, feature: int, image: int | None, relation: ValueRelation, place: Place, token: str) -> None:
        """Add a pair, or a feature without an image; raise `RelationFileError` if it contradicts another pair.

        Parameters
        ----------
        feature, image
            The numbers of the features; None if the relation leaves the image open.
        relation
            The relation of their values.
        place, token
            The statement in the file, and the name in it that an error points to.
        """
        if feature in self._sources:
            earlier_image, earlier_relation, earlier_place, earlier_token = self._sources[feature]
            if (earlier_image, earlier_relation) != (image, relation):
                name, line = self._space.names[feature], earlier_place.line(earlier_token)
                wrong = f"{name!r} is already mapped differently by {earlier_place.key!r} in line {line}."
                raise place.error(wrong, token)
            return
        self._sources[feature] = (image, relation, place, token)
        if image is None:
            return
        if image in self._images:
            names, earlier = self._space.names, self._images[image]
            _, _, earlier_place, earlier_token = self._sources[earlier]
            raise place.error(
                f"{names[feature]!r} and {names[earlier]!r} (line {earlier_place.line(earlier_token)}) would both "
                f"become {names[image]!r}; the pairing of features must be one-to-one.",
                token,
            )
        source_feature, image_feature = self._space[feature], self._space[image]
        mapped_features = (source_feature, image_feature)
        if source_feature.kind != image_feature.kind and not isinstance(relation, Anything):
            kinds = " but ".join(f"{f.name!r} is {f.kind}" for f in mapped_features)
            raise place.error(f"{kinds}.", token, KindError)
        with_sentinels = next((f for f in mapped_features if f.sentinels), None)
        if isinstance(relation, Affine) and with_sentinels is not None:
            values = ", ".join(f"{value:g}" for value in with_sentinels.sentinels)
            raise place.error(
                f"{with_sentinels.name!r} cannot be {relation.text}: {values} is a special value. "
                "Give pairs of values with 'map', or leave the feature out.",
                token,
            )
        self._images[image] = feature

    def relations(self, action: int, image_action: int) -> tuple[FeatureRelation, ...]:
        return tuple(
            FeatureRelation(action, image_action, feature, image, relation)
            for feature, (image, relation, _, _) in self._sources.items()
            if image is not None
        )

    @property
    def named(self) -> set[int]:
        return set(self._sources) | set(self._images)

    @property
    def unmapped(self) -> tuple[int, ...]:
        return tuple(feature for feature, (image, *_) in self._sources.items() if image is None)


def _row_number(pattern: str, name: str) -> tuple[int, int] | None:
    """Return the start and end of the number that ``{n}`` stands for in a name; None without a match.

    Like every ``*`` before it, it lies as far to the right as possible, and is as long as possible.

    >>> _row_number("vehicle{n}.*", "vehicle12.x"), _row_number("vehicle{n}.*", "ego.x")
    ((7, 9), None)
    """
    before, after = pattern.split("{n}")
    ends = [end for end in range(1, len(name) + 1) if match_pattern(after, name[end:]) is not None]
    for start in reversed(range(len(name))):
        if name[start] not in "0123456789" or match_pattern(before, name[:start]) is None:
            continue
        last = start + 1
        while name[start] != "0" and last < len(name) and name[last].isdecimal():
            last += 1
        fitting = [end for end in ends if start < end <= last]
        if fitting:
            return start, fitting[-1]
    return None


def _table_of_values(value: Any, place: Place) -> ValueTable:
    pairs = value if isinstance(value, list) else []
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise place.error(f"'values' must be a list of pairs such as [[0, 3], [1, 7]], got {value!r}.")
    return ValueTable(tuple((read_number(x, "values", place), read_number(y, "values", place)) for x, y in pairs))


def _relation_of_pair(table: Mapping[str, Any], place: Place) -> ValueRelation:
    """Return the relation between the values of a pair of features; by default they are equal."""
    kinds = [key for key in ("negate", "about", "values", "any") if key in table]
    if "times" in table or "plus" in table:  # both belong to one relation
        kinds.append("times" if "times" in table else "plus")
    if len(kinds) > 1:
        raise place.error(f"a pair needs a single relation, got {' and '.join(map(repr, kinds))}.", kinds[1])
    for key in ("negate", "any"):
        if table.get(key, True) is not True:
            raise place.error(f"{key!r} must be true or left out, got {table[key]!r}.", key)
    match kinds:
        case ["negate"]:
            return NEGATE
        case ["any"]:
            return ANY
        case ["about"]:
            return reflect(read_number(table["about"], "about", place))
        case ["values"]:
            return _table_of_values(table["values"], place)
        case ["times" | "plus"]:
            times = read_number(table.get("times", 1), "times", place)
            plus = read_number(table.get("plus", 0), "plus", place)
            if times == 0:
                raise place.error("'times' must not be 0.", "times")
            return Affine(times, plus)
    return EQUAL
