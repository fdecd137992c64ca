"""What a command line says about a study and about environments, and what is made of it.

- `StudyChoice`: which study, how it is made, where it runs; `StudyChoice.study` makes or opens it.
- `open_study`: the study of a folder, which may name code only if the person trusts it.
- `environment_spec`: an environment with its arguments and wrappers, as a person types them.
- `load_typed_policy`: a policy, as a person types it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from legible.errors import LegibleError
from legible.settings import PRESETS, StudySettings, all_settings, read_settings_file

if TYPE_CHECKING:
    from legible.engines import Engine
    from legible.environments import EnvironmentSpec
    from legible.policies import Policy
    from legible.study import Progress, Study

# What needs NumPy, Gymnasium or PyTorch is imported when it is used: help and mistakes need not wait for it.


# What can be said about a study that was made before; everything else makes one.
_OF_ANY_STUDY = frozenset(
    ("target", "policy", "trust", "engine", "workers", "address", "as_json", "verbose", "settings_given")
)


@dataclass(frozen=True)
class StudyChoice:
    """What a command line says about a study: a field for every option, and the settings that were given.

    Parameters
    ----------
    target
        The environment or, without `policy`, the folder of a study.
    settings_given
        Values of settings by their dotted names, only those that were given.
    """

    target: str
    policy: str | None = None
    out: Path | None = None
    seed: int | None = None
    preset: str | None = None
    settings: Path | None = None
    relations: tuple[str, ...] = ()
    names: Path | None = None
    features: str | None = None
    arg: tuple[str, ...] = ()
    wrap: tuple[str, ...] = ()
    normalisation: str | None = None
    policy_output: str | None = None
    trust: bool = False
    rule: tuple[str, ...] = ()
    rules_from: tuple[str, ...] = ()
    veto: tuple[str, ...] = ()
    engine: str = "processes"
    workers: int | None = None
    address: str | None = None
    as_json: bool = False
    verbose: bool = False
    settings_given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def taken_from(cls, values: dict[str, Any]) -> Self:
        """Take what belongs to a study out of all values of a command line."""
        given = {setting.dotted: values.pop(parameter_name(setting.dotted)) for setting in all_settings()}
        own = {f.name: values.pop(f.name) for f in fields(cls) if f.name != "settings_given"}
        return cls(**own, settings_given={name: value for name, value in given.items() if value is not None})

    @property
    def is_folder(self) -> bool:
        """Whether the folder of a study is meant, and not an environment and a policy."""
        return self.policy is None

    @property
    def folder(self) -> Path:
        """Where the study lies or will lie."""
        if self.policy is None:
            return Path(self.target)
        return self.out or default_folder(self.target, self.policy)

    def study(self, progress: Progress | None = None) -> Study:
        """Open the study of a folder, or make one."""
        if self.policy is None:
            self.refuse_making_options()
        from legible.engines import make_engine  # noqa: PLC0415
        from legible.study import Study  # noqa: PLC0415

        engine = make_engine(self.engine, self.workers, self.address)
        if self.policy is None:
            most_failed = self.settings_given.get("most_failed")
            return open_study(
                Path(self.target), trust=self.trust, most_failed=most_failed, engine=engine, progress=progress
            )
        arguments = self.arguments(self.policy)
        return Study(self.folder, policy=self.policy, engine=engine, progress=progress, **arguments)

    def arguments(self, policy: str) -> dict[str, Any]:
        """What `legible.Study` is told beside the folder and the policy."""
        spec = environment_spec(self.target, self.arg, self.wrap)
        for named in (policy, *self.rules_from):
            look_here_for_policy(named)
        if self.features is not None and ":" in self.features:
            look_here_for_modules()
        return {
            "environment": spec,
            "relations": self.relations or None,
            "rules": self.rule,
            "rules_from": self.rules_from,
            "veto": self.veto,
            "seed": self.seed or 0,
            "settings": self._settings(spec),
            "names": self.names,
            "features": self.features,
            "policy_options": options_of_policy(self.normalisation, self.policy_output),
        }

    def _settings(self, spec: EnvironmentSpec) -> StudySettings:
        from legible.study import settings_for  # noqa: PLC0415

        settings = settings_for(spec, PRESETS[self.preset]() if self.preset else None)
        if self.settings is not None:
            settings = settings.updated(read_settings_file(self.settings), str(self.settings))
        return settings.updated(nested(self.settings_given), "options")

    def refuse_making_options(self) -> None:
        """A study that exists has its settings; options that would change them are not simply passed over."""
        making = [name for name, value in vars(self).items() if name not in _OF_ANY_STUDY and value not in (None, ())]
        said = [f"--{name.replace('_', '-')}" for name in making]
        # How many episodes may fail decides whether a study goes on, not what comes out of it.
        said += [f"--{name.replace('_', '-')}" for name in self.settings_given if name != "most_failed"]
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


def parameter_name(dotted: str) -> str:
    """The name of a setting's option among the values of a command line: Click wants identifiers.

    >>> parameter_name("mining.min_accuracy")
    'mining__min_accuracy'
    """
    return dotted.replace(".", "__")


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into tables.

    >>> nested({"episodes": 5, "mining.sampled": 0.5})
    {'episodes': 5, 'mining': {'sampled': 0.5}}
    """
    tables: dict[str, Any] = {}
    for dotted, value in given.items():
        section, dot, name = dotted.partition(".")
        if dot:
            tables.setdefault(section, {})[name] = value
        else:
            tables[section] = value
    return tables


def open_study(
    folder: Path,
    *,
    trust: bool,
    most_failed: float | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Study:
    """Open the study of a folder; where the person trusts it, what it names is also looked for in this folder."""
    from legible.study import Study  # noqa: PLC0415

    if trust:
        look_here_for_modules()
    return Study.open(folder, trust=trust, most_failed=most_failed, engine=engine, progress=progress)


def look_here_for_modules() -> None:
    """Let ``module:factory`` name modules of the current folder, in this process and in its workers.

    The folder comes last: a file there never takes the place of an installed package.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def look_here_for_policy(policy: str) -> None:
    """Let a policy that is ``module:function`` be one of the current folder."""
    if names_code(policy):  # typed by the person, who so asks for the module
        look_here_for_modules()


def names_code(policy: str) -> bool:
    """Whether a policy is a ``module:function``, and no file and no address."""
    return ":" in policy and not policy.startswith(("zoo:", "hf:")) and not Path(policy).exists()


def options_of_policy(normalisation: str | None, output: str | None) -> dict[str, str]:
    """What is said about a policy beside its path, for `legible.load_policy`."""
    said = {"normalisation": normalisation, "output": output}
    return {name: value for name, value in said.items() if value is not None}


def load_typed_policy(spec: EnvironmentSpec, policy: str, normalisation: str | None, output: str | None) -> Policy:
    """Load a policy that a person names on the command line."""
    from legible.study import load_policy_for  # noqa: PLC0415

    look_here_for_policy(policy)
    return load_policy_for(spec, policy, options=options_of_policy(normalisation, output))


def environment_spec(env: str, arguments: Sequence[str] = (), wrappers: Sequence[str] = ()) -> EnvironmentSpec:
    """Read ``NAME=VALUE`` arguments; values that are no TOML are texts."""
    from legible.environments import EnvironmentSpec  # noqa: PLC0415

    if ":" in env or wrappers:  # typed by the person, who so asks for these modules
        look_here_for_modules()
    values: dict[str, Any] = {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if not sign or not name.isidentifier():
            raise LegibleError(f"--arg {argument!r}: write it as NAME=VALUE.")
        try:
            values[name] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            values[name] = value
    return EnvironmentSpec(env, values, tuple(wrappers))


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
    scheme, colon, address = policy.partition(":")
    if scheme in {"zoo", "hf"} and colon:
        name = address.removeprefix(f"{plain}/").replace("/", "-")
    else:
        name = policy.replace(":", "-") if names_code(policy) else Path(policy).stem
    return Path("studies") / f"{plain}-{name}"
