"""The folder of a study: its files, its lock, and checks that the files are unchanged.

A folder is data: opening one never runs code that its files name, unless the person who opens it trusts it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar

from filelock import FileLock, Timeout
from numpy.typing import NDArray

from legible.environments import EnvironmentSpec, refuse_named_code
from legible.errors import LegibleError
from legible.evaluation.units import RETURNS, Kept, R
from legible.features import FeatureSpace
from legible.files import DamagedFileError, read_arrays, read_json, sha256_of, write_arrays, write_json
from legible.settings import StudySettings
from legible.study.fingerprint import is_same_behaviour

SCHEMA = 4
BEHAVIOUR = "policy and environment"
RULES_FROM = "rules from"
"""Key of study.json for the other policies and studies whose rules are tested."""
# What study.json says, and what each entry is.
_KEPT: Mapping[str, type] = {
    **{"environment": str, "arguments": dict, "wrappers": list, BEHAVIOUR: str, "seed": int},
    **{"settings": dict, "names": object, "relations": list, "rules": list, "veto": list, "about": dict},
    RULES_FROM: object,
}
_ABOUT: Mapping[str, type] = {
    **{"policy": str, "policy file": object, "lost arguments": list, "versions": dict, "id": str, "files": dict},
}
# Claiming a folder takes moments; another process waits at most this long for it.
CLAIMING_SECONDS = 20.0


class Stored(Protocol):
    """A result that is kept as arrays."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what `to_arrays` returned."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""


S = TypeVar("S", bound=Stored)


class UnitFiles(MutableMapping[str, S]):
    """Results of units as files of a folder, one each; every file carries its key and a checksum."""

    def __init__(self, folder: Path, kind: type[S]) -> None:
        self._folder, self._kind = folder, kind

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._path(key).exists()

    def __getitem__(self, key: str) -> S:
        path = self._path(key)
        advice = "delete it and run the study again"
        try:
            arrays = read_arrays(path, key, advice)
        except FileNotFoundError:
            raise KeyError(key) from None
        try:
            return self._kind.from_arrays(arrays)
        except (KeyError, TypeError, ValueError) as error:
            missing = f"no {error}" if isinstance(error, KeyError) else error
            raise DamagedFileError(f"{path}: is damaged ({missing}); {advice}.") from error

    def __setitem__(self, key: str, result: S) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_arrays(self._path(key), result.to_arrays(), key)

    def __delitem__(self, key: str) -> None:
        self._path(key).unlink()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self._folder.glob("*.npz"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class StudyFolder:
    """The folder of one study, which may not exist yet."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.units = self.results(RETURNS)
        self._file_lock = FileLock(self.path / "lock", timeout=0)

    def results(self, kept: Kept[R]) -> UnitFiles[R]:
        """Return what was kept of units."""
        return UnitFiles(self.path / kept.name, kept.kind)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def holds_study(self) -> bool:
        """True if there is a study in the folder."""
        return (self.path / "study.json").is_file()

    @contextmanager
    def lock(self, wait_seconds: float = 0.0) -> Iterator[None]:
        """Keep other processes from working in the folder; a dead one holds nothing. Can be nested."""
        first = not self._file_lock.is_locked
        try:
            self._file_lock.acquire(timeout=wait_seconds)
        except Timeout:
            raise LegibleError(f"{self.path}: another process is working on this study; wait until it ends.") from None
        except OSError as error:
            raise LegibleError(f"{self.path / 'lock'}: cannot be written ({error.strerror}).") from error
        try:
            if first:
                for part in self.path.rglob("*.part"):  # what a killed process was just writing
                    part.unlink(missing_ok=True)
            yield
        finally:
            self._file_lock.release()

    def read(self) -> dict[str, Any]:
        """Return the content of ``study.json``: inputs and settings of the study; refuse a damaged or older file."""
        path = self.path / "study.json"
        try:
            content = read_json(path, advice="use another folder")
        except FileNotFoundError:
            reason = "" if self.path.is_dir() else " (there is no such folder)"
            raise LegibleError(
                f"{self.path}: holds no study{reason}; 'legible run ENV POLICY --out {self.path}' makes one."
            ) from None
        # The schema is the version of the folder's layout.
        schema = content.get("schema", 1)
        if schema != SCHEMA:
            raise LegibleError(
                f"{path}: was written by another version of legible (schema {schema!r}, this one reads {SCHEMA}); make "
                "the study again in another folder."
            )
        # Check the type of every entry: the file may come from somebody else.
        _check_entries(content, _KEPT, path)
        _check_entries(content["about"], _ABOUT, path)
        rule_sources = content[RULES_FROM]
        if not isinstance(rule_sources, list) or not all(isinstance(source, dict) for source in rule_sources):
            excerpt = str(rule_sources)[:80]
            raise LegibleError(f"{path}: is damaged ({RULES_FROM!r} is {excerpt!r}); use another folder.")
        # Settings that are newer than the file get their defaults.
        content["settings"] = StudySettings.from_dict(content["settings"], str(path)).to_dict()
        return content

    def claim(
        self, identity: Mapping[str, Any], about: Mapping[str, Any], write_files: Callable[[Path], Sequence[Path]]
    ) -> dict[str, Any]:
        """Make the folder of a study, or check that it belongs to this study; return the content of ``study.json``.

        Parameters
        ----------
        identity
            Plain data that defines the study, such as policy, environment and settings. If the folder holds a study
            with other data, an error says what differs, so that results are never mixed.
        about
            Further facts about the study, such as versions of packages.
        write_files
            Writes the files that the study is made from, and returns their paths. ``study.json`` is written last, so
            all files are there if it exists.
        """
        if self.holds_study:
            return self._compare(identity)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LegibleError(f"{self.path}: cannot be made ({error.strerror}).") from error
        with self.lock(CLAIMING_SECONDS):
            if self.holds_study:  # another process was faster
                return self._compare(identity)
            checksums = {str(path.relative_to(self.path)): sha256_of(path) for path in write_files(self.path)}
            # The id marks every result file of this study; checksums show later whether an input was exchanged.
            study_id = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
            document = {"schema": SCHEMA, **identity, "about": {**about, "id": study_id, "files": checksums}}
            write_json(self.path / "study.json", document)
            return document

    def _compare(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        kept = self.read()
        now = json.loads(json.dumps(identity))
        # The share of episodes that may fail decides whether a study continues, not its results.
        before, kept["settings"]["most_failed"] = kept["settings"]["most_failed"], now["settings"]["most_failed"]
        changed = _differences({key: kept.get(key) for key in now}, now)
        if changed:
            raise LegibleError(
                f"{self.path}: holds a study with other settings ({'; '.join(changed[:4])}). Choose another folder "
                "(--out), or repeat the settings of this study."
            )
        if before != kept["settings"]["most_failed"]:
            with self.lock(CLAIMING_SECONDS):
                write_json(self.path / "study.json", kept)
        return kept

    def with_rules(self, texts: Sequence[str], entry: Literal["rules", "veto"] = "rules") -> dict[str, Any]:
        """Add rules of the user's own to ``study.json``; return what it says then. The lock must be held."""
        kept = self.read()
        kept[entry] = [*kept[entry], *texts]
        write_json(self.path / "study.json", kept)
        return kept

    def check_files(self, kept: Mapping[str, Any]) -> None:
        """Check that the files that the study was made from are unchanged."""
        for name, checksum in kept["about"]["files"].items():
            path = self.path / name
            try:
                found = sha256_of(path)
            except OSError as error:
                raise DamagedFileError(f"{path}: cannot be read ({error.strerror}); the study needs it.") from error
            if found != checksum:
                raise DamagedFileError(
                    f"{path}: is damaged (its content is not what was written); make the study again in another folder."
                )


def _check_entries(document: Mapping[str, Any], expected: Mapping[str, type], path: Path) -> None:
    for name, kind in expected.items():
        if name not in document:
            raise LegibleError(f"{path}: is damaged or of an older version (no {name!r}); use another folder.")
        value = document[name]
        is_kind = isinstance(value, kind) and not isinstance(value, bool)
        if not is_kind or (kind is list and not all(isinstance(item, str) for item in value)):
            raise LegibleError(f"{path}: is damaged ({name!r} is {str(value)[:80]!r}); use another folder.")


def environment_of(kept: Mapping[str, Any], folder: Path, *, trust: bool) -> EnvironmentSpec:
    """Return the environment that a folder names, unless that would import what the folder chose.

    Environments that installed packages or legible register with Gymnasium need no trust. A factory, a module
    that registers an id, or a wrapper is code by a name that somebody wrote into the folder (see
    `EnvironmentSpec.named_code`); it needs ``trust=True``, on the command line ``--trust``.
    """
    lost = kept["about"]["lost arguments"]
    if lost:
        raise LegibleError(
            f"{folder}: the environment's argument {lost[0]!r} cannot be kept in a file; make the study again, with "
            "the same arguments, to continue it."
        )
    spec = EnvironmentSpec(kept["environment"], kept["arguments"], tuple(kept["wrappers"]))
    refuse_named_code(spec, str(folder), trust=trust)
    return spec


def names_text(names: FeatureSpace) -> str:
    """Return names of features and actions as the content of a study's ``names.json``."""
    return json.dumps(names.to_dict(), indent=1) + "\n"


def read_kept_names(path: Path) -> FeatureSpace:
    """Read what `names_text` wrote."""
    document = read_json(path, advice="make the study again in another folder")
    return FeatureSpace.from_dict(document, str(path))


def survives_json(value: Any) -> bool:
    """Return whether a value is the same after it was written as JSON and read again."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Return the differences of two pieces of plain data in words, leaf by leaf."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(set(before) | set(now))
        return [
            difference
            for key in keys
            for difference in _differences(before.get(key), now.get(key), f"{where}.{key}".lstrip("."))
        ]
    if before == now:
        return []
    if where == BEHAVIOUR:
        same = is_same_behaviour(str(before), str(now))
        return [] if same else ["the policy or the environment behaves differently now"]
    if where in {"relations", "names"}:
        return [f"the {where} differ"]
    return [f"{where} was {before!r}, is now {now!r}"]
