"""Names with ``*``, which stands for any text.

- `match_pattern`: what every ``*`` of a pattern stands for in a name.
- `fill_pattern`: the name that a pattern becomes when texts take the place of its ``*``.

A pattern is matched in one pass from its end, so that no pattern, whoever wrote it, takes long.
"""

from __future__ import annotations

from collections.abc import Sequence


def match_pattern(pattern: str, name: str) -> tuple[str, ...] | None:
    """Return what every ``*`` stands for, the first ones as long as can be; None where the pattern does not match.

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
    # Where a name can be matched at all, it can be matched with every piece as far to the right as it goes.
    found: list[str] = []
    for piece in reversed(middle):
        start = name.rfind(piece, len(first), end)
        if start < 0:
            return None
        found.append(name[start + len(piece) : end])
        end = start
    found.append(name[len(first) : end])
    return tuple(reversed(found))


def fill_pattern(pattern: str, texts: Sequence[str]) -> str:
    """Put texts in place of the ``*``; there must be one for each.

    >>> fill_pattern("ghost*.path.*", ("0", "east"))
    'ghost0.path.east'
    """
    pieces = pattern.split("*")
    return "".join(text for pair in zip(pieces, [*texts, ""], strict=True) for text in pair)
