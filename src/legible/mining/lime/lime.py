"""Tabular LIME for policies, many states at once: what speaks for an action and what against it.

- `lime_importance`: the local linear models of a policy's choice around many states.

LIME explains a state by drawing observations at random, asking the policy about them, and fitting a weighted linear
model to the answers. Its inputs are 0/1 indicators: "the feature lies in the same interval as in the explained state".
Four facts make this fast without changing what is estimated:

- When every feature is cut into intervals, the drawn observations do not depend on the explained state. One pool of
  them, and one pass of the policy, can serve many states.
- Features are drawn independently of each other. So the values can be drawn once, and are then only combined anew.
- A drawn observation counts by the *number* of features that left their interval, so it has one of ``features + 1``
  weights. Sorted by this number and packed 64 to a machine word, observations are counted by AND and popcount, and the
  Gram matrix is a short sum of exact counts times weights.
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
    """Anything that scores actions; all that LIME asks of a policy."""

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
    """Find how much every feature matters to every action around the given states, as tabular LIME does.

    What is explained is the softmax of the scores: the choice between actions, group by group where actions take
    several choices. The scores themselves would also tell how good the state is, which is no reason to prefer an
    action.

    Parameters
    ----------
    policy
        An object with ``scores(observations)``, or such a function: ``float32[n, features]`` in, ``[n, actions]`` out,
        higher is better.
    background
        Observations that the policy has met, ``[n, features]``. Features are drawn independently of each other: the
        interval as often as it occurs here; inside it from a normal distribution with the mean and the deviation of
        the values found there, cut off at the interval's ends. Where an interval is open, or ends at a sentinel, the
        extreme of its values takes the place of the end. A categorical feature takes the values that occur.
    states
        The states to explain, ``[m, features]``. A value that lies in no interval is compared like one never met.
    intervals, space
        The intervals of every feature, and the kinds of the features.
    samples
        Observations that stand behind the model of one state, the state itself among them.
    pools
        How many pools of observations to draw; state ``i`` is served by pool ``i % pools``. The policy is asked about
        ``pools · samples`` observations in all. States of one pool share their sampling error, which then averages
        out less in the sums over states. With as many pools as states (or more), every state has observations of
        its own, as in the lime package; fewer pools save time where the policy is slow.
    kernel_width
        Width w of the kernel ``sqrt(exp(−changed / w²))``, by default ``0.75 · sqrt(features)``.
    ridge
        Penalty on the squared weights; the intercept goes free.
    seed
        A number or a generator. One seed gives one result, to the bit.

    Returns
    -------
    Importance
        All zero for a policy that does not look at its observations.
    """
    if samples < 2:
        raise LimeError(f"samples must be at least 2 (the state itself and one more), got {samples}.")
    if pools < 1:
        raise LimeError(f"pools must be at least 1, got {pools}.")
    if not (ridge > 0 and np.isfinite(ridge)):
        raise LimeError(f"ridge must be a positive number, got {ridge}; the usual one is 1.")
    kernel = kernel_weights(len(space), kernel_width)
    known, asked = _check_data(background, states, intervals, space)
    rng = np.random.default_rng(seed)
    drawn = DrawnValues.draw(known, intervals, space, rng)
    codes = intervals.encode(asked)
    own = _choices(policy, asked, space, len(space.actions) or None, lambda row: f"state {row}")
    weights, intercepts = np.empty((*own.shape, len(space))), np.empty(own.shape)
    pools = min(pools, len(asked))
    rows, n_actions = samples - 1, own.shape[1]
    pool, targets = np.empty((rows, len(space)), np.uint16), np.empty((rows, n_actions))
    for first in range(pools):
        for begin in range(0, rows, DRAWS):
            part = slice(begin, min(begin + DRAWS, rows))
            values, pool[part] = drawn.combine(part.stop - begin, rng)

            def name(row: int, observations: Observations = values) -> str:
                return f"the drawn observation {observations[row].tolist()}"

            targets[part] = _choices(policy, values, space, n_actions, name)
        for state in range(first, len(asked), pools):
            gram, moments = normal_equations(pool, targets, codes[state], own[state], kernel)
            weights[state], shift = solve(gram, moments, ridge)
            intercepts[state] = own[state] + shift
    return Importance(weights, intercepts)


def _check_data(
    background: ArrayLike, states: ArrayLike, intervals: Intervals, space: FeatureSpace
) -> tuple[Observations, Observations]:
    if len(intervals) != len(space):
        raise LimeError(f"there are intervals for {len(intervals)} features, but the space has {len(space)}.")
    checked = []
    for what, given in (("background", background), ("states", states)):
        try:
            array = space.check(given)
        except LegibleError as error:
            raise LimeError(f"{what}: {error}") from error
        if len(array) == 0:
            raise LimeError(f"{what}: there are no observations.")
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            raise LimeError(
                f"{what}: row {row} has {array[row, column]} for feature {space[column].name!r}; every value must be "
                "a finite number. Leave such rows out, or give the missing value a number of its own (a sentinel)."
            )
        checked.append(np.ascontiguousarray(array))
    return checked[0], checked[1]


def _choices(
    policy: _Scorer | _ScoreFunction,
    observations: Observations,
    space: FeatureSpace,
    actions: int | None,
    name: Callable[[int], str],
) -> NDArray[np.float64]:
    """Softmax of the policy's scores in float64, in every group; ``name`` says which observation a row is."""
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
    # Where rules block every action of a guided policy, any of them may be taken.
    by_action[:, np.isneginf(by_action).all(axis=0)] = 0.0
    best = by_action.max(axis=0, initial=-np.inf)
    # −inf is fair for an action that is never taken, but no softmax survives NaN or +inf.
    unfit = ~np.isfinite(best)
    if unfit.any():
        row = int(np.argmax(unfit))
        raise LimeError(
            f"the policy gave the scores {scores[row].tolist()} for {name(row)}; numbers are needed to compare actions."
        )
    odds = np.exp(by_action - best)
    return np.ascontiguousarray((odds / odds.sum(axis=0)).T)
