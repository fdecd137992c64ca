"""Plans of tables as data: policies and settings in a studies file, the table itself in another.

A studies file (``pacman.toml``) names rows of policies, the settings of their studies, and the modes in which each is
run::

    seeds = [0, 1, 2, 3, 4]
    preset = "paper"
    [settings.evaluation]
    episodes = 250
    [modes.greedy]
    [modes."epsilon 0.05"]
    play.epsilon = 0.05
    baselines = false
    [[row]]
    name = "small"
    environment = "legible/PacmanSmall-v0"
    policy = "zoo:PacmanSmall/dqn/{seed}"
    extended = "zoo:PacmanSmall/dqn/{seed}-extended"

A table file (``table1.toml``) says which studies it is made from, its kind, and the paper's own figures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from lab.reproduction.baselines import RANDOM_TESTS
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError, did_you_mean
from legible.settings import PRESETS, StudySettings, read_settings_file

Kind = Literal["weaknesses", "improvement", "groups"]


@dataclass(frozen=True)
class Row:
    """One environment and algorithm: the policies of all seeds.

    Parameters
    ----------
    name
        Of the row in the paper's table.
    environment, arguments
        The environment.
    policy, extended
        Path patterns with ``{seed}``; `extended` are the policies that were trained for longer, if there are any.
    known_rule
        A rule of the paper's own that is looked for, as text; "" for none.
    """

    name: str
    environment: str
    policy: str
    extended: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    known_rule: str = ""

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment."""
        return EnvironmentSpec(self.environment, dict(self.arguments))


@dataclass(frozen=True)
class Mode:
    """A way to study policies: the settings, and whether random tests and random rules are run, too."""

    settings: StudySettings
    baselines: bool = True
    random_tests: int = RANDOM_TESTS


@dataclass(frozen=True)
class Job:
    """One policy in one mode: one study, one record."""

    row: Row
    seed: int
    mode: str
    settings: StudySettings
    baselines: bool = True
    random_tests: int = RANDOM_TESTS

    @property
    def policy(self) -> str:
        """Path of the policy."""
        return self.row.policy.format(seed=self.seed)

    @property
    def extended(self) -> str:
        """Path of the policy that was trained for longer, or ""."""
        return self.row.extended.format(seed=self.seed)

    @property
    def name(self) -> str:
        """Name of the job's files."""
        return re.sub(r"[^\w.]+", "-", f"{self.row.name}-{self.seed}-{self.mode}")


@dataclass(frozen=True)
class StudiesPlan:
    """The policies that tables are made from, and how they are studied."""

    name: str
    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    modes: Mapping[str, Mode]

    def jobs(self) -> list[Job]:
        """Return everything there is to run: mode by mode, row by row."""
        return [
            Job(row, seed, name, mode.settings, mode.baselines, mode.random_tests)
            for name, mode in self.modes.items()
            for row in self.rows
            for seed in self.seeds
        ]

    def scaled(self, scale: float) -> StudiesPlan:
        """Return the plan with all numbers of episodes, tests and seeds multiplied, for a quick look."""
        if not 0.0 < scale <= 1.0:
            raise LegibleError(f"scale must be above 0 and at most 1, got {scale}.")
        if scale == 1.0:
            return self
        seeds = self.seeds[: max(1, round(scale * len(self.seeds)))]
        modes = {
            name: replace(
                mode,
                settings=scaled_settings(mode.settings, scale),
                random_tests=max(1, round(scale * mode.random_tests)),
            )
            for name, mode in self.modes.items()
        }
        return replace(self, seeds=seeds, modes=modes)

    @classmethod
    def load(cls, path: str | Path) -> StudiesPlan:
        """Read a studies file."""
        path = Path(path)
        data = _read(path, ("seeds", "preset", "settings", "modes", "row"))
        preset = data.get("preset", "paper")
        if preset not in PRESETS:
            raise LegibleError(f"{path}: there is no preset {preset!r}.{did_you_mean(preset, list(PRESETS))}")
        base = _merge(asdict(PRESETS[preset]()), data.get("settings", {}))
        modes = {
            name: _mode(base, changes, f"{path}: modes.{name}")
            for name, changes in data.get("modes", {"greedy": {}}).items()
        }
        rows = tuple(_entry(Row, entry, f"{path}: row") for entry in data.get("row", ()))
        return cls(path.stem, rows, tuple(data.get("seeds", range(5))), modes)


@dataclass(frozen=True)
class TablePlan:
    """One table of the paper.

    Parameters
    ----------
    name, title
        Of the table.
    kind
        Its columns: shares of detected "weaknesses", "improvement" of returns, or shares of rules that speak
        of "groups" of features.
    studies
        Files of the studies that it is made from, relative to the table's folder; several stand side by side.
    paper
        The paper's figures: row → column → number.
    modes
        Those of the studies that it shows; empty for all.
    """

    name: str
    title: str
    kind: Kind
    studies: Mapping[str, str] = field(hash=False)
    paper: Mapping[str, Mapping[str, float]] = field(hash=False)
    modes: Sequence[str] = ()
    folder: Path = Path()

    @classmethod
    def load(cls, path: str | Path) -> TablePlan:
        """Read a table file."""
        path = Path(path)
        data = _read(path, ("title", "kind", "studies", "paper", "modes"))
        made: TablePlan = _entry(cls, {"name": path.stem, "folder": path.parent, **data}, str(path))
        if made.kind not in get_args(Kind):
            raise LegibleError(f"{path}: kind {made.kind!r} must be one of {', '.join(get_args(Kind))}.")
        return made

    def plans(self) -> dict[str, StudiesPlan]:
        """Return the studies by their label."""
        return {label: StudiesPlan.load(self.folder / file) for label, file in self.studies.items()}


def find_tables(folder: str | Path) -> dict[str, Path]:
    """Return the table files of a folder, by name."""
    found = {path.stem: path for path in sorted(Path(folder).glob("table*.toml"))}
    if not found:
        raise LegibleError(
            f"{folder}: holds no table files (table1.toml …). They are in the folder 'experiments' of a clone of "
            "legible; run the command there, or name the folder with --experiments."
        )
    return found


def scaled_settings(settings: Any, scale: float) -> Any:
    """Multiply every number of episodes in settings."""
    changes: dict[str, Any] = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if is_dataclass(value):
            changes[entry.name] = scaled_settings(value, scale)
        elif entry.name.endswith("episodes") and entry.name != "unit_episodes" and value:
            changes[entry.name] = max(2, round(scale * value))
    return replace(settings, **changes)


def _read(path: Path, known: tuple[str, ...]) -> dict[str, Any]:
    data = read_settings_file(path)
    _check_entries(data, known, str(path))
    return data


def _check_entries(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in data:
        if key not in known:
            raise LegibleError(f"{where}: there is no entry {key!r}.{did_you_mean(key, known)}")


def _entry(kind: type[Any], data: Mapping[str, Any], where: str) -> Any:
    _check_entries(data, [entry.name for entry in fields(kind)], where)
    for entry in fields(kind):
        if entry.name not in data and entry.default is MISSING and entry.default_factory is MISSING:
            raise LegibleError(f"{where}: the entry {entry.name!r} is missing.")
    return kind(**data)


def _mode(base: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> Mode:
    own = dict(changes)
    baselines = own.pop("baselines", True)
    if not isinstance(baselines, bool):
        raise LegibleError(f"{where}: baselines must be true or false, got {baselines!r}.")
    return Mode(StudySettings.from_dict(_merge(base, own), where), baselines)


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings with some of them replaced."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
