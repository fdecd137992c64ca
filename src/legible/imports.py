"""Imports that wait until something is used, and packages that need not be there.

- `lazy_names`: the ``__getattr__`` of a package whose names are imported when they are first asked for.
- `optional_package`: imports a package that an extra installs, or says which extra.
- `when_imported`: calls a function as soon as somebody imports a module.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from legible.errors import LegibleError


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package: it imports a name from its module when the name is first used.

    Parameters
    ----------
    package
        The package's ``__name__``.
    modules
        Names by the module, relative to the package, that defines them.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def getattr_of_package(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return getattr_of_package


def optional_package(name: str, extra: str, purpose: str) -> ModuleType:
    """Import a package that is only there if an extra of legible was installed.

    Parameters
    ----------
    name
        The package, as it is imported.
    extra
        The extra of legible that installs it.
    purpose
        What needs it, as the beginning of a sentence: "data frames".
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != name.partition(".")[0]:
            raise
        raise LegibleError(
            f"{purpose} need {name}, which is not installed: pip install 'legible-rl[{extra}]'."
        ) from error


def when_imported(name: str, then: Callable[[], object]) -> None:
    """Call a function as soon as a module has been imported: now, if it is there already.

    So legible can register its environments with Gymnasium without importing Gymnasium itself, which takes longer than
    everything else that ``import legible`` does.
    """
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _ImportWatcher(name, then))


class _ImportWatcher(MetaPathFinder):
    """Finds a module as everybody else does, and calls a function after it was loaded."""

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self._name, self._then = name, then

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find the module that is watched for; leave all others alone."""
        del path, target
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenLoader(spec.loader, self._then)
        return spec


class _ThenLoader(Loader):
    """Loads a module with its own loader and calls a function afterwards."""

    def __init__(self, loader: Loader, then: Callable[[], object]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then the function."""
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._then()
