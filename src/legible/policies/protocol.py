"""What the rest of the library asks of a policy, and the checks that every policy shares.

- `Policy`: the protocol; anything that scores a batch of observations.
- `ActingPolicy`: the protocol of what chooses actions, of whatever spaces, as Stable-Baselines3's policies do.
- `PolicyError`, `UnclearPolicyError`: what goes wrong with policies.
- `naming`: puts a file before complaints about it.
- `as_observations`, `as_scores`: the shape contract at the way in and at the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from legible.errors import LegibleError

if TYPE_CHECKING:
    from gymnasium import spaces

ScoreKind = Literal["values", "log-probabilities", "none"]
"""What scores mean: ``"values"`` (Q-values: act greedily), ``"log-probabilities"`` (may be sampled from), or
``"none"``: the policy acts, but has no score for every action of an observation, because its actions are continuous or
come in several parts, or because it remembers what it saw before."""

Observations: TypeAlias = npt.NDArray[np.float32]
Scores: TypeAlias = npt.NDArray[np.floating[Any]]


class PolicyError(LegibleError):
    """A policy that cannot be loaded, saved or asked for scores."""


class UnclearPolicyError(PolicyError):
    """A loader refused to guess: something about the policy cannot be read and has to be said.

    Attributes
    ----------
    argument
        Name of the argument of `legible.policies.load_policy` that answers the question.
    """

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message)
        self.argument = argument

    def __reduce__(self) -> tuple[type[UnclearPolicyError], tuple[str, str]]:
        return type(self), (str(self), self.argument)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path of a file before complaints that do not name it."""
    try:
        yield
    except PolicyError as error:
        if str(path) in str(error):
            raise
        raise PolicyError(f"{path}: {error}") from error


@runtime_checkable
class Policy(Protocol):
    """Anything that gives every action of every observation a score, higher is better.

    Observations are ``float32[n, features]``, scores ``float[n, actions]``. The same batch gives the same scores to the
    bit; batches of different sizes may differ in the last bit, as matrix products do.

    Examples
    --------
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
        """Number of features: the width of the observations, None when it is not known."""
        ...

    @property
    def kind(self) -> ScoreKind:
        """What the scores mean: Q-values, or log-probabilities that may be sampled from."""
        ...

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, actions]`` of the observations ``float32[n, features]``."""
        ...


@runtime_checkable
class ActingPolicy(Protocol):
    """Anything that chooses actions for observations, of whatever spaces, as policies of Stable-Baselines3 do.

    Every policy that `legible.policies.load_policy` reads from a file is one. Those with scores are a `Policy`, too.
    """

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """The observations that it reads, None when they are not known."""
        ...

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The actions that it takes."""
        ...

    @property
    def recurrent(self) -> bool:
        """Whether it remembers: `predict` returns a state that has to come back with the next observation."""
        ...

    @property
    def stochastic(self) -> bool:
        """Whether ``deterministic=False`` makes a difference."""
        ...

    @property
    def kind(self) -> ScoreKind:
        """What its scores mean; ``"none"`` when it has none."""
        ...

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[npt.NDArray[Any], Any]:
        """Choose the action of an observation, or those of a batch.

        Parameters
        ----------
        observation
            As the environment gives it, or a batch of them.
        state
            What the last call returned; None at the beginning.
        episode_start
            For every observation of a batch, whether it is the first of its episode, so that the state starts anew.
        deterministic
            The most likely action; False draws one.

        Returns
        -------
        actions
            As the environment takes them.
        state
            For the next call.
        """
        ...


def as_observations(observations: npt.ArrayLike, n_features: int | None) -> Observations:
    """Return a batch of observations as ``float32[n, features]``, or say what is wrong with its shape.

    Parameters
    ----------
    observations
        The batch; other numeric types are converted.
    n_features
        The width that the policy reads, None when any width will do.

    Examples
    --------
    >>> as_observations([[1, 2, 3]], 2)
    Traceback (most recent call last):
    legible.policies.protocol.PolicyError: the policy reads observations of 2 features, but these have 3
    """
    batch = np.ascontiguousarray(observations, dtype=np.float32)
    if batch.ndim != 2 or np.ndim(observations) != 2:
        raise PolicyError(
            f"observations come as a batch of shape [n, features], but these have shape {np.shape(observations)}; "
            "for a single observation pass observation[None, :]"
        )
    if n_features is not None and batch.shape[1] != n_features:
        raise PolicyError(f"the policy reads observations of {n_features} features, but these have {batch.shape[1]}")
    return batch


def as_scores(scores: Scores, n_rows: int, n_actions: int) -> Scores:
    """Return the scores when they are ``float[n_rows, n_actions]`` without NaN, or say what is wrong with them.

    Minus infinity is a score (the log-probability of an action that is never taken), NaN is not.

    Examples
    --------
    >>> as_scores(np.array([[0.0, np.nan]]), 1, 2)
    Traceback (most recent call last):
    legible.policies.protocol.PolicyError: the policy gives NaN for row 0 of the batch: \
the observation is not finite, or its values are too large for the network
    """
    if scores.shape != (n_rows, n_actions):
        raise PolicyError(
            f"the policy was asked about {n_rows} observations and {n_actions} actions, so its scores must have shape "
            f"({n_rows}, {n_actions}), but they have shape {scores.shape}"
        )
    not_a_number = np.isnan(scores)
    if not_a_number.any():
        row = int(not_a_number.any(axis=1).argmax())
        raise PolicyError(
            f"the policy gives NaN for row {row} of the batch: the observation is not finite, or its values are too "
            "large for the network"
        )
    return scores
