"""Actions of any space from any policy, within the environment's action masks.

- `ActingChooser`: follows a policy in slots of any spaces, by its scores or by ``predict``; keeps recurrent states.
- `RandomChooser`: chooses random actions.
- `check_spaces_fit`: a policy and an environment fit; `check_can_be_studied`: they can be studied.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments import (
    Env,
    FeatureEnv,
    FeatureMap,
    ObservationEncoder,
    check_action_space,
    check_policy_spaces,
    choice_sizes,
    count_actions,
)
from legible.environments.feature_readers import ObservationReader, flat_width
from legible.errors import LegibleError
from legible.play.adapted import features_read
from legible.play.choosing import (
    MISMATCH,
    OTHER_OBSERVATIONS,
    Scores,
    check_counts,
    check_is_policy,
    choose_actions,
    explain_not_flat,
    explain_not_studied,
)
from legible.play.slots import Slots, SpaceSlots
from legible.policies import Policy, acting
from legible.policies.protocol import PolicyError, as_scores, naming_errors
from legible.streams import policy_keys


class ActingChooser:
    """A chooser that follows a policy in slots of any spaces and never takes a masked action.

    - `policy`, `slots`, `seeds`: the policy, the slots in which the episodes run, and the seed of each episode.
    - `deterministic`: take the best action. If False, sample actions where the policy can, from the episode's own
      random stream; a policy without scores then needs a single slot.
    """

    def __init__(self, policy: Policy, slots: SpaceSlots, seeds: Sequence[int], *, deterministic: bool = True) -> None:
        check_spaces_fit(policy, slots.observation_space, slots.action_space)
        self._policy = acting(policy)
        self._slots, self._seeds = slots, seeds
        self._deterministic = deterministic or not self._policy.stochastic
        self._keys = policy_keys([*seeds, 0])
        self._state: Any = None
        self._takes_rng = "rng" in inspect.signature(self._policy.predict).parameters
        if not self._deterministic and self._policy.kind == "none" and slots.n > 1:
            raise LegibleError(f"sampling from a policy without scores needs a single slot, not {slots.n}.")

    def __call__(
        self, observations: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose an action for every row."""
        with naming_errors():
            if self._policy.kind != "none":
                return self._choose_by_scores(observations, episodes, steps)
            return self._predict(observations, episodes, steps), np.empty((len(steps), 0))

    def memory(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], ...] | None:
        """Return a copy of the policy's recurrent state in some rows; None if it has none."""
        return None if self._state is None else tuple(np.asarray(part)[:, rows] for part in self._state)

    def recall(self, rows: NDArray[np.intp], memory: tuple[NDArray[Any], ...]) -> None:
        """Set the recurrent state of some rows to what `memory` returned."""
        if self._state is None:
            self._state = tuple(np.zeros((len(part), self._slots.n, *part.shape[2:]), part.dtype) for part in memory)
        self._state = tuple(np.array(part) for part in self._state)
        for part, recalled in zip(self._state, memory, strict=True):
            part[:, rows] = recalled

    def _choose_by_scores(
        self, observations: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Scores]:
        policy: Any = self._policy
        n, keys = len(steps), self._keys[episodes]
        space = policy.observation_space
        if not isinstance(observations, dict) and (space is None or len(space.shape or ()) < 3):
            # Scores are computed from flat observations, except for dictionaries and images.
            observations = observations.reshape(len(observations), -1).astype(np.float32)
        scores = as_scores(np.asarray(policy.scores(observations)), n, policy.n_actions)
        masks = self._slots.masks
        if masks is None:
            return choose_actions(scores, keys, steps, sample=not self._deterministic), scores
        allowed = np.where(masks, scores, -np.inf)
        actions = choose_actions(allowed, keys, steps, sample=not self._deterministic)
        # Rules may block every action that the environment allows: then one of those is chosen at random.
        stuck = np.isneginf(allowed).all(axis=1)
        anything = choose_actions(np.where(masks, 0.0, -np.inf), keys, steps, epsilon=1.0)
        return np.where(stuck, anything, actions), allowed

    def _predict(self, observations: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[Any]:
        """Return the actions ``[n, ...]`` that the policy's ``predict`` chooses, and keep its memory for the next step.

        Sampled actions depend only on the episode's seed and the step, not on the other rows.

        - `observations`: one observation per row, where each row is a slot in which an episode is played.
        - `episodes`: ``int64[n]``: the number of the episode that each row plays.
        - `steps`: ``int64[n]``: the number of steps that it has taken; at 0 the policy's memory is reset.
        """
        mask_option: dict[str, Any] = {} if self._slots.masks is None else {"action_masks": self._slots.masks}
        # The arguments of Stable-Baselines3's `predict`: a policy's memory is reset where an episode starts.
        inputs = (observations, self._state, steps == 0, self._deterministic)
        predict: Callable[..., tuple[NDArray[Any], Any]] = self._policy.predict
        try:
            if self._deterministic:
                actions, self._state = predict(*inputs, **mask_option)
            else:
                # Random numbers that depend on seed and step only. When sampling, `__init__` allows a single row.
                rng = np.random.default_rng([int(self._keys[episodes[0]]), int(steps[0])])
                if self._takes_rng:
                    actions, self._state = predict(*inputs, **mask_option, rng=rng)
                else:
                    # In-memory models of Stable-Baselines3 draw from PyTorch's global stream.
                    import torch  # noqa: PLC0415

                    with torch.random.fork_rng(devices=()):
                        torch.manual_seed(int(rng.integers(2**63)))
                        actions, self._state = predict(*inputs, **mask_option)
        except TypeError as error:
            # Policies that were trained without masks do not take the argument.
            if mask_option and "action_masks" in str(error):
                raise LegibleError(
                    "this policy cannot respect the environment's action masks: it was not trained with masks and has "
                    "no scores. Use a policy that was trained with masks, such as one of MaskablePPO."
                ) from error
            raise
        actions = np.asarray(actions).reshape(len(steps), *(self._slots.action_space.shape or ()))
        self._check_actions(actions, episodes)
        return actions

    def _check_actions(self, actions: NDArray[Any], episodes: NDArray[np.int64]) -> None:
        """Raise if the policy chose an action that the environment does not have, or NaN."""
        space = self._slots.action_space
        sizes, chosen = choice_sizes(space), actions.reshape(len(actions), -1)
        legal = (chosen >= 0) & (chosen < sizes) if sizes else ~np.isnan(chosen)
        if not legal.all():
            row = int(np.argmin(legal.all(axis=1)))
            raise PolicyError(
                f"the policy chose the action {actions[row]}, which the environment does not have, in the episode with "
                f"seed {self._seeds[episodes[row]]}. The environment's actions are {space} (discrete ones count from 0 "
                "here). Correct the policy."
            )


class RandomChooser:
    """A chooser of random actions in some slots, within the environment's action masks; `seed` seeds the actions."""

    def __init__(self, slots: Slots, seed: int) -> None:
        self._slots, self._rng = slots, np.random.default_rng(seed)
        self._sizes = choice_sizes(slots.action_space)
        check_policy_spaces(None, slots.action_space)
        slots.action_space.seed(seed)

    def __call__(
        self,
        observations: Any,  # noqa: ARG002
        episodes: NDArray[np.int64],  # noqa: ARG002
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[Any], Scores]:
        """Choose an action for every row."""
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


def check_spaces_fit(policy: Policy, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Raise unless a policy's observation and action spaces fit an environment's."""
    check_is_policy(policy)
    check_policy_spaces(observation_space, action_space)
    actor = acting(policy)
    taken = actor.action_space
    if (
        isinstance(taken, spaces.Discrete)
        and isinstance(action_space, spaces.Discrete)
        and not _is_dict(actor.observation_space, observation_space)
    ):
        check_counts(policy, _width(observation_space), int(action_space.n))
    else:
        _check_observations_fit(actor.observation_space, observation_space)
    if choice_sizes(taken) != choice_sizes(action_space) or taken.shape != action_space.shape:
        raise LegibleError(f"the policy's actions are {taken}, the environment's {action_space}: {MISMATCH}.")


def _is_dict(*observation_spaces: spaces.Space[Any] | None) -> bool:
    return any(isinstance(space, spaces.Dict) for space in observation_spaces)


def _check_observations_fit(read: spaces.Space[Any] | None, observation_space: spaces.Space[Any]) -> None:
    """Raise unless the observations that a policy reads fit; None stands for flat ones of any width."""
    if isinstance(read, spaces.Dict) and isinstance(observation_space, spaces.Dict):
        for key, part in read.spaces.items():
            if key not in observation_space.spaces or _width(part) != _width(observation_space[key]):
                raise LegibleError(
                    f"the policy reads the entry {key!r}, {part}, which the environment does not show: "
                    f"{OTHER_OBSERVATIONS}."
                )
    elif _is_dict(read, observation_space):
        reads = "one array of numbers" if read is None else read
        raise LegibleError(
            f"the policy reads {reads}, the environment shows {observation_space}: {OTHER_OBSERVATIONS}."
        )
    elif read is not None and _width(read) != _width(observation_space):
        raise LegibleError(
            f"the policy reads {_width(read)} features, the environment shows {_width(observation_space)}: "
            f"{OTHER_OBSERVATIONS}."
        )


def check_can_be_studied(policy: Policy, env: Env, features: FeatureMap | None = None) -> None:
    """Raise an error that names the problem if a policy cannot be studied in an environment.

    - `env`: the environment, as it is or wrapped in a `FeatureEnv`, which shows features instead of observations.
    - `features`: the features that rules see; by default those of the `FeatureEnv`, or the observation itself.
    """
    check_is_policy(policy)
    check_action_space(env.action_space)
    # A policy that does not read features is checked against the environment inside.
    if features is None and isinstance(env, FeatureEnv) and features_read(policy) is None:
        features, env = env.feature_map, env.env
    # Where rules see the observation itself, it must be flat. Otherwise, a reader takes the features from an
    # observation of any shape.
    reads_observation = features is None or isinstance(features.reader, ObservationReader)
    width = ObservationEncoder.of(env.observation_space).width if reads_observation else 0
    problem = explain_not_studied(policy) or (explain_not_flat(policy) if reads_observation else None)
    if problem is not None:
        raise LegibleError(problem)

    # Policies with scores (kind "none": without) for discrete actions may not declare spaces: compare the numbers of
    # features and actions.
    if reads_observation and isinstance(env.action_space, spaces.Discrete) and policy.kind != "none":
        check_counts(policy, width, count_actions(env.action_space))
    else:
        space = env.observation_space
        if not reads_observation and isinstance(space, spaces.Dict):
            # Entries without numbers, such as text, are not part of the rows of features.
            space = spaces.Dict({key: part for key, part in space.spaces.items() if flat_width(part)})
        check_spaces_fit(policy, space, env.action_space)


def _width(space: spaces.Space[Any]) -> int:
    return int(np.prod(space.shape or (1,)))
