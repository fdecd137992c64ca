"""From scores to actions.

- `Chooser`: protocol of everything that chooses actions for a batch; `PolicyChooser`: follows a policy.
- `choose_actions`, `choose_choices`, `choose_row`: the best action, ε-greedy, or sampled.
- `query_policy`: the scores and wanted actions of a policy; `choices_to_actions`: the actions that belong to choices.
- `check_policy`, `check_exploration`: checks; `explain_not_studied`, `explain_not_flat`: reasons why a policy cannot be
  studied, at all or by rules about its observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import move_to
from legible.imports import njit_inlined, njit_uncounted
from legible.play.adapted import AdaptedPolicy, choice_space
from legible.play.slots import Observations
from legible.policies import Policy, acting
from legible.policies.protocol import MASKED, as_scores, naming_errors
from legible.settings import Enforce
from legible.streams import group_key, policy_keys, uniform

Scores = NDArray[np.floating[Any]]

# Random numbers reserved for each step of an episode: whether to explore, the exploring action, the sampled action, and
# one spare.
_RANDOM_NUMBERS_PER_STEP = 4
_EXPLORE, _WHICH, _SAMPLE = np.uint64(0), np.uint64(1), np.uint64(2)
_IMAGE_DIMENSIONS = 3
_NAME_FEATURES = "which rules cannot use; name other features (--features MODULE:FUNCTION, info:NAME,… or entries)."
MISMATCH = "they do not belong together"
OTHER_OBSERVATIONS = f"{MISMATCH}. If the policy was trained behind wrappers, name them: --wrap MODULE:CLASS"


class Chooser(Protocol):
    """Protocol of everything that chooses actions for the rows of a batch.

    `episodes` holds the number of the episode that each row plays (−1: idle), `steps` the number of steps it has taken.
    Returns actions and their scores. Actions are ``int64[n]``, or ``[n, groups]`` if they have several parts or are
    continuous.
    """

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose an action for every row."""


@njit_uncounted
def _choose(
    scores: Scores,
    starts: NDArray[np.int64],
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    epsilon: float,
    sample: bool,
    choices: NDArray[np.int64],
) -> None:
    for i in range(scores.shape[0]):
        for g in range(starts.size - 1):
            first, last = starts[g], starts[g + 1]
            key = group_key(keys[i], g)
            choices[i, g] = first + choose_row(scores[i, first:last], key, steps[i], epsilon, sample)


@njit_inlined
def choose_row(scores: Scores, key: np.uint64, step: int, epsilon: float, sample: bool) -> int:
    """Return the action that the scores of one state give; see `choose_actions`.

    `key` is that of the episode's random stream, of which every step has numbers of its own.
    """
    best, n_allowed, n_unmasked = 0, 0, 0  # blocked actions (−∞) count as unmasked, but not as allowed
    for a in range(scores.size):
        if scores[a] > scores[best]:
            best = a
        n_allowed += scores[a] > MASKED
        n_unmasked += scores[a] != MASKED
    first = np.uint64(step * _RANDOM_NUMBERS_PER_STEP)
    if n_allowed == 0:
        return _nth_choice(scores, min(int(uniform(key, first + _WHICH) * n_unmasked), n_unmasked - 1), blocked=True)
    if epsilon > 0.0 and uniform(key, first + _EXPLORE) < epsilon:
        return _nth_choice(scores, min(int(uniform(key, first + _WHICH) * n_allowed), n_allowed - 1), blocked=False)
    return draw_choice(scores, best, uniform(key, first + _SAMPLE)) if sample else best


@njit_inlined
def _nth_choice(scores: Scores, n: int, blocked: bool) -> int:
    """Return the n-th action that is not masked and, unless `blocked` ones count, whose score is not −∞."""
    for a in range(scores.size):
        if scores[a] > MASKED or (blocked and scores[a] != MASKED):
            if n == 0:
                return a
            n -= 1
    return scores.size - 1


@njit_inlined
def draw_choice(scores: Scores, best: int, draw: float) -> int:
    """Return the action that a random number draws, with probability proportional to exp(score); `best` is the best."""
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

    This is the action with the highest score (the first of equals); with probability `epsilon` a random action; with
    `sample`, an action drawn with probability proportional to exp(score), for scores that are log-probabilities. An
    action with score −∞ is blocked. Only if all actions are blocked, a random one is taken. An action with the score
    `MASKED` is never taken.
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
    """Choose one action of every group from each row of scores, ``int64[n, groups]``; see `choose_actions`.

    Group g has the choices ``starts[g] … starts[g + 1] - 1``.
    """
    choices = np.empty((len(scores), len(starts) - 1), np.int64)
    _choose(np.ascontiguousarray(scores), starts, keys, steps, epsilon, sample, choices)
    return choices


def group_starts(policy: Policy) -> NDArray[np.int64]:
    """Return where the choices of each group begin, and where the last group ends; single actions are one group."""
    space = choice_space(policy)
    return np.array([0, policy.n_actions]) if space is None else space.group_starts


def query_policy(
    policy: Policy, observations: Observations, keys: NDArray[np.uint64], steps: NDArray[np.int64], sample: bool
) -> tuple[Scores, NDArray[Any] | None]:
    """Return the scores of all choices and the wanted actions; those are None if an action is a single choice.

    `sample` draws continuous actions, from the random stream of each row's episode and step; discrete actions are drawn
    from the scores later.
    """
    with naming_errors():
        if isinstance(policy, AdaptedPolicy) and policy.space is not None:
            return policy.outputs(observations, *((keys, steps) if sample else (None, None)))
        # Compiled loops do not check shapes, and comparisons with NaN are always false.
        return as_scores(np.asarray(policy.scores(observations)), len(observations), policy.n_actions), None


def choices_to_actions(
    policy: Policy, choices: NDArray[np.int64], wanted: NDArray[Any] | None, enforce: Enforce = "typical"
) -> NDArray[Any]:
    """Return the actions for choices ``int64[n, groups]``, given the wanted actions (see `query_policy`)."""
    space = choice_space(policy)
    if wanted is None or space is None:
        return choices[:, 0]
    return move_to(space.groups, wanted, choices, enforce)


def typical_actions(policy: Policy, choices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the typical actions for choices ``int64[n, groups]``, independent of the wanted actions."""
    if not isinstance(policy, AdaptedPolicy) or policy.space is None:
        return choices[:, 0]
    columns = []
    for number, group in enumerate(policy.space.groups):
        values = np.arange(group.count) if group.regions is None else np.array(group.regions.typical)
        columns.append(values[choices[:, number] - group.first])
    return np.stack(columns, axis=1).astype(policy.action_space.dtype)


class PolicyChooser:
    """A chooser that follows a policy, with one random stream per episode.

    - `policy`, `seeds`: the policy, and the seed of each episode.
    - `epsilon`: probability of a random action.
    - `sample`: sample actions from the policy's probabilities instead of taking the best one.
    """

    def __init__(self, policy: Policy, seeds: Sequence[int], *, epsilon: float = 0.0, sample: bool = False) -> None:
        check_exploration(policy, epsilon, sample)
        self._policy = policy
        # The last entry is for idle rows, whose episode is −1.
        self._keys = policy_keys([*seeds, 0])
        self._starts = group_starts(policy)
        self._epsilon, self._sample = epsilon, sample

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose an action for every row."""
        keys = self._keys[episodes]
        scores, wanted = query_policy(self._policy, observations, keys, steps, self._sample)
        drawn = self._sample and self._policy.kind == "log-probabilities"
        choices = choose_choices(scores, self._starts, keys, steps, epsilon=self._epsilon, sample=drawn)
        return choices_to_actions(self._policy, choices, wanted), scores


def check_policy(policy: Policy, n_features: int, n_actions: int) -> None:
    """Raise unless a policy can be studied with this number of features in flat observations and of actions."""
    check_is_policy(policy)
    problem = explain_not_studied(policy) or explain_not_flat(policy)
    if problem is not None:
        raise LegibleError(problem)
    check_counts(policy, n_features, n_actions)


def check_is_policy(policy: object) -> None:
    """Raise unless an object is a policy."""
    if not isinstance(policy, Policy):
        raise LegibleError(
            f"a {type(policy).__name__} is not a policy; wrap it with legible.policies.load_policy(…, output=…)."
        )


def check_counts(policy: Policy, n_features: int, n_actions: int) -> None:
    """Raise unless a policy reads this number of features and chooses among this number of actions."""
    if policy.n_features not in (None, n_features):
        raise LegibleError(
            f"the policy reads {policy.n_features} features, but the environment shows {n_features}: "
            f"{OTHER_OBSERVATIONS}."
        )
    if policy.n_actions != n_actions:
        raise LegibleError(
            f"the policy chooses among {policy.n_actions} actions, but the environment has {n_actions}: {MISMATCH}."
        )


def explain_not_studied(policy: Policy) -> str | None:
    """Return why a policy can be played but not studied; None if it can be studied."""
    if policy.kind == "none" and acting(policy).recurrent:
        return "the policy remembers earlier observations: legible play supports that, studies do not yet."
    return None


def explain_not_flat(policy: Policy) -> str | None:
    """Return why rules cannot use the observations that a policy reads; None if they can."""
    space = acting(policy).observation_space
    if policy.n_features is None and space is not None:
        return f"the policy's observations are {type(space).__name__}, {_NAME_FEATURES}"
    if len(getattr(space, "shape", None) or ()) >= _IMAGE_DIMENSIONS:
        return f"the policy reads images, {_NAME_FEATURES}"
    return None


def check_exploration(policy: Policy, epsilon: float, sample: bool) -> None:
    """Raise unless `epsilon` is a probability and the policy can be sampled from if `sample` is set."""
    if not 0.0 <= epsilon <= 1.0:
        raise LegibleError(f"epsilon must be a probability between 0 and 1, got {epsilon}.")
    if sample and policy.kind != "log-probabilities" and not acting(policy).stochastic:
        raise LegibleError(
            f"this policy cannot be sampled: its scores are {policy.kind}, not log-probabilities. Leave out "
            "--stochastic (play.sample), or take random actions with play.epsilon."
        )
