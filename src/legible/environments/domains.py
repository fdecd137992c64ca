"""Domains: what legible knows about families of environments, one record for each.

- `Domain`: which environments belong to it, the names and relations that come with it, how the report draws it, which
  groups of features its papers speak of, and how relations are checked in it.
- `register_domain`: adds one, of this package or of another; `all_domains` lists them all.
- `domain_of`: the domain of an environment, or None.
- `shipped_relations`: the relations files that come with the domain for an environment, each a `RelationsFile`.
- `shipped_features`: the names that come with it.
- `domain_groups`: the groups of features that the domain of an environment names.
- `load_by_name`: what stands behind ``module:attribute``.

Whatever a domain needs from other rooms is named by a text and imported when it is used, so that a record costs nothing
and this room knows nothing of those that come after it. No other module asks whether an environment is PAC-Man.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from legible.environments.spec import Env, EnvironmentSpec
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.features.patterns import match_pattern

_HERE = Path(__file__).parent


class RelationsFile(NamedTuple):
    """A relations file of a domain.

    Parameters
    ----------
    ids
        A regular expression for the environments that the file is for, matched against ids without their version;
        ``.*`` for all of the domain, also those that were made without an id.
    path
        The TOML file.
    default
        Whether a study uses it when nobody says otherwise; if not, it is offered by its name.
    """

    ids: str
    path: Path
    default: bool

    @property
    def name(self) -> str:
        """What it is called: the file's name."""
        return self.path.stem


@dataclass(frozen=True)
class Domain:
    """What is known about the environments of one kind.

    Parameters
    ----------
    name
        What it is called.
    ids
        A regular expression for the ids of its environments, without their version: ``legible/Pacman.*``.
    classes
        The classes of its environments, each as ``module:Class``, or packages, which stand for all classes in them. An
        environment that was made belongs to the domain when it is of such a class, or of one that inherits from it.
        Without classes, its id decides.
    actions
        The class of the space of actions, such as "Box", where environments of one class have several; else any.
    names
        Where names of features and actions come from, for environments that bring none: the path of a TOML file, or
        a text ``module:function`` that takes the environment and returns a `FeatureSpace` or None; by a regular
        expression for ids, as in `RelationsFile`.
    relations
        The relations files.
    groups
        Groups of features that are of interest together, by their names; ``*`` stands for any text.
    scene
        How the report draws a replay: a ``module:function`` or class that takes the environment and returns a
        `legible.report.scenes.Scene`, or None where it cannot be drawn.
    checker
        How a relation is checked: a ``module:function`` or class that takes
        `legible.relations.check.answers.CheckInputs` and the bare environment and returns a
        `legible.relations.check.answers.Checker`.
    success
        What counts as success, to follow "an episode succeeds when"; by a regular expression for ids, the first that
        fits.
    training
        How policies are trained: a ``module:function`` that takes an id and the name of an algorithm and returns a
        `legible.training.Preset`, or None where it has none.
    """

    name: str
    ids: str = ""
    classes: tuple[str, ...] = ()
    actions: str = ""
    names: Mapping[str, str | Path] = field(default_factory=dict, hash=False)
    relations: tuple[RelationsFile, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    scene: str = ""
    checker: str = ""
    success: Mapping[str, str] = field(default_factory=dict, hash=False)
    training: str = ""

    def covers(self, environment: str | Env) -> bool:
        """Whether an id, or an environment that was made, belongs to the domain."""
        if isinstance(environment, str):
            return bool(re.fullmatch(self.ids, _without_version(environment)))
        if not self.classes:
            return bool(re.fullmatch(self.ids, _id_of(environment)))
        bare = environment.unwrapped
        if self.actions and type(bare.action_space).__name__ != self.actions:
            return False
        return any(_is_class(kind, name) for kind in type(bare).__mro__ for name in self.classes)


_DOMAINS: dict[str, Domain] = {}


def register_domain(domain: Domain) -> None:
    """Add a domain; of several that cover an environment, the one that came last counts.

    Parameters
    ----------
    domain
        Its record. Another one of the same name is refused, and one whose files are not there.
    """
    files = [
        *(file.path for file in domain.relations),
        *(name for name in domain.names.values() if isinstance(name, Path)),
    ]
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise LegibleError(f"domain {domain.name!r}: there is no file {missing}.")
    if _DOMAINS.setdefault(domain.name, domain) != domain:
        raise LegibleError(f"there is a domain {domain.name!r} already; give yours another name.")


def all_domains() -> tuple[Domain, ...]:
    """Return all domains, in the order in which they were added."""
    return tuple(_DOMAINS.values())


def domain_of(environment: str | EnvironmentSpec | Env) -> Domain | None:
    """Return the domain that an environment belongs to, or None.

    Parameters
    ----------
    environment
        An environment, which is judged by its class; a spec, of which one is made for the purpose; or an id, which is
        all that there is to judge by, so that no ``module:factory`` has a domain by its name alone.

    Examples
    --------
    >>> domain_of("legible/PacmanSmall-v0").name, domain_of("mymodule:cartpole")
    ('pacman', None)
    """
    with _made(environment) as known:
        return next((domain for domain in reversed(all_domains()) if domain.covers(known)), None)


def shipped_relations(environment: str | EnvironmentSpec | Env) -> list[RelationsFile]:
    """Return the relations files that come with the domain for an environment, see `domain_of`.

    >>> [(file.name, file.default) for file in shipped_relations("legible/PacmanSmall-v0")][:2]
    [('turn', True), ('mirror-east-west', False)]
    """
    with _made(environment) as known:
        domain, env_id = domain_of(known), _id_of(known)
    return [] if domain is None else [file for file in domain.relations if re.fullmatch(file.ids, env_id)]


def success_words(environment: str | EnvironmentSpec | Env) -> str:
    """Return what counts as success in an environment, to follow "an episode succeeds when"; nothing where unknown.

    >>> success_words("legible/Roundabout-v0")
    'ego has not crashed by its end'
    """
    with _made(environment) as known:
        domain, env_id = domain_of(known), _id_of(known)
    told = {} if domain is None else domain.success
    return next((words for ids, words in told.items() if re.fullmatch(ids, env_id)), "")


def domain_groups(environment: str | EnvironmentSpec | Env, space: FeatureSpace) -> dict[str, tuple[str, ...]] | None:
    """Return the names of features by the groups of the environment's domain.

    None where the domain names no groups, or where features have other names than it knows.
    """
    domain = domain_of(environment)
    if domain is None or not domain.groups:
        return None
    groups: dict[str, tuple[str, ...]] = {}
    for group, patterns in domain.groups.items():
        matches = [{name for name in space.names if match_pattern(pattern, name) is not None} for pattern in patterns]
        if not all(matches):
            return None
        members = set().union(*matches)
        groups[group] = tuple(name for name in space.names if name in members)
    return groups


def shipped_features(environment: str | Env) -> FeatureSpace | None:
    """Return the names and words that come with the domain for an environment, or None where there are none.

    Of an id only those can be told that are a file; some are made for the environment.
    """
    domain, env_id = domain_of(environment), _id_of(environment)
    names = {} if domain is None else domain.names
    source = next((source for ids, source in names.items() if re.fullmatch(ids, env_id)), None)
    if isinstance(source, Path):
        return FeatureSpace.from_toml(source)
    if source is None or isinstance(environment, str):
        return None
    made: FeatureSpace | None = load_by_name(source)(environment)
    return made


def load_by_name(name: str) -> Any:
    """Return what stands behind ``module:attribute``."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LegibleError(f"{name!r}: cannot be imported ({error}); it is written as module:attribute.") from error


@contextmanager
def _made(environment: str | EnvironmentSpec | Env) -> Iterator[str | Env]:
    """Make the environment of a spec, for as long as it is looked at; ids and environments stay what they are."""
    if not isinstance(environment, EnvironmentSpec):
        yield environment
        return
    env = environment.make()
    try:
        yield env
    finally:
        env.close()


def _id_of(environment: str | Env) -> str:
    """The id without its version, or nothing where there is none."""
    if isinstance(environment, str):
        return _without_version(environment)
    spec = environment.unwrapped.spec
    return "" if spec is None else _without_version(spec.id)


def _without_version(env_id: str) -> str:
    """Take off the version, and the module that registers the id; a factory behind a module has no version."""
    plain, versions = re.subn(r"-v\d+$", "", env_id)
    return plain.rpartition(":")[2] if versions else plain


def _is_class(kind: type, name: str) -> bool:
    """Whether a class is the one of this name, or is of this package."""
    if ":" in name:
        return f"{kind.__module__}:{kind.__qualname__}" == name
    return f"{kind.__module__}.".startswith(f"{name}.")


# --- The domains that come with the package --------------------------------------------------------------------------


def _files(folder: str, *rows: tuple[str, str, bool]) -> tuple[RelationsFile, ...]:
    return tuple(
        RelationsFile(ids, _HERE / folder / "relations" / f"{name}.toml", default) for ids, name, default in rows
    )


register_domain(
    Domain(
        name="pacman",
        ids="legible/Pacman.*",
        classes=("legible.environments.pacman.env:PacmanEnv",),
        relations=_files(
            "pacman",
            (".*", "turn", True),
            (".*", "mirror-east-west", False),
            (".*", "mirror-north-south", False),
            ("legible/Pacman(Small|Medium)(NC)?", "exchange-2-ghosts", False),
            ("legible/PacmanOriginal(NC)?", "exchange-4-ghosts", False),
        ),
        # Those of the paper's table.
        groups={
            "Ghosts": ("near.unscared", "near.scared", "ghost*"),
            "Scared": ("near.unscared", "near.scared", "ghost*.scared", "ghost*.timer"),
        },
        scene="legible.report.scenes:PacmanScene",
        checker="legible.relations.check.pacman:PacmanChecker",
        success={".*": "PAC-Man has eaten all food before a ghost catches it or time is up"},
        training="legible.training.presets:pacman_preset",
    )
)

# highway-v0 as Farama has it (no namespace) has four lanes, in the paper's configuration (legible/Highway-v0,
# farama/Highway-v0) it has three.
register_domain(
    Domain(
        name="highway",
        ids="(legible|farama)/(Highway|HighwayFast|Merge|Intersection|Roundabout)"
        "|(exit|highway|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn)(-.*)?",
        classes=(
            "legible.environments.highway.env:HighwayEnv",
            "legible.environments.highway.farama:FaramaEnv",
            "highway_env",
        ),
        names={".*": "legible.environments.highway.farama:farama_features"},
        relations=_files(
            "highway",
            ("(legible|farama)/.*|highway|highway-fast|merge|roundabout|intersection", "vehicles", True),
            ("(legible|farama)/(Highway|HighwayFast)|highway-fast", "mirror-3-lanes", True),
            ("highway", "mirror-3-lanes", False),
            ("(legible|farama)/Highway", "mirror-4-lanes", False),
            ("highway", "mirror-4-lanes", True),
            ("(legible|farama)/Merge|merge", "mirror-merge", True),
            ("(legible|farama)/Roundabout|roundabout", "mirror-roundabout", True),
        ),
        scene="legible.report.scenes:road_scene",
        success={
            "(legible|farama)/Intersection|intersection": "ego has arrived without a crash",
            ".*": "ego has not crashed by its end",
        },
        training="legible.training.presets:highway_preset",
    )
)


def _gymnasium(name: str, ids: str, class_name: str, *, default: bool, actions: str = "") -> Domain:
    """One of Gymnasium's own environments, with a file of names and one of relations."""
    file = f"{name}.toml"
    return Domain(
        name=name,
        ids=ids,
        classes=(f"gymnasium.envs.{class_name}",),
        actions=actions,
        names={".*": _HERE / "gymnasium" / "features" / file},
        relations=_files("gymnasium", (".*", name, default)),
    )


for _domain in (
    _gymnasium("cartpole", "CartPole", "classic_control.cartpole:CartPoleEnv", default=True),
    _gymnasium("mountaincar", "MountainCar", "classic_control.mountain_car:MountainCarEnv", default=False),
    _gymnasium(
        "mountaincar-continuous",
        "MountainCarContinuous",
        "classic_control.continuous_mountain_car:Continuous_MountainCarEnv",
        default=False,
    ),
    _gymnasium("acrobot", "Acrobot", "classic_control.acrobot:AcrobotEnv", default=True),
    _gymnasium("pendulum", "Pendulum", "classic_control.pendulum:PendulumEnv", default=True),
    _gymnasium("lunarlander", "LunarLander", "box2d.lunar_lander:LunarLander", default=True),
    _gymnasium(
        "lunarlander-continuous",
        "LunarLanderContinuous",
        "box2d.lunar_lander:LunarLander",
        default=True,
        actions="Box",
    ),
    _gymnasium("bipedalwalker", "BipedalWalker(Hardcore)?", "box2d.bipedal_walker:BipedalWalker", default=True),
    _gymnasium("invertedpendulum", "InvertedPendulum", "mujoco.inverted_pendulum_v5:InvertedPendulumEnv", default=True),
    _gymnasium("walker2d", "Walker2d", "mujoco.walker2d_v5:Walker2dEnv", default=True),
    Domain(
        name="frozenlake",
        ids="FrozenLake|FrozenLake8x8",
        classes=("gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv",),
        names={
            "FrozenLake": _HERE / "gymnasium" / "features" / "frozenlake-4x4.toml",
            "FrozenLake8x8": _HERE / "gymnasium" / "features" / "frozenlake-8x8.toml",
        },
        relations=_files(
            "gymnasium", ("FrozenLake", "frozenlake-4x4", False), ("FrozenLake8x8", "frozenlake-8x8", False)
        ),
    ),
):
    register_domain(_domain)
