"""Wrappers that can be named without their module.

- `make_known_wrapper`: puts one of them around an environment.
- `known_name`: the name of a library's wrapper, or None where it is not known.
- `parse_wrapper`, `wrapper_text`: ``Name(argument=value)`` as data, and back.

A known wrapper is written as ``TimeFeatureWrapper`` or ``VecFrameStack(n_stack=4)``. Files may name it: the table here
decides what is imported, never a file.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from legible.environments import wrappers
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.wrappers import Env

_LONGEST_TEXT = 200_000


class _Known(NamedTuple):
    """A known wrapper: its factory, and a regular expression for its modules."""

    make: Callable[..., Env]
    libraries: str


_ZOO = r"(rl_zoo3|rl_zoo|utils)\.wrappers"
_CONTRIB = r"sb3_contrib\.common\.wrappers(\.\w+)?|" + _ZOO
_SB3 = r"stable_baselines3\.common\.\w+"
_VECTOR = r"stable_baselines3\.common\.vec_env(\.\w+)?"
_GYM = r"gym(nasium)?\.wrappers(\.\w+)?"
_MINIGRID = r"(gym_)?minigrid\.wrappers"


def _keep(env: Env, **options: Any) -> Env:  # noqa: ARG001 (options of recording and checking)
    """Return the environment: the wrapper changes neither observations nor rewards."""
    return env


def _imported(module: str, name: str, **renamed: str) -> Callable[..., Env]:
    """Return a factory of a module's wrapper; `renamed` maps arguments of older versions to today's."""

    def make(env: Env, **options: Any) -> Env:
        wrapper = getattr(importlib.import_module(module), name)
        made: Env = wrapper(env, **{renamed.get(key, key): value for key, value in options.items()})
        return made

    return make


_of_gymnasium = partial(_imported, "gymnasium.wrappers")


def _resized(env: Env, shape: Any) -> Env:
    """Resize pictures; `shape` may be a single number or a list, as in older versions."""
    sides = (shape, shape) if isinstance(shape, int) else tuple(shape)
    return _of_gymnasium("ResizeObservation")(env, shape=sides)


_TABLE: Mapping[str, _Known] = {
    "VecFrameStack": _Known(wrappers.FrameStack, _VECTOR),
    "TimeFeatureWrapper": _Known(wrappers.TimeFeature, _CONTRIB),
    "HistoryWrapper": _Known(wrappers.History, _ZOO),
    "HistoryWrapperObsDict": _Known(wrappers.History, _ZOO),
    "MaskVelocityWrapper": _Known(wrappers.MaskVelocity, _ZOO),
    "FrameSkip": _Known(wrappers.FrameSkip, _ZOO),
    "ActionSmoothingWrapper": _Known(wrappers.ActionSmoothing, _ZOO),
    "DelayedRewardWrapper": _Known(wrappers.DelayedReward, _ZOO),
    "DoneOnSuccessWrapper": _Known(wrappers.DoneOnSuccess, _ZOO),
    "TruncatedOnSuccessWrapper": _Known(wrappers.DoneOnSuccess, _ZOO),
    "YAMLCompatResizeObservation": _Known(_resized, _ZOO),
    "AtariWrapper": _Known(wrappers.AtariGame, _SB3),
    "Monitor": _Known(_keep, _SB3),
    # Policies transpose pictures whose channels come last.
    **{name: _Known(_keep, _VECTOR) for name in ("VecTransposeImage", "VecMonitor", "VecCheckNan")},
    "ResizeObservation": _Known(_resized, _GYM),
    "GrayScaleObservation": _Known(_of_gymnasium("GrayscaleObservation"), _GYM),
    "GrayscaleObservation": _Known(_of_gymnasium("GrayscaleObservation"), _GYM),
    "RescaleAction": _Known(_of_gymnasium("RescaleAction", a="min_action", b="max_action"), _GYM),
    "FrameStack": _Known(_of_gymnasium("FrameStackObservation", num_stack="stack_size"), _GYM),
    "FilterObservation": _Known(_of_gymnasium("FilterObservation"), _GYM),
    **{
        name: _Known(_of_gymnasium(name), _GYM)
        for name in ("FlattenObservation", "FrameStackObservation", "ClipAction", "TimeLimit")
    },
    **{
        name: _Known(_imported("minigrid.wrappers", name), _MINIGRID)
        for name in (
            *("FlatObsWrapper", "ImgObsWrapper", "FullyObsWrapper", "OneHotPartialObsWrapper", "RGBImgObsWrapper"),
            *("RGBImgPartialObsWrapper", "DictObservationSpaceWrapper", "SymbolicObsWrapper", "ViewSizeWrapper"),
        )
    },
}

KNOWN_WRAPPERS: tuple[str, ...] = tuple(_TABLE)
"""The names of the known wrappers."""


def known_name(full_name: str) -> str | None:
    """Return the name of a wrapper by its full name in a library; None where it is not known.

    >>> known_name("rl_zoo3.wrappers.FrameSkip")
    'FrameSkip'
    >>> known_name("my_project.FrameSkip")
    """
    module, _, name = full_name.rpartition(".")
    known = _TABLE.get(name)
    return name if known is not None and re.fullmatch(known.libraries, module) else None


def make_known_wrapper(env: Env, name: str, arguments: Mapping[str, Any]) -> Env:
    """Put a known wrapper around an environment, or raise if there is none of that name."""
    if name not in _TABLE:
        raise UnfitEnvironmentError(
            f"wrapper {name!r}: write it as module:class; known by name alone are {', '.join(KNOWN_WRAPPERS)}."
        )
    return _TABLE[name].make(env, **arguments)


def parse_wrapper(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a wrapper that is written as ``name`` or ``name(argument=value)``.

    Values are Python literals: numbers, texts, True, False, None, lists and dictionaries of them.

    >>> parse_wrapper("VecFrameStack(n_stack=4)")
    ('VecFrameStack', {'n_stack': 4})
    >>> parse_wrapper("gymnasium.wrappers:FlattenObservation")
    ('gymnasium.wrappers:FlattenObservation', {})
    """
    name, has_arguments, arguments_text = text.strip().partition("(")
    if not has_arguments:
        return name, {}
    try:
        if len(text) > _LONGEST_TEXT or not arguments_text.endswith(")"):
            raise ValueError
        # Python's parser reads the arguments as those of a call of "_", which is not run.
        call = ast.parse(f"_({arguments_text}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        if any(argument.arg is None for argument in call.keywords):  # **
            raise ValueError
        return name, {str(argument.arg): ast.literal_eval(argument.value) for argument in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise UnfitEnvironmentError(
            f"wrapper {text[:100]!r}: write its arguments as {name[:50]}(name=value), each a plain value."
        ) from error


def wrapper_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the text of a wrapper that `parse_wrapper` reads.

    >>> wrapper_text("FrameSkip", {"skip": 2})
    'FrameSkip(skip=2)'
    """
    if not arguments:
        return name
    text = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    if parse_wrapper(text) != (name, dict(arguments)):
        raise UnfitEnvironmentError(f"wrapper {name!r}: its arguments {dict(arguments)!r} are no plain values.")
    return text
