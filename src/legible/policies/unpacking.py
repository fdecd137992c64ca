"""Limits for untrusted files: archives that unpack to far more than their size, and huge or deeply nested JSON."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from legible.policies.protocol import PolicyError

_HARMLESS_BYTES = 32 * 2**20
_LARGEST_RATIO = 4  # weights hardly compress
_MOST_JSON_BYTES = 64 * 2**20
_MOST_JSON_VALUES = 500_000


def check_member(path: Path, archive: zipfile.ZipFile, name: str) -> None:
    """Raise an error if a member of a zip would unpack to far more than its packed size."""
    member = archive.getinfo(name)
    packed = min(member.compress_size, path.stat().st_size)
    if member.file_size > max(_HARMLESS_BYTES, _LARGEST_RATIO * packed):
        raise PolicyError(
            f"{path}: {name} would unpack from {packed:,} to {member.file_size:,} bytes, as no policy does"
        )


def parse_json(raw: bytes | str, whose: str) -> Any:
    """Return the content of a JSON document, or raise `PolicyError` if it is invalid, too large or nested too deep."""
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    if len(text) > _MOST_JSON_BYTES or sum(text.count(sign) for sign in "[{,") > _MOST_JSON_VALUES:
        raise PolicyError(f"{whose} is far larger than a description of a policy can be")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise PolicyError(f"{whose} is no JSON that can be read: it is nested too deep") from error
    except ValueError as error:
        raise PolicyError(f"{whose} is no JSON: {error}") from error
