"""Errors that are meant for people: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LegibleError(Exception):
    """Base class of every error that legible raises on purpose.

    `exit_code` is what the command line ends with: 2 when what was given is wrong, 1 when something failed on the way.
    """

    exit_code = 2


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint such as ``" Did you mean 'food.north'?"``, or nothing when no known word is near.

    >>> did_you_mean("food.nroth", ["food.north", "open.east"])
    " Did you mean 'food.north'?"
    """
    near = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    if not near:
        return ""
    return " Did you mean " + " or ".join(repr(name) for name in near) + "?"
