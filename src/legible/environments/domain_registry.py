"""Domain records, and the plug-ins that provide them.

- `Domain`: the record of a family of environments; `RelationsFile`: a relations file of a domain.
- `register_domain`, `all_domains`: add a domain; list all of them.
- `register_plugin`, `load_plugins`: domains and environments of other packages.
- `load_by_name`: the object behind ``module:attribute``.

A package ships a domain through an entry point of the group ``legible.domains``, which names a module with a `Domain`
called ``DOMAIN`` and, if the package has environments, a mapping ``ENVIRONMENTS`` from ids to the arguments of
`gymnasium.register`. The module is imported to list domains, so it should be light: it names everything else by a text
that is imported when it is used.
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
    """A relations file of a domain."""

    # A regular expression for the ids of its environments, without their version; ``.*`` for all environments of the
    # domain, including those without an id
    ids: str
    path: Path
    default: bool  # whether a study uses it by default; otherwise it is offered by its name

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        return self.path.stem


def relations_files(folder: Path, *rows: tuple[str, str, bool]) -> tuple[RelationsFile, ...]:
    """Return the files ``relations/NAME.toml`` of a folder; a row is a file's ids, name and default."""
    return tuple(RelationsFile(ids, folder / "relations" / f"{name}.toml", default) for ids, name, default in rows)


@dataclass(frozen=True)
class Domain:
    """The record of a family of environments.

    Parameters
    ----------
    name
        The name of the domain.
    ids
        A regular expression for the ids of its environments, without their version: ``legible/Pacman.*``.
    classes
        The classes of its environments, each as ``module:Class``, or packages, which stand for all their classes.
        Subclasses belong to the domain, too. Without classes, the id of an environment decides.
    actions
        The class of the action space, such as "Box", where environments of one class have several; "" for any.
    names
        Names of features and actions, for environments that have none: the path of a TOML file, or a text
        ``module:function`` that takes the environment and returns a `FeatureSpace` or None; by a regular expression
        for ids, as in `RelationsFile`.
    relations
        The relations files.
    groups
        Patterns of feature names by group; ``*`` stands for any text.
    scene
        A ``module:function`` or class that takes the environment and returns a `legible.report.scenes.Scene` for
        replays in the report, or None where it cannot be drawn.
    checker
        A ``module:function`` or class that takes `legible.relations.check.answers.CheckInputs` and the bare environment
        and returns a `legible.relations.check.answers.Checker` of relations.
    success
        Words that follow "an episode succeeds when", by a regular expression for ids, the first that fits.
    endings
        A ``module:function`` that takes a `legible.environments.endings.LastStep` and returns the text of an ending, or
        None where it does not know it.
    terms
        A ``module:function`` that takes the `LastStep` of an episode, its return and its length, and returns the totals
        of its reward terms, which add up to the return.
    place
        Names of the two features that say where the policy is, from left to right and from bottom to top, for maps.
    training
        A ``module:function`` that takes an id and the name of an algorithm and returns a `legible.training.Preset`, or
        None where it has none.
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
    endings: str = ""
    terms: str = ""
    place: tuple[str, str] | None = None
    training: str = ""

    def covers(self, environment: str | Env) -> bool:
        """Return whether an id or an environment belongs to the domain."""
        if isinstance(environment, str) or not self.classes:
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
    """Add a domain; of several that cover an environment, the last one counts.

    Raises if there is another domain of the same name, or if a file of the domain is missing.
    """
    files = [*(file.path for file in domain.relations), *(n for n in domain.names.values() if isinstance(n, Path))]
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise LegibleError(f"domain {domain.name!r}: there is no file {missing}.")
    if _DOMAINS.setdefault(domain.name, domain) != domain:
        raise LegibleError(f"there is a domain {domain.name!r} already; give yours another name.")


def all_domains() -> tuple[Domain, ...]:
    """Return all domains, including those of plug-ins, in the order in which they were added."""
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
    from legible.environments.gymnasium.domains import DOMAINS  # noqa: PLC0415 (it imports this module)

    for domain in DOMAINS:
        register_domain(domain)
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            register_plugin(entry.load())
        except Exception as error:  # legible works without a broken plug-in
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"the domain {entry.name!r} ({entry.value}) could not be loaded ({reason}).", stacklevel=2)


def load_by_name(name: str) -> Any:
    """Return the object behind ``module:attribute``."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LegibleError(f"{name!r}: cannot be imported ({error}); it is written as module:attribute.") from error


def id_of(environment: str | Env) -> str:
    """Return the id without its version and the module that registers it, or "" where there is none.

    A ``module:factory`` has no version and stays as it is.
    """
    spec = None if isinstance(environment, str) else environment.unwrapped.spec
    env_id = environment if isinstance(environment, str) else "" if spec is None else spec.id
    plain, versions = re.subn(r"-v\d+$", "", env_id)
    return plain.rpartition(":")[2] if versions else plain
