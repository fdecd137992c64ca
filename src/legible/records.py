"""Results as files: dataclasses, tuples and arrays, exactly as they were.

- `RecordFormat`: which classes a kind of file may hold, and how objects that are not kept are made again.

A file is an ``.npz`` with the structure as JSON and every array as it is. Reading one makes objects of the listed
classes and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.files import DamagedFileError, read_arrays, write_arrays
from legible.schemas import check_fields, check_type

_STRUCTURE, _CLASS, _ARRAY, _TABLE = "structure", "class", "array", "table"
ADVICE = "delete it and run the study again"
DAMAGE_ERRORS = (*(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError), LegibleError)
"""Errors that reading a damaged file may raise."""


class RecordFormat:
    """Which classes a kind of file may hold.

    - `classes`: dataclasses and named tuples; each is kept with all its fields.
    - `made_again`: classes of objects that a file does not keep, such as a policy, by what is kept of them: a function
      from the object to plain fields. Whoever reads the file says how they are made from these.
    """

    def __init__(
        self, classes: Iterable[type], made_again: Mapping[type, Callable[[Any], Mapping[str, Any]]] | None = None
    ) -> None:
        self.classes = {kind.__name__: kind for kind in classes}
        self.made_again = dict(made_again or {})

    def write(self, path: Path, value: Any, key: str = "") -> None:
        """Write a value, whole or not at all, with a key that says what it belongs to."""
        arrays: dict[str, NDArray[Any]] = {}
        structure = json.dumps(self._pack(value, arrays)).encode()
        write_arrays(path, {**arrays, _STRUCTURE: np.frombuffer(structure, np.uint8)}, key)

    def read(
        self, path: Path, key: str = "", makers: Mapping[type, Callable[..., Any]] | None = None, kind: Any = Any
    ) -> Any:
        """Return the dataclass, or other value, that `write` has saved in a file; refuse a file with other content.

        - `path`, `key`: the file, and the key that it must carry, such as the id of a study.
        - `makers`: for each class whose objects are not restored field by field, a function that makes the object; it
          gets the saved values as arguments.
        - `kind`: type that the value must have.
        """
        arrays = read_arrays(path, key, ADVICE)
        # By name of the class in the file: the class, and what makes its objects. Only these classes can be made.
        makers_by_name: dict[str, tuple[type, Callable[..., Any]]] = {
            **{name: (class_, class_) for name, class_ in self.classes.items()},
            **{class_.__name__: (class_, maker) for class_, maker in (makers or {}).items()},
        }
        try:
            # The structure is JSON with references to the arrays of the file.
            structure = json.loads(arrays.pop(_STRUCTURE).tobytes())
            value = _unpack(structure, arrays, makers_by_name)
            check_type(value, kind, "the content")
            return value
        except DAMAGE_ERRORS as error:
            raise DamagedFileError(f"{path}: is damaged ({type(error).__name__}: {error}); {ADVICE}.") from error

    def _pack(self, value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            name = f"{_ARRAY}{len(arrays)}"
            arrays[name] = value
            return {_ARRAY: name}
        class_and_fields = self._fields_of(value)
        if class_and_fields is not None:
            name, items = class_and_fields
            return {_CLASS: name, **{field: self._pack(item, arrays) for field, item in items.items()}}
        if isinstance(value, Mapping):
            return {_TABLE: [[self._pack(k, arrays), self._pack(v, arrays)] for k, v in value.items()]}
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"a {type(value).__name__} cannot be kept in a file: its class is not listed")
        return [self._pack(item, arrays) for item in value]

    def _fields_of(self, value: Any) -> tuple[str, Mapping[str, Any]] | None:
        """Return the name of an object's class and what is kept of it; None for classes that are not listed."""
        for kind in type(value).__mro__:
            if kind in self.made_again:
                return kind.__name__, self.made_again[kind](value)
        name = type(value).__name__
        if self.classes.get(name) is not type(value):
            return None
        if is_dataclass(value):
            return name, {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return name, value._asdict()  # type: ignore[attr-defined]  # a named tuple


def _unpack(
    value: Any, arrays: Mapping[str, NDArray[Any]], classes: Mapping[str, tuple[type, Callable[..., Any]]]
) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(item, arrays, classes) for item in value)
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return arrays[value[_ARRAY]]
    if _TABLE in value:
        return {_unpack(k, arrays, classes): _unpack(v, arrays, classes) for k, v in value[_TABLE]}
    values = {name: _unpack(item, arrays, classes) for name, item in value.items() if name != _CLASS}
    kind, make = classes[value[_CLASS]]
    check_fields(kind, values)
    return make(**values)
