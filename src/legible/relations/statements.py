"""Values of statements in a relations file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legible.errors import did_you_mean, suggest_names
from legible.features.patterns import fill_pattern, match_pattern
from legible.relations.places import Place, UnknownNameError


def texts(value: Any, key: str, place: Place) -> list[str]:
    """Return the texts of one text or a list of texts."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise place.error(f"{key!r} must be a name or a list of names, got {value!r}.")
    return found


def lists(value: Any, key: str, place: Place) -> list[list[str]]:
    """Return the lists of one list of names or a list of such lists."""
    found = [value] if isinstance(value, list) and value and isinstance(value[0], str) else value
    if not isinstance(found, list) or not found:
        raise place.error(f"{key!r} must be a list of names, or a list of such lists, got {value!r}.")
    for names in found:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise place.error(f"{key!r} must be a list of names, or a list of such lists, got {names!r} in it.")
        if len(names) < 2 or (key == "swap" and len(names) != 2):
            few = "exactly two" if key == "swap" else "at least two"
            raise place.error(f"a {key} needs {few} names, got {names!r}.", names[0] if names else "")
    return found


def tables(
    value: Any, place: Place, required: Sequence[str], optional: Sequence[str] = (), key: str = ""
) -> list[dict[str, Any]]:
    """Return the tables of one table or a list of tables; `key` names the statement in errors."""
    key = key or place.key
    found = [value] if isinstance(value, dict) else value
    if not isinstance(found, list) or not found or not all(isinstance(table, dict) for table in found):
        raise place.error(f"{key!r} must be a table with {' and '.join(required)}, got {value!r}.")
    known = (*required, *optional)
    for table in found:
        for name in table:
            if name not in known:
                raise place.error(f"unknown key {name!r} in {key!r}.{did_you_mean(name, known)}", name)
        for name in required:
            if name not in table:
                raise place.error(f"{key!r} needs {name!r}, got {table!r}.")
    return found


def read_number(value: Any, key: str, place: Place) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise place.error(f"{key!r} must be a finite number, got {value!r}.")
    return float(value)


def matching_rows(patterns: Sequence[str], known: Sequence[str], what: str, place: Place) -> list[tuple[str, ...]]:
    """Return the names that patterns stand for together, one row for every text that ``*`` can stand for.

    ``("left*", "right*")`` gives ``[("left1", "right1"), ("left2", "right2")]``, for example. Every pattern must match
    one of the `known` names; `what` is the kind of thing that they name.
    """
    if len({pattern.count("*") for pattern in patterns}) > 1:
        raise place.error(f"all of {list(patterns)} must hold the same number of '*'.", patterns[0])
    # The texts that the stars stand for, each with the first pattern and name that show it.
    first_matches: dict[tuple[str, ...], tuple[str, str]] = {}
    for pattern in patterns:
        star_texts = {name: match_pattern(pattern, name) for name in known}
        matches = {name: texts for name, texts in star_texts.items() if texts is not None}
        if not matches:
            missing = f"there is no {what} called {pattern!r}.{suggest_names(pattern, known, f'{what}s')}"
            raise place.error(
                f"{pattern!r} matches no {what}." if "*" in pattern else missing, pattern, UnknownNameError
            )
        for name, texts in matches.items():
            first_matches.setdefault(texts, (pattern, name))
    # With these texts, the other patterns must be known names, too.
    rows = []
    for texts, (matching_pattern, matched_name) in first_matches.items():
        row = tuple(fill_pattern(pattern, texts) for pattern in patterns)
        for name, pattern in zip(row, patterns, strict=True):
            if name not in known:
                raise place.error(
                    f"{matching_pattern!r} matches {matched_name!r}, but there is no corresponding {name!r}."
                    + did_you_mean(name, known),
                    pattern,
                    UnknownNameError,
                )
        rows.append(row)
    return rows
