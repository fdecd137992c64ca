"""Rounds of a distillation on disk: one that was stopped goes on after its last whole round.

- `DistillationCheckpoint`: the folder, which its maker removes when the network is written.
- `SavedRound`: what a round left.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation.units import UnitResult
from legible.files import DamagedFileError, read_arrays, read_json, write_arrays, write_json

Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class SavedRound:
    """What a round left: all that the next one needs, and how far it was.

    Parameters
    ----------
    weights
        Of the network.
    moments
        Adam's: first and second moments of every weight.
    returns
        Of the held-out episodes; NaN where one failed.
    agreement
        Share of the states of these episodes in which the network does what the guided policy would.
    steps
        Environment steps that were played so far, held-out episodes included.
    """

    weights: Arrays
    moments: tuple[Arrays, Arrays]
    returns: NDArray[np.float64]
    agreement: float
    steps: int

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays, for a file."""
        columns = {"weight": self.weights, "first": self.moments[0], "second": self.moments[1]}
        named = {f"{name}.{i}": array for name, arrays in columns.items() for i, array in enumerate(arrays)}
        return {
            **named,
            "returns": self.returns,
            "agreement": np.array(self.agreement),
            "steps": np.array(self.steps),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> SavedRound:
        """Make it from what `to_arrays` returned."""
        count = sum(name.startswith("weight.") for name in arrays)
        weights, first, second = (
            [arrays[f"{name}.{i}"] for i in range(count)] for name in ("weight", "first", "second")
        )
        return cls(weights, (first, second), arrays["returns"], float(arrays["agreement"]), int(arrays["steps"]))


class DistillationCheckpoint:
    """A folder with the rounds of one distillation.

    Parameters
    ----------
    folder
        Where; None keeps nothing.
    key
        Says which distillation it is: of which guided policy, with which settings.
    force
        Whether a folder of another distillation is emptied instead of refused.
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
                f"{folder}: holds what is left of another distillation; give the command that began it again, delete "
                "the folder, or use --force."
            )

    def _is_mine(self, folder: Path) -> bool:
        try:
            return bool(read_json(folder / "distillation.json").get("key") == self._key)
        except (OSError, DamagedFileError):
            return False

    def rounds(self) -> list[SavedRound]:
        """Return the rounds that are whole, in their order."""
        found: list[SavedRound] = []
        while (arrays := self._read(f"round-{len(found) + 1:03}")) is not None:
            found.append(SavedRound.from_arrays(arrays))
        return found

    def save_round(self, number: int, saved: SavedRound) -> None:
        """Keep a round; the first is number 1."""
        self._write(f"round-{number:03}", saved.to_arrays())

    def result(self, name: str) -> UnitResult | None:
        """Return episodes of the quoted figures, None where they have not been played."""
        arrays = self._read(f"final-{name}")
        return None if arrays is None else UnitResult.from_arrays(arrays)

    def save_result(self, name: str, result: UnitResult) -> None:
        """Keep episodes of the quoted figures."""
        self._write(f"final-{name}", result.to_arrays())

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
