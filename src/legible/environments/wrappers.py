"""Wrappers that policies were trained behind, for single environments.

- `FrameStack`: the last observations, as ``VecFrameStack`` of Stable-Baselines3; `stacked_names`: their names.
- `TimeFeature`: the remaining time as one more number, as ``TimeFeatureWrapper`` of sb3-contrib.
- `History`: the last observations and actions, as ``HistoryWrapper`` of the RL Zoo.
- `MaskVelocity`, `FrameSkip`, `ActionSmoothing`, `DelayedReward`, `DoneOnSuccess`: as the RL Zoo's of these names.
- `AtariGame`: pictures of Atari games, as ``AtariWrapper`` of Stable-Baselines3 makes them; an episode is a whole game.

Observations equal those of the originals; `legible.environments.known_wrappers` is the table of their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments.spaces import UnfitEnvironmentError
from legible.features import Feature, FeatureSpace
from legible.imports import optional_package

Env: TypeAlias = gymnasium.Env[Any, Any]
Stepped: TypeAlias = tuple[Any, float, bool, bool, dict[str, Any]]
Padding: TypeAlias = Sequence[float] | Mapping[str, Sequence[float]] | None

FRAMES_RESTART = "frames restart"
"""Key of an info whose observation is like the first of an episode, although no episode ended."""

# Where Gymnasium's environments have velocities among their observations, by their documentation.
_VELOCITIES = {
    "CartPole": (1, 3),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "Pendulum": (2,),
    "LunarLander": (2, 3, 5),
    "LunarLanderContinuous": (2, 3, 5),
}


class _Wrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Base class with hooks for what a wrapper remembers, for its observations and for their names."""

    def _begin(self) -> None:
        """Forget the previous episode."""

    def _transform(self, observation: Any) -> Any:
        """Return the wrapper's observation for one of the environment."""
        return observation

    def _rename(self, inner: FeatureSpace) -> FeatureSpace:
        """Return the names of the wrapper's features from the names of the environment's features."""
        return inner

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**options)
        self._begin()
        return self._transform(observation), info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._transform(observation), float(reward), terminated, truncated, info

    @property
    def feature_space(self) -> FeatureSpace:
        """The names of the features; the attribute is missing where the environment has no names."""
        from legible.environments.names import resolve_names  # noqa: PLC0415 (it knows specs, which know wrappers)

        try:
            named = resolve_names(self.env)
        except UnfitEnvironmentError as error:
            raise AttributeError("feature_space") from error
        if not named.is_named:
            raise AttributeError("feature_space")
        return self._rename(named.space)


def _check_box(space: spaces.Space[Any], requirement: str) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise UnfitEnvironmentError(f"{requirement}, not {space}.")
    return space


def _check_number(name: str, number: object, highest: int = 10**6) -> int:
    if not isinstance(number, int) or not 1 <= number <= highest:
        raise UnfitEnvironmentError(f"{name} is a whole number from 1 to {highest}, not {number!r}.")
    return number


class FrameStack(_Wrapper):
    """The last `n_stack` observations in one, oldest first, with zeros before the first step of an episode.

    Pictures are stacked along their channels, everything else along the last axis. Entries of dictionaries are stacked
    separately.

    - `channels_order`: the axis of pictures along which they are stacked, ``"first"`` or ``"last"``; detected by
      default.
    - `padding`: values that replace the zeros, one for each number of an observation, by entry for dictionaries: those
      that normalise to zero where the statistics belong to a single observation.
    """

    def __init__(self, env: Env, n_stack: int, channels_order: str | None = None, padding: Padding = None) -> None:
        """Prepare the stacking of `n_stack` observations into one; the arguments are explained in the class."""
        super().__init__(env)
        self._n = _check_number("VecFrameStack: n_stack", n_stack, highest=1000)

        # By entry of the observation; an observation without entries has the key "".
        inner = env.observation_space
        self._parts = inner.spaces if isinstance(inner, spaces.Dict) else {"": inner}
        paddings = padding if isinstance(padding, Mapping) else {"": padding}

        # By entry: the axis to stack along, the frame before the first step, and the last frames (set by `reset`).
        self._axes: dict[str, int] = {}
        self._empty: dict[str, NDArray[Any]] = {}
        self._frames: dict[str, list[NDArray[Any]]] = {}
        stacked: dict[str, spaces.Space[Any]] = {}
        for key, entry_space in self._parts.items():
            frame_space = _check_box(entry_space, "only observations that are a Box can be stacked")
            self._axes[key] = axis = _channel_axis(frame_space, channels_order)
            blank_frame = np.zeros(frame_space.shape, frame_space.dtype)
            if paddings.get(key) is not None:
                blank_frame = np.array(paddings[key], frame_space.dtype)
            if blank_frame.size != int(np.prod(frame_space.shape)):
                raise UnfitEnvironmentError(
                    f"VecFrameStack: padding has {blank_frame.size} numbers for observations in {frame_space}."
                )
            self._empty[key] = blank_frame.reshape(frame_space.shape)
            low, high = (np.concatenate([bound] * self._n, axis) for bound in (frame_space.low, frame_space.high))
            stacked[key] = spaces.Box(low, high, dtype=frame_space.dtype.type)
        self.observation_space = spaces.Dict(stacked) if isinstance(inner, spaces.Dict) else stacked[""]

    def _rename(self, inner: FeatureSpace) -> FeatureSpace:
        return stacked_names(inner, self._n)

    def step(self, action: Any) -> Stepped:
        """Take a step; the oldest observation is forgotten."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if info.get(FRAMES_RESTART):
            self._begin()
        return self._transform(observation), float(reward), terminated, truncated, info

    def _begin(self) -> None:
        self._frames = {key: [empty] * self._n for key, empty in self._empty.items()}

    def _transform(self, observation: Any) -> Any:
        parts = observation if isinstance(self.observation_space, spaces.Dict) else {"": observation}
        for key, frames in self._frames.items():
            self._frames[key] = [*frames[1:], np.array(parts[key], dtype=self._parts[key].dtype)]
        stacked = {key: np.concatenate(frames, self._axes[key]) for key, frames in self._frames.items()}
        return stacked if isinstance(self.observation_space, spaces.Dict) else stacked[""]


def _channel_axis(box: spaces.Box, order: str | None) -> int:
    if not box.shape:
        raise UnfitEnvironmentError("observations that are single numbers cannot be stacked.")
    if order in ("first", "last"):
        return 0 if order == "first" else -1
    if order is not None:
        raise UnfitEnvironmentError(f"VecFrameStack: channels_order is 'first' or 'last', not {order!r}.")
    is_picture = len(box.shape) == 3 and box.dtype == np.uint8 and not box.low.any() and bool((box.high == 255).all())
    # The channels are the smallest of the three axes.
    return 0 if is_picture and int(np.argmin(box.shape)) == 0 else -1


def stacked_names(space: FeatureSpace, n_stack: int) -> FeatureSpace:
    """Return the names of stacked observations, oldest first, from the names of a single one."""
    earlier = []
    for ago in range(n_stack - 1, 0, -1):
        when = f"{ago} step{'s' if ago > 1 else ''} ago"
        for feature in space.features:
            values = {value: f"{words} {when}" for value, words in feature.values.items()}
            name, words = f"{feature.name}.{ago}ago", f"{feature.label} {when}"
            earlier.append(replace(feature, name=name, words=words, values=values))
    return replace(space, features=(*earlier, *space.features))


class TimeFeature(_Wrapper):
    """The share of the time that is left, as the last number of an observation.

    Of dictionaries, the entry ``observation`` gets the number. `max_steps` is for environments without a time limit;
    with `test_mode` the number is always 1, to check that a policy does not act by the clock.
    """

    def __init__(self, env: Env, max_steps: int = 1000, test_mode: bool = False) -> None:
        super().__init__(env)
        inner = env.observation_space
        requirement = "time is added to a flat Box"
        box = _check_box(inner["observation"] if isinstance(inner, spaces.Dict) else inner, requirement)
        if len(box.shape) != 1:
            raise UnfitEnvironmentError(f"{requirement}, not {box}.")
        self._dtype: Any = box.dtype
        low, high = np.append(box.low, 0.0), np.append(box.high, 1.0)
        timed = spaces.Box(low.astype(box.dtype), high.astype(box.dtype), dtype=self._dtype.type)
        self.observation_space = _replace_entry(inner, timed)
        limit = None if env.spec is None else env.spec.max_episode_steps
        self._most, self._is_constant, self._step = limit or max_steps, bool(test_mode), 0

    def _rename(self, inner: FeatureSpace) -> FeatureSpace:
        left = Feature("time.left", words="the share of the time that is left")
        return replace(inner, features=(*inner.features, left))

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        self._step += 1
        return super().step(action)

    def _begin(self) -> None:
        self._step = 0

    def _transform(self, observation: Any) -> Any:
        left = np.array(1.0 if self._is_constant else 1 - self._step / self._most, self._dtype)
        if isinstance(observation, dict):
            return {**observation, "observation": np.append(observation["observation"], left)}
        return np.append(observation, left)


class History(_Wrapper):
    """The last `horizon` observations and then actions, oldest first, with zeros before the start of an episode.

    Actions must be a Box. Of dictionaries, the entry ``observation`` gets the history.
    """

    def __init__(self, env: Env, horizon: int = 2) -> None:
        super().__init__(env)
        inner = env.observation_space
        requirement = "a history needs flat observations and actions that are a Box"
        seen = _check_box(inner["observation"] if isinstance(inner, spaces.Dict) else inner, requirement)
        done = _check_box(env.action_space, requirement)
        self._horizon = _check_number("HistoryWrapper: horizon", horizon, highest=1000)
        dtype: Any = seen.dtype
        low = np.concatenate([seen.low] * horizon + [done.low] * horizon).astype(dtype)
        high = np.concatenate([seen.high] * horizon + [done.high] * horizon).astype(dtype)
        self.observation_space = _replace_entry(inner, spaces.Box(low, high, dtype=dtype.type))
        self._empty = np.zeros(seen.shape, dtype), np.zeros(done.shape, done.dtype)
        self._seen: list[NDArray[Any]] = []
        self._done: list[NDArray[Any]] = []

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._done = [*self._done[1:], np.array(action, self._empty[1].dtype)]
        return self._transform(observation), float(reward), terminated, truncated, info

    def _begin(self) -> None:
        self._seen, self._done = ([empty] * self._horizon for empty in self._empty)

    def _transform(self, observation: Any) -> Any:
        seen = observation["observation"] if isinstance(observation, dict) else observation
        self._seen = [*self._seen[1:], np.array(seen, self._empty[0].dtype)]
        history = np.concatenate([*self._seen, *self._done])
        return {**observation, "observation": history} if isinstance(observation, dict) else history


def _replace_entry(space: spaces.Space[Any], observation: spaces.Box) -> spaces.Space[Any]:
    """Return a Box, as the entry ``observation`` where the space has entries."""
    return spaces.Dict({**space.spaces, "observation": observation}) if isinstance(space, spaces.Dict) else observation


class MaskVelocity(_Wrapper):
    """Shows velocities as zero, so that a policy has to infer them from positions."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        name = "" if env.spec is None else env.spec.id.rpartition("-v")[0]
        if name not in _VELOCITIES:
            raise UnfitEnvironmentError(
                f"MaskVelocityWrapper knows the velocities of {', '.join(_VELOCITIES)}, not of {name or 'this'}."
            )
        box = _check_box(env.observation_space, "velocities are masked in a Box")
        self._mask = np.ones(box.shape, box.dtype)
        self._mask[list(_VELOCITIES[name])] = 0

    def _transform(self, observation: Any) -> Any:
        return observation * self._mask


class FrameSkip(_Wrapper):
    """Takes every action `skip` times, adds up the rewards and shows the last observation."""

    def __init__(self, env: Env, skip: int = 4) -> None:
        super().__init__(env)
        self._skip = _check_number("FrameSkip: skip", skip)

    def step(self, action: Any) -> Stepped:
        """Repeat an action; the end of the episode ends the repetition."""
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class ActionSmoothing(_Wrapper):
    """Replaces actions by their moving average, in which earlier ones have the weight `smoothing_coef`.

    Actions must be a Box.
    """

    def __init__(self, env: Env, smoothing_coef: float = 0.0) -> None:
        super().__init__(env)
        _check_box(env.action_space, "actions that are smoothed are a Box")
        self._average: NDArray[Any] | None = None
        self._coefficient = float(smoothing_coef)

    def step(self, action: Any) -> Stepped:
        """Take a step with the average."""
        before = np.zeros_like(action) if self._average is None else self._average
        self._average = self._coefficient * before + (1 - self._coefficient) * action
        return super().step(self._average)

    def _begin(self) -> None:
        self._average = None


class DelayedReward(_Wrapper):
    """Pays the rewards of `delay` steps together, and the rest at the end of an episode."""

    def __init__(self, env: Env, delay: int = 10) -> None:
        super().__init__(env)
        self._delay = _check_number("DelayedRewardWrapper: delay", delay)
        self._step, self._unpaid = 0, 0.0

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        self._unpaid += float(reward)
        paid = 0.0
        if self._step % self._delay == 0 or terminated or truncated:
            paid, self._unpaid = self._unpaid, 0.0
        return observation, paid, terminated, truncated, info

    def _begin(self) -> None:
        self._step, self._unpaid = 0, 0.0


class DoneOnSuccess(_Wrapper):
    """Ends an episode after `n_successes` steps in a row with ``is_success``, and adds `reward_offset` to rewards."""

    def __init__(self, env: Env, reward_offset: float = 0.0, n_successes: int = 1) -> None:
        super().__init__(env)
        self._offset = float(reward_offset)
        self._needed, self._successes = _check_number("DoneOnSuccessWrapper: n_successes", n_successes), 0

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._successes = self._successes + 1 if info.get("is_success", False) else 0
        truncated = truncated or self._successes >= self._needed
        return observation, float(reward) + self._offset, terminated, truncated, info

    def _begin(self) -> None:
        self._successes = 0


class _GameScore(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts the points of the game itself, and records whether the game is over."""

    earned = earned_before = 0.0  # in all games, and in those before the last
    games, over = 0, False

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        observation, info = self.env.reset(**options)
        self.games, self.over, self.earned_before = self.games + 1, False, self.earned
        return observation, info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.earned += float(reward)
        self.over = bool(terminated or truncated)
        return observation, float(reward), terminated, truncated, info


class AtariGame(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An Atari game behind ``AtariWrapper`` of Stable-Baselines3, which takes the `options`.

    For training, that wrapper ends an episode with every life and pays −1, 0 or 1. Stable-Baselines3 evaluates whole
    games and counts their own points, and so does this class: after a lost life the game goes on as it does there.
    """

    def __init__(self, env: Env, **options: Any) -> None:
        package = optional_package("stable_baselines3.common.atari_wrappers", "sb3", "pictures of Atari games")
        self._score, self._paid = _GameScore(env), 0.0
        super().__init__(package.AtariWrapper(self._score, **options))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        if self.env.has_wrapper_attr("was_real_done"):
            # Otherwise an abandoned game would go on.
            self.env.set_wrapper_attr("was_real_done", True)
        observation, info = self.env.reset(**options)
        self._paid = self._score.earned_before  # the first step pays what the first moves earned
        return observation, info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        score, game = self._score, self._score.games
        observation, _, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and not score.over:
            observation, more = self.env.reset()
            info = {**info, **more, FRAMES_RESTART: True}
            # The move after a lost life may have ended the game, and the next one has begun.
            terminated, truncated = score.games > game, False
        earned = score.earned if score.games == game else score.earned_before
        paid, self._paid = self._paid, earned
        return observation, earned - paid, terminated, truncated, info
