"""Random generators of environments.

- `find_generators`: returns the random generators inside an environment and its wrappers.
- `reseed`: reseeds them; `can_reseed`: whether nothing else can be random.
- `holds_module`: whether an environment contains objects of a package.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from legible.environments import Env
from legible.environments.array_envs import ArrayEnv

_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.generic, np.ndarray, type)
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
# Attributes of environments that draw random numbers without a Python generator: Atari's emulator.
_HIDDEN = ("ale",)


def _walk(root: Any) -> Iterator[Any]:
    """Yield every object reachable from another one, once and in a fixed order, except modules and functions."""
    seen: set[int] = set()
    waiting = deque([root])
    while waiting:
        value = waiting.popleft()
        if id(value) in seen or isinstance(value, _PLAIN) or type(value).__name__ in ("module", "function"):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, _GENERATORS):
            continue
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            waiting.extend(value)
        else:
            waiting.extend(getattr(value, "__dict__", {}).values())
            for kind in type(value).__mro__:
                slots = kind.__dict__.get("__slots__", ())
                names = (slots,) if isinstance(slots, str) else slots
                waiting.extend(getattr(value, name) for name in names if isinstance(name, str) and hasattr(value, name))


def find_generators(env: Env) -> list[Any]:
    """Return all random generators inside an environment and its wrappers, in a fixed order."""
    return [value for value in _walk(env) if isinstance(value, _GENERATORS)]


def holds_module(env: Env, package: str) -> bool:
    """Return whether an environment contains an object whose class comes from a package."""
    return any(type(value).__module__.partition(".")[0] == package for value in _walk(env))


def can_reseed(env: Env) -> bool:
    """Return whether everything random in an environment can be reseeded, as far as can be seen from outside."""
    inner = env.unwrapped
    if isinstance(inner, ArrayEnv):
        return True
    return not any(hasattr(inner, name) for name in _HIDDEN) and bool(find_generators(env))


def reseed(env: Env, seed: int) -> None:
    """Reseed the random generators of an environment; its state does not change."""
    inner = env.unwrapped
    if isinstance(inner, ArrayEnv):
        inner.reseed(seed)
    for i, generator in enumerate(find_generators(env)):
        numbers = np.random.SeedSequence([seed, i])
        if isinstance(generator, np.random.Generator):
            bits: Any = type(generator.bit_generator)
            generator.bit_generator.state = bits(numbers).state
        else:
            generator.seed(int(numbers.generate_state(1)[0]))
