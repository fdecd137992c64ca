"""Spaces in a zip of Stable-Baselines3, of Gym and Gymnasium, read without unpickling them.

The text next to the pickle of a space gives its kind, shape and type. Bounds and the parts of a dictionary come from
the pickle, read as data (`legible.policies.inert_pickle`), or from the text if the pickle cannot be read.

- `n_actions_of`, `encoding_of`: the spaces of a plain network.
- `space_of`: any space as a Gymnasium space.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from legible.policies.encoding import Encoding, OneHot, Plain
from legible.policies.inert_pickle import Record, array_of, dtype_of, read_pickle
from legible.policies.protocol import PolicyError
from legible.policies.sb3.archive import Contents
from legible.policies.vec_normalize import is_known_name

Space = spaces.Space[Any]

_MOST_NUMBERS = 10_000_000
_CLASS_TEXT = re.compile(r"<class '([\w.]+)'>")
_NUMBERS_TEXT = re.compile(r"\[\s*-?\d{1,9}(?:\s+-?\d{1,9})*\s*\]")
_NUMBER = re.compile(r"[-+]?(?:inf|\d+\.?\d*(?:e[-+]?\d+)?)")
_TYPES = frozenset({"float16", "float32", "float64", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool"})


def n_actions_of(contents: Contents, given: int | None) -> int:
    """Return the number of discrete actions."""
    if contents.data.get("action_space") is None:
        if given is None:
            contents.ask("cannot read its action space", "n_actions", "5 if it has five discrete actions")
        return given
    space = contents.text_of("action_space")
    if _whole_number(space.get("start", 0)) != 0:
        contents.refuse(f"its actions are numbered from {space.get('start')}, not from 0")
    written = _whole_number(space.get("n"))
    if written is not None and given is not None and written != given:
        raise PolicyError(f"{contents.path}: it has {written} actions, but {given} are required")
    answer = given if written is None else written
    if answer is None:
        contents.ask("cannot read how many actions it has", "n_actions", "5")
    if answer < 1:
        raise PolicyError(f"{contents.path}: a policy needs at least one action, not {answer}")
    return answer


def encoding_of(contents: Contents, given: Encoding | None) -> Encoding:
    """Return the encoding of flat observations."""
    written = _encoding_in_space(contents)
    if written is None:
        if given is None:
            example = "Plain(69), or OneHot((3, 4)) for MultiDiscrete([3, 4])"
            contents.ask("cannot read its observation space", "encoding", example)
        return given
    if given is not None and given != written:
        raise PolicyError(f"{contents.path}: the encoding {given} was given, but the file says that it is {written}")
    return written


def has_plain_spaces(contents: Contents) -> bool:
    """Return whether actions are discrete and observations flat, or missing in the file."""
    observations, actions = (contents.text_of(key) for key in ("observation_space", "action_space"))
    if observations and space_name(observations) not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        return False
    shape = _shape(observations)
    if shape is not None and len(shape) == 3 and observations.get("dtype") == "uint8":
        return False
    return not actions or space_name(actions) == "Discrete"


def space_of(contents: Contents, key: Literal["observation_space", "action_space"]) -> Space:
    """Return the observation or action space of a zip, or raise an error if it cannot be read or is not supported.

    - `contents`: the part of the zip that can be read without running code. It holds each space twice: as readable
      text, which abridges long arrays of bounds, and as a pickle, which is read as data.
    - `key`: which of the two spaces.
    """
    # `refuse` raises an error that names the zip.
    text = contents.text_of(key)
    described = key.replace("_", " ")
    if not text:
        contents.refuse(f"cannot read its {described}")
    # The text decides; the pickle adds what the text leaves out: bounds, and the entries of dictionaries.
    pickled = _pickled_space(contents, key)
    name = space_name(text)
    space: Space | None = None
    try:
        if name == "Box":
            space = _box(text, pickled)
        elif name == "Discrete" and (n := _whole_number(text.get("n"))) is not None:
            space = spaces.Discrete(n, start=_whole_number(text.get("start", 0)) or 0)
        elif name == "MultiBinary" and (shape := _shape(text)) is not None:
            space = spaces.MultiBinary(shape[0] if len(shape) == 1 else list(shape))
        elif name == "MultiDiscrete" and (sizes := _whole_numbers(text.get("nvec"))) is not None:
            space = spaces.MultiDiscrete(list(sizes))
        elif name in ("Dict", "MultiDiscrete"):
            space = pickled
    except (ValueError, AssertionError, TypeError, OverflowError) as error:
        contents.refuse(f"its {described} makes no sense ({str(error)[:200]})")
    if space is None:
        contents.refuse(f"its {described} is {name or str(text.get(':type:'))[:100]}, which cannot be read")
    # Discrete spaces may start at another number than 0, which is not supported.
    for component in space.spaces.values() if isinstance(space, spaces.Dict) else (space,):
        if np.any(getattr(component, "start", 0)):
            contents.refuse(f"its {described} is numbered from {component}, not from 0")
    return space


def _encoding_in_space(contents: Contents) -> Encoding | None:
    """Return how Stable-Baselines3 encodes the observations of a zip for the network; None if this cannot be read.

    Numbers are passed as they are (`Plain`), choices of Discrete and MultiDiscrete spaces one-hot encoded (`OneHot`).
    """
    if contents.data.get("observation_space") is None:
        return None
    space = contents.text_of("observation_space")
    name = space_name(space)
    if name in ("Box", "MultiBinary"):
        shape = _shape(space)
        return None if shape is None else Plain(math.prod(shape))
    # The numbers of choices, and the smallest number of each, which must be 0. `refuse` raises an error.
    if name == "Discrete":  # as a MultiDiscrete of one part
        sizes = _whole_numbers(f"[{space.get('n')}]")
        starts = _whole_numbers(f"[{space.get('start', 0)}]")
    elif name == "MultiDiscrete":
        sizes = _whole_numbers(space.get("nvec"))
        starts = _whole_numbers(space.get("start", "[0]")) or (0,)
        pickled = _pickled_space(contents, "observation_space") if sizes is None else None
        if isinstance(pickled, spaces.MultiDiscrete) and pickled.nvec.ndim == 1 and not pickled.start.any():
            sizes = tuple(pickled.nvec.tolist())
    else:
        contents.refuse(f"its observation space is {name or space.get(':type:')}: such observations are not supported")
    if starts is not None and any(starts):
        contents.refuse(f"its observations are numbered from {space.get('start')}, not from 0")
    return None if sizes is None or starts is None else OneHot(sizes)


def _box(text: Mapping[str, Any], pickled: Space | None) -> spaces.Box | None:
    """Return the box that a text describes, None if it cannot be read, such as an abridged array."""
    shape, dtype = _shape(text), str(text.get("dtype"))
    if shape is None or dtype not in _TYPES:
        return None
    if isinstance(pickled, spaces.Box) and pickled.shape == shape and pickled.dtype == np.dtype(dtype):
        return pickled
    bounds = []
    for name in ("low", "high"):
        written = str(text.get(name, ""))
        numbers = [float(number) for number in _NUMBER.findall(written)]
        if len(numbers) == math.prod(shape) and "..." not in written:
            bounds.append(np.array(numbers).reshape(shape).astype(dtype))
        elif len(set(numbers)) == 1:
            bounds.append(np.full(shape, numbers[0]).astype(dtype))
        else:
            return None
    return spaces.Box(bounds[0], bounds[1], shape, np.dtype(dtype).type)


def _pickled_space(contents: Contents, key: str) -> Space | None:
    """Return the space that a zip holds as a pickle, without unpickling it; None if it cannot be read as data.

    - `contents`: the part of the zip that can be read without running code.
    - `key`: ``"observation_space"`` or ``"action_space"``.
    """
    entry = contents.data.get(key)
    serialised = entry.get(":serialized:") if isinstance(entry, dict) else None
    if not isinstance(serialised, str):
        return None
    try:
        pickled = base64.b64decode(serialised)
        # `read_pickle` returns data and records of the objects in the pickle, without creating the objects.
        record = read_pickle(pickled, f"{contents.path}: {key}", is_known_name)
        if _class_of(record) != "Dict":
            return space_of_record(record)
        # The parts are a dict or, from older Gym, an OrderedDict, which `read_pickle` returns as a record.
        parts = record.attributes().get("spaces")
        if isinstance(parts, Record):
            parts = parts.entries
        parts = parts if isinstance(parts, dict) else {}
        spaces_by_name = {str(name): space_of_record(part) for name, part in parts.items()}
    except (PolicyError, binascii.Error, ValueError, TypeError, AssertionError, KeyError, OverflowError):
        return None
    # With an entry missing, it would be a different space.
    readable = {name: part for name, part in spaces_by_name.items() if part is not None}
    if len(readable) < len(spaces_by_name) or not readable:
        return None
    ordered = spaces.Dict()
    ordered.spaces = readable  # the constructor would sort the keys, but extractors follow the saved order
    return ordered


def _class_of(record: Any) -> str | None:
    """Return the class name of a space of Gym or Gymnasium, None for other records."""
    if not isinstance(record, Record) or not record.name.startswith(("gym.spaces.", "gymnasium.spaces.")):
        return None
    return record.name.rpartition(".")[2]


def space_of_record(record: Any) -> Space | None:
    """Return the space that a record of `read_pickle` stands for, None for a Dict and for other records."""
    name = _class_of(record)
    attributes = {} if name is None else record.attributes()
    if name == "Box":
        low, high, dtype = array_of(attributes["low"]), array_of(attributes["high"]), dtype_of(attributes["dtype"])
        if low.size <= _MOST_NUMBERS:
            return spaces.Box(low.astype(dtype), high.astype(dtype), low.shape, dtype.type)
    elif name == "Discrete":
        return spaces.Discrete(int(array_of(attributes["n"])), start=int(array_of(attributes.get("start", 0))))
    elif name == "MultiDiscrete":
        start = None if attributes.get("start") is None else array_of(attributes["start"]).astype(np.int64)
        return spaces.MultiDiscrete(array_of(attributes["nvec"]).astype(np.int64), start=start)
    elif name == "MultiBinary":
        n = array_of(attributes["n"])
        return spaces.MultiBinary(int(n) if n.ndim == 0 else n.tolist())
    return None


def space_name(space: Mapping[str, Any]) -> str | None:
    """Return the class name of a space of Gym or Gymnasium, None for others."""
    written = _CLASS_TEXT.fullmatch(str(space.get(":type:", ""))[:200])
    if written is None:
        return None
    module, _, name = written.group(1).rpartition(".")
    return name if module.startswith(("gym.spaces", "gymnasium.spaces")) else None


def _shape(space: Mapping[str, Any]) -> tuple[int, ...] | None:
    shape = space.get("_shape", space.get("shape"))
    if not isinstance(shape, list) or not all(type(size) is int and 0 < size < 10**9 for size in shape):
        return None
    return tuple(shape) if math.prod(shape) <= _MOST_NUMBERS else None


def _whole_number(written: object) -> int | None:
    """Return a whole number from a number or the text of a NumPy scalar, None for others."""
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    if isinstance(written, str) and re.fullmatch(r"-?\d{1,9}", written):
        return int(written)
    return None


def _whole_numbers(written: object) -> tuple[int, ...] | None:
    """Return whole numbers from the text of a one-dimensional NumPy array, None if it is abridged or no such text."""
    if isinstance(written, str) and _NUMBERS_TEXT.fullmatch(written):
        return tuple(int(number) for number in re.findall(r"-?\d+", written))
    return None
