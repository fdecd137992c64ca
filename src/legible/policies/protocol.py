"""The policy protocols, and the checks that all policies share.

- `Policy`: anything that scores a batch of observations.
- `ActingPolicy`: anything that chooses actions in any space, as policies of Stable-Baselines3 do.
- `PolicyError`, `UnclearPolicyError`: the errors.
- `naming`: add the path of a file to errors; `naming_errors`: name errors that a policy raises.
- `as_observations`, `as_scores`: check the shapes of inputs and outputs.
- `PolicyTraits`, `traits_of`: what a policy may say about itself beyond the protocols.
- `MASKED`, `FALLBACK_SCORE`: the scores of masked choices and of fallbacks; `lacks_fallback`: a policy without one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from legible.errors import LegibleError, describe_error, is_raised_by_legible

if TYPE_CHECKING:
    from gymnasium import spaces

ScoreKind = Literal["values", "log-probabilities", "none"]
"""Meaning of scores: ``"values"`` (Q-values: act greedily), ``"log-probabilities"`` (may be sampled from), or
``"none"``: the policy acts but has no score for every action, because its actions are continuous or have several parts,
or because it has memory."""

MASKED = float(np.finfo(np.float32).min)
"""Score of a choice that the environment's action mask forbids; a choice that rules block has −∞."""

FALLBACK_SCORE = 0.5
"""Score of the fallback of a policy without scores; the action that it returns has 1, others have 0."""

Observations: TypeAlias = npt.NDArray[np.float32]
Scores: TypeAlias = npt.NDArray[np.floating[Any]]


class PolicyError(LegibleError):
    """A policy that cannot be loaded, saved or evaluated."""


class UnclearPolicyError(PolicyError):
    """A policy file that does not say enough: the caller has to pass an argument.

    Attributes
    ----------
    argument
        Name of the missing argument of `legible.policies.load_policy`.
    """

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message)
        self.argument = argument

    def __reduce__(self) -> tuple[type[UnclearPolicyError], tuple[str, str]]:
        return type(self), (str(self), self.argument)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path of a file in front of errors that do not name it."""
    try:
        yield
    except PolicyError as error:
        if str(path) in str(error):
            raise
        raise PolicyError(f"{path}: {error}") from error


@contextmanager
def naming_errors() -> Iterator[None]:
    """Turn exceptions of a policy into errors that name their place in the user's code."""
    try:
        yield
    except LegibleError:
        raise
    except Exception as error:
        if is_raised_by_legible(error):
            raise
        raise PolicyError(f"the policy raised {describe_error(error)}. Correct the policy.") from error


@runtime_checkable
class Policy(Protocol):
    """A policy that scores every action for every observation; higher is better.

    Observations are ``float32[n, features]``, scores ``float[n, actions]``. The same batch gives bit-identical scores;
    batches of different sizes may differ in the last bit, as matrix products do.

    >>> import numpy as np
    >>> class AlwaysLeft:
    ...     n_actions, n_features, kind = 2, None, "values"
    ...     def scores(self, observations):
    ...         return np.tile([1.0, 0.0], (len(observations), 1))
    >>> isinstance(AlwaysLeft(), Policy)
    True
    """

    @property
    def n_actions(self) -> int:
        """Number of actions: the width of the scores."""
        ...

    @property
    def n_features(self) -> int | None:
        """Number of features: the width of the observations, None if unknown."""
        ...

    @property
    def kind(self) -> ScoreKind:
        """Meaning of the scores: Q-values, or log-probabilities that may be sampled from."""
        ...

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, actions]`` of the observations ``float32[n, features]``."""
        ...


@runtime_checkable
class ActingPolicy(Protocol):
    """A policy that chooses actions for observations of any space, as policies of Stable-Baselines3 do.

    Every policy that `legible.policies.load_policy` reads from a file is one. Those with scores are also a `Policy`.
    """

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Space of the observations, None if unknown."""
        ...

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of the actions."""
        ...

    @property
    def recurrent(self) -> bool:
        """True if the policy has memory: pass the state that `predict` returns to the next call."""
        ...

    @property
    def stochastic(self) -> bool:
        """True if ``deterministic=False`` makes a difference."""
        ...

    @property
    def kind(self) -> ScoreKind:
        """Meaning of the scores; ``"none"`` without scores."""
        ...

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[Any], Any]:
        """Return the action for an observation or the actions for a batch, and the next state.

        - `observation`: an observation of the environment, or a batch of them.
        - `state`: the state that the last call returned; None at the start.
        - `episode_start`: for every observation of a batch, whether it is the first of its episode: its state is reset.
        - `deterministic`: whether to return the most likely action instead of a sample.
        """
        ...


class PolicyTraits(NamedTuple):
    """Optional attributes of a policy, with the values for policies that do not have them."""

    actions_only: bool = False  # whether it returns actions without scores
    has_part_scores: bool = False  # whether `part_scores` returns a score for every value of every part of an action
    takes_masks: bool = False  # whether it was trained with action masks: its scores depend on them
    lacks_fallback: bool = False  # whether rules must not block its actions; see `lacks_fallback`
    fallback: tuple[int, ...] | None = None  # action where rules block the one returned, by the value of each part
    # The training environment, other entries of its file, and its observation statistics
    env_id: str | None = None
    metadata: Mapping[str, Any] = {}
    normalisation: Any = None


def traits_of(policy: object) -> PolicyTraits:
    """Return the optional attributes of a policy."""
    return PolicyTraits(**{name: getattr(policy, name) for name in PolicyTraits._fields if hasattr(policy, name)})


def lacks_fallback(policy: Any) -> bool:
    """Return whether rules must not block actions of a policy: it has no scores, and states no fallback."""
    while policy is not None:
        if traits_of(policy).lacks_fallback:
            return True
        policy = getattr(policy, "policy", None)
    return False


def as_observations(observations: npt.ArrayLike, n_features: int | None) -> Observations:
    """Return a batch of observations as ``float32[n, features]``, or raise an error about its shape.

    - `observations`: the batch, of any numeric type and of shape [n, features].
    - `n_features`: the number of features that the policy reads, None for any number.

    >>> as_observations([[1, 2, 3]], 2)
    Traceback (most recent call last):
    legible.policies.protocol.PolicyError: the policy reads observations of 2 features, but these have 3
    """
    batch = np.ascontiguousarray(observations, dtype=np.float32)
    if batch.ndim != 2 or np.ndim(observations) != 2:
        raise PolicyError(
            f"observations must be a batch of shape [n, features], but have shape {np.shape(observations)}; for a "
            "single observation pass observation[None, :]"
        )
    if n_features is not None and batch.shape[1] != n_features:
        raise PolicyError(f"the policy reads observations of {n_features} features, but these have {batch.shape[1]}")
    return batch


def as_scores(scores: Scores, n_rows: int, n_actions: int) -> Scores:
    """Return a policy's scores unchanged if they are ``float[n_rows, n_actions]`` without NaN, or raise an error.

    Row i holds a score for every action in observation i, such as Q-values or log-probabilities.
    Minus infinity is a valid score: the log-probability of an action that is never taken.

    >>> as_scores(np.array([[0.0, np.nan]]), 1, 2)
    Traceback (most recent call last):
    legible.policies.protocol.PolicyError: the policy gives NaN for row 0 of the batch: \
the observation is not finite, or its values are too large for the network
    """
    if scores.shape != (n_rows, n_actions):
        raise PolicyError(
            f"the scores of {n_rows} observations and {n_actions} actions must have shape ({n_rows}, {n_actions}), but "
            f"have shape {scores.shape}"
        )
    not_a_number = np.isnan(scores)
    if not_a_number.any():
        row = int(not_a_number.any(axis=1).argmax())
        raise PolicyError(
            f"the policy gives NaN for row {row} of the batch: the observation is not finite, or its values are too "
            "large for the network"
        )
    return scores
