"""Tensors in PyTorch's own files, read without running code.

- `read_state`: the named tensors (a ``state_dict``) of a file's content.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import torch

from legible.policies.protocol import PolicyError


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
    try:
        state = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:
        # PyTorch refuses foreign objects and damaged files in many ways.
        foreign = re.search(r"GLOBAL ([\w.]+)", str(error))
        why = (
            f"it holds {foreign.group(1)}, which would run code"
            if foreign
            else f"it is damaged ({type(error).__name__})"
        )
        raise PolicyError(f"{path}: {what} cannot be read as plain tensors: {why}") from error
    if not isinstance(state, dict):
        raise PolicyError(f"{path}: {what} holds a {type(state).__name__}, not named tensors")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise PolicyError(f"{path}: {name!r} of {what} is no plain tensor")
        if tensor.device.type != "cpu" or tensor.numel() * tensor.element_size() > len(raw):
            raise PolicyError(
                f"{path}: tensor {name!r} of {what} claims shape {tuple(tensor.shape)}, more than the file holds"
            )
    return dict(state)
