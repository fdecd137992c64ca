"""Environments whose state can be read and set.

- `own_state`: how, for an environment that is one of them; `OwnState` has the two functions.

The wrappers around the environment are copied with it: a time limit counts, frames are stacked.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from legible.environments import Env

_PLAIN = (str, int, float, bool, type(None), np.generic, np.ndarray)


@dataclass(frozen=True)
class OwnState:
    """How the state of an environment inside its wrappers is read and set.

    Parameters
    ----------
    name
        What it is called, in sentences.
    get, put
        Read the state of ``env.unwrapped``, and set it; plain attributes are copied besides.
    """

    name: str
    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]

    def save(self, env: Env) -> Any:
        """Copy the state of an environment, of its generator and of its wrappers."""
        inner: Any = env.unwrapped
        state, random = self.get(inner), getattr(inner, "_np_random", None)
        plain = {name: copy.copy(value) for name, value in inner.__dict__.items() if isinstance(value, _PLAIN)}
        kept = []
        for wrapper in _wrappers(env):  # without the environment in it and without spaces, which do not change
            attributes = {
                name: value
                for name, value in wrapper.__dict__.items()
                if not isinstance(value, (gymnasium.Env, gymnasium.Space)) and not name.startswith("_cached")
            }
            kept.append(copy.deepcopy(attributes))
        return (state, plain), None if random is None else copy.deepcopy(random.bit_generator.state), kept

    def restore(self, env: Env, saved: Any) -> None:
        """Put an environment into a state that was copied."""
        inner: Any = env.unwrapped
        (state, plain), generator, wrappers = saved
        self.put(inner, state)
        inner.__dict__.update({name: copy.copy(value) for name, value in plain.items()})
        if generator is not None:
            inner.np_random.bit_generator.state = generator
        for wrapper, attributes in zip(_wrappers(env), wrappers, strict=True):
            wrapper.__dict__.update(copy.deepcopy(attributes))


def _wrappers(env: Env) -> list[Any]:
    found = []
    while isinstance(env, gymnasium.Wrapper):
        found.append(env)
        env = env.env
    return found


def _mujoco_state(inner: Any) -> Any:
    package: Any = importlib.import_module("mujoco")
    kind = package.mjtState.mjSTATE_INTEGRATION
    state = np.empty(package.mj_stateSize(inner.model, kind))
    package.mj_getState(inner.model, inner.data, state, kind)
    return state


def _put_mujoco_state(inner: Any, state: Any) -> None:
    package: Any = importlib.import_module("mujoco")
    package.mj_setState(inner.model, inner.data, state, package.mjtState.mjSTATE_INTEGRATION)


def _cloned_state(inner: Any) -> Any:
    options = {"include_rng": True} if "include_rng" in inspect.signature(inner.clone_state).parameters else {}
    return inner.clone_state(**options)


_MUJOCO = OwnState("MuJoCo's state", _mujoco_state, _put_mujoco_state)
_CLONE = OwnState("clone_state and restore_state", _cloned_state, lambda inner, state: inner.restore_state(state))


def own_state(env: Env) -> OwnState | None:
    """Return how the state of an environment is read and set, None where nothing is known about that.

    MuJoCo's physics; environments with ``clone_state`` and ``restore_state``, as Atari's and legible's own have them.
    """
    inner: Any = env.unwrapped
    if type(getattr(inner, "data", None)).__module__.startswith("mujoco") and hasattr(inner, "model"):
        return _MUJOCO
    if callable(getattr(inner, "clone_state", None)) and callable(getattr(inner, "restore_state", None)):
        return _CLONE
    return None
