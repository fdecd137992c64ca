"""Actions of any space, from policies of any kind, where masks are never broken.

- `ActingChooser`: acts as a policy says in slots of any spaces: by its scores where it has some, else by ``predict``,
  with what it remembers carried along every episode.
- `RandomChooser`: acts at random.
- `check_acting`: whether a policy and an environment belong together; `check_studied`: whether that can be studied.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments import (
    Env,
    FeatureEnv,
    FeatureMap,
    ObservationEncoder,
    check_choosable,
    check_playable,
    choice_sizes,
    count_actions,
)
from legible.environments.feature_readers import ObservationReader, flat_width
from legible.errors import LegibleError
from legible.play.choosing import Scores, check_counts, check_is_policy, choose_actions, why_no_flat_study, why_no_study
from legible.play.slots import SpaceSlots
from legible.policies import Policy, acting
from legible.policies.protocol import as_scores
from legible.streams import policy_keys


class ActingChooser:
    """Acts as a policy says in slots of any spaces; an action that the environment's masks forbid is never taken.

    Parameters
    ----------
    policy
        The policy.
    slots
        Where the episodes run.
    seeds
        The seed of every episode that will be played.
    deterministic
        The best action; False draws one, if the policy can, from random numbers that belong to the episode. A policy
        without scores then needs the only slot.
    """

    def __init__(self, policy: Policy, slots: SpaceSlots, seeds: Sequence[int], *, deterministic: bool = True) -> None:
        check_acting(policy, slots.observation_space, slots.action_space)
        self._policy = acting(policy)
        self._slots, self._seeds = slots, seeds
        self._deterministic = deterministic or not self._policy.stochastic
        self._keys = policy_keys([*seeds, 0])
        self._state: Any = None
        self._takes_rng = "rng" in inspect.signature(self._policy.predict).parameters
        if not self._deterministic and self._policy.kind == "none" and slots.n > 1:
            raise LegibleError("actions without scores are drawn in one slot, so that episodes do not share a stream.")

    def __call__(
        self, observations: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose for every row."""
        if self._policy.kind != "none":
            return self._by_scores(observations, episodes, steps)
        return self._by_predict(observations, episodes, steps), np.empty((len(steps), 0))

    def memory(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], ...] | None:
        """Copy what the policy remembers in some rows; None where it remembers nothing."""
        return None if self._state is None else tuple(np.asarray(part)[:, rows] for part in self._state)

    def recall(self, rows: NDArray[np.intp], memory: tuple[NDArray[Any], ...]) -> None:
        """Let the policy remember in some rows what `memory` returned of as many."""
        if self._state is None:
            self._state = tuple(np.zeros((len(part), self._slots.n, *part.shape[2:]), part.dtype) for part in memory)
        self._state = tuple(np.array(part) for part in self._state)
        for part, recalled in zip(self._state, memory, strict=True):
            part[:, rows] = recalled

    def _by_scores(
        self, observations: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Scores]:
        policy: Any = self._policy
        n, keys = len(steps), self._keys[episodes]
        space = policy.observation_space
        if not isinstance(observations, dict) and (space is None or len(space.shape or ()) < 3):
            # Scores read them flat, unless they are dictionaries or pictures.
            observations = observations.reshape(len(observations), -1).astype(np.float32)
        scores = as_scores(np.asarray(policy.scores(observations)), n, policy.n_actions)
        masks = self._slots.masks
        if masks is None:
            return choose_actions(scores, keys, steps, sample=not self._deterministic), scores
        allowed = np.where(masks, scores, -np.inf)
        actions = choose_actions(allowed, keys, steps, sample=not self._deterministic)
        # Rules may block all that the environment allows: then any of that is taken at random, as without masks.
        stuck = np.isneginf(allowed).all(axis=1)
        anything = choose_actions(np.where(masks, 0.0, -np.inf), keys, steps, epsilon=1.0)
        return np.where(stuck, anything, actions), allowed

    def _by_predict(self, observations: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[Any]:
        options: dict[str, Any] = {} if self._slots.masks is None else {"action_masks": self._slots.masks}
        arguments = (observations, self._state, steps == 0, self._deterministic)
        predict: Callable[..., tuple[NDArray[Any], Any]] = self._policy.predict
        try:
            if self._deterministic:
                actions, self._state = predict(*arguments, **options)
            else:
                # The random numbers of this step of the only slot's episode.
                rng = np.random.default_rng([int(self._keys[episodes[0]]), int(steps[0])])
                if self._takes_rng:
                    actions, self._state = predict(*arguments, **options, rng=rng)
                else:
                    # Models of Stable-Baselines3 in memory draw from PyTorch's one stream.
                    with torch.random.fork_rng(devices=()):
                        torch.manual_seed(int(rng.integers(2**63)))
                        actions, self._state = predict(*arguments, **options)
        except TypeError as error:
            if options and "action_masks" in str(error):
                raise LegibleError(
                    "the environment masks actions, but this policy was not trained with masks and has no scores, so "
                    "that it could take an action which is not allowed."
                ) from error
            raise
        return np.asarray(actions).reshape(len(steps), *(self._slots.action_space.shape or ()))


class RandomChooser:
    """Acts at random in one slot, among what the environment's masks allow.

    Parameters
    ----------
    slots
        Where the episodes run.
    seed
        Of the actions.
    """

    def __init__(self, slots: SpaceSlots, seed: int) -> None:
        self._slots, self._rng = slots, np.random.default_rng(seed)
        self._sizes = choice_sizes(slots.action_space)
        check_playable(None, slots.action_space)
        slots.action_space.seed(seed)

    def __call__(
        self,
        observations: Any,  # noqa: ARG002 (whatever they are)
        episodes: NDArray[np.int64],  # noqa: ARG002
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[Any], Scores]:
        """Choose for every row."""
        space, masks = self._slots.action_space, self._slots.masks
        rows: list[Any] = []
        for row in range(len(steps)):
            if not self._sizes:
                rows.append(space.sample())
            elif masks is None:
                rows.append([int(self._rng.integers(size)) for size in self._sizes])
            else:
                allowed = np.split(masks[row], np.cumsum(self._sizes)[:-1])
                rows.append([int(self._rng.choice(np.flatnonzero(part))) for part in allowed])
        return np.array(rows).reshape(len(steps), *(space.shape or ())), np.empty((len(steps), 0))


def check_acting(policy: Policy, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Raise unless a policy reads such observations and takes such actions."""
    check_is_policy(policy)
    check_playable(observation_space, action_space)
    actor = acting(policy)
    read, taken = actor.observation_space, actor.action_space
    if isinstance(read, spaces.Dict) and isinstance(observation_space, spaces.Dict):
        for key, part in read.spaces.items():
            if key not in observation_space.spaces or _width(part) != _width(observation_space[key]):
                raise LegibleError(f"the policy reads the entry {key!r}, {part}, which the environment lacks: {_APART}")
    elif isinstance(read, spaces.Dict) or isinstance(observation_space, spaces.Dict):
        raise LegibleError(f"the policy reads {read}, the environment shows {observation_space}: {_APART}")
    elif isinstance(taken, spaces.Discrete) and isinstance(action_space, spaces.Discrete):
        check_counts(policy, _width(observation_space), int(action_space.n))
    elif read is not None and _width(read) != _width(observation_space):
        raise LegibleError(
            f"the policy reads {_width(read)} features, but the environment shows {_width(observation_space)}: {_APART}"
        )
    if choice_sizes(taken) != choice_sizes(action_space) or taken.shape != action_space.shape:
        raise LegibleError(f"the policy's actions are {taken}, the environment's {action_space}: {_APART}")


def check_studied(policy: Policy, env: Env, features: FeatureMap | None = None) -> None:
    """Raise unless a policy plays in an environment in a way that can be studied.

    Parameters
    ----------
    policy, env
        The policy and the environment, as it is or showing rows of features.
    features
        What rules see of it; by default the observation, or what the rows hold.
    """
    check_is_policy(policy)
    check_choosable(env.action_space)
    if features is None and isinstance(env, FeatureEnv) and not getattr(policy, "reads_rows", False):
        features, env = env.feature_map, env.env
    flat = features is None or isinstance(features.reader, ObservationReader)
    width = ObservationEncoder.of(env.observation_space).width if flat else 0
    problem = why_no_study(policy) or (why_no_flat_study(policy) if flat else None)
    if problem is not None:
        raise LegibleError(problem)
    if flat and isinstance(env.action_space, spaces.Discrete) and policy.kind != "none":
        check_counts(policy, width, count_actions(env.action_space))
    else:
        space = env.observation_space
        if not flat and isinstance(space, spaces.Dict):
            # Entries that hold no numbers, such as texts, are not in the rows of features.
            space = spaces.Dict({key: part for key, part in space.spaces.items() if flat_width(part)})
        check_acting(policy, space, env.action_space)


_APART = "they do not belong together."


def _width(space: spaces.Space[Any]) -> int:
    return int(np.prod(space.shape or (1,)))
