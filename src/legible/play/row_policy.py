"""Policies in environments that show rows of features: each reads its own observation out of the rows.

- `RowPolicy`: a policy that does so; `on_rows`: any policy as one that plays in an environment.
- `reads_features`: whether a policy can be asked about other values of the features, as LIME does.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments import Env, EnvironmentSpec, FeatureMap, feature_map_of
from legible.environments.feature_readers import unflatten_observations
from legible.play.choosing import Scores
from legible.play.slots import Observations
from legible.policies import ActingPolicy, ChoicePolicy, Policy, acting

_PICTURE_DIMENSIONS = 3


@dataclass(frozen=True, eq=False)
class RowPolicy:
    """A policy that reads its observation out of rows of features.

    Parameters
    ----------
    policy
        The policy.
    features
        What the rows hold, and where its observation stands in them.
    """

    policy: ActingPolicy
    features: FeatureMap
    reads_rows = True

    n_actions = property(attrgetter("policy.n_actions"), doc="Number of actions.")
    n_features = property(attrgetter("features.width"), doc="Width of a row.")
    kind = property(attrgetter("policy.kind"), doc="What the scores mean.")
    recurrent = property(attrgetter("policy.recurrent"), doc="Whether it remembers.")
    stochastic = property(attrgetter("policy.stochastic"), doc="Whether actions can be drawn.")
    observation_space = property(attrgetter("features.row_space"), doc="The rows.")
    action_space = property(attrgetter("policy.action_space"), doc="The actions that it takes.")

    @property
    def metadata(self) -> Any:
        """What its file says."""
        return getattr(self.policy, "metadata", {})

    @property
    def has_part_scores(self) -> bool:
        """Whether there is a score for every value of every part of an action."""
        return bool(getattr(self.policy, "has_part_scores", False))

    @property
    def takes_rng(self) -> bool:
        """Whether `predict` draws with a generator that it is given."""
        return "rng" in inspect.signature(self.policy.predict).parameters

    def scores(self, observations: Observations) -> Scores:
        """Return the scores of all actions, a row of features each."""
        policy: Any = self.policy
        scores: Scores = policy.scores(self._shown(observations))
        return scores

    def part_scores(self, observations: Observations) -> Scores:
        """Return the scores of all values of every part of an action."""
        policy: Any = self.policy
        scores: Scores = policy.part_scores(self._shown(observations))
        return scores

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True, **options: Any
    ) -> tuple[NDArray[Any], Any]:
        """Choose the action of a row, or those of a batch of them."""
        rows = np.asarray(observation, np.float32)
        policy: Any = self.policy
        shown = self._shown(np.atleast_2d(rows), as_given=True)
        actions, state = policy.predict(shown, state, episode_start, deterministic, **options)
        return (actions[0] if rows.ndim == 1 else actions), state

    def _shown(self, rows: Observations, *, as_given: bool = False) -> Any:
        """The policy's observations: flat as its scores read them, unless they are dictionaries or pictures."""
        space, read = self.features.observation_space, self.policy.observation_space
        flat = np.ascontiguousarray(rows[:, self.features.shown])
        if isinstance(read, spaces.Dict) or as_given or len(getattr(read, "shape", ()) or ()) >= _PICTURE_DIMENSIONS:
            return unflatten_observations(space, flat)
        return flat


def on_rows(policy: Policy, environment: EnvironmentSpec | Env) -> Policy:
    """Return a policy as one that plays in an environment: as it is, unless that shows rows of features."""
    features = feature_map_of(environment)
    if features is None or isinstance(policy, ChoicePolicy) or getattr(policy, "reads_rows", False):
        return policy
    return RowPolicy(acting(policy), features)


def reads_features(policy: Any) -> bool:
    """Whether a policy's choice follows from the features of rules, so that it can be asked about other values."""
    while policy is not None:
        if isinstance(policy, RowPolicy):
            return policy.features.reader.holds_observation
        if getattr(policy, "reads_rows", False):  # rules of its own see more than the observation
            return False
        policy = getattr(policy, "policy", None)
    return True
