"""Random streams that are functions, not objects: a number depends on a key and a counter and on nothing else.

An episode has a key, made from its seed. Whatever batch it runs in, and whatever its neighbours draw, its own numbers
stay the same. The scrambler is the finaliser of SplitMix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.imports import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NEXT = np.uint64(0xD1B54A32D192ED03)
_POLICY = np.uint64(0x8CB92BA72F3D8DD7)
_GROUP = np.uint64(0xC2B2AE3D27D4EB4F)
_NOISE = np.uint64(0xA0761D6478BD642F)
_ONE_53RD = 1.0 / (1 << 53)


@njit(cache=True)
def mix(z: np.uint64) -> np.uint64:
    """Scramble 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def key_of_seed(seed: np.uint64) -> np.uint64:
    """Return the key of the stream of a seed."""
    return mix(seed + GOLDEN)


@njit(cache=True)
def next_key(key: np.uint64) -> np.uint64:
    """Return the key of another stream that follows from one and is unrelated to it."""
    return mix(key ^ _NEXT)


@njit(cache=True)
def uniform(key: np.uint64, count: np.uint64) -> float:
    """Return the number in [0, 1) at a place of a stream."""
    return np.float64(mix(key + (count + np.uint64(1)) * GOLDEN) >> np.uint64(11)) * _ONE_53RD


@njit(cache=True)
def group_key(key: np.uint64, group: int) -> np.uint64:
    """Return the key of the stream of a group of choices: of the first, the key itself; of others, one of their own."""
    return key if group == 0 else mix(key + np.uint64(group) * _GROUP)


@njit(cache=True)
def _noise(keys: NDArray[np.uint64], steps: NDArray[np.int64], first: int, columns: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) at the places ``first … first + columns - 1`` of every row's stream for its step."""
    numbers = np.empty((keys.size, columns), np.float64)
    for i in range(keys.size):
        key = mix((keys[i] ^ _NOISE) + np.uint64(steps[i]) * GOLDEN)
        for k in range(columns):
            numbers[i, k] = uniform(key, np.uint64(first + k))
    return numbers


class RowGenerator:
    """Random numbers for the rows of a batch, each from the stream of its episode and its step.

    It draws as a generator of NumPy does, so that policies can use it like one. What a row gets does not depend on the
    others.

    - `keys`: of the rows' episodes, see `policy_keys`.
    - `steps`: how many steps each episode has taken.
    """

    def __init__(self, keys: NDArray[np.uint64], steps: NDArray[np.int64]) -> None:
        self._keys, self._steps, self._drawn = keys, steps, 0

    def random(self, shape: int | Sequence[int]) -> NDArray[np.float64]:
        """Numbers in [0, 1); the first dimension is the row."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if sizes[0] != len(self._keys):
            raise LegibleError(f"random numbers for {len(self._keys)} rows were asked for {sizes[0]} rows.")
        columns = int(np.prod(sizes[1:]))
        numbers = _noise(self._keys, self._steps, self._drawn, columns)
        self._drawn += columns
        return numbers.reshape(sizes)

    def standard_normal(self, shape: int | Sequence[int]) -> NDArray[np.float64]:
        """Numbers of the standard normal distribution."""
        from scipy.special import ndtri  # noqa: PLC0415 (most draws are not normal)

        normal: NDArray[np.float64] = ndtri(self.random(shape) + _ONE_53RD / 2)
        return normal


@njit(cache=True)
def _policy_keys(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    keys = np.empty_like(seeds)
    for i in range(seeds.size):
        # An environment that takes the same seed draws from key_of_seed itself, and from next_key of it when it is
        # reset without a seed; the policy's draws must repeat neither.
        keys[i] = mix(key_of_seed(seeds[i]) ^ _POLICY)
    return keys


def policy_keys(seeds: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """Return for every episode's seed the key of the stream from which its policy draws."""
    return _policy_keys(np.array([check_seed(seed) % 2**64 for seed in seeds], np.uint64))


def check_seed(seed: object) -> int:
    """Return the seed as an int, or raise an error that says what is wrong with it."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise LegibleError(f"a seed is a whole number of at least 0, got {seed!r}.")
    return int(seed)
