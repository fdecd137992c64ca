"""Folders of the RL Zoo: which file is the policy, and how it was trained, read from YAML as data.

- `find_training`: what ``args.yml`` and ``config.yml`` beside a policy say.
- `policy_in_folder`: the policy of a folder.
- `Training`: environment, algorithm, wrappers, frames that are stacked.

The zoo's files name Python classes in YAML tags. Only ``OrderedDict`` and tuples are understood, as plain data; a file
with any other tag is refused by the tag's name. Wrappers are names, nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legible.imports import optional_package
from legible.policies.protocol import PolicyError

_MOST_BYTES = 2**20
_FILES = ("args.yml", "config.yml", "env_kwargs.yml")

_KNOWN_WRAPPERS = {
    "TimeFeatureWrapper": "the time that is left is the last number of the observation",
    "AtariWrapper": "pictures of Atari games, grey and 84 by 84",
    "HistoryWrapper": "the last observations and actions are part of the observation",
    "FrameSkip": "an action is repeated",
    "FlatObsWrapper": "the observation is one row of numbers",
    "FlattenObservation": "the observation is one row of numbers",
    "ResizeObservation": "pictures are made smaller",
    "GrayScaleObservation": "pictures are grey",
    "RescaleAction": "actions are rescaled",
    "Monitor": "returns are recorded",
}


@dataclass(frozen=True)
class Training:
    """How a policy of the RL Zoo was trained, as far as its files say.

    Parameters
    ----------
    env_id, algorithm
        As the command that trained it named them.
    env_arguments
        Arguments of the environment.
    wrappers
        Full names of the wrappers around the environment, innermost first.
    frame_stack
        How many observations are stacked into one; 1 when none are.
    normalised
        Whether observations were normalised; None when the files do not say.
    seed, steps
        Of the training.
    """

    env_id: str | None = None
    algorithm: str | None = None
    env_arguments: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    frame_stack: int = 1
    normalised: bool | None = None
    seed: int | None = None
    steps: int | None = None

    @property
    def unknown_wrappers(self) -> tuple[str, ...]:
        """Wrappers that are none of the known ones: what they do to observations cannot be said."""
        return tuple(name for name in self.wrappers if name.rpartition(".")[2] not in _KNOWN_WRAPPERS)


def policy_in_folder(folder: Path) -> Path:
    """Return the policy of a folder of the RL Zoo: that of the environment's name, else the only or the best one.

    Raises
    ------
    PolicyError
        When there is none, or several that could be meant.
    """
    found = sorted(path for path in folder.glob("*.zip") if not path.name.startswith("train_eval"))
    environment = re.sub(r"_\d+$", "", folder.resolve().name)
    for path in found:
        if path.stem == environment:
            return path
    if len(found) == 1:
        return found[0]
    best = folder / "best_model.zip"
    if best in found:
        return best
    if not found:
        raise PolicyError(f"{folder}: there is no .zip of a policy in this folder")
    raise PolicyError(
        f"{folder}: several policies are in this folder ({', '.join(path.name for path in found[:5])}); name one of "
        "them"
    )


def is_zoo_folder(folder: Path) -> bool:
    """Return whether a folder looks like one of the RL Zoo: a zip, and the zoo's files beside or below it."""
    return folder.is_dir() and any(folder.glob("*.zip")) and _files_folder(folder) is not None


def find_training(policy_path: Path) -> Training | None:
    """Return how a policy was trained, from the zoo's files beside it or in a folder beside it; None without any.

    Raises
    ------
    PolicyError
        When a file is damaged or names Python objects.
    """
    folder = _files_folder(policy_path.parent)
    if folder is None:
        return None
    said = {name: _read_yaml(folder / name) for name in _FILES if (folder / name).is_file()}
    args, config = said.get("args.yml", {}), said.get("config.yml", {})
    arguments = said.get("env_kwargs.yml") or args.get("env_kwargs") or {}
    return Training(
        env_id=_text(args.get("env")),
        algorithm=_text(args.get("algo")),
        env_arguments=arguments if isinstance(arguments, dict) else {},
        wrappers=tuple(_wrapper_names(config.get("env_wrapper"))),
        frame_stack=_whole(config.get("frame_stack")) or 1,
        normalised=_is_normalised(config.get("normalize")) if config else None,
        seed=_whole(args.get("seed")),
        steps=_whole(config.get("n_timesteps")),
    )


def _files_folder(folder: Path) -> Path | None:
    environment = re.sub(r"_\d+$", "", folder.resolve().name)
    for place in (folder, folder / environment, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if any((place / name).is_file() for name in _FILES[:2]):
            return place
    return None


def _read_yaml(path: Path) -> dict[str, Any]:
    yaml = optional_package("yaml", "hub", "folders of the RL Zoo")

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
        """Reads plain data, and the zoo's ordered dictionaries as such."""

    def ordered(loader: Any, node: Any) -> dict[Any, Any]:
        parts = loader.construct_sequence(node, deep=True)
        return dict(parts[0]) if parts else {}

    Loader.add_constructor("tag:yaml.org,2002:python/object/apply:collections.OrderedDict", ordered)
    Loader.add_constructor(
        "tag:yaml.org,2002:python/tuple", lambda loader, node: loader.construct_sequence(node, deep=True)
    )
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise PolicyError(f"{path}: far larger than such a file can be")
        said = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except yaml.constructor.ConstructorError as error:
        raise PolicyError(f"{path}: it names Python objects, which are not read: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, RecursionError, OSError) as error:
        raise PolicyError(f"{path}: cannot be read as YAML ({type(error).__name__})") from error
    return {str(key): value for key, value in said.items()} if isinstance(said, dict) else {}


def _wrapper_names(written: Any) -> list[str]:
    """Return the names of wrappers, written as a name, a list, or mappings from name to arguments."""
    if isinstance(written, str):
        return [written]
    if isinstance(written, dict):
        return [str(name) for name in written]
    return [name for each in written for name in _wrapper_names(each)] if isinstance(written, list) else []


def _is_normalised(written: Any) -> bool:
    """Whether observations are normalised: yes, no, or the arguments of ``VecNormalize`` as text."""
    if isinstance(written, str):
        try:
            written = ast.literal_eval(written[:1000])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return True
    if isinstance(written, dict):
        return bool(written.get("norm_obs", True))
    return bool(written)


def _text(written: Any) -> str | None:
    return written if isinstance(written, str) else None


def _whole(written: Any) -> int | None:
    if isinstance(written, float) and written.is_integer():
        return int(written)
    return written if isinstance(written, int) and not isinstance(written, bool) else None
