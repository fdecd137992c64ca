"""Policies as they play: the one adapter between a policy and episodes, rules and LIME.

- `AdaptedPolicy`: a policy that reads rows of features, scores named choices, or gives the same bits in every batch.
- `adapt_policy`: any policy as one that plays in an environment, with the parts that it needs.
- `choice_space`: the choices of a policy whose actions consist of several, or are continuous.
- `features_read`: the rows of features that a policy reads.
- `reads_features`: whether a policy can be asked about other values of the features, as LIME does.
- `shape_observations`: flat observations in the shape that a policy reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments import Env, EnvironmentSpec, FeatureMap, find_feature_map
from legible.environments.feature_readers import unflatten_observations
from legible.errors import LegibleError
from legible.features import FeatureSpace, scores_of
from legible.play.batch_sizes import cut_rows, equal_sizes
from legible.policies import ActingPolicy, Policy, PolicyError, ScoreKind, acting
from legible.policies.protocol import FALLBACK_SCORE, MASKED, Observations, PolicyTraits, Scores, as_scores, traits_of
from legible.streams import RowGenerator

_T = TypeVar("_T", bound=np.generic)
_PICTURE_DIMENSIONS = 3
_ROUNDING = 1e-6


class PolicyOutput(NamedTuple):
    """Scores and actions of a policy for a batch of observations."""

    scores: Scores  # ``float[n, choices]``
    actions: NDArray[Any]  # ``[n, groups]``: the values of the action; whole numbers follow from the choices


@dataclass(frozen=True, eq=False)
class AdaptedPolicy:
    """A policy as it plays in an environment.

    Scores of continuous parts of an action come from `legible.features.Regions.scores`. Scores of other parts are
    the policy's log-probabilities, or without them 1 for the chosen value, `FALLBACK_SCORE` for the policy's fallback
    and 0 for the others. Choices that the environment's action mask forbids have the score `MASKED`.
    """

    policy: Policy | ActingPolicy
    # Features and choices, where an action is not a single choice: continuous parts are cut into regions, and the
    # scores are those of all choices. None: the policy scores its actions itself.
    space: FeatureSpace | None = None
    # Content of the rows that the environment shows, and where the policy's observation stands in them. None: the
    # environment shows flat observations.
    features: FeatureMap | None = None
    # Size of the batches that the policy sees, or another one that gives the same bits (`legible.play.batch_sizes`); 0
    # leaves batches unchanged. Matrix products may differ in the last bit between batch shapes. With batches of equal
    # bits, the scores of a state depend on that state alone (with the linear algebra of today's processors;
    # `legible.evaluation.recorded` checks it for every study), and an episode is the same to the bit alone, among
    # others, and in a batch that shrinks.
    rows: int = 0

    @property
    def n_actions(self) -> int:
        """Number of actions, or of choices in all groups."""
        return self._actor.n_actions if self.space is None else len(self.space.actions)

    @property
    def n_features(self) -> int | None:
        """Width of an observation."""
        if self.space is not None:
            return len(self.space)
        return self._actor.n_features if self.features is None else self.features.width

    @property
    def kind(self) -> ScoreKind:
        """Meaning of the scores; only log-probabilities are sampled from."""
        if self.space is None:
            return self.policy.kind
        return "log-probabilities" if self._traits.has_part_scores else "values"

    @property
    def stochastic(self) -> bool:
        """True if actions can be sampled."""
        return self._actor.stochastic

    @property
    def recurrent(self) -> bool:
        """True if the policy has memory."""
        return self._actor.recurrent

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Space of the observations, None if unknown."""
        return self._actor.observation_space if self.features is None else self.features.row_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of the policy's actions."""
        return self._actor.action_space

    @property
    def metadata(self) -> Any:
        """The metadata of the policy's file."""
        return self._traits.metadata

    @cached_property
    def _actor(self) -> Any:
        return acting(self.policy)

    @cached_property
    def _traits(self) -> PolicyTraits:
        return traits_of(self.policy)

    def _batches(self, n: int) -> Iterator[tuple[slice, int, int]]:
        """Yield batches of n observations that give the same bits as batches of `rows` (see `cut_rows`)."""
        method = "scores" if self.space is None else "part_scores" if self._traits.has_part_scores else "predict"
        return cut_rows(n, equal_sizes(cast("Hashable", self.policy), self.rows, method))

    def scores(self, observations: Observations) -> Scores:
        """Return the scores ``float[n, actions]``, or the scores of all choices by the deterministic policy."""
        if self.space is not None:
            return self.outputs(observations).scores
        n = len(observations)
        if self.rows in (0, n):
            return self._own_scores(observations)
        # The first `n_repeated` rows of a batch were in the one before; rows beyond the cut fill the batch up.
        pieces = [
            self._own_scores(_filled(observations[cut], size))[n_repeated : cut.stop - cut.start]
            for cut, size, n_repeated in self._batches(n)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def outputs(
        self, observations: Observations, keys: NDArray[np.uint64] | None = None, steps: NDArray[np.int64] | None = None
    ) -> PolicyOutput:
        """Return the scores of all choices ``float[n, choices]`` and the actions ``[n, groups]`` for n observations.

        A choice is one value, or one region of a continuous range, of one part of an action; the choices of a part are
        a group.

        - `observations`: ``float32[n, features]``.
        - `keys`, `steps`: ``[n]``: the random key of each row's episode, and its step, to sample actions; None for the
          most likely actions. Nothing is sampled here where the scores are log-probabilities: the caller samples from
          them.
        """
        if self.rows in (0, len(observations)):  # 0: batches of any size
            return self._compute(observations, keys, steps)
        # Answers can depend on the batch size in the last bit, so the policy sees batches of sizes that give equal
        # bits. The last batch starts earlier, so that it is full: its first `n_repeated` rows were answered already.
        # If all observations are fewer than the smallest size, copies of the first one fill the batch up.
        outputs = []
        for cut, size, n_repeated in self._batches(len(observations)):
            filled = self._compute(
                _filled(observations[cut], size),
                None if keys is None else _filled(keys[cut], size),
                None if steps is None else _filled(steps[cut], size),
            )
            new = slice(n_repeated, cut.stop - cut.start)  # neither answered already nor copies
            outputs.append(PolicyOutput(filled.scores[new], filled.actions[new]))
        return PolicyOutput(*(np.concatenate(fields) for fields in zip(*outputs, strict=True)))

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True, **options: Any
    ) -> tuple[NDArray[Any], Any]:
        """Return the action for one observation, or the actions for a batch, like Stable-Baselines3's ``predict``."""
        if self.features is None:
            return self._actor.predict(observation, state, episode_start, deterministic, **options)
        rows = np.asarray(observation, np.float32)
        shown = self._shown(np.atleast_2d(rows), as_given=True)
        actions, state = self._actor.predict(shown, state, episode_start, deterministic, **options)
        return (actions[0] if rows.ndim == 1 else actions), state

    def _shown(self, observations: Observations, *, as_given: bool = False) -> Any:
        """Return what the policy reads: flat observations for scores, unless they are dictionaries or pictures.

        With `as_given`, they have the shape of the policy's observation space, as its ``predict`` expects.
        """
        if self.features is None:
            return shape_observations(self._actor, observations) if as_given else observations
        read = self._actor.observation_space
        flat = np.ascontiguousarray(observations[:, self.features.shown])
        if isinstance(read, spaces.Dict) or as_given or len(getattr(read, "shape", ()) or ()) >= _PICTURE_DIMENSIONS:
            return unflatten_observations(self.features.observation_space, flat)
        return flat

    def _masks(self, observations: Observations) -> NDArray[np.bool_] | None:
        """Return the allowed choices ``bool[n, choices]`` in rows of features; None if actions are not masked."""
        if self.features is None or self.features.masks is None:
            return None
        return observations[:, self.features.masked] > 0

    def _own_scores(self, observations: Observations, method: str = "scores") -> Scores:
        """Return the scores of a method of the policy, `MASKED` for choices that the environment does not allow."""
        shown, masks = self._shown(observations), self._masks(observations)
        if masks is None:
            return np.asarray(getattr(self._actor, method)(shown))
        options = {"action_masks": masks} if self._traits.takes_masks else {}
        own_scores = np.asarray(getattr(self._actor, method)(shown, **options))
        return np.where(masks, own_scores, own_scores.dtype.type(MASKED))

    def _compute(
        self, observations: Observations, keys: NDArray[np.uint64] | None, steps: NDArray[np.int64] | None
    ) -> PolicyOutput:
        """Return the scores of all choices ``float[n, choices]`` and the actions ``[n, groups]`` of one batch.

        The random key of each row's episode and its step, ``[n]`` each, are given to sample actions; without them, the
        most likely actions are taken.
        """
        assert self.space is not None
        n, groups = len(observations), self.space.groups
        # A policy with log-probabilities for every choice: the caller chooses the actions, so they stay 0 here.
        if self._traits.has_part_scores:
            scores = as_scores(self._own_scores(observations, "part_scores"), n, self.n_actions)
            return PolicyOutput(scores, np.zeros((n, len(groups)), np.int64))

        # A policy without scores only returns actions. They become scores: high for the choice that contains the
        # action, lower for the user's fallback, which rules take if they forbid the first.
        if keys is None or steps is None or not self.stochastic:
            policy_actions, _ = self._actor.predict(self._shown(observations, as_given=True), deterministic=True)
        else:
            policy_actions = self._sample_actions(observations, keys, steps)
        actions = self._clip_rounding(np.asarray(policy_actions).reshape(n, -1))
        scores = scores_of(groups, actions)
        if self._traits.fallback is not None:
            fallback_choices = [group.first + value for group, value in zip(groups, self._traits.fallback, strict=True)]
            scores[:, fallback_choices] = np.maximum(scores[:, fallback_choices], FALLBACK_SCORE)
        # Choices that the environment does not allow get the score MASKED.
        masks = self._masks(observations)
        if masks is not None:
            scores = np.where(masks, scores, MASKED)
        return PolicyOutput(as_scores(scores, n, self.n_actions), actions)

    def _sample_actions(
        self, observations: Observations, keys: NDArray[np.uint64], steps: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return sampled actions, each row with the random numbers of its episode and step."""
        predict = self._actor.predict
        if "rng" in inspect.signature(predict).parameters:
            shown = self._shown(observations, as_given=True)
            drawn: NDArray[Any] = predict(shown, deterministic=False, rng=RowGenerator(keys, steps))[0]
            return drawn
        # Other policies sample from PyTorch's global stream, so rows are predicted one by one.
        import torch  # noqa: PLC0415

        actions = []
        with torch.random.fork_rng(devices=()):
            for row, seed in enumerate(RowGenerator(keys, steps).random(len(keys))):
                torch.manual_seed(int(seed * 2**53))
                shown = self._shown(observations[row : row + 1], as_given=True)
                actions.append(np.asarray(predict(shown, deterministic=False)[0]).reshape(-1))
        return np.stack(actions)

    def _clip_rounding(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return actions clipped to their bounds; raise an error if one exceeds them by more than rounding."""
        assert self.space is not None
        groups = self.space.groups
        if actions.shape[1] != len(groups):
            raise PolicyError(f"the policy returns actions of {actions.shape[1]} numbers, but {len(groups)} are needed")
        lows = np.array([0.0 if g.regions is None else g.regions.low for g in groups])
        highs = np.array([g.count - 1.0 if g.regions is None else g.regions.high for g in groups])
        width = np.where(np.isfinite(highs - lows), highs - lows, 1.0)
        outside = ~((actions >= lows - _ROUNDING * width) & (actions <= highs + _ROUNDING * width))
        if outside.any():
            row, part = (int(index) for index in np.argwhere(outside)[0])
            raise PolicyError(
                f"the policy returns {actions[row, part]:g} for {groups[part].name!r}, outside its bounds "
                f"{lows[part]:g} to {highs[part]:g}; clip its actions, or scale them to the bounds"
            )
        if actions.dtype.kind != "f":
            return actions.astype(np.int64)
        return np.clip(actions, lows.astype(actions.dtype), highs.astype(actions.dtype))


def _filled(batch: NDArray[_T], size: int) -> NDArray[_T]:
    """Return the rows of a batch, filled up with copies of the first of them."""
    if len(batch) == size:
        return batch
    filled = np.empty((size, *batch.shape[1:]), batch.dtype)
    filled[: len(batch)], filled[len(batch) :] = batch, batch[0]
    return filled


def shape_observations(policy: ActingPolicy, observations: Observations) -> Observations:
    """Return flat observations in the shape that a policy reads."""
    space = policy.observation_space
    return observations if space is None else observations.reshape(len(observations), *(space.shape or ()))


def adapt_policy(
    policy: Policy | ActingPolicy,
    environment: EnvironmentSpec | Env | None = None,
    space: FeatureSpace | None = None,
    *,
    features: FeatureMap | None = None,
    rows: int = 0,
) -> Policy:
    """Return a policy wrapped so that it can play in an environment and scores every choice; unchanged if it can.

    - `policy`: any policy. One that is already adapted keeps its settings, unless they are given here.
    - `environment`: the environment in which it plays. If it shows features instead of observations, the policy is
      given the part of them that it read in training.
    - `space`: features and choices. They matter only if an action has several parts or is continuous: its parts are
      then cut into choices.
    - `features`: where the observation stands in the features, if `environment` is not given.
    - `rows`: number of observations in each batch that the policy sees; 0 for any number.
    """
    # What is not given stays as it is. A policy that reads features, or was adapted, is not given other features.
    adapted = policy if isinstance(policy, AdaptedPolicy) else AdaptedPolicy(policy)
    was_adapted = adapted is policy
    if environment is not None and not was_adapted and features_read(policy) is None:
        features = find_feature_map(environment)
    features = adapted.features if features is None else features
    rows = rows or adapted.rows

    # A policy for single choices needs no space: it scores the actions themselves.
    is_space_needed = space is not None and not (space.is_discrete and adapted.space is None)
    choices = space if is_space_needed else adapted.space

    if choices is not None or features is not None:
        return AdaptedPolicy(adapted.policy, choices, features, rows)
    if space is not None and not isinstance(adapted.policy, Policy):
        raise LegibleError(f"a {type(adapted.policy).__name__} has no scores for the actions of a Discrete space.")
    # Without choices and features, wrap only to fix the batch size.
    return AdaptedPolicy(adapted.policy, rows=rows) if rows else cast("Policy", adapted.policy)


def choice_space(policy: object) -> FeatureSpace | None:
    """Return the choices of a policy whose actions consist of several, or are continuous; None for single actions."""
    return policy.space if isinstance(policy, AdaptedPolicy) else None


def features_read(policy: object) -> FeatureMap | None:
    """Return the rows of features that a policy reads, adapted or with rules of its own; None for observations."""
    features = getattr(policy, "features", None)
    return features if isinstance(features, FeatureMap) else None


def reads_features(policy: Any) -> bool:
    """Return whether a policy scores other values of the features of rules, as LIME asks; those without scores do not.

    The scores must follow from the features alone, without what else rows hold.
    """
    while policy is not None:
        features = features_read(policy)
        if traits_of(policy).actions_only:
            return False
        if features is not None and not isinstance(policy, AdaptedPolicy):  # its own rules see more
            return False
        if features is not None and not (features.reader.holds_observation and features.masks is None):
            return False
        policy = getattr(policy, "policy", None)
    return True
