"""Tensors in PyTorch's own files, read without running code.

- `read_state`: the named tensors (a ``state_dict``) of a file's content.
- `read_saved`, `checked_state`: the same in two steps, for files that hold several.
- `is_torchscript`: whether a file is a program.
"""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch

from legible.policies.inert_pickle import pickled_names
from legible.policies.protocol import PolicyError

_SPARE_BYTES = 2**20
# PyTorch does not compress: the parts of a file are as large as the file itself.


def read_state(raw: bytes, path: Path, what: str) -> dict[str, torch.Tensor]:
    """Return the tensors of a ``state_dict`` by name.

    Parameters
    ----------
    raw
        Content of the file.
    path
        The file that it comes from.
    what
        What it is called in complaints.

    Raises
    ------
    PolicyError
        When it is damaged or holds anything but named tensors.
    """
    return checked_state(read_saved(raw, path, what), raw, path, what)


def read_saved(raw: bytes, path: Path, what: str) -> Any:
    """Return what ``torch.save`` wrote, if it is made of tensors and plain data; arguments as for `read_state`."""
    pickles = raw  # all of an old file; a member of one since PyTorch 1.6
    try:
        if zipfile.is_zipfile(io.BytesIO(raw)):
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                if sum(member.file_size for member in archive.infolist()) > len(raw) + _SPARE_BYTES:
                    raise PolicyError(f"{path}: {what} would unpack to far more than it holds; no policy does")
                names = [name for name in archive.namelist() if name.endswith(".pkl")]
                pickles = b"".join(archive.read(name) for name in names)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise PolicyError(f"{path}: {what} cannot be read as plain tensors: it is damaged ({error})") from error
    for name in pickled_names(pickles):
        if name != "collections.OrderedDict" and not name.startswith("torch."):
            raise PolicyError(
                f"{path}: {what} cannot be read as plain tensors: it holds {name[:100]}, which would run code"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:
        # PyTorch refuses foreign objects and damaged files in many ways.
        raise PolicyError(
            f"{path}: {what} cannot be read as plain tensors: it is damaged, or no file of torch.save "
            f"({type(error).__name__})"
        ) from error


def checked_state(state: Any, raw: bytes, path: Path, what: str) -> dict[str, torch.Tensor]:
    """Return a ``state_dict`` when it is nothing but named tensors, no larger than the file that they come from."""
    if not isinstance(state, dict):
        raise PolicyError(f"{path}: {what} holds a {type(state).__name__}, not named tensors")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise PolicyError(f"{path}: {str(name)[:100]!r} of {what} is no plain tensor")
        if tensor.device.type != "cpu" or tensor.numel() * tensor.element_size() > len(raw):
            raise PolicyError(
                f"{path}: tensor {name!r} of {what} claims shape {tuple(tensor.shape)}, more than the file holds"
            )
    return dict(state)


def is_torchscript(path: Path) -> bool:
    """Return whether a file is a program of TorchScript, by its content."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.split("/")[1:2] == ["code"] for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
