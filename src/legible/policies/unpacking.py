"""Files of others, unpacked with care: nothing in them may swell beyond what a policy can be.

- `check_member`: a member of a zip that is not much larger than what it is packed into.
- `parse_json`: JSON that is neither huge nor nested without end.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from legible.policies.protocol import PolicyError

_HARMLESS_BYTES = 32 * 2**20
_LARGEST_RATIO = 4
# Weights hardly compress: what unpacks to many times its size is no policy.

_MOST_JSON_BYTES = 64 * 2**20
_MOST_JSON_VALUES = 500_000


def check_member(path: Path, archive: zipfile.ZipFile, name: str) -> None:
    """Refuse a member of a zip that would unpack to far more than the file holds."""
    member = archive.getinfo(name)
    packed = min(member.compress_size, path.stat().st_size)
    if member.file_size > max(_HARMLESS_BYTES, _LARGEST_RATIO * packed):
        raise PolicyError(
            f"{path}: {name} claims to be {member.file_size:,} bytes large, packed into {packed:,}; no policy unpacks "
            "like that"
        )


def parse_json(raw: bytes | str, whose: str) -> Any:
    """Return what a JSON document says.

    Raises
    ------
    PolicyError
        When it is none, nested too deep, or holds far more than a description of a policy can.
    """
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    if len(text) > _MOST_JSON_BYTES or sum(text.count(sign) for sign in "[{,") > _MOST_JSON_VALUES:
        raise PolicyError(f"{whose} is far larger than a description of a policy can be")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise PolicyError(f"{whose} is no JSON that can be read: it is nested too deep") from error
    except ValueError as error:
        raise PolicyError(f"{whose} is no JSON: {error}") from error
