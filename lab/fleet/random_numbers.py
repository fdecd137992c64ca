"""Random numbers of a fleet: every policy has its own streams, which depend on its seed alone.

The generator is counter-based (`legible.streams`), here also in PyTorch's operations: a number depends on a key and a
counter, so nothing but the counters must be kept to go on after a stop, and CPU and GPU draw the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from legible.streams import GOLDEN, uniform

_INT64 = 1 << 64


def _signed(value: int) -> int:
    """Return the int64 with the bits of an unsigned 64-bit number."""
    value %= _INT64
    return value - _INT64 if value >= _INT64 // 2 else value


_GOLDEN = _signed(int(GOLDEN))
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


@dataclass(frozen=True)
class PolicyStreams:
    """The random streams of one policy: its network, its environments, its exploration and its sampling."""

    network: int
    environments: tuple[int, ...]
    exploration: int
    sampling: int

    @classmethod
    def of(cls, seed: int, n_envs: int, stage: int = 0) -> PolicyStreams:
        """Derive them from a seed; `stage` separates several trainings of one policy (0: first, 1: extended)."""
        state = np.random.SeedSequence(seed, spawn_key=(stage,)).generate_state(n_envs + 3, np.uint64)
        numbers = [int(number) for number in state]
        return cls(numbers[0] % 2**63, tuple(numbers[3:]), numbers[1], numbers[2])


def guidance_key(seed: int, stage: int) -> int:
    """Return the stream that decides which episodes of a policy are guided."""
    return int(np.random.SeedSequence(seed, spawn_key=(stage, 1)).generate_state(1, np.uint64)[0])


def keys_on(device: torch.device, keys: list[int]) -> Tensor:
    """Keys as an int64 tensor ``[N, 1]`` with the bits of the unsigned numbers."""
    return torch.tensor([[_signed(key)] for key in keys], dtype=torch.int64, device=device)


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser; int64 products wrap around, and masks make the shifts logical."""
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * _FIRST
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * _SECOND
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def draw_integers(keys: Tensor, first: Tensor, n: int, bound: Tensor) -> Tensor:
    """Draw n whole numbers below `bound` for every key: ``int64[N, n]``, those at places first … first + n − 1.

    `first` and `bound` are tensors of one number, so that a captured graph reads what they hold when it is run. The
    upper 32 bits of a 64-bit draw are scaled to the bound; the deviation from uniform is below bound / 2³².
    """
    places = torch.arange(1, n + 1, dtype=torch.int64, device=keys.device) + first
    z = _mix(keys + places * _GOLDEN)
    return ((z >> 32) & ((1 << 32) - 1)) * bound >> 32


def draw_uniform(keys: Tensor, first: Tensor, n: int) -> Tensor:
    """Draw n numbers in [0, 1) for every key: ``float64[N, n]``, those at places first … first + n − 1."""
    places = torch.arange(1, n + 1, dtype=torch.int64, device=keys.device) + first
    z = _mix(keys + places * _GOLDEN)
    return ((z >> 11) & ((1 << 53) - 1)).double() * 2.0**-53


def draw_orders(keys: Tensor, first: int, orders: int, n: int) -> Tensor:
    """Draw random orders of 0 … n − 1 for every key: ``int64[orders, N, n]``."""
    places = torch.arange(1, orders * n + 1, dtype=torch.int64, device=keys.device) + first
    z = _mix(keys + places * _GOLDEN).view(len(keys), orders, n)
    return z.argsort(dim=2).transpose(0, 1).contiguous()


@njit(cache=True)
def explore(
    keys: NDArray[np.uint64], call: int, epsilon: float, n_actions: int, all_random: bool, actions: NDArray[np.int64]
) -> None:
    """Replace greedy actions ``[N, n_envs]`` by random ones, for all environments of a policy or for none.

    Stable-Baselines3 draws once a call whether to explore, not once an environment; so does this.
    """
    n_envs = actions.shape[1]
    for p in range(actions.shape[0]):
        first = np.uint64(call * (n_envs + 1))
        if all_random or uniform(keys[p], first) < epsilon:
            for e in range(n_envs):
                draw = uniform(keys[p], first + np.uint64(e + 1))
                actions[p, e] = min(int(draw * n_actions), n_actions - 1)
