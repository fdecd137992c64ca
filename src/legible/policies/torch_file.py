"""Tensors in PyTorch's files, read without running code.

- `read_state`: read the named tensors (a ``state_dict``) of a file.
- `read_saved`, `checked_state`: the same in two steps, for files that hold several.
- `is_torchscript`: recognise TorchScript programs.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from legible.policies.inert_pickle import pickled_names, read_pickle, read_pickles
from legible.policies.protocol import PolicyError

_OF_TENSORS = re.compile(
    r"torch\.(\w*Storage|storage\.\w*Storage|Size|device|(b?float|complex|u?int|q?u?int)\d+|bool|nn\.parameter\.Parameter"
    r"|_utils\._rebuild_(tensor|tensor_v2|parameter))"
)
_OLD_MARK = 0x1950A86A20F9469CFC6C
_SPARE_BYTES = 2**20  # PyTorch does not compress: the parts of a file are about as large as the file


def read_state(raw: bytes, path: Path, what: str) -> dict[str, torch.Tensor]:
    """Return the tensors of a ``state_dict`` by name, or raise `PolicyError`.

    `raw` is the content of the file at `path`, and `what` the name of this content in error messages.
    """
    return checked_state(read_saved(raw, path, what), raw, path, what)


def read_saved(raw: bytes, path: Path, what: str) -> Any:
    """Return the content of a file of ``torch.save`` if it is made of tensors and plain data, or raise an error.

    The pickles in the file are first read as data, because loading them with PyTorch could run code. `raw` are the
    bytes of the file; `path` and `what` name it in errors: "policy.pth" of this path.
    """
    try:
        content = _checked_archive(raw, path, what) if zipfile.is_zipfile(io.BytesIO(raw)) else raw
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise PolicyError(f"{path}: {what} cannot be read as plain tensors: it is damaged ({error})") from error
    if content is raw:  # no archive
        # Files from before PyTorch 1.6 are pickles in a row: a mark, a version, the system, the content, and its keys.
        _check_names(raw, path, what)
        mark, *_, keys = [*islice(read_pickles(io.BytesIO(raw), f"{path}: {what}", _is_of_tensors), 5)]
        if mark != _OLD_MARK or not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise PolicyError(f"{path}: {what} cannot be read as plain tensors: it is damaged or not from torch.save")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about older formats
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        # PyTorch refuses foreign objects and damaged files in many ways.
        raise PolicyError(
            f"{path}: {what} cannot be read as plain tensors: it is damaged or not from torch.save "
            f"({type(error).__name__})"
        ) from error


def _checked_archive(raw: bytes, path: Path, what: str) -> bytes:
    """Return an archive of ``torch.save`` with the same members, after its pickles are read as data.

    It is packed again, so that PyTorch finds the members that were read here, however the archive is built.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as archive, zipfile.ZipFile(packed, "w") as again:
        if sum(member.file_size for member in archive.infolist()) > len(raw) + _SPARE_BYTES:
            raise PolicyError(f"{path}: {what} would unpack to far more than its size, as no policy does")
        names = archive.namelist()
        if len(set(names)) < len(names):
            raise PolicyError(f"{path}: {what} holds two parts of the same name, as no policy does")
        for name in names:
            member = archive.read(name)
            if name.endswith(".pkl"):
                _check_names(member, path, what)
                read_pickle(member, f"{path}: {what}", _is_of_tensors)
            again.writestr(name, member)
    return packed.getvalue()


def _check_names(pickles: bytes, path: Path, what: str) -> None:
    for name in pickled_names(pickles):
        if name != "collections.OrderedDict" and not name.startswith("torch."):
            raise PolicyError(f"{path}: {what} is refused: it holds {name[:100]}, which would run code")


def _is_of_tensors(name: str) -> bool:
    return name == "collections.OrderedDict" or _OF_TENSORS.fullmatch(name) is not None


def checked_state(state: Any, raw: bytes, path: Path, what: str) -> dict[str, torch.Tensor]:
    """Return a ``state_dict`` if it holds only named tensors that are no larger than their file."""
    if not isinstance(state, dict):
        raise PolicyError(f"{path}: {what} holds a {type(state).__name__}, not named tensors")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise PolicyError(f"{path}: {str(name)[:100]!r} of {what} is no plain tensor")
        if tensor.device.type != "cpu" or tensor.numel() * tensor.element_size() > len(raw):
            shape = tuple(tensor.shape)
            raise PolicyError(f"{path}: tensor {name!r} of {what} claims shape {shape}, more than the file holds")
    return dict(state)


def is_torchscript(path: Path) -> bool:
    """Return whether a file is a TorchScript program, by its content."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.split("/")[1:2] == ["code"] for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
