"""Lines of the statements of a relations file, for error messages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from legible.relations.values import RelationError


class RelationFileError(RelationError):
    """An error in a relations file, with its line."""

    def __init__(self, where: str, line: int, message: str) -> None:
        super().__init__(f"{where}:{line}: {message}")
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

    def find(self, pattern: str, first: int, last: int, default: int) -> int:
        """Return the index of the first of some lines that matches a regular expression, or the default."""
        return next((i for i in range(first, last) if re.search(pattern, self.lines[i])), default)


@dataclass(frozen=True)
class Place:
    """A statement of a file: a key of the relation with this index, or of the whole file."""

    source: Source
    relation: int | None
    key: str

    def line(self, token: str = "") -> int:
        """Return the line of the statement, or of a text in it; without a key, the first line of the relation."""
        # Indices of lines, from 0: the range of the relation, and the line found so far.
        first, last = 0, len(self.source.lines)
        if self.relation is not None and self.relation < len(self.source.ranges):
            first, last = self.source.ranges[self.relation]
        line = first
        if self.key:
            # The key at the beginning of a line, as a key or a [[relation.key]] heading; or else within a line.
            key = re.escape(self.key)
            at_start = rf"""^\s*(\[+\s*(relation\s*\.\s*)?)?["']?{key}["']?\s*[=.\]]"""
            line = self.source.find(rf"""[{{,\s]["']?{key}["']?\s*=""", first, last, first)
            line = self.source.find(at_start, first, last, line)
        if token:
            line = self.source.find(rf"""(?<![\w.*-]){re.escape(token)}(?![\w.*-])""", line, last, line)
        return line + 1

    def error(
        self, message: str, token: str = "", kind: type[RelationFileError] = RelationFileError
    ) -> RelationFileError:
        """Return an error about the statement, or a text in it."""
        return kind(self.source.where, self.line(token), message)
