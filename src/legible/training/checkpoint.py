"""Checkpoints of a fleet, of two kinds.

- A full one holds everything, the replay buffers too: a training that goes on from it gives the same bits as one that
  never stopped (where the state of the environments can be read).
- A light one leaves the replay buffers out and comes in files of at most 15 MiB. A training that goes on from it first
  plays with ε as it was, without updates, until the buffers hold as many transitions as before.

Files are written whole or not at all, and a light checkpoint whose files are of different times is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray

from legible.training.fleet import Fleet
from legible.training.slots import FleetError

_FORMAT = "legible-fleet-checkpoint"
_FILE_BYTES = 15 * 2**20


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
        arrays.update({f"slots.{name}": array for name, array in state.items()})
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
        described = json.dumps({**document, "file": number, "files": len(shards)}, sort_keys=True)
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
    documents = []
    for file in files:
        try:
            with safetensors.safe_open(file, framework="numpy") as opened:
                documents.append(json.loads((opened.metadata() or {}).get("legible", "{}")))
        except (safetensors.SafetensorError, OSError, ValueError) as error:
            raise FleetError(f"{file}: this checkpoint is damaged: {error}") from error
        if documents[-1].get("format") != _FORMAT:
            raise FleetError(f"{file}: this is no checkpoint of a fleet.")
    first = {**documents[0], "file": None}
    if len(documents) != documents[0]["files"] or any({**other, "file": None} != first for other in documents):
        raise FleetError(
            f"{files[0].parent}: the checkpoint's {len(files)} files do not belong together (each says "
            f"{documents[0]['files']} files); copy all files of one time."
        )
    return documents


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
        arrays.update(safetensors.numpy.load_file(file))
    full = bool(document["full"])
    for name, tensor in fleet.tensors(with_replay=full).items():
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(arrays[name])))
    if document["slots"]:
        prefix = "slots."
        fleet.slots.set_state({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
    counters = document["counters"]
    fleet.set_counters(counters, with_replay=full)
    fleet.synchronize()
    if not full:
        fleet.refill(counters.get("written", 0))
