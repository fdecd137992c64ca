"""How scores become actions.

- `Chooser`: anything that chooses actions for the rows of a batch; `PolicyChooser`: as a policy says.
- `choose_actions`, `choose_choices`, `choose_row`: the best action, ε-greedy, or sampled.
- `ask_policy`, `take_choices`: what a policy wants in the rows of a batch, and the actions that choices become.
- `check_policy`: whether a policy and an environment belong together; `why_no_study`, `why_no_flat_study`: what keeps a
  policy from it, always or unless rules see something else than its observations.
- `check_exploration`: whether a policy can act at random in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import move_to
from legible.play.slots import Observations
from legible.policies import ChoicePolicy, Policy
from legible.policies.protocol import as_scores
from legible.settings import Enforce
from legible.streams import group_key, policy_keys, uniform

Scores = NDArray[np.floating[Any]]

# Each step of an episode has room for this many random numbers of the policy: whether to explore, which action then,
# and which action to sample; one is spare.
_RANDOM_NUMBERS_PER_STEP = 4
_PICTURE_DIMENSIONS = 3
_EXPLORE, _WHICH, _SAMPLE = np.uint64(0), np.uint64(1), np.uint64(2)


_SAY_FEATURES = (
    "of whose numbers rules do not speak; say what rules see (--features MODULE:FUNCTION, info:NAME,… or entries)."
)


class Chooser(Protocol):
    """Anything that chooses actions for the rows of a batch.

    `episodes` holds the number of the episode that each row plays (−1: idle), `steps` how many steps it has taken.
    Returns actions and the scores behind them: ``int64[n]``, or ``[n, groups]`` where actions are made of several
    parts or continuous.
    """

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose."""


@njit(cache=True, nogil=True)
def _choose(
    scores: Scores,
    starts: NDArray[np.int64],
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    epsilon: float,
    sample: bool,
) -> NDArray[np.int64]:
    choices = np.empty((scores.shape[0], starts.size - 1), np.int64)
    for i in range(scores.shape[0]):
        for g in range(starts.size - 1):
            first, last = starts[g], starts[g + 1]
            key = group_key(keys[i], g)
            choices[i, g] = first + choose_row(scores[i, first:last], key, steps[i], epsilon, sample)
    return choices


@njit(cache=True)
def choose_row(scores: Scores, key: np.uint64, step: int, epsilon: float, sample: bool) -> int:
    """Choose one action; see `choose_actions`."""
    best = 0
    allowed = 0
    for a in range(scores.size):
        if scores[a] > scores[best]:
            best = a
        if scores[a] > -np.inf:
            allowed += 1
    count = np.uint64(step * _RANDOM_NUMBERS_PER_STEP)
    if allowed == 0:
        return min(int(uniform(key, count + _WHICH) * scores.size), scores.size - 1)
    if epsilon > 0.0 and uniform(key, count + _EXPLORE) < epsilon:
        return _nth_allowed(scores, min(int(uniform(key, count + _WHICH) * allowed), allowed - 1))
    if sample:
        return _sampled(scores, best, uniform(key, count + _SAMPLE))
    return best


@njit(cache=True)
def _nth_allowed(scores: Scores, n: int) -> int:
    """The n-th action whose score is not −∞."""
    for a in range(scores.size):
        if scores[a] > -np.inf:
            if n == 0:
                return a
            n -= 1
    return scores.size - 1


@njit(cache=True)
def _sampled(scores: Scores, best: int, draw: float) -> int:
    """Draw an action with probability proportional to exp(score)."""
    total = 0.0
    for a in range(scores.size):
        total += np.exp(np.float64(scores[a] - scores[best]))
    passed = 0.0
    for a in range(scores.size):
        passed += np.exp(np.float64(scores[a] - scores[best])) / total
        if draw < passed:
            return a
    return best


def choose_actions(
    scores: Scores, keys: NDArray[np.uint64], steps: NDArray[np.int64], *, epsilon: float = 0.0, sample: bool = False
) -> NDArray[np.int64]:
    """Choose an action from every row of scores.

    The action with the highest score (the first of equals); with probability `epsilon` any action at random; with
    `sample`, an action drawn with probability proportional to exp(score), for scores that are log-probabilities. An
    action whose score is −∞ is blocked and never taken, unless all of them are: then a random one is.
    """
    starts = np.array([0, scores.shape[1]])
    return choose_choices(scores, starts, keys, steps, epsilon=epsilon, sample=sample)[:, 0]


def choose_choices(
    scores: Scores,
    starts: NDArray[np.int64],
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    *,
    epsilon: float = 0.0,
    sample: bool = False,
) -> NDArray[np.int64]:
    """Choose one of every group from each row of scores: ``int64[n, groups]``; see `choose_actions`.

    Group g has the choices ``starts[g] … starts[g + 1] - 1``.
    """
    return _choose(np.ascontiguousarray(scores), starts, keys, steps, epsilon, sample)


def group_starts(policy: Policy) -> NDArray[np.int64]:
    """Where the choices of each group of a policy begin, and where the last ones end; one group for single actions."""
    return policy.space.group_starts if isinstance(policy, ChoicePolicy) else np.array([0, policy.n_actions])


def ask_policy(
    policy: Policy, observations: Observations, keys: NDArray[np.uint64], steps: NDArray[np.int64], sample: bool
) -> tuple[Scores, NDArray[Any] | None]:
    """Return the scores of all choices and, where actions are no single choice, what the policy wants to do.

    `sample` draws continuous actions, from random numbers of each row's episode and step; whole numbers are drawn from
    the scores, later.
    """
    if isinstance(policy, ChoicePolicy):
        return policy.wishes(observations, *((keys, steps) if sample else (None, None)))
    # Compiled loops trust the shape, and NaN compares with nothing.
    return as_scores(np.asarray(policy.scores(observations)), len(observations), policy.n_actions), None


def take_choices(
    policy: Policy, choices: NDArray[np.int64], wanted: NDArray[Any] | None, enforce: Enforce = "typical"
) -> NDArray[Any]:
    """Return the actions that choices ``int64[n, groups]`` become, given what the policy wanted (see `ask_policy`)."""
    if wanted is None or not isinstance(policy, ChoicePolicy):
        return choices[:, 0]
    return move_to(policy.space.groups, wanted, choices, enforce)


def typical_actions(policy: Policy, choices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the actions that are typical of choices ``int64[n, groups]``, whatever the policy wants."""
    if not isinstance(policy, ChoicePolicy):
        return choices[:, 0]
    columns = []
    for number, group in enumerate(policy.space.groups):
        values = np.arange(group.count) if group.regions is None else np.array(group.regions.typical)
        columns.append(values[choices[:, number] - group.first])
    return np.stack(columns, axis=1).astype(policy.action_space.dtype)


class PolicyChooser:
    """Acts as a policy says, episode by episode with random streams of their own.

    Parameters
    ----------
    policy
        The policy.
    seeds
        The seed of every episode that will be played.
    epsilon
        Share of random actions.
    sample
        Draw actions from the policy's probabilities instead of taking the best one.
    """

    def __init__(self, policy: Policy, seeds: Sequence[int], *, epsilon: float = 0.0, sample: bool = False) -> None:
        check_exploration(policy, epsilon, sample)
        self._policy = policy
        # The last entry serves idle rows, whose episode is −1.
        self._keys = policy_keys([*seeds, 0])
        self._starts = group_starts(policy)
        self._epsilon = epsilon
        self._sample = sample

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose for every row."""
        keys = self._keys[episodes]
        scores, wanted = ask_policy(self._policy, observations, keys, steps, self._sample)
        drawn = self._sample and self._policy.kind == "log-probabilities"
        choices = choose_choices(scores, self._starts, keys, steps, epsilon=self._epsilon, sample=drawn)
        return take_choices(self._policy, choices, wanted), scores


def check_policy(policy: Policy, n_features: int, n_actions: int) -> None:
    """Raise unless a policy scores that many actions of flat observations of that many features, as studies need it."""
    check_is_policy(policy)
    problem = why_no_study(policy) or why_no_flat_study(policy)
    if problem is not None:
        raise LegibleError(problem)
    check_counts(policy, n_features, n_actions)


def check_is_policy(policy: object) -> None:
    """Raise unless something is a policy."""
    if not isinstance(policy, Policy):
        raise LegibleError(
            f"a {type(policy).__name__} is no policy; make it one with legible.policies.load_policy(…, output=…)."
        )


def check_counts(policy: Policy, n_features: int, n_actions: int) -> None:
    """Raise unless a policy reads that many features and chooses among that many actions."""
    if policy.n_features not in (None, n_features):
        raise LegibleError(
            f"the policy reads {policy.n_features} features, but the environment shows {n_features}: they do not "
            "belong together."
        )
    if policy.n_actions != n_actions:
        raise LegibleError(
            f"the policy chooses among {policy.n_actions} actions, but the environment has {n_actions}: they do not "
            "belong together."
        )


def why_no_study(policy: Policy) -> str | None:
    """Return why a policy can be played, but not be studied yet; None when it can be studied."""
    if policy.kind == "none" and getattr(policy, "recurrent", False):
        return "the policy remembers earlier observations: legible play works already, a study does not yet."
    return None


def why_no_flat_study(policy: Policy) -> str | None:
    """Return why rules cannot speak of the observations that a policy reads; None when they can."""
    space = getattr(policy, "observation_space", None)
    if policy.n_features is None and space is not None:
        return f"the policy's observations are {type(space).__name__}, {_SAY_FEATURES}"
    if len(getattr(space, "shape", None) or ()) >= _PICTURE_DIMENSIONS:
        return f"the policy reads pictures, {_SAY_FEATURES}"
    return None


def check_exploration(policy: Policy, epsilon: float, sample: bool) -> None:
    """Raise unless the ways of acting at random make sense for the policy."""
    if not 0.0 <= epsilon <= 1.0:
        raise LegibleError(f"epsilon is a probability between 0 and 1, got {epsilon}.")
    if sample and policy.kind != "log-probabilities" and not getattr(policy, "stochastic", False):
        raise LegibleError(
            f"actions can be sampled from log-probabilities only, and this policy's scores are {policy.kind}; "
            "leave out sample, or use epsilon."
        )
