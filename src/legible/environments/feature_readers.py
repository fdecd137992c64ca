"""Where the features of rules are read from.

- `FeatureReader`: what they share: names, and how to read the numbers of a step.
- `ObservationReader`: the flat observation itself. `EntryReader`: entries of a dictionary of observations.
  `InfoReader`: entries of ``info``. `FunctionReader`: a function of the user's.
- `reader_of`: the reader that a text asks for, in an environment.
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

from legible.environments.spaces import Batch, ObservationEncoder, UnfitEnvironmentError
from legible.environments.spec import Env, UntrustedCodeError
from legible.errors import LegibleError, did_you_mean
from legible.features import Feature, FeatureError, Kind

MOST_NUMBERS = 512
"""Entries of a dictionary with more numbers are pictures and the like: rules do not speak of each of their numbers."""

Row = NDArray[np.float32]


class FeatureReader(ABC):
    """Reads features from what an environment gives in a step.

    Attributes
    ----------
    needs
        What it looks at besides the observation, in words; "" for nothing.
    """

    needs: ClassVar[str] = ""

    @property
    def text(self) -> str:
        """By what it is asked for; "" for the observation itself."""
        return ""

    @property
    def holds_observation(self) -> bool:
        """Whether its features are all that a policy is shown, so that it can be asked about other values of them."""
        return False

    @property
    @abstractmethod
    def features(self) -> tuple[Feature, ...]:
        """The features, in the order of their numbers."""

    @abstractmethod
    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:
        """Return the numbers of a step."""


def _checked(values: Any, features: Sequence[Feature], where: str) -> Row:
    """Return values as float32, of which each must be a finite number."""
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
            raise UnfitEnvironmentError(
                f"the environment gave an observation that its own space, {len(self.names)} numbers wide, does not "
                f"hold: {error}."
            ) from error


@dataclass(frozen=True)
class EntryReader(FeatureReader):
    """Entries of a dictionary of observations, one after the other: ``achieved_goal.0``, ``direction``.

    Parameters
    ----------
    entries
        Their names and shapes, and whether they hold whole numbers that name something.
    whole
        Whether they are all that the observation holds.
    text
        By what it was asked for.
    """

    entries: tuple[tuple[str, tuple[int, ...], bool], ...]
    whole: bool
    text: str = "entries"

    @classmethod
    def of(cls, space: spaces.Space[Any], chosen: Sequence[str] = ()) -> EntryReader:
        """Read some entries of a space, by default all that are no pictures."""
        if not isinstance(space, spaces.Dict):
            raise UnfitEnvironmentError(f"observations are {space}, which has no entries.")
        for name in chosen:
            if name not in space.spaces:
                hint = did_you_mean(name, space.spaces) or f" The entries are {', '.join(space.spaces)}."
                raise UnfitEnvironmentError(f"observations have no entry {name!r}.{hint}")
        arrays = {key: part for key, part in space.spaces.items() if flat_width(part)}
        small = [key for key, part in arrays.items() if flat_width(part) <= MOST_NUMBERS]
        taken = list(chosen) or small
        for name in taken:
            if name not in arrays:
                raise UnfitEnvironmentError(f"the entry {name!r} is {space[name]}, which holds no numbers.")
        if not taken:
            raise UnfitEnvironmentError(
                f"observations are {space}, whose entries are all pictures or no numbers; say what rules see "
                "(--features MODULE:FUNCTION)."
            )
        ordered = [key for key in arrays if key in taken]
        text = f"entries:{','.join(chosen)}" if chosen else "entries"
        whole = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        described = tuple((key, tuple(arrays[key].shape or ()), isinstance(arrays[key], whole)) for key in ordered)
        return cls(described, ordered == list(arrays), text)

    @property
    def holds_observation(self) -> bool:
        """Whether no entry was left out."""
        return self.whole

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features: an entry's name and the place in it."""
        found = []
        for key, shape, whole in self.entries:
            kind: Kind = "categorical" if whole else "numeric"
            found += [Feature(".".join([_as_name(key), *map(str, place)]), kind) for place in np.ndindex(*shape)]
        return tuple(found)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return the entries, one after the other."""
        parts = [np.asarray(observation[key], np.float32).reshape(-1) for key, *_ in self.entries]
        return np.concatenate(parts)


@dataclass(frozen=True)
class InfoReader(FeatureReader):
    """Entries of ``info``, each one number.

    Parameters
    ----------
    names
        Their names; they must be there at the start of every episode and after every step.
    """

    names: tuple[str, ...]
    needs = "the environment's info"

    @property
    def text(self) -> str:
        """By what it is asked for."""
        return f"info:{','.join(self.names)}"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, called as in info."""
        return tuple(Feature(_as_name(name)) for name in self.names)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return the entries."""
        for name in self.names:
            if name not in info:
                known = ", ".join(map(str, info)) or "nothing"
                raise FeatureError(
                    f"--features {self.text}: the environment's info has no {name!r} (it holds {known})."
                    f"{did_you_mean(name, map(str, info))}"
                )
        where = f"--features {self.text}"
        return _checked([_number(info[name], name, where) for name in self.names], self.features, where)


@dataclass(frozen=True)
class FunctionReader(FeatureReader):
    """A function of the user's: from observation, info and environment to named numbers.

    Parameters
    ----------
    name
        Where it is: ``module:function``.
    names
        What it calls its features, as the first call told.
    trusted
        Whether a person named the function, and no file did; only then it is imported.
    """

    name: str
    names: tuple[str, ...] = ()
    trusted: bool = field(default=True, compare=False, repr=False)
    needs = "the environment"

    @classmethod
    def of(cls, name: str, env: Env) -> FunctionReader:
        """Call the function at the start of an episode to see what it gives."""
        function = _load_function(name)
        observation, info = env.reset(seed=0)
        given = _called(name, function, observation, info, env)
        if isinstance(given, Mapping):
            names = tuple(map(str, given))
        else:
            told = getattr(function, "feature_names", None)
            names = tuple(map(str, told)) if told is not None else tuple(f"f{i}" for i in range(np.size(given)))
        twice = sorted({one for one in names if names.count(one) > 1})
        if twice:
            raise FeatureError(f"--features {name}: the name {twice[0]!r} is used for more than one feature.")
        if not names:
            raise FeatureError(f"--features {name}: gave no features.")
        made = cls(name, names)
        made.read(observation, info, env)
        return made

    @property
    def text(self) -> str:
        """By what it is asked for."""
        return self.name

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, called as the function calls them."""
        return tuple(Feature(name) for name in self.names)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:
        """Call the function."""
        self.check_trusted()
        where = f"--features {self.name}"
        given = _called(self.name, _load_function(self.name), observation, info, env)
        if isinstance(given, Mapping):
            odd = sorted(set(self.names) ^ set(map(str, given)))
            if odd:
                raise FeatureError(
                    f"{where}: gave {len(given)} features, {len(self.names)} are expected, the same in every step; "
                    f"{odd[0]!r} is not in both."
                )
            given = [_number(given[name], name, where) for name in self.names]
        return _checked(given, self.features, where)

    def check_trusted(self) -> None:
        """Raise where a file names the function, without a word that it may be imported."""
        if not self.trusted:
            raise UntrustedCodeError(
                f"the file of the rules names the function {self.name!r}, which would be imported. If you know where "
                f"it comes from, name it yourself (--features {self.name}; 'legible play' and 'legible distil' have "
                "--trust)."
            )


@cache
def _load_function(name: str) -> Callable[..., Any]:
    """Return the function behind ``module:function``."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        raise FeatureError(
            f"--features {name}: the module {module!r} cannot be imported ({type(error).__name__}: {error})."
        ) from error
    if not callable(found):
        raise FeatureError(f"--features {name}: the module {module!r} has no function {attribute!r}.")
    return cast("Callable[..., Any]", found)


def _called(name: str, function: Callable[..., Any], observation: Any, info: Any, env: Env | None) -> Any:
    try:
        given = function(observation, info, env)
    except Exception as error:
        raise FeatureError(f"--features {name}: raised {type(error).__name__}: {error}.") from error
    if given is None:
        raise FeatureError(f"--features {name}: returned nothing; it must return named numbers, as a dictionary.")
    return given


def _number(value: Any, name: str, where: str) -> float:
    try:
        return float(np.asarray(value).item())
    except (TypeError, ValueError) as error:
        raise FeatureError(f"{where}: feature {name!r} is {value!r:.60}, which is no number ({error}).") from error


def reader_of(text: str, env: Env) -> FeatureReader:
    """Return what reads the features that a text asks for.

    Parameters
    ----------
    text
        ``entries`` or ``entries:NAME,NAME`` for entries of a dictionary of observations, ``info:NAME,NAME`` for entries
        of info, ``objects`` for the objects of an Atari game, ``module:function`` for a function of the user's.
    env
        The environment; its ``reset`` is called to see what a function gives.
    """
    if text == "objects":
        from legible.environments.atari import ObjectReader  # noqa: PLC0415 (it builds on this module)

        return ObjectReader.of(env)
    kind, colon, rest = text.partition(":")
    names = tuple(name.strip() for name in rest.split(",") if name.strip())
    if kind == "entries" and (names or not colon):
        return EntryReader.of(env.observation_space, names)
    if kind == "info" and names:
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise FeatureError(f"--features {text}: the name {twice[0]!r} stands there twice.")
        reader = InfoReader(names)
        observation, info = env.reset(seed=0)
        reader.read(observation, info, env)
        return reader
    if not colon or not rest:
        raise LegibleError(
            f"--features {text!r}: write entries:NAME,NAME, info:NAME,NAME, objects or the MODULE:FUNCTION of a "
            "function."
        )
    return FunctionReader.of(text, env)


def is_named_code(text: str) -> bool:
    """Whether a text asks for a function, which would be imported."""
    return ":" in text and text.partition(":")[0] not in {"entries", "info"}


def _as_name(key: str) -> str:
    """A key as a name that rules can hold."""
    plain = "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in str(key))
    return plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"


# --- Observations of any space as rows of numbers ---------------------------------------------------------------------


def flat_width(space: spaces.Space[Any]) -> int:
    """Return how many numbers an observation holds; texts and the like hold none."""
    if isinstance(space, spaces.Dict):
        return sum(flat_width(part) for part in space.spaces.values())
    try:
        return ObservationEncoder.of(space).width
    except UnfitEnvironmentError:
        return 0


def flatten_observation(space: spaces.Space[Any], observation: Any) -> Row:
    """Return the numbers of an observation, entry after entry."""
    if isinstance(space, spaces.Dict):
        parts = [flatten_observation(part, observation[key]) for key, part in space.spaces.items() if flat_width(part)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)
    return np.asarray(observation, np.float32).reshape(-1)


def unflatten_observations(space: spaces.Space[Any], rows: NDArray[np.float32]) -> Batch:
    """Return rows of numbers as observations of a space, a dictionary of arrays where it is one."""
    if not isinstance(space, spaces.Dict):
        return rows.astype(space.dtype).reshape(len(rows), *(space.shape or ()))
    found, first = {}, 0
    for key, part in space.spaces.items():
        width = flat_width(part)
        if width:
            found[key] = unflatten_observations(part, rows[:, first : first + width])
            first += width
    return found
