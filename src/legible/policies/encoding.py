"""Encodings of observations as network inputs: unchanged, or whole numbers as one-hot blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from legible.policies.protocol import Observations, PolicyError


@dataclass(frozen=True)
class Plain:
    """The identity: every feature is one input."""

    n_features: int  # width of an observation, and of the network's input

    def __post_init__(self) -> None:
        if self.n_features < 1:
            raise PolicyError(f"an observation needs at least one feature, not {self.n_features}")

    @property
    def width(self) -> int:
        """Width of the network's input."""
        return self.n_features

    def encode(self, observations: Observations) -> Observations:
        """Return the observations unchanged."""
        return observations

    def as_json(self) -> dict[str, Any]:
        """Return the encoding as plain data."""
        return {"kind": "plain", "features": self.n_features}


@dataclass(frozen=True)
class OneHot:
    """One-hot blocks: every feature is a whole number from 0 to its size − 1.

    Stable-Baselines3 encodes ``Discrete`` (one feature) and ``MultiDiscrete`` observations like this.

    >>> OneHot((3, 2)).encode(np.array([[2, 0]], dtype=np.float32))
    array([[0., 0., 1., 1., 0.]], dtype=float32)
    """

    sizes: tuple[int, ...]  # number of values of each feature

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        if not self.sizes or min(self.sizes) < 1:
            raise PolicyError(f"a one-hot encoding needs sizes of at least 1, not {self.sizes}")

    @property
    def n_features(self) -> int:
        """Width of an observation."""
        return len(self.sizes)

    @property
    def width(self) -> int:
        """Width of the network's input."""
        return sum(self.sizes)

    def encode(self, observations: Observations) -> Observations:
        """Return the concatenated one-hot blocks; raise an error for a value outside its block."""
        sizes = np.array(self.sizes)
        inside = (observations >= 0) & (observations < sizes) & (observations == np.floor(observations))
        if not inside.all():
            row, column = (int(axis[0]) for axis in np.nonzero(~inside))
            raise PolicyError(
                f"feature {column} of row {row} is {observations[row, column]:g}, but must be a whole number from 0 to "
                f"{self.sizes[column] - 1}: the policy one-hot encodes it"
            )
        first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        encoded = np.zeros((len(observations), self.width), dtype=np.float32)
        encoded[np.arange(len(observations))[:, None], observations.astype(np.int64) + first] = 1.0
        return encoded

    def as_json(self) -> dict[str, Any]:
        """Return the encoding as plain data."""
        return {"kind": "one-hot", "sizes": list(self.sizes)}


Encoding: TypeAlias = Plain | OneHot


def encoding_from_json(described: Mapping[str, Any]) -> Encoding:
    """Return the encoding from the output of `Plain.as_json` or `OneHot.as_json`."""
    kind = described.get("kind")
    if kind == "plain" and isinstance(described.get("features"), int):
        return Plain(described["features"])
    if kind == "one-hot" and isinstance(described.get("sizes"), list):
        return OneHot(tuple(described["sizes"]))
    raise PolicyError(f"unknown observation encoding {dict(described)!r}")
