"""Damage to the content of a file.

- `mutate`: one piece of damage that a random generator draws.
- `mutate_behind_checksum`: the same to the data of a file of legible, with a key and a checksum that fit.

Bytes are flipped, inserted, deleted, cut off, swapped and repeated; numbers become huge, nesting deep. What is inside a
zip or a safetensors file is also damaged behind a shell that stays valid.
"""

from __future__ import annotations

import io
import json
import random
import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from legible.files import write_arrays, write_json
from legible.policies.policy_file import _checksum

NUMBERS = (
    *(b"9" * 30, b"9" * 5000, b"1e999", b"-1e999", b"-1", b"0", b"nan", b"inf", b"18446744073709551616"),
    *(b"1e-400", b"2147483648", b"0.5", b"1e308", b"true", b'""', b"[]", b"null"),
)
NESTING = (b"[", b"{", b"(", b'{"a":', b"a.", b"[[", b'"', b"-", b"*a")
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    float("nan"),
    1e308,
    "",
    "x",
    "a:b",
    [],
    [None],
    {},
    {"a": 1},
)

Damage = Callable[[bytes, random.Random], bytes]


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with one piece of damage."""
    inside: Damage | None = None
    if content[:2] == b"PK":
        inside = _inside_zip
    elif content[:1] == b"{":
        inside = _inside_json
    elif _has_header(content):
        inside = _inside_safetensors
    if inside is not None and draw.random() < 0.6:
        return inside(content, draw)
    return _damage(content, draw)


def _damage(content: bytes, draw: random.Random) -> bytes:
    return draw.choice(_KINDS)(content, draw)


def _span(content: bytes, draw: random.Random) -> tuple[int, int]:
    """Return a piece of the content, mostly a short one."""
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + int(2 ** draw.uniform(0, 8)))


def _flip(content: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20)) if damaged else 0):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def _overwrite(content: bytes, draw: random.Random) -> bytes:
    """Overwrite numbers of a binary file with huge, negative or zero ones."""
    start = draw.randrange(len(content) + 1)
    new = draw.choice((b"\xff", b"\x7f", b"\x00", b"\x80")) * draw.choice((1, 2, 4, 8))
    return content[:start] + new + content[start + len(new) :]


def _insert(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + draw.randbytes(end - start) + content[start:]


def _delete(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:start] + content[end:]


def _truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _swap(content: bytes, draw: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_span(content, draw), _span(content, draw)))
    b = min(b, c)
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    start, end = _span(content, draw)
    return content[:end] + content[start:end] * draw.choice((1, 1, 2, 10, 1000)) + content[end:]


def _number(content: bytes, draw: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d[\d.e+-]*", content))
    if not found:
        return _overwrite(content, draw)
    one = draw.choice(found)
    return content[: one.start()] + draw.choice(NUMBERS) + content[one.end() :]


def _nest(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(NESTING) * draw.choice((1, 40, 3000, 100_000)) + content[at:]


def _word(content: bytes, draw: random.Random) -> bytes:
    """Put one word in place of another."""
    found = list(re.finditer(rb"[A-Za-z_][\w.]*", content[:100_000]))
    if not found:
        return _swap(content, draw)
    one, other = draw.choice(found), draw.choice(found)
    return content[: one.start()] + other[0] + content[one.end() :]


_KINDS: tuple[Damage, ...] = (
    *(_flip, _flip, _overwrite, _insert, _delete, _truncate, _swap, _repeat, _number, _number, _nest, _word),
)


def _inside_zip(content: bytes, draw: random.Random) -> bytes:
    """Damage, drop or exchange a member, and pack the zip again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    number = draw.randrange(len(members))
    name, inner = members[number]
    what = draw.random()
    if what < 0.8:
        members[number] = name, mutate(inner, draw) if inner else draw.randbytes(8)
    elif what < 0.9:
        members[number] = name, draw.choice(members)[1]
    elif what < 0.95:
        del members[number]
    else:
        members[number] = draw.choice((f"{name}x", "../up", "data", "")) or "x" * 300, inner
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for one, data in members:
            archive.writestr(one, data)
    return stream.getvalue()


def _inside_json(content: bytes, draw: random.Random) -> bytes:
    """Put another value into the document, or take an entry out of it."""
    document = json.loads(content)
    places = list(_places(document))
    if not places:
        return _damage(content, draw)
    holder, name = draw.choice(places)
    if draw.random() < 0.2:
        del holder[name]
    else:
        holder[name] = draw.choice((*VALUES, draw.choice(places)[0]))
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):  # it holds itself now
        return _damage(content, draw)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all entries of a document: the container of each, and its name there."""
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, name
        yield from _places(value[name])


def _has_header(content: bytes) -> bool:
    return content[8:10] == b'{"' and int.from_bytes(content[:8], "little") < len(content)


def _inside_safetensors(content: bytes, draw: random.Random) -> bytes:
    """Damage the header or a text inside it, with a length that fits."""
    end = 8 + int.from_bytes(content[:8], "little")
    header, tensors = content[8:end], content[end:]
    what = draw.random()
    if what < 0.3:
        tensors = _flip(tensors, draw) if draw.random() < 0.5 else _overwrite(tensors, draw)
    elif what < 0.5:
        header = _damage(header, draw)
    else:
        header = _damaged_metadata(header, draw)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + tensors


def _damaged_metadata(header: bytes, draw: random.Random) -> bytes:
    document = json.loads(header)
    metadata = document.get("__metadata__", {})
    if not metadata:
        return _damage(header, draw)
    name = draw.choice(sorted(metadata))
    metadata[name] = mutate(metadata[name].encode(), draw).decode(errors="replace")
    return json.dumps(document).encode()


def mutate_behind_checksum(content: bytes, draw: random.Random) -> bytes:
    """Change one array or entry of a file that legible wrote, and write it again with a valid key and checksum."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        if content[:2] == b"PK":
            with np.load(io.BytesIO(content)) as data:
                arrays = {name: data[name] for name in data.files}
            key = str(arrays.pop("_key"))
            del arrays["_checksum"]
            for _ in range(draw.choice((1, 1, 1, 2))):
                _change_array(arrays, draw)
            write_arrays(path, arrays, key)
        elif content[:1] == b"{":
            document = json.loads(content)
            key = document.pop("_key", "")
            document.pop("_checksum", None)
            write_json(path, _change_document(document, draw), key)
        else:
            tensors = safetensors.numpy.load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            document = json.loads(header["__metadata__"]["legible"])
            del document["sha256"]
            if draw.random() < 0.5:
                _change_array(tensors, draw)
                tensors = {name: array for name, array in tensors.items() if array.dtype.kind in "fiub"}
            else:
                document = _change_document(document, draw)
            text = json.dumps({**document, "sha256": _checksum(tensors, document)}, sort_keys=True)
            return safetensors.numpy.save(tensors, {"legible": text})
        return path.read_bytes()


def _change_document(document: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a document with one entry changed or taken out, still a table that JSON can hold."""
    try:
        changed = json.loads(_inside_json(json.dumps(document).encode(), draw))
        json.dumps(changed, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        return {}
    return changed if isinstance(changed, dict) else {}


def _change_array(arrays: dict[str, Any], draw: random.Random) -> None:
    """Change the type, shape, length or some numbers of an array, or take it out."""
    name = draw.choice(sorted(arrays)) if arrays else ""
    array = np.array(arrays.get(name, 0))
    if array.dtype == np.uint8 and name == "structure":
        changed = _change_document({"all": json.loads(array.tobytes())}, draw).get("all")
        arrays[name] = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        return
    if array.dtype.kind == "U" and array.ndim == 0 and str(array)[:1] == "{" and draw.random() < 0.8:
        arrays[name] = np.array(json.dumps(_change_document(json.loads(str(array)), draw)))
        return
    what = draw.random()
    if what < 0.3 and array.size and array.dtype.kind in "fiub":
        flat = array.reshape(-1)
        with np.errstate(all="ignore"):
            for _ in range(draw.choice((1, 1, 5))):
                value = draw.choice((np.nan, np.inf, -np.inf, -1, 0, 1, 2, 0.5, 1e308, 2**62, -(2**62), 10**6))
                flat[draw.randrange(flat.size)] = np.array(value).astype(array.dtype)
        arrays[name] = flat.reshape(array.shape)
    elif what < 0.5:
        kind = draw.choice(("f4", "f8", "i8", "i4", "u1", "b1", "U5", "c16", ">f8", "f2"))
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays[name] = array.astype(kind)
        except ValueError:
            arrays[name] = np.zeros(array.shape, kind)
    elif what < 0.65:
        shapes = [(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1]]
        arrays[name] = array.reshape(draw.choice(shapes))
    elif what < 0.85 and array.ndim:
        longer = np.concatenate([array, array[: draw.randrange(3) + 1]])
        arrays[name] = draw.choice((array[:-1], array[:0], longer, array[..., :0]))
    elif what < 0.95:
        arrays[name] = arrays[draw.choice(sorted(arrays))] if arrays else array
    else:
        arrays.pop(name, None)
