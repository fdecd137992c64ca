"""Players: fixed policies in seats that are not studied.

- `make_player`: the player of a seat: "random", a policy or its path.
- `RandomPlayer`, `PolicyPlayer`: random actions, and those of a policy. Their random numbers depend on the seed of the
  episode, the seat and the turn only, so the same seed gives the same episode.
- `split_mask`: an observation of PettingZoo without its action mask, and the mask.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments import Env, FeatureEnv, choice_sizes, stack_observations, to_environment_actions
from legible.environments.masks import ENTRY
from legible.environments.spaces import UnfitEnvironmentError
from legible.errors import LegibleError
from legible.play.acting import ActingChooser, check_spaces_fit
from legible.play.choosing import choose_actions
from legible.policies import Policy, UnclearPolicyError, load_policy
from legible.policies.protocol import naming_errors
from legible.policies.rl_zoo import ENVIRONMENT_NEEDS
from legible.streams import policy_keys

RANDOM = "random"


class Player(Protocol):
    """A player of a seat."""

    def start(self, seed: int) -> None:
        """Start an episode; `seed` belongs to the episode and the seat."""

    def act(self, observation: Any, mask: NDArray[np.bool_] | None) -> Any:
        """Return an action of the environment for an observation without its mask."""


def shown_space(space: spaces.Space[Any]) -> tuple[spaces.Space[Any], bool]:
    """Return the space of observations without their action mask, and whether they have one.

    >>> masked = spaces.Dict({"observation": spaces.Box(0, 1, (9,)), "action_mask": spaces.Box(0, 1, (9,), np.int8)})
    >>> shown_space(masked)
    (Box(0.0, 1.0, (9,), float32), True)
    """
    if not isinstance(space, spaces.Dict) or ENTRY not in space.spaces:
        return space, False
    left = {key: part for key, part in space.spaces.items() if key != ENTRY}
    return (next(iter(left.values())) if len(left) == 1 else spaces.Dict(left)), True


def split_mask(
    space: spaces.Space[Any], observation: Any, info: Mapping[str, Any]
) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return an observation without its action mask, and the mask; None where there is none.

    - `space`: space of the observations, with masks.
    - `observation`, `info`: what PettingZoo's ``last()`` returned. Some games put the mask into the info.
    """
    if isinstance(space, spaces.Dict) and ENTRY in space.spaces:
        left = {key: value for key, value in observation.items() if key != ENTRY}
        given, shown = observation[ENTRY], next(iter(left.values())) if len(left) == 1 else left
    else:
        given, shown = info.get(ENTRY), observation
    return shown, None if given is None else np.asarray(given, np.bool_).ravel()


class RandomPlayer:
    """A player of random actions, within the action mask."""

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self._space = copy.deepcopy(action_space)  # a game may draw from its own

    def start(self, seed: int) -> None:
        """Start an episode."""
        self._space.seed(seed % 2**32)

    def act(self, observation: Any, mask: NDArray[np.bool_] | None) -> Any:  # noqa: ARG002
        """Return a random action."""
        if mask is None:
            return self._space.sample()
        sizes = choice_sizes(self._space)
        parts = tuple(np.asarray(part, np.int8) for part in np.split(mask, np.cumsum(sizes)[:-1]))
        return self._space.sample(mask=parts if isinstance(self._space, spaces.MultiDiscrete) else parts[0])


class _SeatView(gymnasium.Env[Any, Any]):
    """A seat as slots of one row, and as an environment that shows what the seat last saw."""

    n = 1

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.masks: NDArray[np.bool_] | None = None
        self.observation: Any = None

    def action_masks(self) -> NDArray[np.bool_]:
        assert self.masks is not None
        return self.masks[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        return self.observation, self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        return self.observation, 0.0, False, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {} if self.masks is None else {ENTRY: self.masks[0]}


class PolicyPlayer:
    """A player that follows a policy, guided or not, in a seat with these spaces; observations have no action mask.

    A deterministic player takes the best action instead of a sample.
    """

    def __init__(
        self,
        policy: Policy,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        deterministic: bool = True,
    ) -> None:
        self.policy = policy
        self._deterministic = deterministic
        self._view = _SeatView(observation_space, action_space)
        self._features: Env | None = None
        features = getattr(policy, "features", None)
        if features is not None:  # rules that see masks or further features read rows of them
            self._features = FeatureEnv(self._view, features)
        else:
            check_spaces_fit(policy, observation_space, action_space)
        self._chooser: ActingChooser | None = None
        self._turn, self._last = 0, np.zeros(0)
        self._keys = policy_keys([0])

    def start(self, seed: int) -> None:
        """Start an episode."""
        self._turn, self._keys = 0, policy_keys([seed])
        if self._features is None:
            slots: Any = self._view
            self._chooser = ActingChooser(self.policy, slots, [seed], deterministic=self._deterministic)

    def act(self, observation: Any, mask: NDArray[np.bool_] | None) -> Any:
        """Return the policy's action for what its seat observes, with the allowed actions ``bool[choices]`` if any."""
        # The view stands for the environment of the seat: choosers and features read the observation there.
        view = self._view
        view.masks, view.observation = None if mask is None else mask[None], observation
        steps = np.array([self._turn])
        if self._features is None:  # the policy reads the observation itself
            assert self._chooser is not None
            batch = stack_observations(view.observation_space, [observation])
            actions, _ = self._chooser(batch, episodes=np.zeros(1, np.int64), steps=steps)
        else:  # it reads features, some of which depend on earlier steps and actions
            row = self._features.step(self._last)[0] if self._turn else self._features.reset()[0]
            rows, policy = np.asarray(row, np.float32)[None], cast("Any", self.policy)
            with naming_errors():
                if policy.kind == "none":  # without scores
                    rng = np.random.default_rng([int(self._keys[0]), self._turn])
                    actions = policy.predict(rows, deterministic=self._deterministic, rng=rng)[0]
                else:
                    sample = not self._deterministic and policy.kind == "log-probabilities"
                    actions = choose_actions(np.asarray(policy.scores(rows)), self._keys, steps, sample=sample)
        self._turn += 1
        self._last = to_environment_actions(view.action_space, actions)[0]
        return self._last


def make_player(
    source: Any,
    seat: str,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    deterministic: bool = True,
) -> Player:
    """Return the player of a seat.

    - `source`: "random", a policy or its path or address (`legible.load_policy`), or a dictionary with the path as
      "policy" and further arguments of `legible.load_policy`.
    - `seat`: name of the seat, for errors.
    - `observation_space`, `action_space`: spaces of the seat, as PettingZoo has them.
    - `deterministic`: whether a policy takes its best action instead of a sample.
    """
    if isinstance(source, str) and source == RANDOM:
        return RandomPlayer(action_space)
    shown, _ = shown_space(observation_space)
    try:
        policy = _load(source, shown, action_space)
        metadata = getattr(getattr(policy, "network", policy), "metadata", None)  # of a guided policy's network
        needs = metadata.get(ENVIRONMENT_NEEDS) if isinstance(metadata, Mapping) else None
        if isinstance(needs, Mapping) and (needs.get("wrappers") or (needs.get("frame_stack") or 1) > 1):
            raise UnfitEnvironmentError(
                "it was trained behind wrappers or stacked frames, which are not supported for other seats"
            )
        return PolicyPlayer(policy, shown, action_space, deterministic=deterministic)
    except LegibleError as error:
        raise UnfitEnvironmentError(
            f"the policy {str(source)[:200]!r} cannot play the seat {seat!r}: {error}"
        ) from error


def _load(source: Any, shown: spaces.Space[Any], action_space: spaces.Space[Any]) -> Policy:
    if isinstance(source, Policy):
        return source
    options = dict(source) if isinstance(source, Mapping) else {"policy": source}
    where = options.pop("policy", None)
    if not isinstance(where, str | Path):
        raise UnfitEnvironmentError(f"{where!r} is no policy; give random, a file or an address")
    try:
        return load_policy(where, allow_code=True, **options)
    except UnclearPolicyError:
        if not isinstance(shown, spaces.Dict):
            options["n_features"] = int(np.prod(shown.shape or (1,)))
        return load_policy(where, allow_code=True, observation_space=shown, action_space=action_space, **options)
