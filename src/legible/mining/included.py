"""The states that a rule shall cover, `inclusion`, and those that it shall not, `exclusion`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from legible.play import Experiences
from legible.rules import Polarity

# Of the states in which a continuous action lies outside a region, those with the farthest: a share of all states.
FARTHEST_SHARE = 0.2


def inclusion(experiences: Experiences, action: int, polarity: Polarity) -> NDArray[np.bool_]:
    """Mark the states of inc(action, polarity).

    Positive: the action was taken. Negative: it has the lowest score of its group; states in which it was taken after
    all (at random, or because all scores are equal) are left out. Of a region of continuous actions the fifth of the
    states whose action is farthest from it, since one in the middle never has the lowest score.
    """
    taken = experiences.taken(action)
    if polarity == "+":
        return taken
    group = experiences.space.groups[experiences.space.group_of(action)]
    if group.regions is not None:
        score = experiences.scores[:, action]
        return (score <= np.quantile(score, FARTHEST_SHARE)) & ~taken if len(score) else ~taken
    return (experiences.scores[:, group.choices].argmin(axis=1) + group.first == action) & ~taken


def exclusion(experiences: Experiences, action: int, polarity: Polarity) -> NDArray[np.bool_]:
    """Mark the states of exc(action, polarity): positive, another action was taken; negative, this one was."""
    taken = experiences.taken(action)
    return ~taken if polarity == "+" else taken
