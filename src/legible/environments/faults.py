"""Calls of an environment that name its faults: what is wrong, where, and what to do.

- `reset_environment`, `step_environment`: call ``reset`` and ``step`` and check what they return.
- `check_finite`: observations without NaN and infinity; `explain_outside`: numbers outside of their space.
- `explain_not_environment`: why an object is no environment, with a remedy.
- `EpisodeFailedError`: an error that an environment raised, with the seed of the episode.
"""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Mapping
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from legible.environments.spaces import UnfitEnvironmentError
from legible.errors import LegibleError, describe_error
from legible.features import FeatureError
from legible.formatting import number

Env: TypeAlias = gymnasium.Env[Any, Any]

_NEW_API = (
    "Return (observation, info) from reset(seed=…, options=…) and (observation, reward, terminated, truncated, info) "
    "from step(action), or wrap it in shimmy.GymV21CompatibilityV0"
)


class EpisodeFailedError(UnfitEnvironmentError):
    """An episode in which the environment raised an error."""

    exit_code = 1


def reset_environment(env: Env, seed: int) -> tuple[Any, Mapping[str, Any]]:
    """Start an episode and return its first observation and info; raise an error that names the fault if it fails."""
    try:
        given: Any = env.reset(seed=seed)
    except (FeatureError, UnfitEnvironmentError):
        raise
    except Exception as error:
        raise _failure(env, "reset", seed, error) from error
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise _old_api(env, "reset() returned an observation alone")
    observation, info = given
    if not isinstance(info, Mapping):
        raise UnfitEnvironmentError(
            f"reset() of {_name(env)} must return (observation, info), but info is a {type(info).__name__} instead of "
            "a dictionary."
        )
    return observation, info


def step_environment(
    env: Env, action: Any, seed: int, step: int = -1
) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """Take a step and return (observation, reward, terminated, truncated, info); raise an error that names a fault.

    - `seed`: the seed of the episode, for error messages.
    - `step`: the number of the step in the episode, for error messages; a negative number if it is unknown.
    """
    try:
        returned: Any = env.step(action)
    except (FeatureError, UnfitEnvironmentError):
        raise
    except Exception as error:
        raise _failure(env, "step", seed, error, action) from error
    # The usual types need no further check than a finite reward. This comes first because it runs in every step.
    if type(returned) is tuple and len(returned) == 5 and type(returned[1]) is float and type(returned[4]) is dict:
        if math.isfinite(returned[1]):
            return returned
    elif not isinstance(returned, (tuple, list)) or len(returned) != 5:
        count = len(returned) if isinstance(returned, (tuple, list)) else 1
        raise _old_api(env, f"step() returned {count} value{'s' * (count > 1)}, not 5")

    # Other types, such as NumPy's or PyTorch's: the reward must become a finite number.
    observation, reward, terminated, truncated, info = returned
    try:
        reward_number = float(reward)
    except (TypeError, ValueError):
        reward_number = math.nan
    if not math.isfinite(reward_number):
        raise UnfitEnvironmentError(reward_fault(reward, seed, step))
    if not isinstance(info, Mapping):
        raise UnfitEnvironmentError(
            f"step() of {_name(env)} must return a dictionary as info, not a {type(info).__name__}."
        )
    return observation, reward_number, terminated, truncated, info


def reward_fault(reward: Any, seed: int, step: int) -> str:
    """Return the message about a reward that is no finite number."""
    where = "" if step < 0 else f" in step {step}"
    given = reward if isinstance(reward, float) else f"{reward!r:.60}"
    return (
        f"the environment gave the reward {given}{where} of the episode with seed {seed}; rewards must be finite "
        "numbers. Repair the environment."
    )


def check_finite(observations: NDArray[Any], seed: int) -> None:
    """Raise if a number of flat observations ``[n, width]`` of one episode is NaN or infinite."""
    if observations.dtype.kind == "f" and not np.isfinite(observations).all():
        row, column = np.argwhere(~np.isfinite(observations))[0].tolist()
        raise UnfitEnvironmentError(
            f"the environment gave an observation whose number {column} is {observations[row, column]}, in the episode "
            f"with seed {seed}; observations must be finite numbers. Repair the environment."
        )


def explain_outside(space: spaces.Space[Any], observations: NDArray[Any]) -> str | None:
    """Return which number of flat observations ``[n, width]`` lies outside of its space; None if all are inside."""
    match space:
        case spaces.Box():
            low, high = space.low.ravel(), space.high.ravel()
        case spaces.Discrete():
            low, high = np.array([space.start]), np.array([space.start + space.n - 1])
        case spaces.MultiDiscrete():
            low, high = space.start.ravel(), (space.start + space.nvec - 1).ravel()
        case _:
            return None
    beyond = (observations < low.astype(observations.dtype)) | (observations > high.astype(observations.dtype))
    if not beyond.any():
        return None
    row, column = np.argwhere(beyond)[0].tolist()
    bounds = f"{number(float(low[column]))} to {number(float(high[column]))}"
    return (
        f"observations leave their space: number {column} was {number(float(observations[row, column]))}, outside "
        f"{bounds}, its bounds in observation_space. Correct the space, unless the policy was trained with it"
    )


def explain_not_environment(made: Any, name: str) -> str:
    """Return why an object is no ``gymnasium.Env``, and what to do."""
    if hasattr(made, "possible_agents"):
        agents = "turn by turn (AEC)" if hasattr(made, "agent_iter") else "in parallel"
        return (
            f"{name!r} is a PettingZoo environment, in which several agents act {agents}. Name it pettingzoo:{name} "
            "and say who plays which seat: --seat NAME --others random (docs/agents.md)."
        )
    if isinstance(made, VectorEnv) or hasattr(made, "num_envs"):
        return (
            f"{name!r} is a vector environment ({type(made).__name__}), which steps several environments at once. Give "
            "a factory of a single environment; legible plays many of them in parallel."
        )
    if callable(getattr(made, "reset", None)) and callable(getattr(made, "step", None)):
        old = any(base.__module__.partition(".")[0] == "gym" for base in type(made).__mro__)
        what = "an environment of gym" if old else f"an object of type {type(made).__name__}"
        return f"{name!r} made {what}, not a gymnasium.Env. Derive it from gymnasium.Env. {_NEW_API}."
    return f"{name!r} made an object of type {type(made).__name__}, not a gymnasium.Env."


def check_spaces(env: Env, name: str) -> None:
    """Raise unless an environment has an observation space and an action space of Gymnasium."""
    for attribute in ("observation_space", "action_space"):
        space = getattr(env, attribute, None)
        if isinstance(space, spaces.Space):
            continue
        if space is None:
            raise UnfitEnvironmentError(
                f"environment {name!r} has no {attribute}; set it in __init__, such as gymnasium.spaces."
                f"{'Box(-1, 1, (4,))' if attribute == 'observation_space' else 'Discrete(3)'}."
            )
        raise UnfitEnvironmentError(
            f"environment {name!r}: its {attribute} is a {type(space).__module__}.{type(space).__name__}, not a space "
            "of gymnasium.spaces."
        )


def _failure(env: Env, call: str, seed: int, error: Exception, action: Any = None) -> LegibleError:
    """Return the error for an exception that ``reset`` or ``step`` raised."""
    text = str(error)
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    # Wrappers unpack what the environment returns.
    if "unpack" in text and frames[-1].startswith(("gymnasium.wrappers", "gymnasium.core", "legible.environments")):
        count = re.search(r"got (\d)", text)
        found = f"step() returned {count[1] if count else 'too few'} values, not 5"
        return _old_api(env, "reset() returned an observation alone" if call == "reset" else found)
    if call == "reset" and isinstance(error, TypeError) and not _takes_seed(env):
        return _old_api(env, "its reset() takes no seed")
    remedy = "Repair the environment"
    if call == "step" and not env.action_space.contains(action):
        outside = f"The action was {action!s:.60}, outside of the action space {env.action_space!s:.60}"
        remedy = f"{outside}: correct the policy"
    return EpisodeFailedError(
        f"in the episode with seed {seed}, {call}() of the environment raised {describe_error(error)}. {remedy}."
    )


def _takes_seed(env: Env) -> bool:
    try:
        parameters = inspect.signature(env.unwrapped.reset).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(one.name == "seed" or one.kind is one.VAR_KEYWORD for one in parameters)


def _old_api(env: Env, fault: str) -> UnfitEnvironmentError:
    return UnfitEnvironmentError(f"{_name(env)} follows the old Gym API: {fault}. {_NEW_API}.")


def _name(env: Env) -> str:
    return type(env.unwrapped).__name__ if env.spec is None else repr(env.spec.id)
