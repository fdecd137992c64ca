"""`read_actions`: reads the ``actions`` statement of a relation.

If actions are continuous or have several parts, the statement can name choices ("steer.left") or groups ("steer"),
which stand for all of their choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from legible.errors import did_you_mean, suggest_names
from legible.features import FeatureSpace
from legible.features.patterns import match_pattern
from legible.relations.places import Place, UnknownNameError
from legible.relations.statements import lists, matching_rows, tables, texts

_Choices: TypeAlias = tuple[int, ...]
_KEYS = ("cycle", "swap", "same", "negate", "map", "pair")


def read_actions(statement: Any, space: FeatureSpace, place: Place) -> list[tuple[int, int]]:
    """Return the pairs (action, image) of an ``actions`` statement, such as ``{ swap = ["Left", "Right"] }``.

    Actions are numbered; `place` is the statement's place in the file, for errors.
    """
    if statement == "same":
        return [(i, i) for i in range(len(space.actions))]
    if not isinstance(statement, dict) or not statement:
        raise place.error('\'actions\' must be "same" or a table such as { swap = ["Left", "Right"] }.')
    names = space.action_names
    image_of: dict[int, int] = {}
    for token, choices, images in _Reader(space, place).pairs(statement):  # errors point to the token
        if len(choices) != len(images):
            raise place.error(
                f"{_named(space, choices)} has {len(choices)} choices and {_named(space, images)} has {len(images)}; "
                "they must have the same number.",
                token,
            )
        for choice, image in zip(choices, images, strict=True):
            if choice in image_of:
                raise place.error(
                    f"action {names[choice]!r} is mapped to both {names[image_of[choice]]!r} and {names[image]!r}.",
                    token,
                )
            if image in image_of.values():
                raise place.error(
                    f"two actions are mapped to {names[image]!r}; the map must be one-to-one.", names[image]
                )
            image_of[choice] = image
    return list(image_of.items())


def _named(space: FeatureSpace, choices: _Choices) -> str:
    if len(choices) == 1:
        return repr(space.action_names[choices[0]])
    return repr(space.groups[space.group_of(choices[0])].name)


class _Reader:
    """Reader of names of choices and groups."""

    def __init__(self, space: FeatureSpace, place: Place) -> None:
        self._space, self._place = space, place
        groups = {} if space.is_discrete else {group.name: group for group in space.groups}
        self._groups: dict[str, _Choices] = {
            name: tuple(range(group.first, group.first + group.count)) for name, group in groups.items()
        }
        self._choices: dict[str, _Choices] = {name: (i,) for i, name in enumerate(space.action_names)}

    def pairs(self, statement: Mapping[str, Any]) -> Iterator[tuple[str, _Choices, _Choices]]:
        """Yield (name in the file, choices, their images), one or several for each key of an ``actions`` table.

        ``{ swap = ["Left", "Right"] }`` yields ("Left", (0,), (1,)) and ("Right", (1,), (0,)). A name stands for one
        choice, or for all choices of a group; `_units` returns these, name by name.
        """
        place = self._place
        for key, value in statement.items():
            match key:
                case "cycle" | "swap":
                    cycles = ((names, units) for names in lists(value, key, place) for units in self._units(names))
                    for names, units in cycles:
                        yield from zip(names, units, [*units[1:], units[0]], strict=True)
                case "same":
                    for name in texts(value, key, place):
                        yield from ((name, units[0], units[0]) for units in self._units([name]))
                case "negate":
                    for name in texts(value, key, place):
                        yield from ((name, units[0], units[0][::-1]) for units in self._whole([name]))
                case "map":
                    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
                        raise place.error("'map' of actions must be a table such as { Left = \"Right\" }.")
                    for name, image in value.items():
                        yield from ((name, units[0], units[1]) for units in self._units([name, image]))
                case "pair":
                    yield from self._pair(value)
                case _:
                    hint = did_you_mean(key, _KEYS) or f" The keys are {', '.join(_KEYS)}."
                    raise place.error(f"unknown key {key!r} in 'actions'.{hint}", key)

    def _pair(self, value: Any) -> Iterator[tuple[str, _Choices, _Choices]]:
        for table in tables(value, self._place, ("from", "to"), ("negate",), key="pair"):
            names = table["from"], table["to"]
            if not all(isinstance(name, str) for name in names) or table.get("negate", True) is not True:
                raise self._place.error(
                    '\'pair\' of actions must be a table such as { from = "hip1", to = "hip2", negate = true }.'
                )
            negate = "negate" in table
            for choices, images in self._whole(names) if negate else self._units(names):
                yield names[0], choices, images[::-1] if negate else images

    def _units(self, names: Sequence[str]) -> list[tuple[_Choices, ...]]:
        """Return the groups, or else choices, that names stand for; one row for every text that ``*`` can stand for."""
        names_group = any(match_pattern(name, group) is not None for name in names for group in self._groups)
        return self._whole(names) if names_group else self._rows(names, self._choices)

    def _whole(self, names: Sequence[str]) -> list[tuple[_Choices, ...]]:
        """Return the choices of groups."""
        if not self._groups:
            raise self._place.error("'negate' needs actions with groups; write swap instead.")
        return self._rows(names, self._groups)

    def _rows(self, names: Sequence[str], known: Mapping[str, _Choices]) -> list[tuple[_Choices, ...]]:
        for name in names:
            if "*" not in name and name not in known:
                listed = [*self._groups, *self._choices]
                what = "group or choice" if self._groups else "action"
                hint = suggest_names(name, listed, f"{what.replace(' or ', 's and ')}s")
                raise self._place.error(f"there is no {what} called {name!r}.{hint}", name, UnknownNameError)
        rows = matching_rows(names, list(known), "group" if known is self._groups else "action", self._place)
        return [tuple(known[name] for name in row) for row in rows]
