"""Files: written whole or not at all, read with care.

- `write_whole`, `write_text`: whoever looks sees the old file or the new one.
- `read_text`, `read_toml`, `read_json`: whatever is wrong with a file becomes one line that names it. A file may come
  from anybody, so none that is too large or nested too deep is read.
- `parse_toml`: the same for a text that was read.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from legible.errors import LegibleError

MOST_TOML_BYTES = 2_000_000
MOST_JSON_BYTES = 8_000_000
DEEPEST = 32


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file beside the path, and put it in place when it is complete and on disk.

    Whoever looks sees the old file, or none, or the new one; never half of it, even if the power fails.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise LegibleError(f"{path}: cannot be written ({error.strerror or error}).") from error
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda file: file.write(text.encode()))


def read_text(path: str | Path, error: type[LegibleError] = LegibleError, most_bytes: int = MOST_TOML_BYTES) -> str:
    """Read a text file.

    Parameters
    ----------
    path
        The file.
    error
        What is raised when it cannot be read.
    most_bytes
        A larger file is refused.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise error(f"{path}: is larger than {most_bytes / 1e6:g} MB, too large for a file of its kind.")
        return content.decode("utf-8").replace("\r\n", "\n")
    except OSError as cause:
        raise error(f"{path}: cannot be read ({cause.strerror}).") from cause
    except UnicodeDecodeError as cause:
        raise error(f"{path}: is not UTF-8 text ({cause.reason} at byte {cause.start}).") from cause


def read_toml(path: str | Path, error: type[LegibleError] = LegibleError) -> dict[str, Any]:
    """Read a TOML file; `error` is what is raised when it cannot be read."""
    return parse_toml(read_text(path, error), str(path), error)


def parse_toml(text: str, where: str, error: type[LegibleError] = LegibleError) -> dict[str, Any]:
    """Read TOML from a text; `where` is what errors call it.

    >>> parse_toml("weight = 0.5", "weights.toml")
    {'weight': 0.5}
    >>> parse_toml("a = " + "[" * 3000 + "]" * 3000, "deep.toml")
    Traceback (most recent call last):
    legible.errors.LegibleError: deep.toml: line 1: is nested more than 32 deep.
    """
    bare = _QUOTED_OR_COMMENT.sub(_without_content, text)
    # Tables within tables may also be written as a.b.c; reading such a name takes the square of its length.
    line = _first_too_deep(bare, _MANY_DOTS.search(bare))
    if line:
        raise error(f"{where}: line {line}: is nested more than {DEEPEST} deep.")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise error(f"{where}: is not valid TOML: {cause}.") from cause
    except (ValueError, RecursionError) as cause:
        raise error(f"{where}: {_too_much(cause)}.") from cause
    _check_numbers(data, where, error)
    return data


def read_json(path: str | Path, error: type[LegibleError] = LegibleError, most_bytes: int = MOST_JSON_BYTES) -> Any:
    """Read a JSON file; `error` and `most_bytes` as in `read_text`."""
    text = read_text(path, error, most_bytes)
    line = _first_too_deep(_JSON_TEXT.sub('""', text))
    if line:
        raise error(f"{path}: line {line}: is nested more than {DEEPEST} deep.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as cause:
        raise error(f"{path}: is not valid JSON: {cause}.") from cause
    except (ValueError, RecursionError) as cause:
        raise error(f"{path}: {_too_much(cause)}.") from cause


def _too_much(cause: Exception) -> str:
    """Say what Python refused to read."""
    return "is nested too deep" if isinstance(cause, RecursionError) else "holds a whole number with too many digits"


# Possessive, and content with a missing end counts as well: no text can make these take long.
_QUOTED_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?+'
    r"|'''(?:[^']|'(?!''))*+(?:''')?+"
    r'|"(?:[^"\\\n]|\\.)*+"?+'
    r"|'[^'\n]*+'?+"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?+', re.DOTALL)
_MANY_DOTS = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}""")


def _without_content(found: re.Match[str]) -> str:
    """An empty text in place of a text or comment; its lines stay."""
    piece = found[0]
    return '""' * (piece[0] != "#") + "\n" * piece.count("\n")


def _first_too_deep(bare: str, dots: re.Match[str] | None = None) -> int:
    """Return the first line in which brackets are nested too deep, or that of a match; 0 where there is none."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", bare if dots is None else bare[: dots.start()]):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            return bare.count("\n", 0, bracket.start()) + 1
    return 0 if dots is None else bare.count("\n", 0, dots.start()) + 1


def _check_numbers(data: Any, where: str, error: type[LegibleError]) -> None:
    """Refuse whole numbers beyond those of TOML, 64 bits: they fit no float and can hardly be printed."""
    waiting = [data]
    for value in waiting:
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, int) and value.bit_length() > 64:
            raise error(f"{where}: holds a whole number of {value.bit_length()} bits; 64 are the most.")
