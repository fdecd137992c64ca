"""Domain records, and the plug-ins that bring them.

- `Domain`: what is known about a family of environments; `RelationsFile`: a relations file of a domain.
- `register_domain`, `all_domains`: add a domain; list all of them.
- `register_plugin`, `load_plugins`: domains and environments of other packages.
- `load_by_name`: the object behind ``module:attribute``.

A package ships a domain through an entry point of the group ``legible.domains``, which names a module with a `Domain`
called ``DOMAIN`` and, for environments of its own, a mapping ``ENVIRONMENTS`` from ids to the arguments of
`gymnasium.register`. The module is imported to list domains, so it should be light: everything else is named by a
text and imported when it is used.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from legible.errors import LegibleError

if TYPE_CHECKING:
    from legible.environments.spec import Env

PLUGIN_GROUP = "legible.domains"


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
        Whether a study uses it unless another is asked for; if not, it is offered by its name.
    """

    ids: str
    path: Path
    default: bool

    @property
    def name(self) -> str:
        """What it is called: the file's name."""
        return self.path.stem


def relations_files(folder: Path, *rows: tuple[str, str, bool]) -> tuple[RelationsFile, ...]:
    """Return the files ``relations/NAME.toml`` of a folder, each row being its ids, its name and its default."""
    return tuple(RelationsFile(ids, folder / "relations" / f"{name}.toml", default) for ids, name, default in rows)


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
            return bool(re.fullmatch(self.ids, without_version(environment)))
        if not self.classes:
            return bool(re.fullmatch(self.ids, id_of(environment)))
        bare = environment.unwrapped
        if self.actions and type(bare.action_space).__name__ != self.actions:
            return False
        kinds = type(bare).__mro__
        full_names = {f"{kind.__module__}:{kind.__qualname__}" for kind in kinds}
        return any(
            name in full_names if ":" in name else any(f"{kind.__module__}.".startswith(f"{name}.") for kind in kinds)
            for name in self.classes
        )


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
    """Return all domains, those of plug-ins included, in the order in which they were added."""
    load_plugins()
    return tuple(_DOMAINS.values())


def register_plugin(module: ModuleType) -> None:
    """Register the domain and the environments of a plug-in's module; calling it again changes nothing."""
    import gymnasium  # noqa: PLC0415 (this module is imported before Gymnasium is)

    register_domain(module.DOMAIN)
    for env_id, arguments in getattr(module, "ENVIRONMENTS", {}).items():
        if env_id not in gymnasium.registry:
            gymnasium.register(id=env_id, **arguments)


@cache
def load_plugins() -> None:
    """Register the domains of Gymnasium's environments and of every installed plug-in.

    A plug-in that cannot be loaded is left out with a warning.
    """
    from legible.environments.gymnasium.domains import DOMAINS  # noqa: PLC0415 (it is made of records)

    for domain in DOMAINS:
        register_domain(domain)
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            register_plugin(entry.load())
        except Exception as error:  # whatever another package does wrong, legible goes on without it
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"the domain {entry.name!r} ({entry.value}) could not be loaded ({reason}).", stacklevel=2)


def load_by_name(name: str) -> Any:
    """Return what stands behind ``module:attribute``."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LegibleError(f"{name!r}: cannot be imported ({error}); it is written as module:attribute.") from error


def id_of(environment: str | Env) -> str:
    """Return the id without its version, or nothing where there is none."""
    if isinstance(environment, str):
        return without_version(environment)
    spec = environment.unwrapped.spec
    return "" if spec is None else without_version(spec.id)


def without_version(env_id: str) -> str:
    """Take off the version, and the module that registers the id; a factory behind a module has no version."""
    plain, versions = re.subn(r"-v\d+$", "", env_id)
    return plain.rpartition(":")[2] if versions else plain
