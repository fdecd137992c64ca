"""All settings of a study, its presets, and its settings file.

- `StudySettings`: all of them; `StudySettings.paper` and `StudySettings.quick` are presets.
- `all_settings`: every setting with its name, type, default and help, for whoever makes options or documents of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from legible.settings.sections import (
    FEWEST_CHANGES,
    MOST_FAILED,
    SINGLE_ALIKE,
    SINGLE_BATCH,
    SINGLE_COMPOSING,
    SINGLE_STEPS,
    SINGLE_UNIT,
    DistillationSettings,
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    MistakeSettings,
    PlaySettings,
    ReferenceSettings,
    SearchSettings,
)
from legible.settings.values import SettingsError, from_dict, merged, toml_value


@dataclass(frozen=True)
class StudySettings:
    """Every number of a study."""

    episodes: Annotated[int, "Episodes from which rules are mined."] = 600
    time_limit: Annotated[
        float, "Seconds after which a unit of episodes is given up, for environments that hang (0: never)."
    ] = 0.0
    most_failed: Annotated[
        float,
        "Largest share of failed episodes per stage (errors, rewards that are not numbers, hangs); above it the "
        "study stops. Failed episodes count as the worst return.",
    ] = MOST_FAILED
    sources: Annotated[
        str,
        'Sources of the rule sets that are tested, separated by commas. "mined": mined rules with their related '
        'forms, as in the paper. "alone": mined rules without them. "searched": rules that the policy does not follow, '
        'found by trying. "mistakes": rules learned from single mistakes. "others": rules of other policies and '
        'studies. "yours": your own rules.',
    ] = "mined,alone,searched,others,yours"
    mining: MiningSettings = field(default_factory=MiningSettings)
    play: PlaySettings = field(default_factory=PlaySettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    improvement: ImprovementSettings = field(default_factory=ImprovementSettings)
    references: ReferenceSettings = field(default_factory=ReferenceSettings)
    mistakes: MistakeSettings = field(default_factory=MistakeSettings)

    def __post_init__(self) -> None:
        if self.episodes < 2:
            raise SettingsError(f"episodes must be at least 2, to learn rules and to judge them, got {self.episodes}.")
        if not self.time_limit >= 0:
            raise SettingsError(f"time_limit cannot be negative, got {self.time_limit}.")
        if not 0.0 <= self.most_failed < 1.0:
            raise SettingsError(f"most_failed is a share from 0 up to but not including 1, got {self.most_failed}.")

    @classmethod
    def paper(cls) -> StudySettings:
        """The paper's settings, and the authors' own where it is silent."""
        return cls(
            sources="mined,yours",
            mining=MiningSettings.paper(),
            evaluation=EvaluationSettings(method="paper", relevant="0"),
            improvement=ImprovementSettings(episodes=1000, candidates="weaknesses", order="negative-first"),
            mistakes=MistakeSettings(when="never"),
        )

    @classmethod
    def quick(cls) -> StudySettings:
        """A first look, for a tenth of the budgets."""
        return cls(
            episodes=100,
            evaluation=EvaluationSettings(
                rung_changes=10,
                rungs=3,
                race_seeds=128,
                confirmation_changes=FEWEST_CHANGES,
                confirmation_seeds=1000,
                episodes=25,
                confirmation_episodes=50,
            ),
            search=SearchSettings(budget=400_000),
            improvement=ImprovementSettings(
                episodes=300, final_episodes=200, most_candidates=4, beginnings=1, front_points=2
            ),
            references=ReferenceSettings(episodes=50, quoted=1),
            mistakes=MistakeSettings(steps=400_000, episodes=60, decisions=200),
        )

    def for_single_environments(self) -> StudySettings:
        """Return these settings with units of work that suit environments which cannot be stepped in whole batches.

        Their units are smaller: less is lost when a run is stopped, and progress is seen sooner. Rules are
        composed on the seeds of the confirmation: every further seed is a whole episode.
        """
        composing = min(self.improvement.episodes, SINGLE_COMPOSING)
        return replace(
            self,
            play=replace(self.play, batch=SINGLE_BATCH, unit_episodes=SINGLE_UNIT),
            evaluation=replace(self.evaluation, most_alike=SINGLE_ALIKE),
            improvement=replace(self.improvement, episodes=composing, seeds="confirmation", beginnings=1),
            mistakes=replace(self.mistakes, steps=self.mistakes.steps // SINGLE_STEPS),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "settings") -> StudySettings:
        """Read settings from plain data; missing ones keep their defaults."""
        made: StudySettings = from_dict(cls, data, where)
        return made

    def to_dict(self) -> dict[str, Any]:
        """These settings as plain data."""
        return asdict(self)

    def updated(self, data: Mapping[str, Any], where: str = "settings") -> StudySettings:
        """Return these settings with some of them replaced by plain data of the same shape."""
        from_dict(type(self), data, where)  # names and types, so that errors speak of what was given
        return self.from_dict(merged(asdict(self), data), where)

    @classmethod
    def from_toml(cls, path: str | Path) -> StudySettings:
        """Read settings from a TOML file."""
        return cls.from_dict(read_settings_file(path), str(path))

    def to_toml(self, *, comments: bool = False, common_only: bool = False) -> str:
        """Return the settings as TOML, with their help as comments if asked; all of them, or the most used ones."""
        lines: list[str] = []
        section = ""
        for setting in all_settings():
            if common_only and setting.dotted not in COMMON:
                continue
            if setting.section != section:
                section = setting.section
                lines += ["", f"[{section}]"]
            if comments:
                lines.append(f"# {setting.help}")
            lines.append(f"{setting.name} = {toml_value(setting.of(self))}")
        return "\n".join(lines) + "\n"


COMMON = frozenset(
    (
        "episodes",
        "sources",
        "mining.min_accuracy",
        "mining.min_coverage",
        "play.sample",
        "play.epsilon",
        "evaluation.alpha",
        "evaluation.objective",
        "evaluation.constraint",
        "evaluation.race_seeds",
        "evaluation.confirmation_seeds",
        "search.budget",
        "improvement.episodes",
        "improvement.most_changed",
        "mistakes.when",
        "mistakes.steps",
    )
)
"""The settings that most users change."""


def read_distillation_settings(data: Mapping[str, Any], where: str) -> DistillationSettings:
    """Read settings of distillation from plain data; missing ones keep their defaults."""
    made: DistillationSettings = from_dict(DistillationSettings, data, where)
    return made


PRESETS = {"paper": StudySettings.paper, "quick": StudySettings.quick}


def read_settings_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a settings file as plain data, unchecked."""
    from legible.files import read_toml  # noqa: PLC0415 (it needs numpy, which settings do not)

    return read_toml(path, SettingsError)


class Setting(NamedTuple):
    """One setting."""

    section: str  # the step that it belongs to, such as "mining"; "" for a setting of the whole study
    name: str  # its name there
    kind: Any  # ``int``, ``float``, ``bool``, ``str`` or a ``Literal``
    default: Any
    help: str  # what it is, in a sentence or two

    @property
    def dotted(self) -> str:
        """The name with its section, such as ``mining.min_accuracy``."""
        return f"{self.section}.{self.name}" if self.section else self.name

    def of(self, settings: StudySettings) -> Any:
        """The value that it has in some settings."""
        return getattr(getattr(settings, self.section) if self.section else settings, self.name)


@cache
def all_settings() -> tuple[Setting, ...]:
    """Return every setting, first the settings of the whole study.

    >>> [setting.dotted for setting in all_settings()][:3]
    ['episodes', 'time_limit', 'most_failed']
    """
    return tuple(sorted(settings_in(StudySettings), key=lambda setting: setting.section != ""))


def settings_in(kind: type[Any], section: str = "") -> Iterator[Setting]:
    """Return every setting of a dataclass, and of the dataclasses in it."""
    hints, defaults = get_type_hints(kind, include_extras=True), kind()
    for f in fields(kind):
        hint = hints[f.name]
        if isinstance(hint, type) and is_dataclass(hint):
            yield from settings_in(hint, f.name)
        else:
            value_type, meaning = get_args(hint)
            yield Setting(section, f.name, value_type, getattr(defaults, f.name), meaning)
