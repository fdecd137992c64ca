"""Smaller batches in which a network computes the same bits, so that batches need not be filled up.

Matrix products may differ in the last bit between batches of different sizes, so episodes are played with batches of
one size (`legible.play.AdaptedPolicy`). When few episodes are left, most rows of such a batch would be padding. On most
processors, batches of some smaller sizes give the same bits; this is tried out on random observations.

- `equal_sizes`: the sizes that do.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.engines.threads import one_thread

_SIZES = (8, 16, 32, 48, 64, 96)
_SCALES = (0.1, 1.0)
_LEAST_DISTINCT = 0.5  # share of the rows whose output must differ from all others, or the comparison shows nothing


@lru_cache(maxsize=32)
def equal_sizes(policy: Hashable, rows: int, method: str) -> tuple[int, ...]:
    """Return the batch sizes, ascending, that give the same answers to the bit as a batch of `rows` observations.

    The last bits of a matrix product can depend on the batch size. Smaller batches are faster, so some sizes are tried.
    The last size returned is `rows` itself. Only networks of legible that read flat numbers are tried: other policies
    may remember what they were asked.

    Parameters
    ----------
    policy
        The policy.
    rows
        The number of observations in its usual batches.
    method
        The method of the policy whose answers are compared: "scores", "part_scores" or "predict".
    """
    from legible.policies import ActorPolicy, NetworkPolicy  # noqa: PLC0415 (they need PyTorch)

    if not isinstance(policy, (NetworkPolicy, ActorPolicy)) or rows <= _SIZES[0]:
        return (rows,)
    space = policy.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
        return (rows,)

    # Random observations of the size that the policy was trained on, as far as its statistics show it.
    centre, spread = np.zeros(space.shape), np.ones(space.shape)
    normalisation: Any = policy.normalisation
    if getattr(normalisation, "mean", None) is not None:
        centre, spread = normalisation.mean, np.sqrt(normalisation.var)

    # Compare the last observations of the full batch with the same ones in a smaller batch, for small and for usual
    # deviations from the centre.
    rng = np.random.default_rng(0)
    equal_so_far = [size for size in _SIZES if size < rows]
    distinct = 0.0  # largest share of rows with different answers
    with one_thread():
        for scale in _SCALES:
            observations = (centre + scale * spread * rng.standard_normal((rows, *space.shape))).astype(np.float32)
            answers = _ask(policy, method, observations)
            distinct = max(distinct, len(np.unique(answers, axis=0)) / rows)
            equal_so_far = [
                size
                for size in equal_so_far
                if _ask(policy, method, observations[-size:]).tobytes() == answers[-size:].tobytes()
            ]
    # A policy that answers nearly always the same would pass this test whatever it computes.
    return (*equal_so_far, rows) if distinct >= _LEAST_DISTINCT else (rows,)


def _ask(policy: Any, method: str, observations: Any) -> Any:
    answer = getattr(policy, method)(observations)
    return np.ascontiguousarray(answer[0] if method == "predict" else answer)
