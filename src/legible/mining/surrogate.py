"""Importances from a surrogate: a model that predicts the policy's choice from the features of rules.

- `surrogate_importance`: how much worse the model gets when a feature's values are shuffled (permutation importance).

LIME asks the policy about states never visited. Where a policy cannot be asked, because the features are not what
it sees (pictures, derived features), the surrogate is asked instead. How well it stands for the policy is its fidelity:
the share of held-out states in which it predicts the choice. Features that tell the same share their importance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from legible.features import ActionGroup
from legible.mining.importance import Importance
from legible.mining.included import inclusion
from legible.play import Experiences

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

TREES, LEAST_IN_LEAF, SHUFFLES = 50, 5, 2
MOST_LEARNED, MOST_JUDGED, HELD_OUT = 20_000, 4_000, 0.25


def surrogate_importance(
    experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator, columns: Sequence[int] | None = None
) -> Importance:
    """Find how much every feature tells about the policy's choice.

    Parameters
    ----------
    experiences
        What the policy saw and did.
    rows
        The experiences to look at; a quarter of their episodes is held out.
    rng
        The only source of randomness.
    columns
        Numbers of the features that the surrogate sees; by default all. Others have no importance.

    Returns
    -------
    Importance
        imp(+, a, f) is the mean loss of a's predicted probability where a was taken, imp(−, a, f) the mean gain of it
        where a rule against a would hold, when the values of f are shuffled.
    """
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 (it takes half a second, and few need it)

    space = experiences.space
    seen = np.arange(len(space)) if columns is None else np.asarray(columns)
    learned, judged = _split(experiences, rows, rng)
    positive, negative = np.zeros((2, len(space.actions), len(space)))
    agreed = []
    for number, group in enumerate(space.groups):
        chosen = experiences.actions if space.is_discrete else experiences.actions[:, number]
        model = RandomForestClassifier(
            TREES, min_samples_leaf=LEAST_IN_LEAF, random_state=int(rng.integers(2**31)), n_jobs=1
        ).fit(experiences.observations[np.ix_(learned, seen)], chosen[learned])
        states = experiences.observations[np.ix_(judged, seen)]
        before = _probabilities(model, states, group)
        agreed.append(before.argmax(axis=1) + group.first == chosen[judged])
        for place, feature in enumerate(seen.tolist()):
            total = np.zeros_like(before)
            for _ in range(SHUFFLES):
                shuffled = states.copy()
                shuffled[:, place] = rng.permutation(shuffled[:, place])
                total += _probabilities(model, shuffled, group)
            loss = before - total / SHUFFLES
            for action in range(group.first, group.first + group.count):
                column = loss[:, action - group.first]
                positive[action, feature] = _mean(column, experiences.taken(action)[judged])
                negative[action, feature] = _mean(-column, inclusion(experiences, action, "-")[judged])
    weights = np.stack([positive, -negative])
    fidelity = float(np.all(agreed, axis=0).mean())
    return Importance(weights, np.zeros(weights.shape[:2]), "surrogate", fidelity)


def _split(
    experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from and rows to judge on: of other episodes, where there are several."""
    episodes = np.unique(experiences.episode_ids[rows])
    if len(episodes) > 1:
        held = rng.permutation(episodes)[: max(1, round(HELD_OUT * len(episodes)))]
        judged = np.isin(experiences.episode_ids[rows], held)
    else:
        judged = rng.random(len(rows)) < HELD_OUT
        judged[: 1 + (len(rows) > 1)] = [True, False][: len(rows)]
    parts = []
    for part, most in ((rows[~judged], MOST_LEARNED), (rows[judged], MOST_JUDGED)):
        parts.append(np.sort(rng.choice(part, min(most, part.size), replace=False)))
    return parts[0], parts[1]


def _probabilities(
    model: RandomForestClassifier, states: NDArray[np.float32], group: ActionGroup
) -> NDArray[np.float64]:
    """Predicted probabilities of all choices of a group, also of those that were never taken."""
    found = np.zeros((len(states), group.count))
    found[:, model.classes_ - group.first] = model.predict_proba(states)
    return found


def _mean(values: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
    return max(0.0, float(values[where].mean())) if where.any() else 0.0
