"""From what an environment gives to what a network reads, as Stable-Baselines3 does it.

- `is_image`: whether observations of a space are pictures.
- `batch_of`: an observation, or a batch of them, as arrays with a row for each.
- `tensors_of`: a batch as the input of a network: pictures in [0, 1], whole numbers as one-hot blocks.
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


def is_image(space: spaces.Space[Any], *, already_normalised: bool = False) -> bool:
    """Return whether observations are pictures: three dimensions and, unless `already_normalised`, bytes to 255."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    return already_normalised or (
        space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())
    )


def batch_of(observation: Any, space: spaces.Space[Any]) -> tuple[Batch, bool]:
    """Return an observation, or a batch of them, with a row for each, and whether it was a single one.

    Pictures whose channels come last are turned, when the policy reads them with the channels first.

    Raises
    ------
    PolicyError
        When the space does not have such observations.
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
        turned = np.moveaxis(array, -1, -3) if array.ndim >= 3 else array
        array = turned if turned.shape[-3:] == shape else array
    if array.shape == shape:
        return array[None], True
    if array.shape[1:] == shape:
        return array, False
    if array.ndim == 2 and shape and array.shape[1] == int(np.prod(shape)):
        return array.reshape(-1, *shape), False  # a batch of flat observations
    if shape == () and array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0], False
    raise PolicyError(
        f"the policy reads {name} of shape {shape} or batches of them, but these have shape {array.shape}"
    )


def normalised_batch(batch: Batch, statistics: Statistics | None) -> Batch:
    """Return a batch normalised with its statistics, or those entries of it that have some."""
    if statistics is None:
        return batch
    if isinstance(batch, Mapping):
        if isinstance(statistics, Normalisation):
            raise PolicyError("the normalisation statistics are for one array, but observations have entries by name")
        return {key: _normalised(rows, statistics[key]) if key in statistics else rows for key, rows in batch.items()}
    if not isinstance(statistics, Normalisation):
        raise PolicyError("the normalisation statistics have entries by name, but observations are one array")
    return _normalised(batch, statistics)


def _normalised(rows: npt.NDArray[Any], statistics: Normalisation) -> npt.NDArray[np.float32]:
    return statistics.apply(rows.reshape(len(rows), -1)).reshape(rows.shape)


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
            raise PolicyError(f"the policy reads whole numbers below {sizes}, but an observation holds something else")
        columns = torch.from_numpy(np.ascontiguousarray(whole))
        return torch.cat([F.one_hot(columns[:, place], size).float() for place, size in enumerate(sizes)], dim=1)
    # Turned pictures stay the views that they are: PyTorch then sums as it does for Stable-Baselines3.
    values = torch.as_tensor(rows if rows.flags.writeable else rows.copy()).float()
    return values / 255.0 if scale_images and is_image(space) else values
