"""Where the statements of a relations file stand in it, so that an error can name the line.

- `Source`: the text of a file. `Place`: a statement in it.
- `RelationFileError`: what is wrong, and in which line; `UnknownNameError`: a name that nothing has; `KindError`:
  features of kinds that do not fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from legible.relations.values import RelationError


class RelationFileError(RelationError):
    """A relations file that cannot be used; says in which line and why."""

    def __init__(self, where: str, line: int, message: str) -> None:
        super().__init__(f"{where}:{line}: {message}")
        self.where = where
        self.line = line
        self.reason = message


class UnknownNameError(RelationFileError):
    """A relations file that speaks of a feature or an action that is not there."""


class KindError(RelationFileError):
    """A relations file that maps features of one kind to those of another; kinds may be guessed from experiences."""


_QUOTED_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|" r"#[^\n]*", re.DOTALL
)


class Source:
    """The text of a file, in which lines are found by what stands in them: TOML readers give no positions."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where

        def blank(found: re.Match[str]) -> str:
            # Comments and texts of many lines may look like statements; empty them, but keep their lines.
            piece = found[0]
            return "\n" * piece.count("\n") if piece.startswith(("#", '"""', "'''")) else piece

        self.lines = _QUOTED_OR_COMMENT.sub(blank, text).split("\n")
        heads = [i for i, line in enumerate(self.lines) if re.match(r"\s*\[\[\s*relation\s*\]\]", line)]
        self.ranges = list(zip(heads, [*heads[1:], len(self.lines)], strict=False))

    def at(self, relation: int | None, key: str) -> Place:
        """The place of a key in the relation with this number, or anywhere."""
        return Place(self, relation, key)

    def find(self, pattern: str, first: int, last: int) -> int | None:
        """The first line in which a regular expression is found."""
        return next((i for i in range(first, last) if re.search(pattern, self.lines[i])), None)


@dataclass(frozen=True)
class Place:
    """A statement of a file: the key, in the relation with this number."""

    source: Source
    relation: int | None
    key: str

    def line(self, token: str = "") -> int:
        """The line of the statement (of the relation's head without a key), or of a text in it; they count from 1."""
        first, last = 0, len(self.source.lines)
        if self.relation is not None and self.relation < len(self.source.ranges):
            first, last = self.source.ranges[self.relation]
        start = first
        if self.key:
            key = re.escape(self.key)
            found = self.source.find(rf"""^\s*(\[+\s*(relation\s*\.\s*)?)?["']?{key}["']?\s*[=.\]]""", first, last)
            if found is None:
                found = self.source.find(rf"""[{{,\s]["']?{key}["']?\s*=""", first, last)
            start = first if found is None else found
        if token:
            there = self.source.find(rf"""(?<![\w.*-]){re.escape(token)}(?![\w.*-])""", start, last)
            start = start if there is None else there
        return start + 1

    def error(self, message: str, token: str = "") -> RelationFileError:
        """An error about the statement, or a text in it."""
        return RelationFileError(self.source.where, self.line(token), message)

    def unknown(self, message: str, token: str) -> UnknownNameError:
        """The error that a text in the statement names nothing that is there."""
        return UnknownNameError(self.source.where, self.line(token), message)

    def unfit(self, message: str, token: str) -> KindError:
        """The error that a text in the statement names features of kinds that do not fit."""
        return KindError(self.source.where, self.line(token), message)
