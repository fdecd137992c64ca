"""From the words of a command line to studies, environments and policies."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legible.errors import LegibleError, did_you_mean
from legible.settings import PRESETS, Setting, StudySettings, all_settings, read_settings_file

if TYPE_CHECKING:
    from legible.engines import Engine
    from legible.environments import EnvironmentSpec
    from legible.policies import Policy
    from legible.study import Progress, Study

# What needs NumPy, Gymnasium or PyTorch is imported when it is used: help and errors need not wait for it.

# Options that apply to an existing study; all others make one.
_OF_ANY_STUDY = frozenset(
    ("target", "policy", "trust", "engine", "workers", "address", "as_json", "verbose", "settings_given")
)
# How many episodes may fail decides whether a study continues, not its results.
_CHANGEABLE = "most_failed"


@dataclass(frozen=True)
class StudyChoice:
    """The options of a study on the command line.

    `target` is the environment or, without `policy`, the folder of a study. `settings_given` are the words of
    ``--set``, such as "search.budget=400000".
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
    fallback: str | None = None
    activation: str | None = None
    trust: bool = False
    rule: tuple[str, ...] = ()
    rules_from: tuple[str, ...] = ()
    veto: tuple[str, ...] = ()
    objective: str | None = None
    worst_loss: float | None = None
    until_excluded: bool = False
    stochastic: bool = False
    unpaired: bool = False
    engine: str = "processes"
    workers: int | None = None
    address: str | None = None
    as_json: bool = False
    verbose: bool = False
    settings_given: tuple[str, ...] = ()

    def study(self, progress: Progress | None = None) -> Study:
        """Open the study of a folder, or make one."""
        if self.policy is None:
            if not Path(self.target).is_dir():
                raise LegibleError(f"{self.target!r} is not the folder of a study; give ENV and POLICY to make one.")
            self.refuse_making_options()
        from legible.engines import make_engine  # noqa: PLC0415
        from legible.study import Study  # noqa: PLC0415

        shared: Any = {"trust": self.trust, "progress": progress}
        shared["engine"] = make_engine(self.engine, self.workers, self.address)
        if self.policy is None:
            most_failed = read_settings(self.settings_given).get(_CHANGEABLE)
            return open_study(Path(self.target), most_failed=most_failed, **shared)
        folder = self.out or default_folder(self.target, self.policy)
        return Study(folder, policy=self.policy, **self.arguments(self.policy), **shared)

    def arguments(self, policy: str) -> dict[str, Any]:
        """Return the arguments of `legible.Study`, except for the folder and the policy."""
        spec = with_player_outputs(environment_spec(self.target, self.arg, self.wrap), self.policy_output)
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
            "policy_options": options_of_policy(vars(self)),
        }

    def _settings(self, spec: EnvironmentSpec) -> StudySettings:
        from legible.study import settings_for  # noqa: PLC0415

        settings = settings_for(spec, PRESETS[self.preset]() if self.preset else None)
        if self.settings is not None:
            settings = settings.updated(read_settings_file(self.settings), str(self.settings))
        tables = read_settings(self.settings_given)
        # Options that stand for a setting: the section, the name and the value of those that were given.
        for section, name, value in (
            ("evaluation", "objective", self.objective),
            ("evaluation", "worst_loss", self.worst_loss),
            ("evaluation", "until_excluded", self.until_excluded or None),
            ("evaluation", "method", "unpaired" if self.unpaired else None),
            ("play", "sample", self.stochastic or None),
        ):
            if value is not None:
                tables.setdefault(section, {})[name] = value
        return settings.updated(tables, "--set")

    @property
    def pins_budgets(self) -> bool:
        """True if the user chose settings, which are then used as they are in slow environments, too."""
        return bool(self.settings_given) or self.settings is not None

    def refuse_making_options(self, *allowed: str) -> None:
        """Refuse options that would change the settings of an existing study, except for those of `allowed`."""
        given = [
            f"--{name.replace('_', '-')}"
            for name, value in vars(self).items()
            if name not in _OF_ANY_STUDY and name not in allowed and value not in (None, (), False)
        ]
        given += [f"--set {name}" for name in read_settings(self.settings_given) if name != _CHANGEABLE]
        if given:
            raise LegibleError(
                f"{given[0]}: the settings of {self.target} are fixed; make another study with ENV, POLICY and --out."
            )


@dataclass(frozen=True)
class EnvironmentChoice:
    """The options of an environment: names of features and actions, features for rules, arguments and wrappers."""

    names: Path | None = None
    features: str | None = None
    arg: tuple[str, ...] = ()
    wrap: tuple[str, ...] = ()

    def spec(self, env: str) -> EnvironmentSpec:
        """Return an environment with the arguments and wrappers given."""
        if self.features is not None and ":" in self.features:  # the name of a function, module:function
            look_here_for_modules()
        return environment_spec(env, self.arg, self.wrap)

    def refuse_for_study(self, folder: Path | str, **others: Any) -> None:
        """Raise if options were given that a study has already: those of its environment, and `others` by name."""
        for option, value in {**{name: getattr(self, name) for name in _OF_ENVIRONMENT}, **others}.items():
            if value:
                raise LegibleError(f"--{option.replace('_', '-')}: the study in {folder} has its own; leave it out.")


_OF_ENVIRONMENT = [field.name for field in fields(EnvironmentChoice)]


@dataclass(frozen=True, kw_only=True)
class PlayChoice(EnvironmentChoice):
    """The options of a command that plays policies without a study."""

    seed: int
    stochastic: bool
    no_cache: bool
    normalisation: str | None
    policy_output: str | None
    fallback: str | None
    activation: str | None
    trust: bool
    engine: str
    workers: int | None
    address: str | None
    as_json: bool

    def spec(self, env: str) -> EnvironmentSpec:
        """Return an environment with the arguments and wrappers given, and the output of players that are code."""
        return with_player_outputs(super().spec(env), self.policy_output)

    def quick_engine(self) -> Engine:
        """Return the engine that the options name, for a short command."""
        return make_quick_engine(self.engine, self.workers, self.address)


def make_quick_engine(engine: str, workers: int | None, address: str | None) -> Engine:
    """Return the engine of short commands: this process first, and workers only if it takes longer."""
    from legible.engines import make_engine  # noqa: PLC0415
    from legible.workbench.arena import WarmEngine  # noqa: PLC0415

    return WarmEngine(workers) if engine == "processes" else make_engine(engine, workers, address)


def read_settings(given: Sequence[str], settings: Sequence[Setting] | None = None) -> dict[str, Any]:
    """Return the settings of ``--set NAME=VALUE`` options as nested tables; refuse unknown names with a suggestion.

    Parameters
    ----------
    given
        The texts ``NAME=VALUE``, VALUE as in TOML. Names in a section have a dot, as in ``evaluation.objective``.
    settings
        The settings that exist; by default those of a study.

    >>> read_settings(["episodes=5", "mining.sampled=0.5", "evaluation.objective=success"])
    {'episodes': 5, 'mining': {'sampled': 0.5}, 'evaluation': {'objective': 'success'}}
    """
    names = {setting.dotted for setting in (all_settings() if settings is None else settings)}
    tables: dict[str, Any] = {}
    for text in given:
        dotted, equals, value = text.partition("=")
        dotted = dotted.strip().replace("-", "_")
        if not equals:
            raise LegibleError(f"--set {text!r}: write it as NAME=VALUE, such as --set search.budget=400000.")
        if dotted not in names:
            hint = did_you_mean(dotted, names)
            raise LegibleError(
                f"--set {text!r}: there is no setting {dotted!r}.{hint} 'legible settings --all' lists them."
            )
        section, _, name = dotted.rpartition(".")
        table = tables.setdefault(section, {}) if section else tables
        table[name] = _toml_value(value)
    return tables


def _toml_value(text: str) -> Any:
    """Read a TOML value; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def open_study(folder: Path, *, trust: bool, **options: Any) -> Study:
    """Open the study of a folder, with options of `legible.Study.open`.

    With `trust`, modules that the folder names are also searched in the current folder.
    """
    from legible.study import Study  # noqa: PLC0415

    if trust:
        look_here_for_modules()
    return Study.open(folder, trust=trust, **options)


def look_here_for_modules() -> None:
    """Let ``module:factory`` name modules of the current folder, in this process and in its workers.

    The folder comes last: a file there never takes the place of an installed package.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def look_here_for_policy(policy: str) -> None:
    """Let a policy that is ``module:function`` lie in the current folder."""
    if names_code(policy):
        look_here_for_modules()


def names_code(policy: str) -> bool:
    """Return whether a policy is a ``module:function`` instead of a file or an address."""
    return ":" in policy and not policy.startswith(("zoo:", "hf:")) and not Path(policy).exists()


def options_of_policy(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of `legible.load_policy` among the values of a command line."""
    names = {"normalisation": "normalisation", "output": "policy_output"}
    names |= {"fallback": "fallback", "activation": "activation"}
    return {name: values[option] for name, option in names.items() if values.get(option) is not None}


def load_typed_policy(spec: EnvironmentSpec, policy: str, options: Mapping[str, str], *, trust: bool) -> Policy:
    """Load a policy that is named on the command line, with options of `legible.load_policy`.

    Only with `trust` it may be a TorchScript program.
    """
    from legible.study import load_policy_for  # noqa: PLC0415

    look_here_for_policy(policy)
    return load_policy_for(spec, policy, trust=trust, options=options)


def environment_spec(env: str, arguments: Sequence[str] = (), wrappers: Sequence[str] = ()) -> EnvironmentSpec:
    """Make an environment's spec; ``NAME=VALUE`` arguments have TOML values, anything else is a string."""
    from legible.environments import EnvironmentSpec  # noqa: PLC0415

    if ":" in env or wrappers:
        look_here_for_modules()
    values: dict[str, Any] = {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if not sign or not name.isidentifier():
            raise LegibleError(f"--arg {argument!r}: write it as NAME=VALUE.")
        values[name] = _toml_value(value)
    return EnvironmentSpec(env, values, tuple(wrappers))


def with_player_outputs(spec: EnvironmentSpec, output: str | None) -> EnvironmentSpec:
    """Return a game in which players of other seats that are code have the output of ``--policy-output``."""
    others = spec.arguments.get("others")
    players = dict(others) if isinstance(others, Mapping) else {"*": others}
    with_outputs = {seat: player_source(player, output) for seat, player in players.items()}
    if with_outputs == players:
        return spec
    return replace(spec, arguments={**spec.arguments, "others": with_outputs})


def player_source(player: Any, output: str | None) -> Any:
    """Return a player of another seat as games take it: code with its output."""
    is_code = isinstance(player, str) and names_code(player)
    return {"policy": player, "output": output} if is_code and output is not None else player


def default_folder(env: str, policy: str) -> Path:
    """Return the default folder of a study.

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
