"""Lines of the statements of a relations file, for error messages.

- `Source`: the text of a file. `Place`: a statement in it.
- `RelationFileError`: an error with its line. `UnknownNameError`: an unknown name. `KindError`: features of different
  kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from legible.relations.values import RelationError


class RelationFileError(RelationError):
    """An error in a relations file, with its line."""

    def __init__(self, where: str, line: int, message: str) -> None:
        super().__init__(f"{where}:{line}: {message}")
        self.where = where
        self.line = line
        self.reason = message


class UnknownNameError(RelationFileError):
    """An unknown feature or action in a relations file."""


class KindError(RelationFileError):
    """A map between features of different kinds, which may be guessed from experiences."""


_QUOTED_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|" r"#[^\n]*", re.DOTALL
)


class Source:
    """The text of a file, searched for the lines of statements: TOML readers give no positions."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where

        def blank(found: re.Match[str]) -> str:
            # Comments and multi-line texts may look like statements. Remove them, but keep line breaks.
            piece = found[0]
            return "\n" * piece.count("\n") if piece.startswith(("#", '"""', "'''")) else piece

        self.lines = _QUOTED_OR_COMMENT.sub(blank, text).split("\n")
        heads = [i for i, line in enumerate(self.lines) if re.match(r"\s*\[\[\s*relation\s*\]\]", line)]
        self.ranges = list(zip(heads, [*heads[1:], len(self.lines)], strict=False))

    def at(self, relation: int | None, key: str) -> Place:
        """Return the place of a key in the relation with this index, or in the whole file."""
        return Place(self, relation, key)

    def find(self, pattern: str, first: int, last: int) -> int | None:
        """Return the index of the first line that matches a regular expression, or None."""
        return next((i for i in range(first, last) if re.search(pattern, self.lines[i])), None)


@dataclass(frozen=True)
class Place:
    """A statement of a file: a key of the relation with this index."""

    source: Source
    relation: int | None
    key: str

    def line(self, token: str = "") -> int:
        """Return the line of the statement, or of a text in it; without a key, the first line of the relation."""
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
        """Return an error about the statement, or a text in it."""
        return RelationFileError(self.source.where, self.line(token), message)

    def unknown(self, message: str, token: str) -> UnknownNameError:
        """Return an error about an unknown name."""
        return UnknownNameError(self.source.where, self.line(token), message)

    def unfit(self, message: str, token: str) -> KindError:
        """Return an error about features of different kinds."""
        return KindError(self.source.where, self.line(token), message)
