"""Folders of the RL Zoo: the policy file, and the training settings read from YAML as data.

- `find_training`: the contents of ``args.yml`` and ``config.yml`` next to a policy.
- `policy_in_folder`: the policy of a folder.
- `Training`, `WrapperCall`: environment, algorithm, wrappers, stacked frames.

The zoo's files name Python classes in YAML tags. Only ``OrderedDict`` and tuples are read, as plain data; other tags
are refused. Wrappers are names: nothing is imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legible.imports import optional_package
from legible.policies.environment_ids import trained_environment
from legible.policies.protocol import PolicyError

ENVIRONMENT_NEEDS = "environment_needs"
"""Entry of a policy's metadata with the settings of its environment: plain data, which may come from any file.

It holds ``env_arguments``, ``wrappers`` as pairs of full name and arguments, ``frame_stack``, and ``frame_padding``:
the padding before the first observation, None for zeros.
"""
_MOST_BYTES = 2**15  # such files have a few thousand bytes, and YAML is slow to read
_MOST_VALUES, _MOST_BRACKETS = 10_000, 1_000
_FILES = ("args.yml", "config.yml", "env_kwargs.yml")
# These settings distinguish a config.yml of the zoo from the config.yml of other programs.
_OF_THE_ZOO = re.compile(r"\b(n_timesteps|env_wrapper|vec_env_wrapper|frame_stack)\b")


@dataclass(frozen=True)
class WrapperCall:
    """A wrapper by its full name, such as ``rl_zoo3.wrappers.FrameSkip``, with its arguments as plain data."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({arguments})" if arguments else self.name


@dataclass(frozen=True)
class Training:
    """Training settings of a policy of the RL Zoo, as far as its files say."""

    env_id: str | None = None
    algorithm: str | None = None
    env_arguments: Mapping[str, Any] = field(default_factory=dict)
    # The wrappers around the environment, innermost first; vectorised wrappers last
    wrappers: tuple[WrapperCall, ...] = ()
    frame_stack: int = 1  # number of observations stacked into one after normalisation; 1 for no stacking
    normalised: bool | None = None  # whether observations were normalised; None if the files do not say
    seed: int | None = None
    steps: int | None = None


def policy_in_folder(folder: Path) -> Path:
    """Return the policy of a folder of the RL Zoo: the one named after the environment, else the only or best one."""
    policies = sorted(path for path in folder.glob("*.zip") if not path.name.startswith("train_eval"))
    if not policies:
        raise PolicyError(f"{folder}: there is no .zip of a policy in this folder")
    for path in (folder / f"{trained_environment(folder)}.zip", folder / "best_model.zip"):
        if len(policies) > 1 and path in policies:
            return path
    if len(policies) > 1:
        names = ", ".join(path.name for path in policies[:5])
        raise PolicyError(f"{folder}: this folder holds several policies ({names}); pass the path of one of them")
    return policies[0]


def is_zoo_folder(folder: Path) -> bool:
    """Return whether a folder looks like one of the RL Zoo: a zip, and the zoo's files next to or below it."""
    return folder.is_dir() and any(folder.glob("*.zip")) and _files_folder(folder) is not None


def find_training(policy_path: Path, *, anywhere: bool = False) -> Training | None:
    """Return the training settings of a policy of the RL Zoo, None if there are no files with such settings.

    They are in args.yml, config.yml and env_kwargs.yml, in the policy's folder or in a folder inside it.

    - `policy_path`: the policy's file.
    - `anywhere`: whether the files may lie in any folder next to the policy, because the whole folder belongs to it;
      otherwise only in the folder named after the policy or its environment.
    """
    folder = _files_folder(policy_path.parent) if anywhere else _own_files_folder(policy_path)
    if folder is None:
        return None

    # Missing files are empty tables; entries of an unexpected type count as unknown.
    tables = {name: _read_yaml(folder / name) for name in _FILES if (folder / name).is_file()}
    args, config = tables.get("args.yml", {}), tables.get("config.yml", {})
    arguments = tables.get("env_kwargs.yml") or args.get("env_kwargs") or {}
    if not isinstance(arguments, dict):
        raise PolicyError(f"{folder}: env_kwargs must be a table")
    calls = [*_wrapper_calls(config.get("env_wrapper")), *_wrapper_calls(config.get("vec_env_wrapper"))]
    return Training(
        env_id=args["env"] if isinstance(args.get("env"), str) else None,
        algorithm=args["algo"] if isinstance(args.get("algo"), str) else None,
        env_arguments={str(name): value for name, value in arguments.items()},
        wrappers=tuple(calls),
        frame_stack=max(_whole(config.get("frame_stack")) or 1, 1),
        normalised=_is_normalised(config.get("normalize")) if config else None,  # None: unknown
        seed=_whole(args.get("seed")),
        steps=_whole(config.get("n_timesteps")),
    )


def _files_folder(folder: Path) -> Path | None:
    folders = (
        folder,
        folder / trained_environment(folder),
        *sorted(path for path in folder.iterdir() if path.is_dir()),
    )
    return next((each for each in folders if any((each / name).is_file() for name in _FILES[:2])), None)


def _own_files_folder(policy_path: Path) -> Path | None:
    """Return the folder with the zoo's files of one policy; other programs also write a config.yml."""
    folder = policy_path.parent
    for place in (folder, folder / policy_path.stem, folder / trained_environment(folder)):
        if (place / "args.yml").is_file():
            return place
        try:
            with (place / "config.yml").open("rb") as file:
                begins = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        if _OF_THE_ZOO.search(begins) is not None:
            return place
    return None


def _read_yaml(path: Path) -> dict[str, Any]:
    """Return the contents of a YAML file of the RL Zoo as plain data; empty if it holds no dictionary.

    No Python object that the file names is created, and files made to exhaust memory or time are refused.
    """
    yaml = optional_package("yaml", "hub", "folders of the RL Zoo")

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
        """Loader of plain data and the zoo's ordered dictionaries."""

    def ordered(loader: Any, node: Any) -> dict[Any, Any]:
        # The arguments of the OrderedDict: its pairs of key and value, if any.
        parts = loader.construct_sequence(node, deep=True)
        return dict(parts[0]) if parts else {}

    # The only two Python types that the zoo writes, read as plain dictionaries and lists.
    Loader.add_constructor("tag:yaml.org,2002:python/object/apply:collections.OrderedDict", ordered)
    Loader.add_constructor(
        "tag:yaml.org,2002:python/tuple", lambda loader, node: loader.construct_sequence(node, deep=True)
    )
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise PolicyError(f"{path}: far larger than files of the RL Zoo")
        text = path.read_text(encoding="utf-8")
        if text.count("[") + text.count("{") > _MOST_BRACKETS:  # deep nesting makes the parser very slow
            raise PolicyError(f"{path}: far more brackets than in files of the RL Zoo")
        loaded = yaml.load(text, Loader)
    except yaml.constructor.ConstructorError as error:
        raise PolicyError(f"{path}: it names Python objects, which are not read: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, RecursionError, OSError) as error:
        raise PolicyError(f"{path}: cannot be read as YAML ({type(error).__name__})") from error
    # `_plain` takes one number per value and fails if none is left: in YAML, references can multiply values.
    budget = iter(range(_MOST_VALUES))
    plain = _plain(loaded, path, budget)
    return plain if isinstance(plain, dict) else {}


def _plain(value: Any, path: Path, budget: Iterator[int], depth: int = 0) -> Any:
    """Return a copy of YAML content as data that JSON can hold, without shared or recursive parts."""
    if next(budget, None) is None or depth > 30:
        raise PolicyError(f"{path}: far more values than in files of the RL Zoo")
    if isinstance(value, dict):
        return {str(key): _plain(each, path, budget, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, path, budget, depth + 1) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _wrapper_calls(written: Any) -> list[WrapperCall]:
    """Return the wrappers from a name, a list, or mappings from name to arguments."""
    if isinstance(written, str):
        return [WrapperCall(written)]
    if isinstance(written, dict):
        return [WrapperCall(name, value if isinstance(value, dict) else {}) for name, value in written.items()]
    return [call for each in written for call in _wrapper_calls(each)] if isinstance(written, list) else []


def _is_normalised(written: Any) -> bool:
    """Return whether observations are normalised, from a flag or the arguments of ``VecNormalize``."""
    if isinstance(written, str):
        match = re.search(r"\bnorm_obs\b['\"]?\s*[:=]\s*(True|False)", written[:1000])
        return match is None or match[1] == "True"
    if isinstance(written, dict):
        return bool(written.get("norm_obs", True))
    return bool(written)


def _whole(written: Any) -> int | None:
    if isinstance(written, float) and written.is_integer():
        return int(written)
    return written if isinstance(written, int) and not isinstance(written, bool) else None
