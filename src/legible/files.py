"""Files that are written whole or not at all, and that tell when they are read whether they are what was written.

- `write_whole`, `write_text`: readers see the old file or the new one, never an incomplete one.
- `write_arrays`, `read_arrays`: numpy arrays in an ``.npz`` file, with a key that says what they belong to and a
  checksum of what they hold.
- `write_json`, `read_json`: the same for plain data.
- `read_text`, `read_toml`, `parse_toml`: files that people write, and that may come from anybody: none that is too
  large or nested too deep is read, and whatever is wrong with one becomes a line that names it.
- `DamagedFileError`: a file that is not what was written.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError

_KEY, _CHECKSUM = "_key", "_checksum"
# A file that becomes larger than this when it is unpacked, and many times as large as it was, is no honest one.
LARGE, SWELLING = 200_000_000, 100
LARGEST_JSON = 50_000_000
LARGEST_TEXT = 2_000_000
DEEPEST = 32


class DamagedFileError(LegibleError):
    """A file that cannot be read, or that is not what was written."""


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file next to the path, and put it in place when it is complete and on disk.

    Readers see the old file, or none, or the new one; never an incomplete one, even if the power fails.
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
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda file: file.write(text.encode()))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], key: str = "") -> None:
    """Write arrays into an ``.npz`` file, with a key that says what they belong to and a checksum."""
    everything: dict[str, Any] = {**arrays, _KEY: np.array(key), _CHECKSUM: np.array(_checksum(arrays))}

    def write(file: IO[bytes]) -> None:
        # As `numpy.savez_compressed`, but quickly: for what is written here that is nearly as small.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in everything.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)

    write_whole(path, write)


def read_arrays(path: Path, key: str | None = None, advice: str = "delete it") -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file by name, and refuse a file that is damaged or belongs to something else.

    - `path`: the file, which `write_arrays` has written with a key and a checksum.
    - `key`: the key that the file must carry, such as the id of a study; None: any. Files of older versions carry no
      key and no checksum, and are taken as they are.
    - `advice`: what the user should do about a damaged file, as the end of the error message.
    """
    content = _read_bytes(path, advice)
    try:
        # A small zip can unpack to more than the memory holds.
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > LARGE and size > SWELLING * len(content):
            raise DamagedFileError(
                f"{path}: is damaged (it would unpack from {len(content):,} to {size:,} bytes); {advice}."
            )
        with np.lib.npyio.NpzFile(io.BytesIO(content), allow_pickle=False) as data:
            arrays: dict[str, NDArray[Any]] = {name: data[name] for name in data.files}
        for array in arrays.values():
            _check_text(array)  # strings may hold invalid code points
    except DamagedFileError:
        raise
    except Exception as error:  # what a damaged zip or array raises depends on where the damage is
        raise DamagedFileError(f"{path}: is damaged ({_first_line(error)}); {advice}.") from error
    saved_key, checksum = arrays.pop(_KEY, None), arrays.pop(_CHECKSUM, None)
    _check_marks(path, saved_key, checksum, _checksum(arrays), key, advice)
    return arrays


def _check_marks(path: Path, saved_key: Any, checksum: Any, expected: str, key: str | None, advice: str) -> None:
    """Raise unless a file has the checksum of its content, and the wanted key if it has one (numpy's texts count)."""
    # Key and checksum were both written, or neither.
    if (saved_key is None) != (checksum is None) or (checksum is not None and str(checksum) != expected):
        raise DamagedFileError(f"{path}: is damaged (its content is not what was written); {advice}.")
    if key and saved_key is not None and str(saved_key) != key:
        raise DamagedFileError(f"{path}: belongs elsewhere (it carries another key); {advice}.")


def _check_text(array: NDArray[Any]) -> None:
    """Refuse strings with invalid code points: numpy accepts them, and Python fails on them later."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        code_points = np.frombuffer(array.tobytes(), f"{array.dtype.str[0]}u4")
        if code_points.max() > sys.maxunicode:
            raise ValueError("a text in it holds invalid characters")


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {np.shape(arrays[name])}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_json(path: Path, document: Mapping[str, Any], key: str = "") -> None:
    """Write plain data as JSON, with a key that says what it belongs to and a checksum."""
    plain = json.loads(json.dumps(document))
    marks = {_KEY: key, _CHECKSUM: _json_checksum(plain)}
    write_text(path, json.dumps({**plain, **marks}, indent=2) + "\n")


def read_json(path: Path, key: str | None = None, advice: str = "delete it") -> dict[str, Any]:
    """Read what `write_json` wrote, and check that it is that; parameters as for `read_arrays`."""
    content = _read_bytes(path, advice)
    try:
        if len(content) > LARGEST_JSON:
            raise ValueError(f"{len(content):,} bytes are too many")
        document = json.loads(content)
        if not isinstance(document, dict):
            raise TypeError("a table is expected")
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedFileError(f"{path}: is damaged ({_first_line(error)}); {advice}.") from error
    saved_key, checksum = document.pop(_KEY, None), document.pop(_CHECKSUM, None)
    _check_marks(path, saved_key, checksum, _json_checksum(document), key, advice)
    return document


def _json_checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _read_bytes(path: Path, advice: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedFileError(f"{path}: cannot be read ({error.strerror or error}); {advice}.") from error


def _first_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def sha256_of(path: Path) -> str:
    """Return the checksum of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: str | Path, error: type[LegibleError] = LegibleError, largest: int = LARGEST_TEXT) -> str:
    """Return the text of a file that people write, such as a settings file; Windows line ends become Unix ones.

    - `path`: the file, which must be UTF-8.
    - `error`: class of the error that is raised if it cannot be read.
    - `largest`: maximum size in bytes.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(largest + 1)  # one byte more than allowed shows that it is too large
        if len(content) > largest:
            raise error(f"{path}: is larger than {largest / 1e6:g} MB, too large for a file of its kind.")
        return content.decode("utf-8").replace("\r\n", "\n")
    except OSError as cause:
        raise error(f"{path}: cannot be read ({cause.strerror}).") from cause
    except UnicodeDecodeError as cause:
        raise error(f"{path}: is not UTF-8 text ({cause.reason} at byte {cause.start}).") from cause


def read_toml(
    path: str | Path, error: type[LegibleError] = LegibleError, largest: int = LARGEST_TEXT
) -> dict[str, Any]:
    """Read a TOML file; parameters as for `read_text`."""
    return parse_toml(read_text(path, error, largest), str(path), error)


def parse_toml(text: str, where: str, error: type[LegibleError] = LegibleError) -> dict[str, Any]:
    """Return the tables of a TOML text; `where` is its name in error messages, such as the path of a file.

    A text that would exhaust memory or recursion is refused before it is parsed: it may come from somebody else.

    >>> parse_toml("weight = 0.5", "weights.toml")
    {'weight': 0.5}
    >>> parse_toml("a = " + "[" * 3000 + "]" * 3000, "deep.toml")
    Traceback (most recent call last):
    legible.errors.LegibleError: deep.toml: line 1: is nested more than 32 deep.
    """
    # Brackets in strings and comments do not nest: strings become empty and comments go. Line breaks stay, so that the
    # numbers of lines in errors are right.
    without_content = _QUOTED_OR_COMMENT.sub(
        lambda found: ("" if found[0].startswith("#") else '""') + "\n" * found[0].count("\n"), text
    )
    line = _first_line_too_deep(without_content)
    if line is not None:
        raise error(f"{where}: line {line}: is nested more than {DEEPEST} deep.")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise error(f"{where}: is not valid TOML: {cause}.") from cause
    except (ValueError, RecursionError) as cause:
        problem = "is nested too deep" if isinstance(cause, RecursionError) else "holds a number with too many digits"
        raise error(f"{where}: {problem}.") from cause
    _check_numbers(data, where, error)
    return data


# Possessive, and content with a missing end counts as well: no text can make these take long.
_QUOTED_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?+'
    r"|'''(?:[^']|'(?!''))*+(?:''')?+"
    r'|"(?:[^"\\\n]|\\.)*+"?+'
    r"|'[^'\n]*+'?+"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_MANY_DOTS = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}""")


def _first_line_too_deep(text: str) -> int | None:
    """Return the first line in which brackets, or names written as ``a.b.c``, are nested too deep."""
    # Reading a name of many parts takes the square of their number.
    dots = _MANY_DOTS.search(text)
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text if dots is None else text[: dots.start()]):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            return text.count("\n", 0, bracket.start()) + 1
    return None if dots is None else text.count("\n", 0, dots.start()) + 1


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
