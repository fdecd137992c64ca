"""Imports that wait until something is used, and packages that need not be there.

- `lazy_names`: the ``__getattr__`` of a package whose names are imported when they are first asked for.
- `optional_package`: imports a package that an extra installs, or says which extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
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
