"""Finished parts of a discovery as files, so that a discovery that was stopped can go on.

A discovery draws a sample, searches for maps, screens each of them and proves those that pass. Each of these parts is
saved at once. A discovery with the same settings reads them instead of computing them again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from legible.files import DamagedFileError, read_json, write_json
from legible.records import RecordFormat
from legible.relations.check.answers import Counterexample, Difference, RelationCheck
from legible.relations.discovery.candidates import Candidate
from legible.relations.discovery.sampling import Sample
from legible.relations.discovery.signed_map import SignedMap

T = TypeVar("T")
_FORMAT = RecordFormat(
    (Sample, SignedMap, RelationCheck, Counterexample, Difference),
    made_again={
        # Files have no sets.
        Candidate: lambda candidate: {
            "signed": candidate.map,
            "offsets": candidate.offsets,
            "ignored_features": sorted(candidate.ignored),
            "prices": candidate.prices,
        },
    },
)


def _make_candidate(
    signed: SignedMap,
    offsets: tuple[float, ...],
    ignored_features: tuple[int, ...],
    prices: tuple[tuple[int, float], ...],
) -> Candidate:
    return Candidate(signed, offsets, frozenset(ignored_features), prices)


class Parts:
    """The finished parts of a discovery, by name.

    Parameters
    ----------
    folder
        Where they are kept; None: nowhere.
    key
        Everything that decides the results. Parts with another key are deleted.
    """

    def __init__(self, folder: Path | None = None, key: str = "") -> None:
        self._folder, self._key = folder, key
        self._seconds_before, self._started = 0.0, time.monotonic()
        if folder is not None:
            try:
                self._seconds_before = float(read_json(folder / "run.json", key)["seconds"])
            except (FileNotFoundError, DamagedFileError):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                self._save_seconds()

    @property
    def seconds(self) -> float:
        """Seconds of this run and of those before it, as far as they finished parts."""
        return self._seconds_before + time.monotonic() - self._started

    def once(self, name: str, compute: Callable[[], T], keep_if: Callable[[], bool] = lambda: True) -> T:
        """Return a part that was finished before, or compute it, and save it if `keep_if` is true afterwards."""
        if self._folder is None:
            return compute()
        path = self._folder / f"{name}.npz"
        if path.exists():
            return cast("T", _FORMAT.read(path, self._key, {Candidate: _make_candidate}))
        result = compute()
        if keep_if():
            _FORMAT.write(path, result, self._key)
            self._save_seconds()
        return result

    def remove(self) -> None:
        """Delete all parts: the discovery is complete."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _save_seconds(self) -> None:
        assert self._folder is not None
        write_json(self._folder / "run.json", {"seconds": self.seconds}, self._key)
