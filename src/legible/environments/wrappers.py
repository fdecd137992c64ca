"""Wrappers that policies were trained behind, for single environments.

- `FrameStack`: the last observations side by side, as ``VecFrameStack`` of Stable-Baselines3 has them; `stacked_names`:
  what their numbers are called.
- `TimeFeature`: the time that is left as one more number, as ``TimeFeatureWrapper`` of sb3-contrib.
- `History`: the last observations and actions, as ``HistoryWrapper`` of the RL Zoo.
- `MaskVelocity`, `FrameSkip`, `ActionSmoothing`, `DelayedReward`, `DoneOnSuccess`: as the RL Zoo's of these names.
- `AtariGame`: pictures of Atari games, as ``AtariWrapper`` of Stable-Baselines3 makes them; an episode is a whole game.

Observations are as those of the originals; `legible.environments.known_wrappers` is the table of their names.
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
"""Entry of an info that says that the observation is like the first of an episode, although none ended."""

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
    """A wrapper that may have names for what it makes of the observations."""

    def _begin(self) -> None:
        """Forget the episode before."""

    def _seen(self, observation: Any) -> Any:
        """Return what is shown for an observation."""
        return observation

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**options)
        self._begin()
        return self._seen(observation), info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._seen(observation), float(reward), terminated, truncated, info

    def _features(self, inner: FeatureSpace) -> FeatureSpace:
        """Return the names of what comes out, from those of what goes in."""
        return inner

    @property
    def feature_space(self) -> FeatureSpace:
        """The names, where what is inside has some; else there is no such attribute."""
        from legible.environments.names import resolve_names  # noqa: PLC0415 (it knows specs, which know wrappers)

        try:
            named = resolve_names(self.env)
        except UnfitEnvironmentError as error:
            raise AttributeError("feature_space") from error
        if not named.is_named:
            raise AttributeError("feature_space")
        return self._features(named.space)


def _box(space: spaces.Space[Any], what: str) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise UnfitEnvironmentError(f"{what}, not {space}.")
    return space


class FrameStack(_Wrapper):
    """The last observations in one, oldest first; before the first step of an episode they are zero.

    Pictures are stacked along their channels, everything else along its last axis, entries of dictionaries each by
    itself.

    Parameters
    ----------
    env
        The environment.
    n_stack
        How many.
    channels_order
        ``"first"`` or ``"last"``, the axis; by default it is found out.
    padding
        What stands for observations before the first instead of zeros: a number for each of an observation's, by
        entry for dictionaries. What comes out as zero behind statistics that belong to a single observation.
    """

    def __init__(self, env: Env, n_stack: int, channels_order: str | None = None, padding: Padding = None) -> None:
        super().__init__(env)
        if not isinstance(n_stack, int) or not 1 <= n_stack <= 1000:
            raise UnfitEnvironmentError(f"VecFrameStack: n_stack is a number from 1 to 1000, not {n_stack!r}.")
        self._n = n_stack
        inner = env.observation_space
        self._parts = inner.spaces if isinstance(inner, spaces.Dict) else {"": inner}
        boxes = {
            key: _box(part, "only observations that are a Box can be stacked") for key, part in self._parts.items()
        }
        self._axes = {key: _channel_axis(box, channels_order) for key, box in boxes.items()}
        filled = padding if isinstance(padding, Mapping) else {} if padding is None else {"": padding}
        self._empty: dict[str, NDArray[Any]] = {}
        self._frames: dict[str, list[NDArray[Any]]] = {}
        stacked: dict[str, spaces.Space[Any]] = {}
        for key, box in boxes.items():
            given = filled.get(key)
            empty = np.zeros(box.shape, box.dtype) if given is None else np.array(given, box.dtype)
            if empty.size != int(np.prod(box.shape)):
                raise UnfitEnvironmentError(
                    f"VecFrameStack: padding has {empty.size} numbers for observations in {box}."
                )
            self._empty[key] = empty.reshape(box.shape)
            low, high = (np.concatenate([bound] * self._n, self._axes[key]) for bound in (box.low, box.high))
            stacked[key] = spaces.Box(low, high, dtype=box.dtype.type)
        self.observation_space = spaces.Dict(stacked) if isinstance(inner, spaces.Dict) else stacked[""]

    def _features(self, inner: FeatureSpace) -> FeatureSpace:
        return stacked_names(inner, self._n)

    def step(self, action: Any) -> Stepped:
        """Take a step; the oldest observation is forgotten."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if info.get(FRAMES_RESTART):
            self._begin()
        return self._seen(observation), float(reward), terminated, truncated, info

    def _begin(self) -> None:
        self._frames = {key: [empty] * self._n for key, empty in self._empty.items()}

    def _seen(self, observation: Any) -> Any:
        seen = observation if isinstance(self.observation_space, spaces.Dict) else {"": observation}
        for key, frames in self._frames.items():
            self._frames[key] = [*frames[1:], np.array(seen[key], dtype=self._parts[key].dtype)]
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
    # The smallest of the three is that of the channels.
    return 0 if is_picture and int(np.argmin(box.shape)) == 0 else -1


def stacked_names(space: FeatureSpace, n_stack: int) -> FeatureSpace:
    """Return the names of stacked observations, oldest first, from those of one."""
    earlier = []
    for ago in range(n_stack - 1, 0, -1):
        when = f"{ago} step{'s' if ago > 1 else ''} ago"
        for feature in space.features:
            values = {value: f"{words} {when}" for value, words in feature.values.items()}
            name, words = f"{feature.name}.{ago}ago", f"{feature.label} {when}"
            earlier.append(replace(feature, name=name, words=words, values=values))
    return replace(space, features=(*earlier, *space.features))


class TimeFeature(_Wrapper):
    """The share of the time that is left, the last number of an observation.

    Parameters
    ----------
    env
        The environment. Of dictionaries the entry ``observation`` gets the number.
    max_steps
        Steps of an episode, where the environment has no time limit that says so.
    test_mode
        Whether the number stays 1, to see that a policy does not act by the clock.
    """

    def __init__(self, env: Env, max_steps: int = 1000, test_mode: bool = False) -> None:
        super().__init__(env)
        inner = env.observation_space
        goal = isinstance(inner, spaces.Dict)
        box = _box(inner["observation"] if isinstance(inner, spaces.Dict) else inner, "time is added to a flat Box")
        if len(box.shape) != 1:
            raise UnfitEnvironmentError(f"time is added to a flat Box, not {box}.")
        self._dtype: Any = box.dtype
        low, high = np.append(box.low, 0.0), np.append(box.high, 1.0)
        timed = spaces.Box(low.astype(box.dtype), high.astype(box.dtype), dtype=self._dtype.type)
        self.observation_space = _with_entry(inner, timed) if goal else timed
        limit = None if env.spec is None else env.spec.max_episode_steps
        self._most, self._is_constant, self._step = limit or max_steps, bool(test_mode), 0

    def _features(self, inner: FeatureSpace) -> FeatureSpace:
        left = Feature("time.left", words="the share of the time that is left")
        return replace(inner, features=(*inner.features, left))

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        self._step += 1
        return super().step(action)

    def _begin(self) -> None:
        self._step = 0

    def _seen(self, observation: Any) -> Any:
        left = np.array(1.0 if self._is_constant else 1 - self._step / self._most, self._dtype)
        if isinstance(observation, dict):
            return {**observation, "observation": np.append(observation["observation"], left)}
        return np.append(observation, left)


class History(_Wrapper):
    """The last observations and then the last actions, oldest first; what was before an episode is zero.

    Parameters
    ----------
    env
        The environment; its actions are a Box. Of dictionaries the entry ``observation`` gets the history.
    horizon
        How many.
    """

    def __init__(self, env: Env, horizon: int = 2) -> None:
        super().__init__(env)
        inner = env.observation_space
        what = "a history needs flat observations and actions that are a Box"
        seen = _box(inner["observation"] if isinstance(inner, spaces.Dict) else inner, what)
        done = _box(env.action_space, what)
        if not isinstance(horizon, int) or not 1 <= horizon <= 1000:
            raise UnfitEnvironmentError(f"HistoryWrapper: horizon is a number from 1 to 1000, not {horizon!r}.")
        bounds = [
            np.concatenate([*[getattr(seen, end)] * horizon, *[getattr(done, end)] * horizon])
            for end in ("low", "high")
        ]
        dtype: Any = seen.dtype
        box = spaces.Box(bounds[0].astype(dtype), bounds[1].astype(dtype), dtype=dtype.type)
        self.observation_space = _with_entry(inner, box) if isinstance(inner, spaces.Dict) else box
        self._horizon, self._dtype = horizon, dtype
        self._nothing = np.zeros(seen.shape, dtype), np.zeros(done.shape, done.dtype)
        self._shown: list[NDArray[Any]] = []
        self._done: list[NDArray[Any]] = []

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._done = [*self._done[1:], np.array(action, self._nothing[1].dtype)]
        return self._seen(observation), float(reward), terminated, truncated, info

    def _begin(self) -> None:
        self._shown, self._done = ([nothing] * self._horizon for nothing in self._nothing)

    def _seen(self, observation: Any) -> Any:
        shown = observation["observation"] if isinstance(observation, dict) else observation
        self._shown = [*self._shown[1:], np.array(shown, self._dtype)]
        history = np.concatenate([*self._shown, *self._done])
        return {**observation, "observation": history} if isinstance(observation, dict) else history


def _with_entry(space: spaces.Space[Any], observation: spaces.Box) -> spaces.Dict:
    assert isinstance(space, spaces.Dict)
    return spaces.Dict({**space.spaces, "observation": observation})


class MaskVelocity(_Wrapper):
    """Velocities are shown as zero, so that they have to be remembered from positions."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        name = "" if env.spec is None else env.spec.id.rpartition("-v")[0]
        if name not in _VELOCITIES:
            raise UnfitEnvironmentError(
                f"MaskVelocityWrapper knows the velocities of {', '.join(_VELOCITIES)}, not of {name or 'this'}."
            )
        box = _box(env.observation_space, "velocities are masked in a Box")
        self._shown = np.ones(box.shape, box.dtype)
        self._shown[list(_VELOCITIES[name])] = 0

    def _seen(self, observation: Any) -> Any:
        return observation * self._shown


class FrameSkip(_Wrapper):
    """An action is taken several times; what it earns is added up, and the last observation is shown.

    Parameters
    ----------
    env
        The environment.
    skip
        How many times.
    """

    def __init__(self, env: Env, skip: int = 4) -> None:
        super().__init__(env)
        self._skip = _at_least_one("FrameSkip: skip", skip)

    def step(self, action: Any) -> Stepped:
        """Take a step until the end of the episode, at most as often as it is to be."""
        earned = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            earned += float(reward)
            if terminated or truncated:
                break
        return observation, earned, terminated, truncated, info


class ActionSmoothing(_Wrapper):
    """What is done is a moving average of the actions.

    Parameters
    ----------
    env
        The environment; its actions are a Box.
    smoothing_coef
        The weight of what was done before.
    """

    def __init__(self, env: Env, smoothing_coef: float = 0.0) -> None:
        super().__init__(env)
        _box(env.action_space, "actions that are smoothed are a Box")
        self._before: NDArray[Any] | None = None
        self._coefficient = float(smoothing_coef)

    def step(self, action: Any) -> Stepped:
        """Take a step with the average."""
        before = np.zeros_like(action) if self._before is None else self._before
        self._before = self._coefficient * before + (1 - self._coefficient) * action
        return super().step(self._before)

    def _begin(self) -> None:
        self._before = None


class DelayedReward(_Wrapper):
    """What is earned comes together after some steps, and at the end of an episode.

    Parameters
    ----------
    env
        The environment.
    delay
        How many steps.
    """

    def __init__(self, env: Env, delay: int = 10) -> None:
        super().__init__(env)
        self._delay = _at_least_one("DelayedRewardWrapper: delay", delay)
        self._step, self._earned = 0, 0.0

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        self._earned += float(reward)
        paid = 0.0
        if self._step % self._delay == 0 or terminated or truncated:
            paid, self._earned = self._earned, 0.0
        return observation, paid, terminated, truncated, info

    def _begin(self) -> None:
        self._step, self._earned = 0, 0.0


class DoneOnSuccess(_Wrapper):
    """An episode ends when ``is_success`` was said often enough in a row; rewards are moved.

    Parameters
    ----------
    env
        The environment.
    reward_offset
        What is added to every reward.
    n_successes
        How often success has to be said.
    """

    def __init__(self, env: Env, reward_offset: float = 0.0, n_successes: int = 1) -> None:
        super().__init__(env)
        self._offset = float(reward_offset)
        self._needed, self._successes = _at_least_one("DoneOnSuccessWrapper: n_successes", n_successes), 0

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._successes = self._successes + 1 if info.get("is_success", False) else 0
        truncated = truncated or self._successes >= self._needed
        return observation, float(reward) + self._offset, terminated, truncated, info

    def _begin(self) -> None:
        self._successes = 0


def _at_least_one(what: str, number: object) -> int:
    if not isinstance(number, int) or not 1 <= number <= 10**6:
        raise UnfitEnvironmentError(f"{what} is a whole number of at least 1, not {number!r}.")
    return number


class _GameScore(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up what the game itself pays, and knows whether the game is over."""

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
    """An Atari game as a policy sees it behind ``AtariWrapper`` of Stable-Baselines3; an episode is a whole game.

    The wrapper ends an episode with every life and pays −1, 0 or 1, which is for training. Stable-Baselines3 evaluates
    whole games and counts their own points, and so does this: after a life is lost the game goes on as it does there.

    Parameters
    ----------
    env
        The game.
    **options
        Those of ``AtariWrapper``.
    """

    def __init__(self, env: Env, **options: Any) -> None:
        package = optional_package("stable_baselines3.common.atari_wrappers", "sb3", "pictures of Atari games")
        self._score, self._paid = _GameScore(env), 0.0
        super().__init__(package.AtariWrapper(self._score, **options))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        if self.env.has_wrapper_attr("was_real_done"):
            # Or a game that was left would go on.
            self.env.set_wrapper_attr("was_real_done", True)
        observation, info = self.env.reset(**options)
        self._paid = self._score.earned_before  # what the first moves earned comes with the first step
        return observation, info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        score, game = self._score, self._score.games
        observation, _, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and not score.over:
            observation, more = self.env.reset()
            info = {**info, **more, FRAMES_RESTART: True}
            # The move after a lost life may have ended the game, and another has begun that is not ours.
            terminated, truncated = score.games > game, False
        earned = score.earned if score.games == game else score.earned_before
        paid, self._paid = self._paid, earned
        return observation, earned - paid, terminated, truncated, info
