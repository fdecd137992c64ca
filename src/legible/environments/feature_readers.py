"""Readers of the features that rules see.

- `FeatureReader`: the base class, with names and a method that reads the numbers of a step.
- `ObservationReader`: the flat observation itself. `EntryReader`: entries of a dictionary of observations.
  `InfoReader`: entries of ``info``. `FunctionReader`: a user's function.
- `reader_of`: the reader for the text of ``--features``.
- `flat_width`, `flatten_observation`, `unflatten_observations`: observations of any space as rows of numbers, and back.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.environments.faults import reset_environment
from legible.environments.spaces import (
    Batch,
    ObservationEncoder,
    UnfitEnvironmentError,
    observation_entry,
    observation_fault,
)
from legible.environments.spec import Env, UntrustedCodeError
from legible.errors import LegibleError, describe_error, did_you_mean, suggest_names
from legible.features import Feature, FeatureError

MOST_NUMBERS = 512
"""Entries of a dictionary with more numbers, such as pictures, are no features unless they are named."""

Row = NDArray[np.float32]


class FeatureReader(ABC):
    """A reader of features from the observation, info and environment of a step."""

    needs: ClassVar[str] = ""  # what it reads besides the observation, in words

    @property
    def text(self) -> str:
        """The text of ``--features`` that selects it; "" for the observation itself."""
        return ""

    @property
    def holds_observation(self) -> bool:
        """True where the features are the policy's whole observation, so that it can be asked about other values."""
        return False

    @property
    @abstractmethod
    def features(self) -> tuple[Feature, ...]:
        """The features, in the order of their numbers."""

    @abstractmethod
    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:
        """Return the numbers of a step."""


def _checked(values: Any, features: Sequence[Feature], where: str) -> Row:
    """Return values as float32, or raise unless there is a finite number for each feature."""
    try:
        row = np.asarray(values, np.float32).reshape(-1)
    except (TypeError, ValueError) as error:
        raise FeatureError(f"{where}: gave something that is no number ({error}).") from error
    if row.size != len(features):
        raise FeatureError(f"{where}: gave {row.size} features, {len(features)} are expected, the same in every step.")
    if not np.isfinite(row).all():
        i = int(np.argmin(np.isfinite(row)))
        raise FeatureError(f"{where}: feature {features[i].name!r} is {row[i]}; every value must be a finite number.")
    return row


@dataclass(frozen=True)
class ObservationReader(FeatureReader):
    """The flat observation itself."""

    names: tuple[Feature, ...]
    holds_observation = True

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, as they were named."""
        return self.names

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return the observation as a row."""
        try:
            return np.asarray(observation, np.float32).reshape(len(self.names))
        except (TypeError, ValueError) as error:
            raise UnfitEnvironmentError(observation_fault(observation, f"{len(self.names)} numbers")) from error


@dataclass(frozen=True)
class EntryReader(FeatureReader):
    """Entries of a dictionary of observations, one after the other: ``achieved_goal.0``, ``direction``."""

    # Name and shape of each entry, and whether its numbers are categories
    entries: tuple[tuple[str, tuple[int, ...], bool], ...]
    whole: bool  # whether the observation has no other entries
    text: str = "entries"  # the text of ``--features`` that selects it

    @classmethod
    def of(cls, space: spaces.Space[Any], chosen: Sequence[str] = (), left_out: str = "") -> EntryReader:
        """Return a reader of entries of a dictionary space, or raise an error if an entry cannot be read.

        - `space`: the space of the observations; it must be a Dict.
        - `chosen`: the entries to read, in any order; by default all small ones.
        - `left_out`: an entry that is not read by default, such as the one with the action mask; "" for none.
        """
        if not isinstance(space, spaces.Dict):
            raise UnfitEnvironmentError(
                f"--features entries: observations are {space!s:.80}, which has no entries; leave --features out."
            )
        numeric = {key: entry_space for key, entry_space in space.spaces.items() if flat_width(entry_space)}
        text = f"entries:{','.join(chosen)}" if chosen else "entries"
        for name in chosen:
            if name not in space.spaces:
                hint = suggest_names(name, space.spaces, "entries")
                raise UnfitEnvironmentError(f"--features {text}: observations have no entry {name!r}.{hint}")
            if name not in numeric:
                raise UnfitEnvironmentError(f"the entry {name!r} is {space[name]}, which holds no numbers.")

        # Pictures and other large arrays are read only if they are chosen: rules about single pixels say nothing.
        small = [
            key for key, entry_space in numeric.items() if flat_width(entry_space) <= MOST_NUMBERS and key != left_out
        ]
        wanted = list(chosen) or small
        if not wanted:
            raise UnfitEnvironmentError(
                f"observations are {space}, and no entry is a small array of numbers; choose what rules see with "
                "--features MODULE:FUNCTION."
            )

        # Each entry: its name, its shape, and whether its numbers are categories, as those of discrete spaces are. The
        # reader also knows whether these are all numbers of the observation.
        ordered = [key for key in numeric if key in wanted]
        discrete = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        entries = tuple((key, tuple(numeric[key].shape or ()), isinstance(numeric[key], discrete)) for key in ordered)
        return cls(entries, ordered == list(numeric), text)

    @property
    def holds_observation(self) -> bool:
        """True where no entry is left out."""
        return self.whole

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, named by their entry and their place in it."""
        return tuple(
            Feature(".".join([_as_name(key), *map(str, place)]), "categorical" if is_categorical else "numeric")
            for key, shape, is_categorical in self.entries
            for place in np.ndindex(*shape)
        )

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return the entries, one after the other."""
        entries = [observation_entry(observation, key) for key, *_ in self.entries]
        return np.concatenate([np.asarray(entry, np.float32).reshape(-1) for entry in entries])


@dataclass(frozen=True)
class InfoReader(FeatureReader):
    """Entries of ``info``, each one number; they must exist at the start of every episode and after every step."""

    names: tuple[str, ...]
    needs = "the environment's info"

    @property
    def text(self) -> str:
        """The text of ``--features`` that selects it."""
        return f"info:{','.join(self.names)}"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, named as in info."""
        return tuple(Feature(_as_name(name)) for name in self.names)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return the entries."""
        for name in self.names:
            if name not in info:
                hint = suggest_names(name, map(str, info), "entries")
                raise FeatureError(f"--features {self.text}: the environment's info has no {name!r}.{hint}")
        where = f"--features {self.text}"
        return _checked([_number(info[name], name, where) for name in self.names], self.features, where)


@dataclass(frozen=True)
class FunctionReader(FeatureReader):
    """A user's function ``module:function`` from observation, info and environment to named numbers.

    It is `trusted` where the user named it. One that a file names is not imported.
    """

    name: str
    names: tuple[str, ...] = ()
    trusted: bool = field(default=True, compare=False, repr=False)
    needs = "the environment"

    @classmethod
    def of(cls, name: str, env: Env) -> FunctionReader:
        """Return a reader that calls a function; it is called at the start of an episode for the names."""
        observation, info = reset_environment(env, seed=0)
        given = _call_function(name, observation, info, env)
        names = given if isinstance(given, Mapping) else getattr(_load_function(name), "feature_names", None)
        names = tuple(f"f{i}" for i in range(np.size(given))) if names is None else tuple(map(str, names))
        repeated = sorted({each for each in names if names.count(each) > 1})
        if repeated:
            raise FeatureError(f"--features {name}: the name {repeated[0]!r} is used for more than one feature.")
        if not names:
            raise FeatureError(f"--features {name}: gave no features.")
        reader = cls(name, names)
        reader.read(observation, info, env)
        return reader

    @property
    def text(self) -> str:
        """The text of ``--features`` that selects it."""
        return self.name

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, named by the function."""
        return tuple(Feature(name) for name in self.names)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:
        """Call the function."""
        self.check_trusted()
        where = f"--features {self.name}"
        given = _call_function(self.name, observation, info, env)
        if isinstance(given, Mapping):
            in_one_only = sorted(set(self.names) ^ set(map(str, given)))
            if in_one_only:
                raise FeatureError(
                    f"{where}: gave {len(given)} features, {len(self.names)} are expected, the same in every step; "
                    f"{in_one_only[0]!r} is not in both."
                )
            given = [_number(given[name], name, where) for name in self.names]
        return _checked(given, self.features, where)

    def check_trusted(self) -> None:
        """Raise where a file names the function and the user does not trust it."""
        if not self.trusted:
            raise UntrustedCodeError(
                f"the file of the rules names the function {self.name!r}, which would be imported. If you trust it, "
                f"name it yourself (--features {self.name}; 'legible play' and 'legible distil' have --trust)."
            )


@cache
def _load_function(name: str) -> Callable[..., Any]:
    """Return the function behind ``module:function``."""
    module, _, attribute = name.partition(":")
    try:
        loaded = importlib.import_module(module)
        found = getattr(loaded, attribute, None)
    except Exception as error:
        raise FeatureError(
            f"--features {name}: the module {module!r} cannot be imported ({type(error).__name__}: {error})."
        ) from error
    if not callable(found):
        hint = did_you_mean(attribute, [key for key, value in vars(loaded).items() if callable(value)])
        raise FeatureError(f"--features {name}: the module {module!r} has no function {attribute!r}.{hint}")
    return cast("Callable[..., Any]", found)


def _call_function(name: str, observation: Any, info: Any, env: Env | None) -> Any:
    function = _load_function(name)
    try:
        given = function(observation, info, env)
    except Exception as error:
        raise FeatureError(f"--features {name}: raised {describe_error(error)}.") from error
    if given is None:
        raise FeatureError(f"--features {name}: returned nothing; it must return named numbers, as a dictionary.")
    return given


def _number(value: Any, name: str, where: str) -> float:
    try:
        return float(np.asarray(value).item())
    except (TypeError, ValueError) as error:
        raise FeatureError(f"{where}: feature {name!r} is {value!r:.60}, which is no number ({error}).") from error


def reader_of(text: str, env: Env) -> FeatureReader:
    """Return the reader that the option ``--features`` selects: it turns each step into the numbers that rules see.

    - `text`: ``entries`` or ``entries:NAME,NAME`` for entries of a dictionary of observations, ``info:NAME,NAME`` for
      entries of info, ``objects`` for the objects of an Atari game, ``module:function`` for a user's function.
    - `env`: the environment; it is reset once, to check what can be read.
    """
    if text == "objects":
        from legible.environments.atari import ObjectReader  # noqa: PLC0415 (it builds on this module)

        return ObjectReader.of(env)
    kind, colon, argument = text.partition(":")
    names = tuple(name.strip() for name in argument.split(",") if name.strip())
    if kind == "entries" and (names or not colon):
        return EntryReader.of(env.observation_space, names)
    if kind == "info" and names:
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise FeatureError(f"--features {text}: the name {repeated[0]!r} is given twice.")
        # Entries of info are not in any space: reset once to see whether they exist and are numbers.
        reader = InfoReader(names)
        observation, info = reset_environment(env, seed=0)
        reader.read(observation, info, env)
        return reader
    if not colon or not argument:
        raise LegibleError(
            f"--features {text!r}: write entries:NAME,NAME, info:NAME,NAME, objects or the MODULE:FUNCTION of yours."
        )
    return FunctionReader.of(text, env)


def is_named_code(text: str) -> bool:
    """Return whether a text of ``--features`` names a function, which would be imported."""
    return ":" in text and text.partition(":")[0] not in {"entries", "info"}


def _as_name(key: str) -> str:
    """Return a key as a valid name in rules."""
    plain = "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in str(key))
    return plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"


# --- Observations of any space as rows of numbers ---------------------------------------------------------------------


def flat_width(space: spaces.Space[Any]) -> int:
    """Return the count of numbers in an observation; texts and the like have none."""
    if isinstance(space, spaces.Dict):
        return sum(flat_width(part) for part in space.spaces.values())
    try:
        return ObservationEncoder.of(space).width
    except UnfitEnvironmentError:
        return 0


def flatten_observation(space: spaces.Space[Any], observation: Any) -> Row:
    """Return the numbers of an observation, entry after entry."""
    if isinstance(space, spaces.Dict):
        parts = [
            flatten_observation(part, observation_entry(observation, key))
            for key, part in space.spaces.items()
            if flat_width(part)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)
    return np.asarray(observation, np.float32).reshape(-1)


def unflatten_observations(space: spaces.Space[Any], rows: NDArray[np.float32]) -> Batch:
    """Return rows of numbers as observations of a space: an array, or a dictionary of arrays."""
    if not isinstance(space, spaces.Dict):
        return rows.astype(space.dtype).reshape(len(rows), *(space.shape or ()))
    entries, first = {}, 0
    for key, part in space.spaces.items():
        width = flat_width(part)
        if width:
            entries[key] = unflatten_observations(part, rows[:, first : first + width])
            first += width
    return entries
