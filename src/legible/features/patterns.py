"""Patterns of names, in which ``*`` stands for any text.

- `match_pattern`: the texts that the ``*`` of a pattern stand for in a name.
- `fill_pattern`: the name that a pattern becomes with given texts.

A pattern is matched in one pass from its end, so that matching is fast for any pattern.
"""

from __future__ import annotations

from collections.abc import Sequence


def match_pattern(pattern: str, name: str) -> tuple[str, ...] | None:
    """Return the texts that the ``*`` in a pattern stand for in a name, None if the name does not match.

    If there are several ways to match, the first ``*`` stands for as much as possible, then the second, and so on.

    >>> match_pattern("ghost*.path.*", "ghost1.path.north")
    ('1', 'north')
    >>> match_pattern("*.*", "a.b.c"), match_pattern("*.north", "food.east")
    (('a.b', 'c'), None)
    """
    first, *others = pattern.split("*")
    if not others:
        return () if name == pattern else None
    *middle, last = others
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < len(first):
        return None

    # Place the pieces between the stars from the last to the first, each as far to the right as possible: if the name
    # matches at all, it matches so. `end` is where the piece found last begins.
    matched: list[str] = []
    for piece in reversed(middle):
        start = name.rfind(piece, len(first), end)
        if start < 0:
            return None
        matched.append(name[start + len(piece) : end])
        end = start
    matched.append(name[len(first) : end])
    return tuple(reversed(matched))


def fill_pattern(pattern: str, texts: Sequence[str]) -> str:
    """Return a pattern with its ``*`` replaced by texts, one for each.

    >>> fill_pattern("ghost*.path.*", ("0", "east"))
    'ghost0.path.east'
    """
    pieces = pattern.split("*")
    return "".join(text for pair in zip(pieces, [*texts, ""], strict=True) for text in pair)
