"""From scores to actions as Stable-Baselines3's ``predict`` gives them, for policies that have scores.

- `ScoredPrediction`: gives a class with `scores` the rest of `legible.policies.ActingPolicy`.
- `acting`: any policy as one that acts.
- `sampled`: draws from log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from legible.policies.protocol import ActingPolicy, Observations, Policy, PolicyError, ScoreKind, Scores

if TYPE_CHECKING:
    from gymnasium import spaces

    class _Scored:
        @property
        def n_actions(self) -> int: ...
        @property
        def n_features(self) -> int | None: ...
        @property
        def kind(self) -> ScoreKind: ...
        def scores(self, observations: Observations) -> Scores: ...
else:
    _Scored = object


class ScoredPrediction(_Scored):
    """``predict`` and the properties that go with it, from the scores of discrete actions."""

    recurrent = False

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """The observations that the policy reads, None when their width is not known."""
        from gymnasium import spaces  # noqa: PLC0415 (most that use a policy never ask)

        if self.n_features is None:
            return None
        return spaces.Box(-np.inf, np.inf, (self.n_features,), np.float32)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The actions, numbered from 0."""
        from gymnasium import spaces  # noqa: PLC0415 (most that use a policy never ask)

        return spaces.Discrete(self.n_actions)

    @property
    def stochastic(self) -> bool:
        """Whether the scores may be sampled from."""
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
        """Choose the action of an observation, or those of a batch, as Stable-Baselines3's ``predict`` does.

        `rng` is what actions are drawn with; by default a generator of the policy's own, from seed 0.
        """
        array = np.asarray(observation, np.float32)
        width = self.n_features or (array.shape[-1] if array.ndim else 1)
        if not array.size or array.size % width:
            raise PolicyError(f"an observation has {width} features, but this array has shape {array.shape}")
        single = array.size == width and (array.ndim <= 1 or array.shape[0] != 1)
        if width == 1 and array.ndim == 1 and self.observation_space is not None:
            single = self.observation_space.shape != ()  # one number in a row is a batch of discrete observations
        scores = self.scores(array.reshape(-1, width))
        if deterministic or not self.stochastic:
            actions = scores.argmax(axis=1)
        else:
            actions = sampled(scores, rng or own_generator(self))
        return (actions[0] if single else actions), state


def own_generator(policy: object) -> np.random.Generator:
    """Return the generator of a policy that was given none, always from the same seed."""
    generator: np.random.Generator = policy.__dict__.setdefault("_generator", np.random.default_rng(0))
    return generator


def sampled(log_probabilities: Scores, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw one action a row."""
    shares = np.exp(log_probabilities.astype(np.float64)).cumsum(axis=1)
    drawn = rng.random(len(shares)) * shares[:, -1]
    # Rounding may put the last share below what is drawn; an action of no probability is never taken either way.
    return (shares > drawn[:, None]).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class _Acting(ScoredPrediction):
    """A policy that only has scores, as one that acts."""

    policy: Policy

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
    """Return a policy as one that acts: as it is when it does, else with ``predict`` from its scores.

    Examples
    --------
    >>> class AlwaysLeft:
    ...     n_actions, n_features, kind = 2, 3, "values"
    ...     def scores(self, observations):
    ...         return np.tile([1.0, 0.0], (len(observations), 1))
    >>> acting(AlwaysLeft()).predict(np.zeros(3))[0].item()
    0
    """
    return policy if isinstance(policy, ActingPolicy) else _Acting(policy)
