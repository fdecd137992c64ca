"""Policies whose actions are made of several choices, or continuous, as policies that score every choice.

- `ChoicePolicy`: scores of named choices from any policy that acts; what rules, LIME and guidance ask.
- `with_choices`: any policy as one that scores the choices of a space.
- `as_shown`: flat observations as a policy reads them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from legible.errors import LegibleError
from legible.features import FeatureSpace, scores_of
from legible.policies.predicting import acting
from legible.policies.protocol import ActingPolicy, Observations, Policy, PolicyError, ScoreKind, Scores, as_scores
from legible.streams import RowGenerator

_ROUNDING = 1e-6


class Wishes(NamedTuple):
    """What a policy wants to do in the states of a batch.

    Parameters
    ----------
    scores
        ``float[n, choices]``.
    actions
        ``[n, groups]``, the numbers of its actions; those of whole numbers follow from the choices.
    """

    scores: Scores
    actions: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ChoicePolicy:
    """A policy that acts, as one that scores the choices of all groups.

    Scores of continuous parts are those of `legible.features.Regions.scores`. Those of other parts are the policy's own
    log-probabilities, where it has them; else 1 for what it does and 0 for the rest.

    Parameters
    ----------
    policy
        The policy.
    space
        Features and choices, cut into regions where they are continuous.
    rows
        Observations in every batch that the policy is asked about, see `legible.play.FixedRowsPolicy`; 0 leaves batches
        as they come.
    """

    policy: ActingPolicy
    space: FeatureSpace
    rows: int = 0

    @property
    def n_actions(self) -> int:
        """Number of choices in all groups."""
        return len(self.space.actions)

    @property
    def n_features(self) -> int | None:
        """Width of an observation."""
        return len(self.space)

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The actions that the policy takes."""
        return self.policy.action_space

    @property
    def kind(self) -> ScoreKind:
        """What the scores mean; those that are no log-probabilities are not drawn from."""
        return "log-probabilities" if self._has_part_scores else "values"

    @property
    def stochastic(self) -> bool:
        """Whether actions can be drawn."""
        return self.policy.stochastic

    @property
    def _has_part_scores(self) -> bool:
        return bool(getattr(self.policy, "has_part_scores", False))

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, choices]`` of what the policy does without chance."""
        return self.wishes(observations).scores

    def wishes(
        self,
        observations: Observations,
        keys: npt.NDArray[np.uint64] | None = None,
        steps: npt.NDArray[np.int64] | None = None,
    ) -> Wishes:
        """Return what the policy wants to do.

        Parameters
        ----------
        observations
            ``float32[n, features]``.
        keys, steps
            Of the rows' episodes, to draw actions from random numbers of their own; None for the most likely actions.
            Where the scores are log-probabilities, nothing is drawn here: they are what is drawn from.
        """
        if self.rows in (0, len(observations)):
            return self._ask(observations, keys, steps)
        pieces = []
        for first in range(0, len(observations), self.rows):
            n = min(self.rows, len(observations) - first)
            rows = np.full(self.rows, first)  # a piece is filled up with its first row
            rows[:n] = np.arange(first, first + n)
            whole = self._ask(
                observations[rows], None if keys is None else keys[rows], None if steps is None else steps[rows]
            )
            pieces.append(Wishes(whole.scores[:n], whole.actions[:n]))
        return Wishes(*(np.concatenate(both) for both in zip(*pieces, strict=True)))

    def _ask(
        self,
        observations: Observations,
        keys: npt.NDArray[np.uint64] | None,
        steps: npt.NDArray[np.int64] | None,
    ) -> Wishes:
        n, groups = len(observations), self.space.groups
        if self._has_part_scores:
            policy: Any = self.policy
            scores = as_scores(policy.part_scores(observations), n, self.n_actions)
            return Wishes(scores, np.zeros((n, len(groups)), np.int64))
        shown = as_shown(self.policy, observations)
        if keys is None or steps is None or not self.stochastic:
            raw, _ = self.policy.predict(shown, deterministic=True)
        else:
            raw = _draw(self.policy, shown, keys, steps)
        actions = self._checked(np.asarray(raw).reshape(n, -1))
        return Wishes(as_scores(scores_of(groups, actions), n, self.n_actions), actions)

    def _checked(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return actions within their bounds, or say which is not; what is beyond by rounding is put back on them."""
        groups = self.space.groups
        if actions.shape[1] != len(groups):
            raise PolicyError(f"the policy gives actions of {actions.shape[1]} numbers, but {len(groups)} are needed")
        lows = np.array([0.0 if g.regions is None else g.regions.low for g in groups])
        highs = np.array([g.count - 1.0 if g.regions is None else g.regions.high for g in groups])
        width = np.where(np.isfinite(highs - lows), highs - lows, 1.0)
        outside = ~((actions >= lows - _ROUNDING * width) & (actions <= highs + _ROUNDING * width))
        if outside.any():
            row, part = (int(index) for index in np.argwhere(outside)[0])
            raise PolicyError(
                f"the policy gives {actions[row, part]:g} for {groups[part].name!r}, which is out of its bounds, "
                f"{lows[part]:g} to {highs[part]:g}; clip its actions, or stretch them to the bounds"
            )
        if actions.dtype.kind != "f":
            return actions.astype(np.int64)
        return np.clip(actions, lows.astype(actions.dtype), highs.astype(actions.dtype))


def as_shown(policy: ActingPolicy, observations: Observations) -> Observations:
    """Return flat observations in the shape in which a policy reads them."""
    space = policy.observation_space
    return observations if space is None else observations.reshape(len(observations), *(space.shape or ()))


def _draw(
    policy: ActingPolicy, observations: Observations, keys: npt.NDArray[np.uint64], steps: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Draw actions, each row from the random numbers of its episode and its step."""
    predict: Callable[..., tuple[npt.NDArray[Any], Any]] = policy.predict
    if getattr(policy, "takes_rng", "rng" in inspect.signature(predict).parameters):
        return predict(observations, deterministic=False, rng=RowGenerator(keys, steps))[0]
    # Others draw from PyTorch's one stream, so that rows are asked about one by one.
    drawn = []
    with torch.random.fork_rng(devices=()):
        for row, seed in enumerate(RowGenerator(keys, steps).random(len(keys))):
            torch.manual_seed(int(seed * 2**53))
            drawn.append(np.asarray(predict(observations[row : row + 1], deterministic=False)[0]).reshape(-1))
    return np.stack(drawn)


def with_choices(policy: Policy | ActingPolicy, space: FeatureSpace) -> Policy:
    """Return a policy as one that scores the choices of a space: as it is, where an action is one of them."""
    if isinstance(policy, ChoicePolicy):
        return policy if policy.space == space else ChoicePolicy(policy.policy, space)
    if not space.is_discrete:
        return ChoicePolicy(acting(policy), space)
    if not isinstance(policy, Policy):
        raise LegibleError(f"a {type(policy).__name__} has no scores for the actions of a Discrete space.")
    return policy
