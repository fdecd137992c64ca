"""Pickles read as data: what a pickle says is kept, what it would do is not done.

A pickle is a program for a small machine that may import and call anything. The machine here only has the part that
makes numbers, texts, lists and the like. Where the program names a class or a function, it gets a `Named`; where it
calls one, a `Record` of the call. Nothing is imported and nothing is called, so that nothing can run. Names that the
reader of a file does not expect are refused, for what they would have made is not understood either.

- `read_pickle`: what a pickle says.
- `pickled_names`: the classes and functions that pickles name, however damaged they are.
- `Record`, `Named`: what stands for objects, and for classes and functions.
- `array_of`: the NumPy array or number that a record stands for.
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
MOST_OPERATIONS = 200_000
# Statistics of observations have about a thousand operations; a limit keeps bombs small.

_MARK = object()  # where the arguments of an operation begin on the stack
_NUMBER_TYPE = re.compile(r"[<>|=]?(b1|\?|[iu][1248]|f[248])")


@dataclass(frozen=True)
class Named:
    """A class or a function that a pickle names."""

    name: str


@dataclass(eq=False)
class Record:
    """An object that a pickle would have made: the call, and what was done with the result.

    Parameters
    ----------
    name
        Full name of the class or function.
    arguments
        What it would have been called with.
    state
        What would have been set on the object, usually its attributes by name.
    items
        Entries that would have been put into it, where it is a mapping.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name, as far as the pickle gives them so."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = {**(state[0] if isinstance(state[0], dict) else {}), **state[1]}  # of a class with slots
        return {key: value for key, value in state.items() if isinstance(key, str)} if isinstance(state, dict) else {}


def read_pickle(raw: bytes, whose: str, is_known: Callable[[str], bool]) -> Any:
    """Return what a pickle says, with a `Record` for every object.

    Parameters
    ----------
    raw
        The pickle.
    whose
        What it is called in complaints.
    is_known
        Whether a class or function of that full name may be named.

    Raises
    ------
    PolicyError
        When it names anything else, is damaged, or larger than such a file can be.
    """
    if len(raw) > MOST_BYTES:
        raise PolicyError(f"{whose}: {len(raw)} bytes are more than a file of this kind has")
    try:
        return _Machine(whose, is_known).run(raw)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise PolicyError(f"{whose}: this is no pickle, or a damaged one ({error})") from error


def pickled_names(raw: bytes) -> Iterator[str]:
    """Yield the full names of classes and functions in a row of pickles, up to the first thing that is none."""
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
    """Return the array of numbers that a value from `read_pickle` stands for.

    Raises
    ------
    ValueError
        When it is no array of plain numbers.
    """
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
    """Return the type of numbers that a value from `read_pickle` stands for; only plain numbers are known."""
    if isinstance(value, Named):
        value = Record("numpy.dtype", (value.name.rpartition(".")[2].rstrip("_"),))
    if not isinstance(value, Record) or value.name != "numpy.dtype" or not value.arguments:
        raise ValueError("an array without a type of numbers")
    written = value.arguments[0]
    if isinstance(written, Named):
        return dtype_of(written)
    if not isinstance(written, str):
        raise ValueError("an array without a type of numbers")
    plain = {"bool": "?", "float": "f8", "int": "i8"}.get(written, written)
    plain = re.sub(r"^(float|u?int)(8|16|32|64)$", lambda m: f"{m[1][0]}{int(m[2]) // 8}", plain)
    if not _NUMBER_TYPE.fullmatch(plain):
        raise ValueError(f"{written[:40]!r} is no type of plain numbers")
    dtype: np.dtype[Any] = np.dtype(plain)
    state = value.state
    if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">"):
        dtype = dtype.newbyteorder(state[1])
    return dtype


def _array(data: Any, dtype: Any, shape: Any, *, fortran: bool) -> npt.NDArray[Any]:
    if isinstance(data, str):
        data = data.encode("latin1")  # pickles of Python 2
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if not isinstance(data, bytes | bytearray) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("an array of objects")
    numbers = np.frombuffer(bytes(data), dtype_of(dtype))
    return numbers.reshape(sizes, order="F" if fortran else "C")


class _Machine:
    """Runs the operations of a pickle that make plain data."""

    def __init__(self, whose: str, is_known: Callable[[str], bool]) -> None:
        self._whose = whose
        self._is_known = is_known
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, raw: bytes) -> Any:
        for number, (operation, argument, _) in enumerate(pickletools.genops(raw)):
            if number > MOST_OPERATIONS:
                raise PolicyError(f"{self._whose}: more than {MOST_OPERATIONS} operations in a pickle of this kind")
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
        stack = self._stack
        match operation:
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
            case "SETITEM":
                pair = stack[-2:]
                del stack[-2:]
                self._put_items(pair)
            case "SETITEMS":
                self._put_items(self._since_mark())
            case "APPEND" | "APPENDS" | "ADDITEMS":
                values = [stack.pop()] if operation == "APPEND" else self._since_mark()
                # What is put into an object, a deque for instance, is nothing that a reader needs.
                if isinstance(stack[-1], list):
                    stack[-1].extend(values)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "GLOBAL":
                stack.append(self._named(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                module, name = stack[-2:]
                if not isinstance(module, str) or not isinstance(name, str):
                    raise ValueError("a name that is no text")
                stack[-2:] = [self._named(f"{module}.{name}")]
            case "REDUCE" | "NEWOBJ":
                called, arguments = stack[-2:]
                stack[-2:] = [_called(called, arguments)]
            case "NEWOBJ_EX":
                called, arguments, _keywords = stack[-3:]
                stack[-3:] = [_called(called, arguments)]
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], Record):
                    raise ValueError("a state for something that is no object")
                stack[-1].state = state
            case _:
                raise PolicyError(f"{self._whose}: it uses {operation}, which no file of this kind does")

    def _named(self, name: str) -> Named:
        if not self._is_known(name):
            raise PolicyError(f"{self._whose}: it names {name[:100]}, which does not belong into a file of this kind")
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
        entries = target.items if isinstance(target, Record) else target
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            # Tuples in tuples are no keys: Python would take for ever over their hash, or overflow its stack.
            parts = key if isinstance(key, tuple) else (key,)
            if not all(isinstance(part, str | int | float | bytes) for part in parts):
                raise ValueError("an entry under something that is no name")
            entries[key] = value


def _called(called: Any, arguments: Any) -> Any:
    """Return what stands for the result of a call."""
    if not isinstance(called, Named) or not isinstance(arguments, tuple):
        raise ValueError("a call of something that is no function")
    if called.name in ("copyreg._reconstructor", "copy_reg._reconstructor", "copyreg.__newobj__"):
        if not arguments or not isinstance(arguments[0], Named):
            raise ValueError("an object without a class")
        return Record(arguments[0].name, arguments[1:])
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
