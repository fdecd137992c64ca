"""What an engine is, engines by name, and one unit alone.

- `Engine`: what every engine does; `Finished` and `Failed` are its reports.
- `register_engine`, `make_engine`, `engine_names`: engines by name.
- `run_one`: one unit, and its result or its error (`UnitFailedError`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from legible.errors import LegibleError, did_you_mean

Shared = TypeVar("Shared")
Unit = TypeVar("Unit")
R = TypeVar("R")


@dataclass(frozen=True)
class Finished(Generic[R]):
    """A unit that gave a result."""

    index: int
    result: R


@dataclass(frozen=True)
class Failed:
    """A unit that gave none: its own error, where that was raised, and how often the unit was tried.

    `exception` is the error itself where legible raised it on purpose; it can be raised again.
    """

    index: int
    error: str
    traceback: str
    attempts: int
    exception: LegibleError | None = field(default=None, compare=False)


class Engine(Protocol):
    """Something that runs units of work.

    Used as a context manager, it keeps its workers from one run to the next; otherwise they last for one run.
    """

    @property
    def workers(self) -> int | None:
        """How many units run at a time; None where that is not known before the run."""
        ...

    def run(
        self,
        function: Callable[[Shared, Unit], R],
        shared: Shared,
        units: Sequence[Unit],
        *,
        time_limit: float | None = None,
    ) -> Iterator[Finished[R] | Failed]:
        """Call ``function(shared, unit)`` for every unit; report each as soon as it is done, in any order.

        Parameters
        ----------
        function
            A function of a module, so that another process can import it. What it returns must depend on its arguments
            alone, and it must leave ``shared`` as it is.
        shared
            What all units need. It is sent once to every worker.
        units
            What is to be done; ``index`` in a report is the place in this sequence.
        time_limit
            Seconds that one unit may take, not counting the start of a worker; None for no limit.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class UnitFailedError(LegibleError):
    """A unit that gave no result, with its own error."""

    exit_code = 1


def run_one(
    engine: Engine,
    function: Callable[[Shared, Unit], R],
    shared: Shared,
    unit: Unit,
    time_limit: float | None = None,
) -> R:
    """Run one unit and return its result; raise its error if it fails.

    An engine that is used as a context manager keeps its worker, and the worker keeps ``shared``: another unit with the
    same function and the same ``shared`` costs about a millisecond.

    Raises
    ------
    LegibleError
        The unit's own one, if legible raised it on purpose; otherwise `UnitFailedError`.

    >>> from legible.engines import InProcess
    >>> run_one(InProcess(), pow, 2, 5)
    32
    """
    (report,) = engine.run(function, shared, [unit], time_limit=time_limit)
    if isinstance(report, Finished):
        return report.result
    if report.exception is not None:
        raise report.exception
    raise UnitFailedError(report.error)


EngineFactory = Callable[..., Engine]
"""Makes an engine: a class or a function with the parameters ``workers`` and ``address``, or those that it has."""

_factories: dict[str, EngineFactory] = {}


def register_engine(name: str, factory: EngineFactory) -> None:
    """Let `make_engine` find an engine by a name.

    Parameters
    ----------
    name
        A name that no other engine has.
    factory
        What makes the engine. It is called with those of ``workers`` and ``address`` that the user gives; an option
        for which it has no parameter is refused.
    """
    if name in _factories:
        raise LegibleError(f"there is already an engine {name!r}: choose another name.")
    _factories[name] = factory


def engine_names() -> tuple[str, ...]:
    """Return the names that `make_engine` knows."""
    return tuple(_factories)


def make_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """Return the engine of that name: ``"inline"``, ``"processes"``, ``"ray"``, or one that was registered.

    Parameters
    ----------
    name
        One of `engine_names`.
    workers
        How many units run at a time; by default the engine decides.
    address
        Of a running cluster, for engines that have one.

    >>> with make_engine("inline") as engine:
    ...     [report.result for report in engine.run(pow, 2, [3, 4])]
    [8, 16]
    """
    if name not in _factories:
        raise LegibleError(
            f"there is no engine {name!r}."
            + did_you_mean(name, _factories)
            + f" The engines are {', '.join(_factories)}."
        )
    given = {option: value for option, value in (("workers", workers), ("address", address)) if value is not None}
    for option in given:
        if not _takes(_factories[name], option):
            others = " or ".join(repr(other) for other, factory in _factories.items() if _takes(factory, option))
            raise LegibleError(f"the engine {name!r} takes no {option}: leave it out or choose {others}.")
    return _factories[name](**given)


def _takes(factory: EngineFactory, option: str) -> bool:
    parameters = inspect.signature(factory).parameters.values()
    return any(parameter.name == option or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
