"""Requirements on the arrays of every kind of file: type, shape, length and range.

- `Column`: one array; `check_arrays`: check all arrays of a file against its schema.
- `UNIT`, `RECORDED`, `ROLLOUTS`, `EXPERIENCES`, `MINING`, `IMPORTANCE`, `ROUND`: the schemas, one per kind of file.
- `check_fields`: check values against the types that a dataclass declares, for files that hold dataclasses.

A checksum shows that a file is what was written. A schema shows that what was written can be what legible writes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Column:
    """Requirements on one array."""

    dtype: str  # such as "f8"; "U" is text of any length, "f" are floats of any size, "V" has named fields
    shape: tuple[str | int, ...] = ("episodes",)  # a size with a name is the same in all arrays of a file
    low: float = -np.inf  # the range of its numbers, with `high`
    high: float = np.inf
    nan: bool = False  # whether NaN is allowed
    optional: bool = False  # whether it may be missing


Schema: TypeAlias = Mapping[str, Column]

UNIT: Schema = {
    "returns": Column("f8", nan=True),
    "lengths": Column("i8", low=0),
    "truncated": Column("b1"),
    "success": Column("f8", low=0, high=1, nan=True),
    "costs": Column("f8", nan=True),
    "fired": Column("i8", low=0),
    "changed": Column("i8", low=0),
    "failed": Column("b1", optional=True),
    "errors": Column("U", optional=True),
    "taken": Column("i8", ("episodes", "choices"), low=0, optional=True),
    "differs": Column("b1", optional=True),
    "endings": Column("U", optional=True),
    "terms": Column("V", optional=True),
    "course": Column("f8", ("episodes", "longest"), optional=True),
    "first_changed": Column("i8", low=-1, optional=True),
    "last": Column("f4", ("episodes", "last features"), nan=True, optional=True),
}
"""Per-episode results."""

RECORDED: Schema = {
    **UNIT,
    "observations": Column("f", ("steps", "features"), nan=True),
    "scores": Column("f", ("steps", "actions"), nan=True),
    "rewards": Column("f8", ("steps",)),
    "step_costs": Column("f8", ("steps",), nan=True),
    "states": Column("u1", ("steps", "bytes")),
}
"""Episodes step by step."""

ROLLOUTS: Schema = {
    "returns": Column("f8", ("decisions", "choices", "rollouts"), nan=True),
    "steps": Column("i8", ("decisions", "choices", "rollouts"), low=0),
}
"""Rollouts of decisions."""

EXPERIENCES: Schema = {
    "observations": Column("f", ("steps", "features"), nan=True),
    "scores": Column("f", ("steps", "actions"), nan=True),
    "episode_ids": Column("i8", ("steps",), low=0),
    "returns": Column("f8"),
    "lengths": Column("i8", low=0),
    "seeds": Column("i8", low=0),
    "success": Column("f8", low=0, high=1, nan=True),
    "endings": Column("U", optional=True),
    "space": Column("U", ()),
}
"""Experiences, apart from actions, whose shape depends on the action space."""

IMPORTANCE: Schema = {
    "weights": Column("f8", ("states", "actions", "features")),
    "intercepts": Column("f8", ("states", "actions")),
    "method": Column("U", (), optional=True),
    "fidelity": Column("f8", (), low=0, high=1, optional=True),
}
"""Importances of features."""

MINING: Schema = {
    "document": Column("U", ()),
    "sizes": Column("i8", ("features",), low=1),
    "lows": Column("f4", ("intervals",)),
    "highs": Column("f4", ("intervals",)),
}
"""Mined rules, without importances."""

ROUND: Schema = {
    "returns": Column("f8", nan=True),
    "agreement": Column("f8", (), low=0, high=1),
    "steps": Column("i8", (), low=0),
}
"""A round of a distillation, without its weights."""


def check_arrays(arrays: Mapping[str, NDArray[Any]], schema: Schema) -> None:
    """Raise `ValueError` for the first array that is missing, or has another type, shape or range than its schema says.

    A schema has a column for every name: its type, its shape, its range, and whether it is optional or may hold NaN.
    Names in shapes stand for sizes that must agree between arrays, such as "episodes".

    >>> check_arrays({"steps": np.array(-1), "agreement": np.array(0.5), "returns": np.zeros(3)}, ROUND)
    Traceback (most recent call last):
    ValueError: 'steps' is outside its range
    """
    sizes: dict[str, int] = {}  # the sizes that names in shapes have in these arrays
    for name, column in schema.items():
        array = arrays.get(name)
        if array is None:
            if column.optional:
                continue
            raise ValueError(f"{name!r} is missing")
        # "U", "f" and "V" stand for texts, floats and tables of any width; other types must be the same.
        is_kind = column.dtype in "UfV"
        has_type = array.dtype.kind == column.dtype if is_kind else array.dtype == np.dtype(column.dtype)
        if not has_type or array.ndim != len(column.shape):
            raise ValueError(f"{name!r} is {array.dtype}{list(array.shape)}, not {column.dtype}{list(column.shape)}")
        for size, expected in zip(array.shape, column.shape, strict=True):
            # The first array that has a named size decides it.
            wanted = sizes.setdefault(expected, size) if isinstance(expected, str) else expected
            if size != wanted:
                raise ValueError(f"{name!r} has the shape {list(array.shape)}, which does not fit")
        # Ranges hold for the numbers; NaN is allowed only where the schema says so.
        if array.dtype.kind == "f":
            missing = np.isnan(array)
            numbers = array[~missing]
            if missing.any() and not column.nan:
                raise ValueError(f"{name!r} holds no number where one is needed")
        else:
            numbers = array
        has_range = array.dtype.kind in "fi" and numbers.size > 0
        if has_range and not column.low <= numbers.min() <= numbers.max() <= column.high:
            raise ValueError(f"{name!r} is outside its range")


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raise `TypeError` or `ValueError` if values are not what a dataclass or named tuple declares.

    Arrays of a class with a ``schema`` are checked against it, too.
    """
    schema: Schema | None = getattr(kind, "schema", None)
    if schema is not None:
        check_arrays(values, schema)
    for name, declared in _types_of(kind).items():
        if name in values:
            check_type(values[name], declared, f"{kind.__name__}.{name}")


def check_type(value: Any, kind: Any, where: str) -> None:
    """Raise `TypeError` if a value is not of a declared type."""
    if not _fits(value, kind):
        raise TypeError(f"{where} is a {type(value).__name__} that does not fit")


@cache
def _types_of(kind: type) -> Mapping[str, Any]:
    declared = get_type_hints(kind)
    return {name: hint for name, hint in declared.items() if get_origin(hint) is not ClassVar}


def _fits(value: Any, kind: Any) -> bool:  # noqa: PLR0911 (one case a kind of type)
    """Return whether a value is of a declared type, such as ``dict[str, float]`` or ``NDArray[np.int64]``.

    Whole numbers count as floats, and lists as tuples. Types that cannot be checked at run time, such as `Any` and
    protocols, fit every value.
    """
    # For ``dict[str, float]`` the origin is `dict`, and the arguments are `str` and `float`; plain types have none.
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in arguments)
    if origin is np.ndarray:
        # The arguments of an array type are its shape and ``dtype[scalar type]``.
        scalar = next(iter(get_args(arguments[1])), None) if len(arguments) > 1 else None
        is_any_scalar = not isinstance(scalar, type) or not issubclass(scalar, np.generic)
        return isinstance(value, np.ndarray) and (is_any_scalar or np.issubdtype(value.dtype, scalar))
    if isinstance(origin, type):  # a container: its items must fit, too
        return isinstance(value, (tuple, list) if origin is tuple else origin) and _fit_items(value, origin, arguments)
    if kind in (int, float):  # `bool` is a subclass of `int`
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    return True


def _fit_items(value: Any, origin: type, arguments: tuple[Any, ...]) -> bool:
    if isinstance(value, Mapping):
        names, items = arguments if len(arguments) == 2 else (Any, Any)
        return all(_fits(name, names) and _fits(item, items) for name, item in value.items())
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    return not isinstance(value, Iterable) or all(_fits(item, arguments[0]) for item in value)
