"""Files that are written whole or not at all, and that tell when they are read whether they are what was written.

- `write_whole`, `write_text`: whoever looks sees the old file or the new one, never half of it.
- `write_arrays`, `read_arrays`: numpy arrays in an ``.npz`` file, with a key that says what they belong to and a
  checksum of what they hold.
- `write_json`, `read_json`: the same for plain data.
- `DamagedFileError`: a file that is not what was written.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError

_KEY, _CHECKSUM = "_key", "_checksum"
# A file that becomes larger than this when it is unpacked, and many times as large as it was, is no honest one.
LARGE, SWELLING = 200_000_000, 100
LARGEST_JSON = 50_000_000


class DamagedFileError(LegibleError):
    """A file that cannot be read, or that is not what was written."""


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


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], key: str = "") -> None:
    """Write arrays into an ``.npz`` file, with a key that says what they belong to and a checksum."""
    everything: dict[str, Any] = {**arrays, _KEY: np.array(key), _CHECKSUM: np.array(_checksum(arrays))}
    write_whole(path, lambda file: np.savez_compressed(file, **everything))


def read_arrays(path: Path, key: str | None = None, advice: str = "delete it") -> dict[str, NDArray[Any]]:
    """Read what `write_arrays` wrote, and check that it is that.

    Parameters
    ----------
    path
        The file.
    key
        The key that it must carry; None where any will do. Files of older versions carry none and are taken as they
        are.
    advice
        What to do about a file that is damaged.
    """
    content = _read_bytes(path, advice)
    try:
        _refuse_swelling(path, content)
        with np.lib.npyio.NpzFile(io.BytesIO(content), allow_pickle=False) as data:
            arrays: dict[str, NDArray[Any]] = {name: data[name] for name in data.files}
    except DamagedFileError:
        raise
    except Exception as error:  # what a damaged zip or array raises depends on where the damage is
        raise DamagedFileError(f"{path}: is damaged ({_first_line(error)}); {advice}.") from error
    told, checksum = arrays.pop(_KEY, None), arrays.pop(_CHECKSUM, None)
    if checksum is not None and str(checksum) != _checksum(arrays):
        raise DamagedFileError(f"{path}: is damaged (its content is not what was written); {advice}.")
    if key is not None and told is not None and str(told) != key:
        raise DamagedFileError(f"{path}: belongs elsewhere (it carries another key); {advice}.")
    return arrays


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {np.shape(arrays[name])}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _refuse_swelling(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > LARGE and size > SWELLING * len(content):
        raise DamagedFileError(
            f"{path}: is damaged (it would swell from {len(content):,} to {size:,} bytes); it is not read."
        )


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
    told, checksum = document.pop(_KEY, None), document.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _json_checksum(document):
        raise DamagedFileError(f"{path}: is damaged (its content is not what was written); {advice}.")
    if key is not None and told is not None and told != key:
        raise DamagedFileError(f"{path}: belongs elsewhere (it carries another key); {advice}.")
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
