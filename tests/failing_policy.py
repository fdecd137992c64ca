"""A policy that is code and fails after some calls."""

from __future__ import annotations

import numpy as np

_calls = [0]


def scores(observations: np.ndarray) -> np.ndarray:
    """Return scores for a while, then raise."""
    _calls[0] += 1
    if _calls[0] > 50:
        raise RuntimeError("the sensor is gone")
    return np.tile([0.0, 1.0, 0.0], (len(observations), 1))
