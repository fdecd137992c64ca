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

TREES, MIN_LEAF = 50, 5  # of the random forest
SHUFFLES = 2  # of every feature; their losses are averaged
MAX_LEARNED, MAX_JUDGED = 20_000, 4_000  # largest numbers of rows
HELD_OUT = 0.25  # share of the episodes on which the model is judged


def surrogate_importance(
    experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator, columns: Sequence[int] | None = None
) -> Importance:
    """Return how much every feature contributes to predicting the policy's action.

    A random forest, the surrogate of the policy, learns to predict the action from the features. A feature is important
    if the predictions become worse when its values are shuffled among held-out states.

    Parameters
    ----------
    experiences
        Recorded steps of the policy.
    rows
        The numbers of the steps to use; a quarter of their episodes is held out.
    rng
        The only source of randomness.
    columns
        Numbers of the features that the surrogate sees; by default all. Others get importance 0.

    Returns
    -------
    Importance
        The importance of feature f for action a is the mean loss of the predicted probability of a, where a was taken,
        when the values of f are shuffled; its importance against a is the mean gain of the probability where a rule
        that avoids a should hold.
    """
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 (slow to import)

    space = experiences.space
    seen_columns = np.arange(len(space)) if columns is None else np.asarray(columns)
    learning_rows, held_out_rows = _split(experiences, rows, rng)
    positive, negative = np.zeros((2, len(space.actions), len(space)))
    is_right = []

    # One forest per part of an action; a group holds the choices of one part.
    for part, group in enumerate(space.groups):
        choices = experiences.actions if space.is_discrete else experiences.actions[:, part]
        model = RandomForestClassifier(
            TREES, min_samples_leaf=MIN_LEAF, random_state=int(rng.integers(2**31)), n_jobs=1
        ).fit(experiences.observations[np.ix_(learning_rows, seen_columns)], choices[learning_rows])
        held_out_states = experiences.observations[np.ix_(held_out_rows, seen_columns)]
        unshuffled = _probabilities(model, held_out_states, group)
        is_right.append(unshuffled.argmax(axis=1) + group.first == choices[held_out_rows])

        # Shuffle one feature at a time and average the new probabilities over some shuffles.
        for position, feature in enumerate(seen_columns.tolist()):
            shuffled_sum = np.zeros_like(unshuffled)
            for _ in range(SHUFFLES):
                shuffled = held_out_states.copy()
                shuffled[:, position] = rng.permutation(shuffled[:, position])
                shuffled_sum += _probabilities(model, shuffled, group)
            loss = unshuffled - shuffled_sum / SHUFFLES
            # The mean over the states in which the action was taken, and over those in which a rule that avoids it
            # should hold (`inclusion`).
            for action in range(group.first, group.first + group.count):
                loss_of_action = loss[:, action - group.first]
                positive[action, feature] = _mean(loss_of_action, experiences.taken(action)[held_out_rows])
                negative[action, feature] = _mean(-loss_of_action, inclusion(experiences, action, "-")[held_out_rows])

    # The format of `Importance`: a row of weights in favour of actions, and one, negative, against them.
    weights = np.stack([positive, -negative])
    fidelity = float(np.all(is_right, axis=0).mean())
    return Importance(weights, np.zeros(weights.shape[:2]), "surrogate", fidelity)


def _split(
    experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows to learn from and rows to judge on, of different episodes if there are several."""
    episodes = np.unique(experiences.episode_ids[rows])
    if len(episodes) > 1:
        held_out_episodes = rng.permutation(episodes)[: max(1, round(HELD_OUT * len(episodes)))]
        is_judged = np.isin(experiences.episode_ids[rows], held_out_episodes)
    else:
        is_judged = rng.random(len(rows)) < HELD_OUT
        is_judged[:1], is_judged[1:2] = True, False  # neither part may be empty
    # At most as many rows of each part as the model can use in little time.
    learned, judged = (
        np.sort(rng.choice(part, min(most, part.size), replace=False))
        for part, most in ((rows[~is_judged], MAX_LEARNED), (rows[is_judged], MAX_JUDGED))
    )
    return learned, judged


def _probabilities(
    model: RandomForestClassifier, states: NDArray[np.float32], group: ActionGroup
) -> NDArray[np.float64]:
    """Return predicted probabilities of all choices of a group, including those never taken."""
    found = np.zeros((len(states), group.count))
    found[:, model.classes_ - group.first] = model.predict_proba(states)
    return found


def _mean(values: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
    return max(0.0, float(values[where].mean())) if where.any() else 0.0
