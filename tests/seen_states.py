"""Experiences of given states, for tests of what is learned from them."""

from typing import Any

import numpy as np

from legible.features import FeatureSpace
from legible.play import Experiences


def seen_states(
    observations: Any, actions: Any, scores: Any = None, episode_ids: Any = None, *, space: FeatureSpace
) -> Experiences:
    """Return states with what was done there; unless given, what was done has the best score, ten states an episode."""
    rows, chosen = np.asarray(observations, np.float32), np.asarray(actions, np.int64)
    if scores is None:
        scores = np.eye(len(space.actions), dtype=np.float32)[chosen]
    ids = np.asarray(episode_ids if episode_ids is not None else np.arange(len(rows)) // 10, np.int64)
    n = int(ids.max()) + 1
    empty = np.zeros(n)
    return Experiences(
        rows, chosen, np.asarray(scores, np.float32), ids, empty, np.bincount(ids), np.arange(n), empty, space
    )
