"""Contents of Stable-Baselines3's ``.zip`` files, read without unpickling anything.

- `Contents`, `read_contents`: the readable part of a zip.
- `read_tensors`: the tensors of its policy by name.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from legible.policies.protocol import PolicyError, UnclearPolicyError
from legible.policies.torch_file import read_state
from legible.policies.unpacking import check_member, parse_json

SUPPORTED = (
    "the built-in policy classes of Stable-Baselines3 and sb3-contrib for DQN, QRDQN, PPO, A2C, TRPO, SAC, TD3, DDPG, "
    "TQC, CrossQ, ARS, MaskablePPO and RecurrentPPO, with observations that are Box, Discrete, MultiDiscrete, "
    "MultiBinary or Dict, and actions that are Box, Discrete, MultiDiscrete or MultiBinary"
)
"""Description of the policies that can be read without running code."""

_TRUST = "If you trust its author, open it with trust: Stable-Baselines3's own loader reads it and runs its code."


@dataclass(frozen=True)
class Contents:
    """The readable part of a zip: its ``data``, in which pickles stay text, and the version of Stable-Baselines3."""

    path: Path
    data: Mapping[str, Any]
    version: str | None

    def text_of(self, key: str) -> Mapping[str, Any]:
        """Return the readable attributes of an entry of ``data``, empty if it is missing."""
        entry = self.data.get(key)
        if not isinstance(entry, dict):
            return {}
        return {name: value for name, value in entry.items() if name != ":serialized:"}

    def ask(self, what: str, argument: str, example: str) -> NoReturn:
        """Raise an error that names the missing argument."""
        raise UnclearPolicyError(f"{self.path}: {what}. Give the {argument}, such as {example}. {_TRUST}", argument)

    def refuse(self, what: str) -> NoReturn:
        """Raise an error about something that is not supported, with the alternatives."""
        raise PolicyError(f"{self.path}: {what}. Supported are {SUPPORTED}. {_TRUST}")


def read_contents(path: Path) -> Contents:
    """Return the readable part of a zip."""
    with _opened(path) as archive:
        names = archive.namelist()
        if "policy.pth" not in names:
            raise PolicyError(
                f"{path}: this zip file has no policy.pth, so it was not written by Stable-Baselines3's save(); it "
                f"holds {', '.join(sorted(names)[:5]) or 'nothing'}"
            )
        check_member(path, archive, "policy.pth")
        data = parse_json(_read_member(path, archive, "data"), f"{path}: data") if "data" in names else {}
        if not isinstance(data, dict):
            raise PolicyError(f"{path}: data is a JSON {type(data).__name__}, not an object")
        version = None
        if "_stable_baselines3_version" in names:
            version = _read_member(path, archive, "_stable_baselines3_version").decode("utf-8", "replace").strip()
    return Contents(path, data, version)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the policy in a zip by name."""
    with _opened(path) as archive:
        raw = _read_member(path, archive, "policy.pth")
    return read_state(raw, path, "policy.pth")


def _opened(path: Path) -> zipfile.ZipFile:
    with path.open("rb") as stream:
        begins_well = stream.read(4) == b"PK\x03\x04"
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        what = "the zip file is truncated or damaged" if begins_well else "this is no zip file"
        raise PolicyError(f"{path}: {what}") from error
    if min((member.header_offset for member in archive.infolist()), default=0) > 0:
        # The tensors are zips, too: in a truncated file one of those is found instead.
        archive.close()
        raise PolicyError(f"{path}: the zip file is truncated or damaged")
    return archive


def _read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    check_member(path, archive, name)
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise PolicyError(f"{path}: {name} is damaged: {error}") from error
    except (NotImplementedError, RuntimeError) as error:
        raise PolicyError(f"{path}: {name} cannot be unpacked: {error}") from error
