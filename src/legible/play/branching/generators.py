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
    """Yield every object that can be reached from an object, such as an environment, once and always in the same order.

    Used to find all random generators inside an environment. Modules, functions and plain values (`_PLAIN`) are left
    out, and generators themselves are not entered.
    """
    seen: set[int] = set()
    to_visit = deque([root])
    while to_visit:
        value = to_visit.popleft()
        if id(value) in seen or isinstance(value, _PLAIN) or type(value).__name__ in ("module", "function"):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, _GENERATORS):
            continue
        # The objects that it holds: items of containers, otherwise attributes, also those in __slots__.
        if isinstance(value, dict):
            to_visit.extend(value.values())
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            to_visit.extend(value)
        else:
            to_visit.extend(getattr(value, "__dict__", {}).values())
            for class_ in type(value).__mro__:
                slots = class_.__dict__.get("__slots__", ())
                names = [slots] if isinstance(slots, str) else [name for name in slots if isinstance(name, str)]
                to_visit.extend(getattr(value, name) for name in names if hasattr(value, name))


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
