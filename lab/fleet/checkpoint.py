"""Checkpoints of a fleet, of two kinds.

- A full one holds everything, the replay buffers too: a training that goes on from it gives the same bits as one that
  never stopped (where the state of the environments can be read).
- A light one leaves the replay buffers out and comes in files of at most 15 MiB. A training that goes on from it first
  plays with ε as it was, without updates, until the buffers hold as many transitions as before.

Files are written whole or not at all, with a checksum; a light checkpoint whose files are of different times is
refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray

from lab.fleet.fleet import Fleet
from lab.fleet.slots import FleetError

_FORMAT = "legible-fleet-checkpoint"
_FILE_BYTES = 15 * 2**20
_LARGEST_HEADER = 10 * 2**20
_CHECKSUM, _SLOTS = "sha256", "slots."
_ENTRIES: Mapping[str, type] = {"full": bool, "slots": bool, "files": int, "counters": dict, "fleet": dict}
_OF_A_FILE = {"file": None, _CHECKSUM: None}  # what differs among the files of a checkpoint


def save_checkpoint(fleet: Fleet, path: str | Path, *, full: bool) -> list[Path]:
    """Write a checkpoint.

    Parameters
    ----------
    fleet
        The fleet, between two phases.
    path
        Where to, without a suffix: ``path.full.safetensors``, or ``path.light-0.safetensors``, ``path.light-1…``
    full
        Whether the replay buffers are kept.

    Returns
    -------
    list of Path
        The files.
    """
    fleet.synchronize()
    arrays: dict[str, NDArray[Any]] = {
        name: tensor.cpu().numpy() for name, tensor in fleet.tensors(with_replay=full).items()
    }
    state = fleet.slots.state()
    if state is not None:
        arrays.update({f"{_SLOTS}{name}": array for name, array in state.items()})
    document = {
        "format": _FORMAT,
        "version": 1,
        "full": full,
        "counters": fleet.counters(),
        "slots": state is not None,
        "fleet": fleet.description(),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shards = [arrays] if full else _shards(arrays)
    files = [_full_file(target)] if full else [_light_file(target, number) for number in range(len(shards))]
    parts = [file.with_name(f"{file.name}.part") for file in files]
    for number, (shard, part) in enumerate(zip(shards, parts, strict=True)):
        header = {**document, "file": number, "files": len(shards)}
        described = json.dumps({**header, _CHECKSUM: _checksum(shard, json.loads(json.dumps(header)))}, sort_keys=True)
        safetensors.numpy.save_file(shard, part, metadata={"legible": described})
    # Only when all parts are there do they take the places of the last checkpoint's files.
    if not full:
        for surplus in set(_light_files(target)) - set(files):
            surplus.unlink()
    for part, file in zip(parts, files, strict=True):
        part.replace(file)
    return files


def load_checkpoint(fleet: Fleet, path: str | Path) -> bool:
    """Let a fleet go on from a checkpoint, the full one if both are there and it is not older.

    Returns whether there was one.

    Raises
    ------
    FleetError
        When the checkpoint is of another fleet, or its files do not belong together.
    """
    target = Path(path)
    found = [files for files in ([_full_file(target)], _light_files(target)) if files and files[0].is_file()]
    if not found:
        return False
    read = [_documents(files) for files in found]
    steps = [documents[0]["counters"]["steps"] for documents in read]
    chosen = steps.index(max(steps))
    _load(fleet, found[chosen], read[chosen][0])
    return True


def remove_checkpoint(path: str | Path) -> None:
    """Remove a checkpoint, of both kinds."""
    target = Path(path)
    for file in (_full_file(target), *_light_files(target)):
        file.unlink(missing_ok=True)


def _full_file(target: Path) -> Path:
    return target.with_name(f"{target.name}.full.safetensors")


def _light_file(target: Path, number: int) -> Path:
    return target.with_name(f"{target.name}.light-{number}.safetensors")


def _light_files(target: Path) -> list[Path]:
    return sorted(target.parent.glob(f"{target.name}.light-*.safetensors"))


def _shards(arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]]:
    """Distribute arrays over files of limited size, in order."""
    shards: list[dict[str, NDArray[Any]]] = [{}]
    room = _FILE_BYTES
    for name, array in arrays.items():
        if array.nbytes > room and shards[-1]:
            shards.append({})
            room = _FILE_BYTES
        shards[-1][name] = array
        room -= array.nbytes
    return shards


def _documents(files: list[Path]) -> list[dict[str, Any]]:
    """Read what the files of a checkpoint say, and check that they belong together."""
    documents = [_document(file) for file in files]
    first = {**documents[0], **_OF_A_FILE}
    if len(documents) != documents[0]["files"] or any({**other, **_OF_A_FILE} != first for other in documents):
        raise FleetError(
            f"{files[0].parent}: the checkpoint's {len(files)} files do not belong together (each says "
            f"{documents[0]['files']} files); copy all files of one time."
        )
    return documents


def _document(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            if int.from_bytes(opened.read(8), "little") > _LARGEST_HEADER:
                raise FleetError(f"{file}: this checkpoint is damaged: its header is far too large.")
        with safetensors.safe_open(file, framework="numpy") as arrays:
            document = json.loads((arrays.metadata() or {}).get("legible", "{}"))
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
        raise FleetError(f"{file}: this checkpoint is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise FleetError(f"{file}: this is no checkpoint of a fleet.")
    for name, kind in _ENTRIES.items():
        if type(document.get(name)) is not kind:
            raise FleetError(f"{file}: this checkpoint is damaged: its entry {name!r} makes no sense.")
    counters = document["counters"]
    if "steps" not in counters or not all(type(count) is int and 0 <= count < 2**62 for count in counters.values()):
        raise FleetError(f"{file}: this checkpoint is damaged: its counts make no sense.")
    return document


def _load(fleet: Fleet, files: list[Path], document: Mapping[str, Any]) -> None:
    own = json.loads(json.dumps(fleet.description()))
    if document["fleet"] != own:
        different = sorted(key for key in own if document["fleet"].get(key) != own[key])
        raise FleetError(
            f"{files[0]}: this checkpoint is of another training; {different[0] if different else 'it'} differs: "
            f"{document['fleet'].get(different[0]) if different else document['fleet']!r} there, "
            f"{own[different[0]] if different else own!r} here."
        )
    arrays: dict[str, NDArray[Any]] = {}
    for file in files:
        arrays.update(_arrays(file))
    full, counters = document["full"], document["counters"]
    tensors = fleet.tensors(with_replay=full)
    state = fleet.slots.state() if document["slots"] else {}
    wanted = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    wanted |= {f"{_SLOTS}{name}": array for name, array in (state or {}).items()}
    # Everything is checked before anything of the fleet is changed.
    for name, array in wanted.items():
        if name not in arrays or (arrays[name].shape, arrays[name].dtype) != (array.shape, array.dtype):
            raise FleetError(f"{files[0]}: this checkpoint is damaged: {name} is missing, or of another shape or type.")
    if not fleet.counters().keys() <= counters.keys():
        raise FleetError(f"{files[0]}: this checkpoint is damaged: some of its counts are missing.")
    for name, tensor in tensors.items():
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(arrays[name])))
    if document["slots"]:
        fleet.slots.set_state({k.removeprefix(_SLOTS): v for k, v in arrays.items() if k.startswith(_SLOTS)})
    fleet.set_counters(counters, with_replay=full)
    fleet.synchronize()
    if not full:
        fleet.refill(counters.get("written", 0))


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file, and check that it is what was written.

    Compiled code continues the games and trusts their state, so a file without checksum is refused.
    """
    document = _document(file)
    try:
        arrays = safetensors.numpy.load_file(file)
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise FleetError(f"{file}: this checkpoint is damaged: {error}") from error
    checksum = document.pop(_CHECKSUM, None)
    if checksum is None:
        raise FleetError(f"{file}: this checkpoint has no checksum; remove it and train again.")
    if checksum != _checksum(arrays, document):
        raise FleetError(f"{file}: this checkpoint is damaged: its content is not what was written.")
    return arrays


def _checksum(arrays: Mapping[str, NDArray[Any]], document: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()
