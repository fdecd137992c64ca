"""Imports that wait until something is used, and packages that need not be there.

- `lazy_exports`: the public names of a package, each imported when it is first used.
- `needs_extra`: imports inside it may miss packages of an extra, and the error says which extra.
- `optional_package`: imports one such package.
- `MissingPackageError`: the error.
- `when_imported`: calls a function as soon as somebody imports a module.
- `njit`: compiles a function with numba when it is first called.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from legible.errors import LegibleError

if TYPE_CHECKING:
    from importlib.abc import Loader  # not needed to run, and slow to import

F = TypeVar("F", bound=Callable[..., Any])

# What the extras of pyproject.toml install, as it is imported.
PACKAGES_OF_EXTRAS = {
    "agents": ("pettingzoo", "mpe2"),
    "atari": ("ale_py",),
    "highway": ("highway_env",),
    "hub": ("huggingface_hub", "yaml"),
    "human": ("pygame",),
    "mujoco": ("mujoco",),
    "notebook": ("anywidget",),
    "onnx": ("onnxruntime",),
    "pacman": ("pacai",),
    "pandas": ("pandas",),
    "ray": ("ray",),
    "sb3": ("stable_baselines3", "sb3_contrib"),
    "workbench": ("starlette", "uvicorn"),
}


class MissingPackageError(LegibleError, ImportError):
    """A package that an extra of legible installs is not there."""


def lazy_exports(package: str, *defined: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` for a package whose modules are imported on first use.

    The public names are those that the package imports in its ``if TYPE_CHECKING:`` block, where type checkers and
    editors see them. So each name is listed once.

    - `package`: the ``__name__`` of the package, whose ``__init__`` module calls this function.
    - `defined`: further public names, which that module defines itself.
    """
    # Read the names, each with its module, from the source of the package.
    loader = sys.modules[package].__spec__.loader  # type: ignore[union-attr]
    tree = ast.parse(loader.get_source(package))  # type: ignore[union-attr]
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    modules = {alias.name: str(node.module) for node in imports for alias in node.names}

    def getattr_of_package(name: str) -> Any:
        """Import the module of a name, and return what the name stands for."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    names = sorted([*modules, *defined])
    return names, getattr_of_package, lambda: names


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Turn the failed import of an optional package, in a ``with`` block, into an error that says what to install.

    - `extra`: the extra of legible (as in ``pip install 'legible-rl[extra]'``) that installs the package; one of
      `PACKAGES_OF_EXTRAS`.
    - `purpose`: what needs the package, for the message: "data frames".

    The error is a `MissingPackageError`. Others, such as those of a broken package, stay as they are.
    """
    try:
        yield
    except Exception as error:
        # Gymnasium's environments raise an error of their own, whose cause is the failed import.
        missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        package = (getattr(missing, "name", None) or "").partition(".")[0]
        if not isinstance(missing, ModuleNotFoundError) or package not in PACKAGES_OF_EXTRAS[extra]:
            raise
        raise MissingPackageError(
            f"the package {package.replace('_', '-')} is missing, which is needed for {purpose}: "
            f"pip install 'legible-rl[{extra}]'."
        ) from error


def optional_package(name: str, extra: str, purpose: str) -> ModuleType:
    """Import a package that is only there if an extra of legible was installed; see `needs_extra`.

    - `name`: the package, or a module of it, as it is imported.
    - `extra`, `purpose`: the extra that installs it, and what needs it: "data frames".
    """
    with needs_extra(extra, purpose):
        return importlib.import_module(name)


def when_imported(name: str, then: Callable[[], object]) -> None:
    """Call a function as soon as a module has been imported: now, if it is there already.

    So legible can register its environments with Gymnasium without importing Gymnasium itself, which takes longer than
    everything else that ``import legible`` does.
    """
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _ImportWatcher(name, then))


class _ImportWatcher:
    """A finder and loader of one module, which calls a function after the module was loaded.

    It stays until then: a module may be looked for without being imported, to see whether it is installed.
    """

    _loader: Loader  # the module's own

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self._name, self._then = name, then

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # so that the other finders are asked
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, cast("Loader", self)
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        sys.meta_path.remove(self)
        self._then()


def njit(**options: Any) -> Callable[[F], F]:
    """Compile a function as ``numba.njit`` does, but import numba only when the function is first called.

    Importing numba and starting its compiler take longer than reading all results of a study.
    """

    def decorate(function: F) -> F:
        return cast("F", _Kernel(function, options))

    return decorate


# Counting references to arrays takes longer than most of what kernels do with one row, so kernels that only use arrays
# of their callers do without. Such a function cannot make arrays; numba raises an error if one does. `_nrt` is numba's
# own switch and has no public name.
njit_uncounted = njit(cache=True, nogil=True, _nrt=False)
# The same, and put into its callers: handing over arrays takes longer than what small functions do with them.
njit_inlined = njit(cache=True, nogil=True, _nrt=False, forceinline=True)


class _Kernel:
    """A function that numba compiles when it is first called, from Python or from another compiled function."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._options = options

    @cached_property
    def compiled(self) -> Any:
        """The function as numba has it."""
        import numba  # noqa: PLC0415

        return numba.njit(**self._options)(self.__wrapped__)  # type: ignore[attr-defined]

    @property
    def _numba_type_(self) -> Any:
        """The type by which numba knows the function in others that it compiles."""
        import numba  # noqa: PLC0415

        return numba.typeof(self.compiled)  # type: ignore[no-untyped-call]

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)
