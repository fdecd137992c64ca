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
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace, Intervals, Observations
from legible.mining.importance import Importance
from legible.mining.lime.errors import LimeError
from legible.mining.lime.regression import kernel_weights, normal_equations, solve
from legible.mining.lime.sampling import DRAWS, DrawnValues


class _Scorer(Protocol):
    """Anything that scores actions."""

    def scores(self, observations: Observations, /) -> Any: ...


_ScoreFunction = Callable[[Observations], Any]


def lime_importance(
    policy: _Scorer | _ScoreFunction,
    background: ArrayLike,
    states: ArrayLike,
    intervals: Intervals,
    space: FeatureSpace,
    *,
    samples: int = 5000,
    pools: int = 100,
    kernel_width: float | None = None,
    ridge: float = 1.0,
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
    policy
        An object with ``scores(observations)``, or such a function: ``float32[n, features]`` in, ``[n, actions]`` out,
        higher is better.
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
    ridge
        Penalty on the squared weights; the intercept is not penalised.
    seed
        A number or a generator.

    Returns
    -------
    Importance
        All zero for a constant policy.
    """
    if samples < 2:
        raise LimeError(f"samples must be at least 2 (the state and one more), got {samples}.")
    if pools < 1:
        raise LimeError(f"pools must be at least 1, got {pools}.")
    if not (ridge > 0 and np.isfinite(ridge)):
        raise LimeError(f"ridge must be a positive number, got {ridge}; the default is 1.")
    kernel = kernel_weights(len(space), kernel_width)
    background_rows, state_rows = _check_data(background, states, intervals, space)
    rng = np.random.default_rng(seed)
    drawn_values = DrawnValues.draw(background_rows, intervals, space, rng)

    # "Codes" are interval numbers, "targets" the policy's preferences.
    state_codes = intervals.encode(state_rows)
    state_targets = _preferences(policy, state_rows, space, len(space.actions) or None, lambda row: f"state {row}")
    weights, intercepts = np.empty((*state_targets.shape, len(space))), np.empty(state_targets.shape)
    pools = min(pools, len(state_rows))  # more would not be used
    rows_per_pool = samples - 1  # the state itself is a sample, too
    n_actions = state_targets.shape[1]
    pool_codes, targets = np.empty((rows_per_pool, len(space)), np.uint16), np.empty((rows_per_pool, n_actions))

    # One pool at a time, to save memory: draw its observations in batches, let the policy score them, and fit a model
    # for every state that uses this pool.
    for pool_number in range(pools):
        for start in range(0, rows_per_pool, DRAWS):
            batch = slice(start, min(start + DRAWS, rows_per_pool))
            values, pool_codes[batch] = drawn_values.combine(batch.stop - start, rng)

            def name(row: int, observations: Observations = values) -> str:
                return f"the drawn observation {observations[row].tolist()}"

            targets[batch] = _preferences(policy, values, space, n_actions, name)
        for state in range(pool_number, len(state_rows), pools):
            # Weighted ridge regression on "same interval as in the state".
            gram, moments = normal_equations(pool_codes, targets, state_codes[state], state_targets[state], kernel)
            weights[state], shift = solve(gram, moments, ridge)
            intercepts[state] = state_targets[state] + shift
    return Importance(weights, intercepts)


def _check_data(
    background: ArrayLike, states: ArrayLike, intervals: Intervals, space: FeatureSpace
) -> tuple[Observations, Observations]:
    """Return `background` and `states` as ``float32[n, features]``, or raise an error that names the wrong value.

    Parameters
    ----------
    background
        Recorded observations, from which LIME draws new ones.
    intervals, space
        The intervals of the features, and the features.
    """
    if len(intervals) != len(space):
        raise LimeError(f"there are intervals for {len(intervals)} features, but the space has {len(space)}.")
    checked = []
    for argument, observations in (("background", background), ("states", states)):
        try:
            array = space.check(observations)
        except LegibleError as error:
            raise LimeError(f"{argument}: {error}") from error
        if len(array) == 0:
            raise LimeError(f"{argument}: there are no observations.")
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            raise LimeError(
                f"{argument}: row {row} has {array[row, column]} for feature {space[column].name!r}; every value must "
                "be a finite number. Leave such rows out, or replace the missing value by a sentinel."
            )
        checked.append(np.ascontiguousarray(array))
    return checked[0], checked[1]


def _preferences(
    policy: _Scorer | _ScoreFunction,
    observations: Observations,
    space: FeatureSpace,
    actions: int | None,
    name: Callable[[int], str],
) -> NDArray[np.float64]:
    """Return the softmax of the scores in float64, per action group; ``name`` names an observation in errors."""
    score: _ScoreFunction = policy.scores if hasattr(policy, "scores") else policy
    given = score(observations)
    try:
        scores = np.asarray(given, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LimeError(f"the policy's scores cannot be read as numbers: {error}") from error
    expected = f"({len(observations)}, {'actions' if actions is None else actions})"
    if scores.ndim != 2 or len(scores) != len(observations) or scores.shape[1] != (actions or scores.shape[1]):
        raise LimeError(f"the policy gave scores of shape {scores.shape}, expected {expected}.")
    if space.is_discrete:
        return _softmax(scores, name)
    return np.concatenate([_softmax(scores[:, group.choices], name) for group in space.groups], axis=1)


def _softmax(scores: NDArray[np.float64], name: Callable[[int], str]) -> NDArray[np.float64]:
    by_action = scores.T.copy()
    # If the rules of a guided policy block every action, all are equally good.
    by_action[:, np.isneginf(by_action).all(axis=0)] = 0.0
    best = by_action.max(axis=0, initial=-np.inf)
    # −inf is valid for an action that is never taken; NaN and +inf are not.
    unfit = ~np.isfinite(best)
    if unfit.any():
        row = int(np.argmax(unfit))
        raise LimeError(f"the policy gave the scores {scores[row].tolist()} for {name(row)}; expected finite numbers.")
    odds = np.exp(by_action - best)
    return np.ascontiguousarray((odds / odds.sum(axis=0)).T)
