"""Options of the commands that work on a study. Those for settings are generated: `legible.settings` is their source.

- `StudyChoice`: what a command line says about a study; `StudyChoice.study` makes or opens it.
- `study_command`: gives a command all options of a study.
- `EnvArgument`, `ArgOption` and others: options that several commands share.
"""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.settings import PRESETS, Setting, StudySettings, all_settings, read_settings_file

if TYPE_CHECKING:
    from legible.engines import Engine
    from legible.study import Progress, Study

_OF_THE_STUDY = "The study"
_WHERE = "Where it runs, what it prints"
_PANELS = {
    "": "Settings of the whole study",
    "mining": "Settings of rule mining",
    "play": "Settings of how episodes are played",
    "evaluation": "Settings of the evaluation",
    "improvement": "Settings of the improvement",
    "baselines": "Settings of the baselines",
}

EnvArgument = Annotated[
    str, typer.Argument(metavar="ENV", help="Environment: an id, such as CartPole-v1, or module:factory.")
]
NamesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML file with names of features and actions.", rich_help_panel=_OF_THE_STUDY),
]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Argument of the environment, VALUE as in TOML; may be given repeatedly.",
        rich_help_panel=_OF_THE_STUDY,
    ),
]
WrapOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="Wrapper to put around the environment, the innermost first, such as "
        "minigrid.wrappers:FlatObsWrapper; may be given repeatedly.",
        rich_help_panel=_OF_THE_STUDY,
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import the environment's factory and wrappers that the study's folder names. A folder from somebody else "
        "can name any code.",
        rich_help_panel=_OF_THE_STUDY,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for machines, instead of text.", rich_help_panel=_WHERE)
]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say more; show where in the program an error arose.", rich_help_panel=_WHERE),
]


@dataclass(frozen=True)
class StudyChoice:
    """What a command line says about a study: which one, how it is made, and where it runs."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="ENV|DIR",
            help="Environment: an id, such as CartPole-v1, or module:factory. Or, without POLICY, the folder of a "
            "study that goes on.",
        ),
    ]
    policy: Annotated[
        str | None, typer.Argument(metavar="[POLICY]", help="Policy: a .zip or .safetensors file, or zoo:NAME.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the study. \\[default: studies/ENV-POLICY]",
            rich_help_panel=_OF_THE_STUDY,
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Decides everything that is random. \\[default: 0]", rich_help_panel=_OF_THE_STUDY),
    ] = None
    preset: Annotated[
        Literal["paper", "quick"] | None,
        typer.Option(
            help="Settings to start from: the paper's, or a first look with fewer episodes.",
            rich_help_panel=_OF_THE_STUDY,
        ),
    ] = None
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with settings; 'legible settings' prints one. Options below come after it.",
            rich_help_panel=_OF_THE_STUDY,
        ),
    ] = None
    relations: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Relations file, the name of one that comes with the package, or 'none'; may be given repeatedly. "
            "\\[default: those that the package has for ENV]",
            rich_help_panel=_OF_THE_STUDY,
        ),
    ] = None
    names: NamesOption = None
    arg: ArgOption = None
    wrap: WrapOption = None
    trust: TrustOption = False
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Rule of your own to test like the mined ones, such as '+Brake <- gap < 5'; may be given repeatedly.",
            rich_help_panel=_OF_THE_STUDY,
        ),
    ] = None
    veto: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Rule that must not be in the guided policy; may be given repeatedly.",
            rich_help_panel=_OF_THE_STUDY,
        ),
    ] = None
    engine: Annotated[
        Literal["inline", "processes", "ray"],
        typer.Option(
            help="Where episodes run: in this process, in processes of this machine, or on Ray.", rich_help_panel=_WHERE
        ),
    ] = "processes"
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes. \\[default: one a core]", rich_help_panel=_WHERE)
    ] = None
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster.", rich_help_panel=_WHERE)] = (
        None
    )
    as_json: JsonOption = False
    verbose: VerboseOption = False
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment that is meant."""
        return environment_spec(self.target, self.arg, self.wrap)

    @property
    def folder(self) -> Path:
        """Where the study lies or will lie."""
        if self.policy is None:
            return Path(self.target)
        return self.out or default_folder(self.target, self.policy)

    def study(self, progress: Progress | None = None) -> Study:
        """Open the study of a folder, or make one."""
        from legible.engines import make_engine  # noqa: PLC0415 (torch takes seconds to import)

        engine = make_engine(self.engine, self.workers, self.address)
        if self.policy is None:
            self._refuse_making_options()
            return open_study(Path(self.target), trust=self.trust, engine=engine, progress=progress)
        return self._make(engine, progress)

    def _make(self, engine: Engine, progress: Progress | None) -> Study:
        from legible.study import Study  # noqa: PLC0415

        assert self.policy is not None
        spec = self.spec
        return Study(
            self.folder,
            spec,
            self.policy,
            relations=self.relations,
            rules=self.rule or (),
            veto=self.veto or (),
            seed=self.seed or 0,
            settings=self._settings(spec),
            names=self.names,
            engine=engine,
            progress=progress,
        )

    def _settings(self, spec: EnvironmentSpec) -> StudySettings:
        from legible.study import settings_for  # noqa: PLC0415

        settings = settings_for(spec, PRESETS[self.preset]() if self.preset else None)
        if self.settings is not None:
            settings = settings.updated(read_settings_file(self.settings), str(self.settings))
        return settings.updated(nested(self.given), "options")

    def _refuse_making_options(self) -> None:
        """A study that exists has its settings; options that would change them are not simply passed over."""
        making = ("out", "seed", "preset", "settings", "relations", "names", "arg", "wrap", "rule", "veto")
        said = [f"--{name}" for name in making if getattr(self, name) is not None]
        said += [f"--{name}" for name in self.given]
        if not Path(self.target).is_dir():
            raise LegibleError(
                f"{self.target!r} is no folder of a study; give ENV and POLICY, or the folder of a study that was made "
                "before."
            )
        if said:
            raise LegibleError(
                f"{said[0]}: the study in {self.target} has its settings already; make another with ENV, POLICY and "
                "--out."
            )


def open_study(folder: Path, *, trust: bool, engine: Engine | None = None, progress: Progress | None = None) -> Study:
    """Open the study of a folder; where the person trusts it, what it names is also looked for in this folder."""
    from legible.study import Study  # noqa: PLC0415

    if trust:
        look_here_for_modules()
    return Study.open(folder, trust=trust, engine=engine, progress=progress)


def look_here_for_modules() -> None:
    """Let ``module:factory`` name modules of the current folder, in this process and in its workers.

    The folder comes last: a file there never takes the place of an installed package.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def environment_spec(
    env: str, arguments: Sequence[str] | None = None, wrappers: Sequence[str] | None = None
) -> EnvironmentSpec:
    """Read ``NAME=VALUE`` arguments; values that are no TOML are texts."""
    if ":" in env or wrappers:  # typed by the person, who so asks for these modules
        look_here_for_modules()
    values: dict[str, Any] = {}
    for argument in arguments or ():
        name, sign, value = argument.partition("=")
        if not sign or not name.isidentifier():
            raise LegibleError(f"--arg {argument!r}: write it as NAME=VALUE.")
        try:
            values[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[name] = value
    return EnvironmentSpec(env, values, tuple(wrappers or ()))


def default_folder(env: str, policy: str) -> Path:
    """Where a study goes when nobody says.

    >>> default_folder("legible/PacmanSmall-v0", "zoo:PacmanSmall/dqn/0").as_posix()
    'studies/PacmanSmall-dqn-0'
    >>> default_folder("CartPole-v1", "models/best.zip").as_posix()
    'studies/CartPole-best'
    """
    plain = env.rpartition(":")[2].rpartition("/")[2]
    stem, dash, number = plain.rpartition("-v")
    plain = stem if dash and number.isdigit() else plain
    if policy.startswith("zoo:"):
        name = "-".join(policy.removeprefix("zoo:").removeprefix(f"{plain}/").split("/"))
    else:
        name = Path(policy).stem
    return Path("studies") / f"{plain}-{name}"


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into tables.

    >>> nested({"episodes": 5, "mining.sampled": 0.5})
    {'episodes': 5, 'mining': {'sampled': 0.5}}
    """
    tables: dict[str, Any] = {}
    for dotted, value in dict(given).items():
        section, dot, name = dotted.partition(".")
        if dot:
            tables.setdefault(section, {})[name] = value
        else:
            tables[section] = value
    return tables


def study_command(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which takes a `StudyChoice` first, all options of a study.

    Other parameters of the command become options, too.
    """
    hints = get_type_hints(StudyChoice, include_extras=True)
    choice_fields = [f for f in fields(StudyChoice) if f.name != "given"]
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    settings = {setting.dotted.replace(".", "__"): setting for setting in all_settings()}
    parameters = [
        *(_parameter(f.name, hints[f.name], f.default) for f in choice_fields),
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        *(_parameter(name, _setting_option(setting), None) for name, setting in settings.items()),
    ]
    required = [p for p in parameters if p.default is inspect.Parameter.empty]
    optional = [p for p in parameters if p.default is not inspect.Parameter.empty]

    @wraps(command)
    def with_options(**values: Any) -> None:
        given = {setting.dotted: values.pop(name) for name, setting in settings.items()}
        chosen = {name: value for name, value in given.items() if value is not None}
        choice = StudyChoice(**{f.name: values.pop(f.name) for f in choice_fields}, given=chosen)
        command(choice, **values)

    del with_options.__wrapped__
    with_options.__signature__ = inspect.Signature(required + optional)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=annotation)


def _setting_option(setting: Setting) -> Any:
    """Make the option of a setting; a flag that is off by default can only be switched on."""
    name = setting.dotted.replace("_", "-")
    default = f"{setting.default:.4g}" if isinstance(setting.default, float) else str(setting.default)
    more = "" if setting.kind is bool else f" \\[default: {default or 'none'}]"
    return Annotated[
        setting.kind | None,
        typer.Option(
            f"--{name}/--no-{name}" if setting.default is True else f"--{name}",
            help=setting.help + more,
            metavar={int: "N", float: "X", bool: None}.get(setting.kind, "WORD"),
            show_default=False,
            rich_help_panel=_PANELS[setting.section],
        ),
    ]
