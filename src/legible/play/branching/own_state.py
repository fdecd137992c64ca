"""Environments whose state can be read and set.

- `own_state`: returns the `OwnState` of such an environment, which reads and sets its state.

The states of its wrappers are copied with it, for example of time limits and frame stacks.
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
    """Functions that read and set the state of ``env.unwrapped``; its plain attributes are copied as well."""

    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]

    def save(self, env: Env) -> Any:
        """Return a copy of the states of an environment, its generator and its wrappers."""
        inner: Any = env.unwrapped
        state, random = self.get(inner), getattr(inner, "_np_random", None)
        plain = {name: copy.copy(value) for name, value in inner.__dict__.items() if isinstance(value, _PLAIN)}
        kept = []
        for wrapper in _wrappers(env):  # without the inner environment, and without spaces, which do not change
            attributes = {
                name: value
                for name, value in wrapper.__dict__.items()
                if not isinstance(value, (gymnasium.Env, gymnasium.Space)) and not name.startswith("_cached")
            }
            kept.append(copy.deepcopy(attributes))
        return (state, plain), None if random is None else copy.deepcopy(random.bit_generator.state), kept

    def restore(self, env: Env, saved: Any) -> None:
        """Restore a state that `save` returned."""
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


def own_state(env: Env) -> OwnState | None:
    """Return the functions that read and set the state of an environment; None if there are none.

    Supported are MuJoCo, and environments with ``clone_state`` and ``restore_state``, such as Atari's and legible's.
    """
    inner: Any = env.unwrapped
    if type(getattr(inner, "data", None)).__module__.startswith("mujoco") and hasattr(inner, "model"):
        return OwnState(_mujoco_state, _put_mujoco_state)
    if callable(getattr(inner, "clone_state", None)) and callable(getattr(inner, "restore_state", None)):
        return OwnState(_cloned_state, lambda inner, state: inner.restore_state(state))
    return None
