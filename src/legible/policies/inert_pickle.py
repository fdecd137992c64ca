"""Pickles read as data, without running them.

A pickle is a program for a small stack machine that may import and call anything. The machine here implements only the
operations that build numbers, texts, lists and the like. A class or function that the program names becomes a `Named`,
and a call becomes a `Record`. Nothing is imported or called. Unexpected names are refused.

- `read_pickle`, `read_pickles`: read a pickle, or several in a row.
- `pickled_names`: the classes and functions that pickles name, even damaged ones.
- `Record`, `Named`: stand-ins for objects, and for classes and functions.
- `array_of`: convert a record to the NumPy array or number that it stands for.
"""

from __future__ import annotations

import io
import pickletools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from legible.policies.protocol import PolicyError

MOST_BYTES = 64 * 2**20
MOST_OPERATIONS = 200_000  # observation statistics have about a thousand

PERSISTENT = "persistent"  # name of the record for something that a pickle says to be kept elsewhere
_MARK = object()  # where the arguments of an operation begin on the stack
_NUMBER_TYPE = re.compile(r"[<>|=]?(b1|\?|[iu][1248]|f[248])")


@dataclass(frozen=True)
class Named:
    """A class or a function that a pickle names."""

    name: str


@dataclass(eq=False)
class Record:
    """An object that a pickle describes."""

    # Full name of the class or function, and the arguments of the call
    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None  # state of the object, usually its attributes by name
    entries: dict[Any, Any] = field(default_factory=dict)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name; nothing if the state has another form."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = {**(state[0] if isinstance(state[0], dict) else {}), **state[1]}  # a class with slots
        return {key: value for key, value in state.items() if isinstance(key, str)} if isinstance(state, dict) else {}


def read_pickle(raw: bytes, whose: str, is_known: Callable[[str], bool]) -> Any:
    """Return the content of a pickle, with a `Record` for every object.

    `whose` is its name in error messages; `is_known` says whether a class or function of a full name is allowed.
    """
    if len(raw) > MOST_BYTES:
        raise PolicyError(f"{whose}: {len(raw):,} bytes are more than such files have")
    return next(read_pickles(io.BytesIO(raw), whose, is_known))


def read_pickles(stream: io.BytesIO, whose: str, is_known: Callable[[str], bool]) -> Iterator[Any]:
    """Yield the contents of concatenated pickles, one at a time; parameters as for `read_pickle`."""
    try:
        while True:
            yield _Machine(whose, is_known).run(stream)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise PolicyError(f"{whose}: this is no pickle, or it is damaged ({error})") from error


def pickled_names(raw: bytes) -> Iterator[str]:
    """Yield the full names of classes and functions in concatenated pickles, up to the first error."""
    stream = io.BytesIO(raw)
    strings: list[str] = []
    try:
        while True:
            for number, (operation, argument, _) in enumerate(pickletools.genops(stream)):
                if number > MOST_OPERATIONS:
                    return
                if operation.name in ("GLOBAL", "INST"):
                    yield str(argument).replace(" ", ".")
                elif operation.name == "STACK_GLOBAL":
                    yield ".".join(strings[-2:])
                elif isinstance(argument, str):
                    strings.append(argument)
    except (ValueError, IndexError, KeyError, OverflowError):
        return


def array_of(value: Any) -> npt.NDArray[Any]:
    """Return the array of numbers that a value from `read_pickle` stands for, or raise `ValueError`."""
    if isinstance(value, bool | int | float):
        return np.asarray(value)
    if isinstance(value, list | tuple) and all(isinstance(each, int | float) for each in value):
        return np.asarray(value)
    if not isinstance(value, Record):
        raise ValueError(f"a {type(value).__name__} is no array of numbers")
    name = value.name.rpartition(".")[2]
    if name == "scalar":
        dtype, data = value.arguments
        return _array(data, dtype, (), fortran=False)
    if name == "_frombuffer":
        data, dtype, shape, order = value.arguments
        return _array(data, dtype, shape, fortran=order == "F")
    if name == "_reconstruct" and isinstance(value.state, tuple) and len(value.state) == 5:
        _, shape, dtype, fortran, data = value.state
        return _array(data, dtype, shape, fortran=bool(fortran))
    raise ValueError(f"{value.name} is no array of numbers")


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return the numeric type that a value from `read_pickle` stands for, or raise `ValueError`."""
    if isinstance(value, Named):
        value = Record("numpy.dtype", (value.name.rpartition(".")[2].rstrip("_"),))
    is_type = isinstance(value, Record) and value.name == "numpy.dtype" and bool(value.arguments)
    written = value.arguments[0] if is_type else None
    if isinstance(written, Named):
        return dtype_of(written)
    if not isinstance(written, str):
        raise ValueError("an array without a type of numbers")
    # NumPy's short names: "float32" is "f4". Only types of plain numbers are allowed, and no objects.
    short = {"bool": "?", "float": "f8", "int": "i8"}.get(written, written)
    short = re.sub(r"^(float|u?int)(8|16|32|64)$", lambda m: f"{m[1][0]}{int(m[2]) // 8}", short)
    if not _NUMBER_TYPE.fullmatch(short):
        raise ValueError(f"{written[:40]!r} is no type of plain numbers")
    dtype: np.dtype[Any] = np.dtype(short)
    # The state of a type holds its byte order.
    state = value.state
    has_order = isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">")
    return dtype.newbyteorder(state[1]) if has_order else dtype


def _array(data: Any, dtype: Any, shape: Any, *, fortran: bool) -> npt.NDArray[Any]:
    if isinstance(data, str):
        data = data.encode("latin1")  # pickles of Python 2
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if not isinstance(data, bytes | bytearray) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("an array of objects")
    numbers = np.frombuffer(bytes(data), dtype_of(dtype))
    return numbers.reshape(sizes, order="F" if fortran else "C")


class _Machine:
    """Stack machine with the operations of a pickle that build plain data."""

    def __init__(self, whose: str, is_known: Callable[[str], bool]) -> None:
        self._whose = whose
        self._is_known = is_known
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, stream: io.BytesIO) -> Any:
        for number, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if number > MOST_OPERATIONS:
                raise PolicyError(
                    f"{self._whose}: more than {MOST_OPERATIONS:,} operations, far more than such files have"
                )
            if operation.name == "STOP":
                return self._stack.pop()
            if operation.name in _LITERALS:
                self._stack.append(argument)
            elif operation.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[operation.name])
            else:
                self._do(operation.name, argument)
        raise ValueError("it ends too early")

    def _do(self, operation: str, argument: Any) -> None:  # noqa: C901, PLR0912, PLR0915 (one case an operation)
        """Apply one operation of a pickle to the stack, without importing or calling anything.

        A class or function becomes a `Named` (its name only), and a call or an object a `Record` of the name and the
        arguments. Operations that only push a constant are handled in `run`.

        - `operation`: the name of the operation in `pickletools`, such as ``"APPEND"``.
        - `argument`: the value that follows the operation in the pickle, None for most.
        """
        stack = self._stack
        match operation:
            # Operations without content, and marks: a mark shows where the items of the next container begin.
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(_MARK)
            case "POP":
                stack.pop()
            case "POP_MARK":
                self._since_mark()
            case "DUP":
                stack.append(stack[-1])
            # New containers, empty or made of the items since the mark. A set is read as a list.
            case "EMPTY_LIST" | "EMPTY_SET":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "LIST" | "FROZENSET":
                stack.append(self._since_mark())
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(operation[-1])
                stack[-size:] = [tuple(stack[-size:])]
            case "DICT":
                flat = self._since_mark()
                stack.append({})
                self._put_items(flat)
            # Items for the container below them on the stack.
            case "SETITEM":
                pair = stack[-2:]
                del stack[-2:]
                self._put_items(pair)
            case "SETITEMS":
                self._put_items(self._since_mark())
            case "APPEND" | "APPENDS" | "ADDITEMS":
                values = [stack.pop()] if operation == "APPEND" else self._since_mark()
                # Readers do not need the items of other objects, such as a deque.
                if isinstance(stack[-1], list):
                    stack[-1].extend(values)
            # The memo keeps values by number, so that a pickle can refer to them again.
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            # Names of classes and functions; `_named` refuses names that such files do not need.
            case "GLOBAL":
                stack.append(self._named(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                module, name = stack[-2:]
                if not isinstance(module, str) or not isinstance(name, str):
                    raise ValueError("a name that is no text")
                stack[-2:] = [self._named(f"{module}.{name}")]
            # Calls: the function and its arguments are replaced with a stand-in for the result.
            case "REDUCE" | "NEWOBJ":
                called, arguments = stack[-2:]
                stack[-2:] = [_called(called, arguments)]
            case "NEWOBJ_EX":
                called, arguments, _keywords = stack[-3:]
                stack[-3:] = [_called(called, arguments)]
            # A reference to something stored outside the pickle: PyTorch keeps the data of tensors so.
            case "BINPERSID":
                key = stack.pop()
                parts = key if isinstance(key, tuple) else (key,)
                if not all(isinstance(part, Named) or _is_plain(part) for part in parts):  # PyTorch hashes it
                    raise ValueError("a reference by something that is no name")
                stack.append(Record(PERSISTENT, (key,)))
            # The attributes of the object below.
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], Record):
                    raise ValueError("a state for something that is no object")
                stack[-1].state = state
            case _:
                raise PolicyError(f"{self._whose}: it uses {operation}, which is not expected in such a file")

    def _named(self, name: str) -> Named:
        if not self._is_known(name):
            raise PolicyError(f"{self._whose}: it names {name[:100]}, which is not expected in such a file")
        return Named(name)

    def _since_mark(self) -> list[Any]:
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                taken = self._stack[place + 1 :]
                del self._stack[place:]
                return taken
        raise ValueError("a list ends that did not begin")

    def _put_items(self, flat: list[Any]) -> None:
        target = self._stack[-1]
        entries = target.entries if isinstance(target, Record) else target
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if not _is_plain(key):
                raise ValueError("an entry under something that is no name")
            entries[key] = value


def _is_plain(key: Any) -> bool:
    """Return whether a key is safe to hash: for nested tuples that could take for ever, or overflow the stack."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(part is None or isinstance(part, str | int | float | bytes) for part in parts)


def _called(called: Any, arguments: Any) -> Any:
    """Return the stand-in for the result of a call."""
    if not isinstance(called, Named) or not isinstance(arguments, tuple):
        raise ValueError("a call of something that is no function")
    if called.name in ("copyreg._reconstructor", "copy_reg._reconstructor", "copyreg.__newobj__"):
        if not arguments or not isinstance(arguments[0], Named):
            raise ValueError("an object without a class")
        return Record(arguments[0].name, arguments[1:])
    if called.name == "collections.OrderedDict" and arguments:
        raise ValueError("a table in an unusual form")
    if called.name == "_codecs.encode" and len(arguments) == 2 and isinstance(arguments[0], str):
        return arguments[0].encode("latin1")
    if called.name in ("builtins.bytearray", "__builtin__.bytearray", "builtins.bytes", "__builtin__.bytes"):
        return arguments[0] if arguments and isinstance(arguments[0], bytes) else b""
    return Record(called.name, arguments)


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
