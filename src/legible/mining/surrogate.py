"""Importances from a surrogate, a model that predicts the action from the features of rules.

- `surrogate_importance`: the loss of the model when the values of a feature are shuffled (permutation importance).

LIME needs the scores of states that were never visited. If the policy does not see the features (pictures, derived
features), a surrogate replaces it. Its fidelity is the share of held-out states in which it predicts the action.
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

TREES, MIN_LEAF, SHUFFLES = 50, 5, 2
MAX_LEARNED, MAX_JUDGED, HELD_OUT = 20_000, 4_000, 0.25


def surrogate_importance(
    experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator, columns: Sequence[int] | None = None
) -> Importance:
    """Measure how much every feature contributes to predicting the action.

    Parameters
    ----------
    experiences
        Recorded steps of the policy.
    rows
        The experiences to use; a quarter of their episodes is held out.
    rng
        The only source of randomness.
    columns
        Numbers of the features that the surrogate sees; by default all. Others get importance 0.

    Returns
    -------
    Importance
        When the values of f are shuffled, imp(+, a, f) is the mean loss of the predicted probability of a where a was
        taken, and imp(−, a, f) its mean gain where a negative rule on a should hold.
    """
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 (slow to import)

    space = experiences.space
    seen_columns = np.arange(len(space)) if columns is None else np.asarray(columns)
    learning_rows, held_out_rows = _split(experiences, rows, rng)
    positive, negative = np.zeros((2, len(space.actions), len(space)))
    agrees = []
    for number, group in enumerate(space.groups):
        chosen = experiences.actions if space.is_discrete else experiences.actions[:, number]
        model = RandomForestClassifier(
            TREES, min_samples_leaf=MIN_LEAF, random_state=int(rng.integers(2**31)), n_jobs=1
        ).fit(experiences.observations[np.ix_(learning_rows, seen_columns)], chosen[learning_rows])
        states = experiences.observations[np.ix_(held_out_rows, seen_columns)]
        unshuffled = _probabilities(model, states, group)
        agrees.append(unshuffled.argmax(axis=1) + group.first == chosen[held_out_rows])
        for place, feature in enumerate(seen_columns.tolist()):
            total = np.zeros_like(unshuffled)
            for _ in range(SHUFFLES):
                shuffled = states.copy()
                shuffled[:, place] = rng.permutation(shuffled[:, place])
                total += _probabilities(model, shuffled, group)
            loss = unshuffled - total / SHUFFLES
            for action in range(group.first, group.first + group.count):
                column = loss[:, action - group.first]
                positive[action, feature] = _mean(column, experiences.taken(action)[held_out_rows])
                negative[action, feature] = _mean(-column, inclusion(experiences, action, "-")[held_out_rows])
    weights = np.stack([positive, -negative])
    fidelity = float(np.all(agrees, axis=0).mean())
    return Importance(weights, np.zeros(weights.shape[:2]), "surrogate", fidelity)


def _split(
    experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows to learn from and rows to judge on, of different episodes if there are several."""
    episodes = np.unique(experiences.episode_ids[rows])
    if len(episodes) > 1:
        held = rng.permutation(episodes)[: max(1, round(HELD_OUT * len(episodes)))]
        judged = np.isin(experiences.episode_ids[rows], held)
    else:
        judged = rng.random(len(rows)) < HELD_OUT
        judged[: 1 + (len(rows) > 1)] = [True, False][: len(rows)]
    parts = []
    for part, most in ((rows[~judged], MAX_LEARNED), (rows[judged], MAX_JUDGED)):
        parts.append(np.sort(rng.choice(part, min(most, part.size), replace=False)))
    return parts[0], parts[1]


def _probabilities(
    model: RandomForestClassifier, states: NDArray[np.float32], group: ActionGroup
) -> NDArray[np.float64]:
    """Return predicted probabilities of all choices of a group, including those never taken."""
    found = np.zeros((len(states), group.count))
    found[:, model.classes_ - group.first] = model.predict_proba(states)
    return found


def _mean(values: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
    return max(0.0, float(values[where].mean())) if where.any() else 0.0
