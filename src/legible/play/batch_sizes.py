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
    """Return the sizes of batches whose rows get the same bits as in a batch of `rows`, ascending; the last is `rows`.

    Only networks of legible that read flat numbers are tried: other policies may remember what they were asked.

    Parameters
    ----------
    policy, rows
        The policy, and the number of rows of its usual batches.
    method
        "scores", "part_scores" or "predict".
    """
    from legible.policies import ActorPolicy, NetworkPolicy  # noqa: PLC0415 (they need PyTorch)

    if not isinstance(policy, (NetworkPolicy, ActorPolicy)) or rows <= _SIZES[0]:
        return (rows,)
    space = policy.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
        return (rows,)
    centre, spread = np.zeros(space.shape), np.ones(space.shape)
    normalisation: Any = policy.normalisation
    if getattr(normalisation, "mean", None) is not None:
        centre, spread = normalisation.mean, np.sqrt(normalisation.var)
    rng = np.random.default_rng(0)
    equal, distinct = [size for size in _SIZES if size < rows], 0.0
    with one_thread():
        for scale in _SCALES:
            shown = (centre + scale * spread * rng.standard_normal((rows, *space.shape))).astype(np.float32)
            whole = _ask(policy, method, shown)
            distinct = max(distinct, len(np.unique(whole, axis=0)) / rows)
            equal = [size for size in equal if _ask(policy, method, shown[-size:]).tobytes() == whole[-size:].tobytes()]
    return (*equal, rows) if distinct >= _LEAST_DISTINCT else (rows,)


def _ask(policy: Any, method: str, observations: Any) -> Any:
    answer = getattr(policy, method)(observations)
    return np.ascontiguousarray(answer[0] if method == "predict" else answer)
