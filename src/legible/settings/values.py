"""Settings from plain data: names and types checked, words checked, TOML written.

- `SettingsError`: a setting that is not there, or that has a value it cannot have.
- `from_dict`, `merged`, `check_word`, `check_least`, `toml_value`: for any dataclass of annotated settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from legible.errors import LegibleError, did_you_mean


class SettingsError(LegibleError):
    """A setting that is not there, or that has a value it cannot have."""


def check_word(settings: Any, name: str) -> None:
    """Check that a setting is one of the words of its type."""
    words = get_args(get_type_hints(type(settings))[name])
    value = getattr(settings, name)
    if value not in words:
        listed = " or ".join([", ".join(map(repr, words[:-1])), repr(words[-1])])
        raise SettingsError(f"{name} must be {listed}, got {value!r}.")


def check_least(settings: Any, **least: int) -> None:
    """Check that settings are not below the least that they may be."""
    for name, number in least.items():
        if getattr(settings, name) < number:
            raise SettingsError(f"{name} must be at least {number}, got {getattr(settings, name)}.")


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with some of it replaced, tables of it value by value."""
    both = dict(old)
    for key, value in new.items():
        both[key] = merged(old[key], value) if isinstance(value, Mapping) else value
    return both


def from_dict(kind: type[Any], data: Mapping[str, Any], where: str) -> Any:
    """Read a dataclass of settings from plain data; errors begin with ``where``."""
    hints = get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    values = {}
    for key, value in data.items():
        if key not in known:
            raise SettingsError(f"{where}: there is no setting {key!r}.{did_you_mean(key, known)}")
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise SettingsError(f"{where}: {key!r} must be a table of settings, got {value!r}.")
            values[key] = from_dict(hints[key], value, f"{where}: {key}")
        else:
            values[key] = _plain(hints[key], value, f"{where}: {key}")
    try:
        return kind(**values)
    except SettingsError as error:
        if str(error).startswith(where):
            raise
        raise SettingsError(f"{where}: {error}") from error


def _plain(kind: Any, value: Any, where: str) -> Any:
    """Check a number, flag or word against the type of its setting."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = str if get_origin(kind) is Literal else kind
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise SettingsError(f"{where} must be {_KINDS[wanted]}, got {value!r}.")
    return value


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def toml_value(value: Any) -> str:
    """A value of a setting as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
