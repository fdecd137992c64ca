"""Actions from scores, with the signature of Stable-Baselines3's ``predict``.

- `ScoredPrediction`: a mixin that makes a class with `scores` a `legible.policies.ActingPolicy`.
- `acting`: convert any policy to an `ActingPolicy`.
- `sampled`: sample from log-probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from legible.policies.protocol import ActingPolicy, Observations, Policy, PolicyError, ScoreKind, Scores

if TYPE_CHECKING:
    from gymnasium import spaces

    ScoringPolicy = Policy
else:
    ScoringPolicy = object  # dataclasses would take the properties of the protocol for default values


class ScoredPrediction(ScoringPolicy):
    """Mixin that adds ``predict`` and the properties of `ActingPolicy` to policies that score discrete actions."""

    recurrent = False

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Space of the observations, None if their width is unknown."""
        from gymnasium import spaces  # noqa: PLC0415 (rarely needed)

        if self.n_features is None:
            return None
        return spaces.Box(-np.inf, np.inf, (self.n_features,), np.float32)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of the actions, numbered from 0."""
        from gymnasium import spaces  # noqa: PLC0415 (rarely needed)

        return spaces.Discrete(self.n_actions)

    @property
    def stochastic(self) -> bool:
        """True if actions can be sampled from the scores."""
        return self.kind == "log-probabilities"

    def predict(
        self,
        observation: npt.ArrayLike,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002 (Stable-Baselines3's signature)
        deterministic: bool = True,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[npt.NDArray[Any], Any]:
        """Return the action for an observation, or ``int[n]`` for a batch, and `state` unchanged.

        The signature is that of Stable-Baselines3's ``predict``.

        - `observation`: one observation of the policy's features in any shape, or a batch of n along the first axis.
        - `state`, `episode_start`: accepted and not used: the policy has no memory.
        - `deterministic`: whether to return the action with the highest score instead of a sample.
        - `rng`: generator to sample with; by default one that the policy keeps, from seed 0.
        """
        array = np.asarray(observation, np.float32)
        n_features = self.n_features or (array.shape[-1] if array.ndim else 1)
        if not array.size or array.size % n_features:
            raise PolicyError(f"an observation has {n_features} features, but this array has shape {array.shape}")
        if n_features == 1 and array.ndim == 1 and self.observation_space is not None:
            # Observations of a Discrete space are plain numbers, so a flat array of them is a batch.
            is_single = self.observation_space.shape != ()
        else:
            # An array with as many numbers as one observation is a batch only if it has the shape [1, ...].
            is_single = array.size == n_features and (array.ndim <= 1 or array.shape[0] != 1)
        scores = self.scores(array.reshape(-1, n_features))
        if deterministic or not self.stochastic:
            actions = scores.argmax(axis=1)
        else:
            actions = sampled(scores, rng or own_generator(self))
        return (actions[0] if is_single else actions), state


def own_generator(policy: object) -> np.random.Generator:
    """Return the generator that a policy keeps, from seed 0."""
    generator: np.random.Generator = policy.__dict__.setdefault("_generator", np.random.default_rng(0))
    return generator


def sampled(log_probabilities: Scores, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return one sampled action per row."""
    shares = np.exp(log_probabilities.astype(np.float64)).cumsum(axis=1)
    drawn = rng.random(len(shares)) * shares[:, -1]
    # Rounding may put the last share below the number drawn; an action of probability 0 is never taken either way.
    return (shares > drawn[:, None]).argmax(axis=1)


class _ScoresOnly(ScoredPrediction):
    """Adapter that adds ``predict`` to a policy with scores only."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @property
    def n_actions(self) -> int:
        return self.policy.n_actions

    @property
    def n_features(self) -> int | None:
        return self.policy.n_features

    @property
    def kind(self) -> ScoreKind:
        return self.policy.kind

    def scores(self, observations: Observations) -> Scores:
        return self.policy.scores(observations)


def acting(policy: Policy | ActingPolicy) -> ActingPolicy:
    """Return an `ActingPolicy`: the policy itself if it is one, else an adapter that predicts from its scores.

    >>> class AlwaysLeft:
    ...     n_actions, n_features, kind = 2, 3, "values"
    ...     def scores(self, observations):
    ...         return np.tile([1.0, 0.0], (len(observations), 1))
    >>> acting(AlwaysLeft()).predict(np.zeros(3))[0].item()
    0
    """
    return policy if isinstance(policy, ActingPolicy) else _ScoresOnly(policy)
