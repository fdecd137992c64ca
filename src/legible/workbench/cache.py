"""Played units that are kept between commands (`UnitCache`), so that another rule for a policy need not replay them."""

from __future__ import annotations

import hashlib
import inspect
import os
import tempfile
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import legible
from legible.environments import EnvironmentSpec
from legible.evaluation.units import Kept, R
from legible.policies import Policy
from legible.study import UnitFiles
from legible.study.inputs import write_policy

MOST_BYTES = 2_000_000_000
"""Size of the cache; beyond it the oldest units are deleted."""
LARGEST_UNIT = 64_000_000
_VARIABLE = "LEGIBLE_CACHE"


def cache_folder() -> Path:
    """Return the folder of the cache: the variable LEGIBLE_CACHE, or the user's folder for caches."""
    given = os.environ.get(_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "legible" / "units"


def prune_cache(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Delete the oldest units if the cache is too large."""
    with suppress(OSError):
        files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in folder.rglob("*.npz"))
        left = sum(size for _, size, _ in files)
        for _, size, path in files:
            if left <= most_bytes:
                break
            path.unlink(missing_ok=True)
            left -= size


def content_key(policy: Policy, source: str, environment: EnvironmentSpec) -> str | None:
    """Return a key under which played episodes are kept, or None where a changed policy would go unnoticed.

    The key is a digest of the policy (the weights of a network, or the file of any other kind of policy) and of the
    module of the environment's class: changing any of them changes the key. A policy that is code has no key.

    `source` is the path that the policy was loaded from; "" if there is none.
    """
    digest = hashlib.sha256(f"{legible.__version__} {environment!r}".encode())
    env = environment.make()
    try:
        inner_env: Any = env.unwrapped
        # In a game of several agents, the game and the policies of the other agents count, too.
        game, players = getattr(inner_env, "game", None), getattr(inner_env, "players", {})
        others = [player.policy for player in players.values() if hasattr(player, "policy")]
        # Nothing is added for a policy that is code; then there is no key.
        if not _add_content(digest, policy, source) or not all(_add_content(digest, other, "") for other in others):
            return None
        classes = [type(inner_env)] if game is None else [type(inner_env), type(game.unwrapped)]
        for environment_class in classes:
            with suppress(OSError, TypeError):  # a class of a notebook has no file: its changes go unnoticed
                digest.update(Path(inspect.getfile(environment_class)).read_bytes())
    finally:
        env.close()
    return digest.hexdigest()[:32]


def _add_content(digest: hashlib._Hash, policy: Policy, source: str) -> bool:
    """Add the content of a policy to a digest, as weights or as the file `source`; return False where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "policy.safetensors")
        file = written if write_policy(policy, written) else Path(source)
        if not file.is_file():
            return False
        digest.update(file.read_bytes())
    return True


class UnitCache(MutableMapping[str, R]):
    """Units of one kind: written to a folder, and read from it and from others.

    Parameters
    ----------
    kept
        Data that is kept of a unit.
    folder
        Where units are written; None keeps them in memory.
    others
        Further folders that are only read, such as the folder of a study.
    """

    def __init__(self, kept: Kept[R], folder: Path | None, others: Sequence[Path] = ()) -> None:
        self._own = None if folder is None else UnitFiles(folder / kept.name, kept.kind)
        read_only = [UnitFiles(other / kept.name, kept.kind) for other in others]
        self._files = read_only if self._own is None else [self._own, *read_only]
        self._memory: dict[str, R] = {}
        self._fresh: dict[str, R] = {}
        self._written: set[str] = set()
        self.reused = 0

    def __contains__(self, key: object) -> bool:
        return key in self._memory or any(key in files for files in self._files)

    def __getitem__(self, key: str) -> R:
        if key in self._memory:
            return self._memory[key]
        if key in self._fresh:
            return self._fresh.pop(key)
        for files in self._files:
            if key in files:
                self.reused += key not in self._written
                return files[key]
        raise KeyError(key)

    def __setitem__(self, key: str, result: R) -> None:
        size = sum(array.nbytes for array in result.to_arrays().values())
        if self._own is None or size > LARGEST_UNIT:
            self._memory[key] = result
            return
        try:
            self._own[key] = result
            self._written.add(key)
            self._fresh[key] = result  # it is read once, right after it was played
        except OSError:  # a full or read-only disk must not stop a command
            self._memory[key] = result

    def __delitem__(self, key: str) -> None:
        self._fresh.pop(key, None)
        if key in self._memory:
            del self._memory[key]
        elif self._own is not None:
            del self._own[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._memory
        for files in self._files:
            yield from files

    def __len__(self) -> int:
        return sum(1 for _ in self)
