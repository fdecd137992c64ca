"""The guided policy in a study's folder: its rules in ``composition.json``, with the network in ``guided.safetensors``.

- `save_guided_policy`: writes both; `is_guided_policy_saved`: whether they are there and hold what they should.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from legible.errors import LegibleError
from legible.files import read_json, sha256_of, write_json
from legible.improvement import Improvement

if TYPE_CHECKING:
    from legible.guidance import GuidedPolicy

_RULES, _NETWORK = "composition.json", "guided.safetensors"


def is_guided_policy_saved(folder: Path, improvement: Improvement, key: str) -> bool:
    """Return whether the files are there, whole, and hold this composition; one that was deleted or damaged is not."""
    try:
        kept = read_json(folder / _RULES, key)
        checksum = kept.pop("guided", None)
        same = kept == json.loads(json.dumps(improvement.composition.to_dict()))
        return same and (checksum is None or sha256_of(folder / _NETWORK) == checksum)
    except (LegibleError, OSError):
        return False


def save_guided_policy(folder: Path, guided: GuidedPolicy, improvement: Improvement, key: str) -> None:
    """Write the rules and, if the policy is a network, rules and network in one file.

    The file also says what the rules gained on fresh seeds, and whether that may be chance. A policy that is no network
    cannot be written: its rules are in ``composition.json``.
    """
    from legible.policies.policy_file import why_not_saved  # noqa: PLC0415 (it needs PyTorch)

    checksum = None
    if why_not_saved(guided.network) is None:
        gain = {**asdict(improvement.effect), "may_be_chance": improvement.effect.low <= 0}
        guided.save(folder / _NETWORK, metadata={"legible.gain": gain})
        checksum = sha256_of(folder / _NETWORK)
    write_json(folder / _RULES, {**improvement.composition.to_dict(), "guided": checksum}, key)
