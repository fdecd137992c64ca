"""The protocol of engines, and engines by name.

- `Engine`: the protocol; `Finished` and `Failed` are its reports.
- `register_engine`, `make_engine`: engines by name.
- `run_one`: runs one unit and returns its result, or raises its error (`UnitFailedError`).
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
    """A unit with a result."""

    index: int
    result: R


@dataclass(frozen=True)
class Failed:
    """A unit without a result: its error, the traceback, and the number of attempts.

    `exception` is the error itself if it is a `LegibleError`; it can be raised again.
    """

    index: int
    error: str
    traceback: str
    attempts: int
    exception: LegibleError | None = field(default=None, compare=False)


class Engine(Protocol):
    """Protocol of engines, which run units of work.

    As a context manager, an engine keeps its workers from one run to the next; otherwise they last for one run.
    """

    @property
    def workers(self) -> int | None:
        """Number of units that run at a time; None if unknown before the run."""
        ...

    def run(
        self,
        function: Callable[[Shared, Unit], R],
        shared: Shared,
        units: Sequence[Unit],
        *,
        time_limit: float | None = None,
    ) -> Iterator[Finished[R] | Failed]:
        """Call ``function(shared, unit)`` for every unit, and yield a report of each as soon as it is done.

        A unit is an independent piece of work, such as a batch of episodes. Units may be done in any order.

        Parameters
        ----------
        function
            A function of a module, so that another process can import it. Its result must depend on its arguments
            alone, and it must not change ``shared``.
        shared
            Data that all units need. It is sent once to every worker.
        units
            The units; ``index`` in a report is the position of the unit in this sequence.
        time_limit
            Maximum seconds per unit, not counting the start of a worker; None for no limit.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class UnitFailedError(LegibleError):
    """A unit without a result, with the unit's error."""

    exit_code = 1


def run_one(
    engine: Engine, function: Callable[[Shared, Unit], R], shared: Shared, unit: Unit, time_limit: float | None = None
) -> R:
    """Call ``function(shared, unit)`` on an engine and return the result; raise the unit's error if it fails.

    The arguments are those of `Engine.run`. The error is the unit's own if that is a `LegibleError`, otherwise a
    `UnitFailedError`. An engine that is used as a context manager keeps its worker and the worker's copy of ``shared``:
    another call with the same function and the same ``shared`` costs about a millisecond.

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
"""Makes an engine: a class or function with the parameters ``workers`` and ``address``, or one of them, or none."""

_factories: dict[str, EngineFactory] = {}


def register_engine(name: str, factory: EngineFactory) -> None:
    """Register an engine under an unused name, for `make_engine`.

    The factory is called with those of ``workers`` and ``address`` that the user gives; an option for which it has no
    parameter is refused.
    """
    if name in _factories:
        raise LegibleError(f"there is already an engine {name!r}: choose another name.")
    _factories[name] = factory


def make_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """Return a new engine, on which units of work run: in this process, in worker processes or on a cluster.

    - `name`: ``"inline"``, ``"processes"``, ``"ray"``, or the name of another registered engine.
    - `workers`: number of units that run at a time; by default the engine decides.
    - `address`: address of a running cluster, for engines that use one.

    >>> with make_engine("inline") as engine:
    ...     [report.result for report in engine.run(pow, 2, [3, 4])]
    [8, 16]
    """
    if name not in _factories:
        hint = did_you_mean(name, _factories)
        raise LegibleError(f"there is no engine {name!r}.{hint} The engines are {', '.join(_factories)}.")
    options = {"workers": workers, "address": address}
    given_options = {option: value for option, value in options.items() if value is not None}
    # Not every engine has workers or an address.
    for option in given_options:
        if not _takes(_factories[name], option):
            suitable_engines = " or ".join(repr(other) for other in _factories if _takes(_factories[other], option))
            raise LegibleError(f"the engine {name!r} takes no {option}: leave it out or choose {suitable_engines}.")
    return _factories[name](**given_options)


def _takes(factory: EngineFactory, option: str) -> bool:
    parameters = inspect.signature(factory).parameters.values()
    return any(parameter.name == option or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
