"""Rounds of a distillation on disk: a stopped one resumes after its last complete round.

- `DistillationCheckpoint`: the folder, which the caller removes when the network is written.
- `SavedRound`: the state after a round.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation.units import UnitResult
from legible.files import DamagedFileError, read_arrays, read_json, write_arrays, write_json
from legible.schemas import ROUND, check_arrays

Arrays = list[NDArray[Any]]
_M = TypeVar("_M", "SavedRound", UnitResult)


@dataclass(frozen=True)
class SavedRound:
    """The state after a round, and the results of its held-out episodes."""

    weights: Arrays
    moments: tuple[Arrays, Arrays]  # Adam's first and second moments of every weight
    returns: NDArray[np.float64]  # of the held-out episodes; NaN where one failed
    agreement: float  # share of their states in which the network takes the action of the guided policy
    steps: int  # environment steps so far, including held-out episodes

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the round as arrays, for a file."""
        columns = {"weight": self.weights, "first": self.moments[0], "second": self.moments[1]}
        named = {f"{name}.{i}": array for name, arrays in columns.items() for i, array in enumerate(arrays)}
        numbers = {"agreement": np.array(self.agreement), "steps": np.array(self.steps)}
        return {**named, "returns": self.returns, **numbers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> SavedRound:
        """Return the round of the arrays that `to_arrays` returned."""
        check_arrays(arrays, ROUND)
        places = range(sum(name.startswith("weight.") for name in arrays))
        weights, first, second = ([arrays[f"{name}.{i}"] for i in places] for name in ("weight", "first", "second"))
        for of_one in zip(weights, first, second, strict=True):
            if any(a.dtype != np.float32 or a.shape != of_one[0].shape or not np.isfinite(a).all() for a in of_one):
                raise ValueError("weights do not fit their moments, or are no numbers")
        return cls(weights, (first, second), arrays["returns"], float(arrays["agreement"]), int(arrays["steps"]))


class DistillationCheckpoint:
    """A folder with the rounds of one distillation; without a folder, nothing is saved.

    The key is a digest of the guided policy and the settings. With `force`, a folder of another distillation is emptied
    instead of refused.
    """

    def __init__(self, folder: Path | None, key: str, *, force: bool = False) -> None:
        self._folder, self._key = folder, key
        if folder is None:
            return
        if force and not self._is_mine(folder):
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir()):
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / "distillation.json", {"key": key})
        if not self._is_mine(folder):
            raise LegibleError(
                f"{folder}: belongs to another distillation that was stopped; repeat its command, delete the folder, "
                "or use --force."
            )

    def _is_mine(self, folder: Path) -> bool:
        try:
            return bool(read_json(folder / "distillation.json").get("key") == self._key)
        except (OSError, DamagedFileError):
            return False

    def rounds(self) -> list[SavedRound]:
        """Return the complete rounds, in order."""
        rounds: list[SavedRound] = []
        while (arrays := self._read(f"round-{len(rounds) + 1:03}")) is not None:
            rounds.append(self._made(SavedRound, arrays, f"round-{len(rounds) + 1:03}"))
        return rounds

    def save_round(self, number: int, saved: SavedRound) -> None:
        """Save a round; the first is number 1."""
        self._write(f"round-{number:03}", saved.to_arrays())

    def result(self, name: str) -> UnitResult | None:
        """Return episodes of the final evaluation, None where they have not been played."""
        arrays = self._read(f"final-{name}")
        return None if arrays is None else self._made(UnitResult, arrays, f"final-{name}")

    def save_result(self, name: str, result: UnitResult) -> None:
        """Save episodes of the final evaluation."""
        self._write(f"final-{name}", result.to_arrays())

    def _made(self, kind: type[_M], arrays: Mapping[str, NDArray[Any]], name: str) -> _M:
        try:
            return kind.from_arrays(arrays)
        except (KeyError, TypeError, ValueError) as error:
            assert self._folder is not None
            raise DamagedFileError(f"{self._folder / name}.npz: is damaged ({error}); delete it.") from error

    def _read(self, name: str) -> dict[str, NDArray[Any]] | None:
        if self._folder is None:
            return None
        try:
            return read_arrays(self._folder / f"{name}.npz", self._key)
        except FileNotFoundError:
            return None

    def _write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self._folder is not None:
            write_arrays(self._folder / f"{name}.npz", arrays, self._key)
