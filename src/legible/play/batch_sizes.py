"""Other batch sizes in which a network computes the same bits: small ones need not be filled up, large ones are fast.

Matrix products may differ in the last bit between batches of different sizes, so episodes are played with batches of
one size (`legible.play.AdaptedPolicy`). When few episodes are left, most rows of such a batch would be padding. On most
processors, batches of some smaller and larger sizes give the same bits; this is tried out on random observations.

- `equal_sizes`: the sizes that do; `cut_rows`: cuts observations into batches of these sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.engines.threads import one_thread

# Larger batches gain nothing: hidden layers leave the processor's cache.
_SIZES = (8, *range(16, 128, 16), *range(128, 513, 32))
_SCALES = (0.1, 1.0)
_LEAST_DISTINCT = 0.5  # share of the rows whose output must differ from all others, or the comparison shows nothing


@lru_cache(maxsize=32)
def equal_sizes(policy: Hashable, rows: int, method: str) -> tuple[int, ...]:
    """Return the batch sizes, ascending, that give the same answers to the bit as batches of `rows` observations.

    The last bits of a matrix product can depend on the batch size. Some sizes are tried; `rows` itself is
    always returned. Only networks of legible that read flat numbers are tried: questions may change the answers of
    other policies, such as those with memory.

    - `rows`: the number of observations in its usual batches.
    - `method`: the method of the policy whose answers are compared: "scores", "part_scores" or "predict".
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

    # Compare the last observations, asked `rows` at a time, with the same ones in batches of another size, for small
    # and for usual deviations from the centre.
    rng = np.random.default_rng(0)
    equal_so_far = [size for size in _SIZES if size != rows]
    n_observations = -(-_SIZES[-1] // rows) * rows  # the largest size, rounded up to whole batches
    distinct = 0.0  # largest share of the answers in a batch that differ from each other
    with one_thread():
        for scale in _SCALES:
            drawn = rng.standard_normal((n_observations, *space.shape))
            observations = (centre + scale * spread * drawn).astype(np.float32)
            pieces = [_ask(policy, method, observations[i : i + rows]) for i in range(0, n_observations, rows)]
            answers = np.concatenate(pieces)
            distinct = max(distinct, len(np.unique(answers[-rows:], axis=0)) / rows)
            equal_so_far = [
                size
                for size in equal_so_far
                if _ask(policy, method, observations[-size:]).tobytes() == answers[-size:].tobytes()
            ]
    # A policy that answers nearly always the same would pass this test whatever it computes.
    return tuple(sorted((*equal_so_far, rows))) if distinct >= _LEAST_DISTINCT else (rows,)


def cut_rows(n: int, sizes: tuple[int, ...]) -> Iterator[tuple[slice, int, int]]:
    """Yield slices of n observations, the size of the batch of each, and how many of its rows were in the one before.

    The largest size is used as long as it can be, and then the smallest one that holds the rest. Only a single batch
    needs to be filled up, because a later one can begin with rows of the batch before.

    >>> list(cut_rows(700, (8, 64, 128, 192, 512)))
    [(slice(0, 512, None), 512, 0), (slice(508, 700, None), 192, 4)]
    """
    for start in range(0, n, sizes[-1]):
        size = next((size for size in sizes if size >= n - start), sizes[-1])
        first = max(0, min(start, n - size))
        yield slice(first, min(n, first + size)), size, start - first


def _ask(policy: Any, method: str, observations: Any) -> Any:
    answer = getattr(policy, method)(observations)
    return np.ascontiguousarray(answer[0] if method == "predict" else answer)
