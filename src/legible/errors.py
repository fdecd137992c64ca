"""Errors that are meant for people: each says what is wrong, where, and what to do about it.

- `LegibleError`: the base class.
- `did_you_mean`, `suggest_names`: hints for mistyped names.
- `place_in_user_code`: file and line of the user's code that raised an error; `describe_error`: with its message.
"""

from __future__ import annotations

import difflib
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

MOST_LISTED, MOST_CHARACTERS = 12, 300
# Everything that is installed, and the folder of this package: the rest is the user's.
_INSTALLED = (*map(Path, map(sysconfig.get_paths().__getitem__, ("stdlib", "purelib"))), Path(__file__).parents[1])


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


def suggest_names(word: str, known: Iterable[str], what: str, more: str = "") -> str:
    """Return a hint with the nearest known names and a list of all, shortened if it is long.

    `what` is the kind of the names, `more` says where all of them are listed.

    >>> suggest_names("gapp", ["gap", "speed"], "features")
    " Did you mean 'gap'? The features are gap, speed."
    """
    names = list(known)
    if not names:
        return f" There are no {what}."
    rest = f", … ({len(names)} in all{more})" if len(names) > MOST_LISTED else ""
    return f"{did_you_mean(word, names)} The {what} are {', '.join(names[:MOST_LISTED])}{rest}."


def place_in_user_code(error: BaseException) -> str:
    """Return file and line, such as "harbour.py:34", of the user's code that raised an error.

    "" if legible raised it, or an installed package that legible called.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = Path(frame.f_code.co_filename)
        if frame.f_globals.get("__name__", "").partition(".")[0] == "legible":
            return ""
        if file.is_file() and not any(file.is_relative_to(folder) for folder in _INSTALLED):
            return f"{file.name}:{line}"
    return ""


def is_raised_by_legible(error: BaseException) -> bool:
    """Return whether an error was raised in a line of legible itself, and not in code that it called."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__", "").partition(".")[0] == "legible"


def describe_error(error: BaseException) -> str:
    """Return type, message and place of an error of the user's code or of a package, without a full stop.

    >>> describe_error(KeyError("map"))
    "KeyError: 'map'"
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    place = place_in_user_code(error)
    if not place and frames and not is_raised_by_legible(error):
        place = frames[-1].f_globals.get("__name__", "")
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message[:MOST_CHARACTERS]}".removesuffix(": ").rstrip(".")
    return f"{text} ({place})" if place else text
