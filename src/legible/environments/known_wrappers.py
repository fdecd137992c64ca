"""Wrappers by name: those that legible knows, and how a wrapper is written with its arguments.

- `make_known_wrapper`: puts one of them around an environment.
- `known_name`: what a wrapper of a library is called here, by its full name; None for one that is not known.
- `parse_wrapper`, `wrapper_text`: ``Name(argument=value)`` as data, and back.

A known wrapper is written by its name alone, such as ``TimeFeatureWrapper`` or ``VecFrameStack(n_stack=4)``. Files may
name it: what is imported for it stands in the table here, never in a file.
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
    """A wrapper that is known: what puts it around an environment, and its modules, as a regular expression."""

    make: Callable[..., Env]
    libraries: str


_ZOO = r"(rl_zoo3|rl_zoo|utils)\.wrappers"
_CONTRIB = r"sb3_contrib\.common\.wrappers(\.\w+)?|" + _ZOO
_SB3 = r"stable_baselines3\.common\.\w+"
_VECTOR = r"stable_baselines3\.common\.vec_env(\.\w+)?"
_GYM = r"gym(nasium)?\.wrappers(\.\w+)?"
_MINIGRID = r"(gym_)?minigrid\.wrappers"


def _nothing(env: Env, **options: Any) -> Env:  # noqa: ARG001 (whatever is recorded or checked)
    """Return the environment: what was around it changes neither observations nor rewards."""
    return env


def _imported(module: str, name: str, **renamed: str) -> Callable[..., Env]:
    """Return what makes a wrapper of a module; `renamed` says what arguments of older versions are called today."""

    def make(env: Env, **options: Any) -> Env:
        wrapper = getattr(importlib.import_module(module), name)
        made: Env = wrapper(env, **{renamed.get(key, key): value for key, value in options.items()})
        return made

    return make


_of_gymnasium = partial(_imported, "gymnasium.wrappers")


def _resized(env: Env, shape: Any) -> Env:
    """Make pictures smaller; one number stands for both sides, and lists for tuples, as in older versions."""
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
    "Monitor": _Known(_nothing, _SB3),
    # The policy turns pictures whose channels come last by itself.
    **{name: _Known(_nothing, _VECTOR) for name in ("VecTransposeImage", "VecMonitor", "VecCheckNan")},
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
"""The names of the wrappers that are known."""


def known_name(full_name: str) -> str | None:
    """Return what a wrapper is called here, by its full name in a library; None when it is not known.

    Examples
    --------
    >>> known_name("rl_zoo3.wrappers.FrameSkip")
    'FrameSkip'
    >>> known_name("my_project.FrameSkip")
    """
    module, _, name = full_name.rpartition(".")
    known = _TABLE.get(name)
    return name if known is not None and re.fullmatch(known.libraries, module) else None


def make_known_wrapper(env: Env, name: str, arguments: Mapping[str, Any]) -> Env:
    """Put a known wrapper around an environment.

    Raises
    ------
    UnfitEnvironmentError
        When there is none of that name.
    """
    if name not in _TABLE:
        raise UnfitEnvironmentError(
            f"wrapper {name!r}: write it as module:class; known by name alone are {', '.join(KNOWN_WRAPPERS)}."
        )
    return _TABLE[name].make(env, **arguments)


def parse_wrapper(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a wrapper that is written as ``name`` or ``name(argument=value)``.

    Values are plain Python: numbers, texts, True, False, None, lists and tables of them.

    Raises
    ------
    UnfitEnvironmentError
        When it is not written so.

    Examples
    --------
    >>> parse_wrapper("VecFrameStack(n_stack=4)")
    ('VecFrameStack', {'n_stack': 4})
    >>> parse_wrapper("gymnasium.wrappers:FlattenObservation")
    ('gymnasium.wrappers:FlattenObservation', {})
    """
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return name, {}
    try:
        if len(text) > _LONGEST_TEXT or not rest.endswith(")"):
            raise ValueError
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        if any(pair.arg is None for pair in call.keywords):  # **
            raise ValueError
        return name, {str(pair.arg): ast.literal_eval(pair.value) for pair in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise UnfitEnvironmentError(
            f"wrapper {text[:100]!r}: write its arguments as {name[:50]}(name=value), each a plain value."
        ) from error


def wrapper_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a wrapper as `parse_wrapper` reads it.

    Examples
    --------
    >>> wrapper_text("FrameSkip", {"skip": 2})
    'FrameSkip(skip=2)'
    """
    if not arguments:
        return name
    text = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    if parse_wrapper(text) != (name, dict(arguments)):
        raise UnfitEnvironmentError(f"wrapper {name!r}: its arguments {dict(arguments)!r} are no plain values.")
    return text
