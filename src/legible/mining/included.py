"""States that a rule should cover, `inclusion`, and should not cover, `exclusion`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible.play import Experiences
from legible.policies.protocol import MASKED
from legible.rules import Polarity

# Share of the states, those with the farthest actions, that a negative rule on a region of actions should cover.
FARTHEST_SHARE = 0.2


def inclusion(experiences: Experiences, action: int, polarity: Polarity) -> NDArray[np.bool_]:
    """Mark the states of inc(action, polarity).

    Positive: the action was taken. Negative: it has the lowest score of its group and was not taken (at random, or as
    all scores are equal). For a region of continuous actions: the fifth of the states whose action is farthest from it,
    because a region in the middle never has the lowest score.
    """
    taken = experiences.taken(action)
    if polarity == "+":
        return taken
    group = experiences.space.groups[experiences.space.group_of(action)]
    if group.regions is not None:
        score = experiences.scores[:, action]
        return (score <= np.quantile(score, FARTHEST_SHARE)) & ~taken if len(score) else ~taken
    scores = experiences.scores[:, group.choices]
    # What the environment forbids, the policy does not avoid.
    allowed = np.where(scores == MASKED, np.inf, scores)
    return (allowed.argmin(axis=1) + group.first == action) & ~taken


def exclusion(experiences: Experiences, action: int, polarity: Polarity) -> NDArray[np.bool_]:
    """Mark the states of exc(action, polarity): positive, another action was taken; negative, this one was."""
    taken = experiences.taken(action)
    return ~taken if polarity == "+" else taken
