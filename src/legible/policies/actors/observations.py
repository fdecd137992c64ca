"""Network inputs from observations, preprocessed as in Stable-Baselines3.

- `is_image`: recognise image spaces.
- `batch_of`: an observation or a batch as arrays with one row per observation.
- `normalised_batch`: a batch after normalisation.
- `tensors_of`: a batch as network input: images in [0, 1], whole numbers as one-hot blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

from legible.policies.normalisation import Normalisation
from legible.policies.protocol import PolicyError

Batch: TypeAlias = npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]
Tensors: TypeAlias = torch.Tensor | Mapping[str, torch.Tensor]
Statistics: TypeAlias = Normalisation | Mapping[str, Normalisation]


def is_image(space: spaces.Space[Any]) -> bool:
    """Return whether observations are images: three dimensions, bytes from 0 to 255."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    return space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())


def batch_of(observation: Any, space: spaces.Space[Any]) -> tuple[Batch, bool]:
    """Return an observation or a batch with one row per observation, and whether it was a single observation.

    Images with channels last are transposed if the policy reads channels first. Raises `PolicyError` if the
    observations do not fit the space.
    """
    if not isinstance(space, spaces.Dict):
        return _rows(np.asarray(observation), space, "observations")
    if not isinstance(observation, Mapping) or not set(space.spaces) <= set(observation):
        raise PolicyError(f"the policy reads observations with the entries {', '.join(space.spaces)}")
    rows = {key: _rows(np.asarray(observation[key]), inner, key) for key, inner in space.spaces.items()}
    return {key: batch for key, (batch, _) in rows.items()}, all(single for _, single in rows.values())


def _rows(array: npt.NDArray[Any], space: spaces.Space[Any], name: str) -> tuple[npt.NDArray[Any], bool]:
    shape = tuple(space.shape or ())
    if len(shape) == 3 and array.shape[-3:] != shape and is_image(space):
        channels_first = np.moveaxis(array, -1, -3) if array.ndim >= 3 else array
        array = channels_first if channels_first.shape[-3:] == shape else array
    if array.shape == shape:
        return array[None], True
    if array.shape[1:] == shape:
        return array, False
    if array.ndim == 2 and shape and array.shape[1] == int(np.prod(shape)):
        return array.reshape(-1, *shape), False  # a batch of flat observations
    if shape == () and array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0], False
    raise PolicyError(f"the policy reads {name} of shape {shape} or batches of them, but got shape {array.shape}")


def normalised_batch(batch: Batch, statistics: Statistics | None) -> Batch:
    """Return a batch normalised with its statistics; entries without statistics stay unchanged."""
    if statistics is None:
        return batch
    if isinstance(batch, Mapping) == isinstance(statistics, Normalisation):
        raise PolicyError("only one of observations and normalisation statistics is a dictionary; pass both as such")
    if isinstance(statistics, Normalisation):
        rows = np.asarray(batch)
        return statistics.apply(rows.reshape(len(rows), -1)).reshape(rows.shape)
    assert isinstance(batch, Mapping)
    return {key: normalised_batch(rows, statistics.get(key)) for key, rows in batch.items()}  # type: ignore[misc]


def tensors_of(batch: Batch, space: spaces.Space[Any], *, scale_images: bool) -> Tensors:
    """Return a batch as the input of a network."""
    if isinstance(batch, Mapping):
        assert isinstance(space, spaces.Dict)
        return {key: _tensor(batch[key], inner, scale_images) for key, inner in space.spaces.items()}
    return _tensor(batch, space, scale_images)


def _tensor(rows: npt.NDArray[Any], space: spaces.Space[Any], scale_images: bool) -> torch.Tensor:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()
        rows = rows.reshape(-1, 1) if isinstance(space, spaces.Discrete) else rows
        whole = rows.astype(np.int64)
        if (whole < 0).any() or (whole >= np.array(sizes)).any() or (whole != rows).any():
            raise PolicyError(f"the policy reads whole numbers from 0 to below {sizes}, but got other numbers")
        columns = torch.from_numpy(np.ascontiguousarray(whole))
        return torch.cat([F.one_hot(columns[:, place], size).float() for place, size in enumerate(sizes)], dim=1)
    # Transposed images stay views: PyTorch then sums in the same order as for Stable-Baselines3.
    values = torch.as_tensor(rows if rows.flags.writeable else rows.copy()).float()
    return values / 255.0 if scale_images and is_image(space) else values
