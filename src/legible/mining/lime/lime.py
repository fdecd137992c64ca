"""Tabular LIME for policies, many states at once: `lime_importance`.

LIME explains a state by drawing random observations, scoring them with the policy, and fitting a weighted linear model
to the scores. Its inputs are 0/1 indicators: "the feature is in the same interval as in the explained state". Four
facts make this fast without changing the estimate:

- With intervals for every feature, the drawn observations do not depend on the explained state. One pool of them, and
  one pass of the policy, can serve many states.
- Features are drawn independently, so values can be drawn once and recombined.
- The weight of an observation depends only on the *number* of features that left their interval. Sorted by this number
  and packed 64 to a word, observations are counted by AND and popcount, and the Gram matrix is a short sum of exact
  counts times weights.
- The normal equations of all actions share their matrix, so one Cholesky factor solves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace, Intervals, Observations
from legible.mining.importance import Importance, ImportanceError
from legible.mining.lime.regression import kernel_weights, normal_equations, solve
from legible.mining.lime.sampling import DRAWS, DrawnValues

RIDGE = 1.0  # penalty on the squared weights of the linear models, as in the lime package
Score = Callable[[Observations], Any]
"""Returns the scores of all actions, ``[n, actions]``, higher is better, for observations ``float32[n, features]``."""


def lime_importance(
    score: Score,
    background: ArrayLike,
    states: ArrayLike,
    intervals: Intervals,
    space: FeatureSpace,
    *,
    samples: int = 5000,
    pools: int = 100,
    kernel_width: float | None = None,
    seed: int | np.random.Generator,
) -> Importance:
    """Return the importance of every feature for every action around the given states, as tabular LIME does.

    For each state, LIME draws observations, asks the policy to score them, and fits a linear model from "is feature f
    in the same interval as in the state?" to the policy's preferences, in which observations close to the state count
    more. The coefficients of the model are the importances.

    The preferences are the softmax of the scores over the choices of each part of an action: raw scores also contain
    the value of the state, which is no reason to prefer an action.

    Parameters
    ----------
    score
        The scores of the policy.
    background
        Recorded observations, ``[n, features]``, from which new ones are drawn, feature by feature: first an interval
        with its frequency here, then a value from a normal distribution fitted to the values in the interval and
        truncated at its ends. At an open end, or next to a sentinel (a special value such as -1 for "none"), it is
        truncated at the extreme value. A categorical feature takes the values that occur.
    states
        The states to explain, ``[m, features]``. A value outside all intervals counts as never met.
    intervals
        The intervals of each feature.
    space
        The features and their kinds.
    samples
        Number of observations for the model of one state, including the state itself.
    pools
        Number of sets of drawn observations; state ``i`` uses set ``i % pools``. The policy scores ``pools · samples``
        observations in all. States of one pool share their sampling error. With a pool per state, as in the lime
        package, errors average out best; fewer pools are faster.
    kernel_width
        Width w of the kernel ``sqrt(exp(−changed / w²))``, the weight of an observation in which the intervals of
        `changed` features differ from those of the state; by default ``0.75 · sqrt(features)``.
    seed
        A number or a generator.

    Returns
    -------
    Importance
        All zero for a constant policy.
    """
    if samples < 2:
        raise ImportanceError(f"samples must be at least 2 (the state and one more), got {samples}.")
    if pools < 1:
        raise ImportanceError(f"pools must be at least 1, got {pools}.")
    kernel = kernel_weights(len(space), kernel_width)
    background_rows, state_rows = _check_data(background, states, intervals, space)
    rng = np.random.default_rng(seed)
    drawn_values = DrawnValues.draw(background_rows, intervals, space, rng)

    # "Codes" are interval numbers, [row, feature]; "targets" are the policy's preferences, [row, action].
    state_codes = intervals.encode(state_rows)
    state_targets = _preferences(score, state_rows, space, "the state")
    # Of the linear models: weights [state, action, feature] and intercepts [state, action].
    weights, intercepts = np.empty((*state_targets.shape, len(space))), np.empty(state_targets.shape)
    rows_per_pool = samples - 1  # the state itself is a sample, too
    pool_codes = np.empty((rows_per_pool, len(space)), np.uint16)
    pool_targets = np.empty((rows_per_pool, len(space.actions)))

    # One pool at a time, to save memory: draw its observations in batches, let the policy score them, and fit a model
    # for every state that uses this pool.
    pools = min(pools, len(state_rows))  # more would not be used
    for pool_number in range(pools):
        for start in range(0, rows_per_pool, DRAWS):
            batch = slice(start, min(start + DRAWS, rows_per_pool))
            observations, pool_codes[batch] = drawn_values.combine(batch.stop - start, rng)
            pool_targets[batch] = _preferences(score, observations, space, "the drawn observation")
        for state in range(pool_number, len(state_rows), pools):
            # Weighted ridge regression on "same interval as in the state".
            gram, moments = normal_equations(pool_codes, pool_targets, state_codes[state], state_targets[state], kernel)
            weights[state], shift = solve(gram, moments, RIDGE)
            intercepts[state] = state_targets[state] + shift
    return Importance(weights, intercepts)


def _check_data(
    background: ArrayLike, states: ArrayLike, intervals: Intervals, space: FeatureSpace
) -> tuple[Observations, Observations]:
    """Return `background` and `states` as ``float32[n, features]``, or raise an error that names the wrong value.

    For the parameters see `lime_importance`.
    """
    if len(intervals) != len(space):
        raise ImportanceError(f"there are intervals for {len(intervals)} features, but the space has {len(space)}.")
    checked = []
    for argument, observations in (("background", background), ("states", states)):
        try:
            array = space.check(observations)
        except LegibleError as error:
            raise ImportanceError(f"{argument}: {error}") from error
        if len(array) == 0:
            raise ImportanceError(f"{argument}: there are no observations.")
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            raise ImportanceError(
                f"{argument}: row {row} has {array[row, column]} for feature {space[column].name!r}; every value must "
                "be a finite number. Leave such rows out, or replace the missing value by a sentinel."
            )
        checked.append(np.ascontiguousarray(array))
    return checked[0], checked[1]


def _preferences(score: Score, observations: Observations, space: FeatureSpace, called: str) -> NDArray[np.float64]:
    """Return the softmax of the scores over each group of choices, ``float64[n, actions]``.

    `called` names an observation in errors, such as "the state".
    """
    given = score(observations)
    try:
        scores = np.asarray(given, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ImportanceError(f"the policy's scores cannot be read as numbers: {error}") from error
    expected = len(observations), len(space.actions)
    if scores.shape != expected:
        raise ImportanceError(f"the policy gave scores of shape {scores.shape}, expected {expected}.")
    preferences = []
    for group in space.groups:
        by_choice = scores[:, group.choices].T.copy()
        # If the rules of a guided policy block every choice, all are equally good.
        by_choice[:, np.isneginf(by_choice).all(axis=0)] = 0.0
        best = by_choice.max(axis=0, initial=-np.inf)
        # −inf is valid for a choice that is never taken; NaN and +inf are not.
        is_unfit = ~np.isfinite(best)
        if is_unfit.any():
            row = int(np.argmax(is_unfit))
            raise ImportanceError(
                f"the policy gave the scores {scores[row, group.choices].tolist()} for {called} "
                f"{observations[row].tolist()}; expected finite numbers."
            )
        odds = np.exp(by_choice - best)
        preferences.append((odds / odds.sum(axis=0)).T)
    return np.ascontiguousarray(np.concatenate(preferences, axis=1))
