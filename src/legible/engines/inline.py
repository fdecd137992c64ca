"""`InProcess`: an engine that runs units in this process, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from legible.engines.attempts import AttemptQueue, attempt, can_limit_time, check_time_limit
from legible.engines.base import Failed, Finished, R, Shared, Unit
from legible.errors import LegibleError


class InProcess:
    """An engine that runs units in this process, one after the other, each when its report is requested.

    A time limit stops Python code only, and only on Unix in the main thread; elsewhere there is a warning and no limit.
    Code that hangs in a C library, or that catches every exception and continues, is only stopped by engines with
    workers, because workers can be killed.
    """

    workers = 1

    def __init__(self, workers: int | None = None) -> None:
        if workers not in {None, 1}:
            raise LegibleError(f"the engine 'inline' has one process, not {workers} workers: choose 'processes'.")

    def run(
        self,
        function: Callable[[Shared, Unit], R],
        shared: Shared,
        units: Sequence[Unit],
        *,
        time_limit: float | None = None,
    ) -> Iterator[Finished[R] | Failed]:
        """Call ``function(shared, unit)`` for every unit: see `Engine.run`."""
        check_time_limit(time_limit)
        if time_limit is not None and not can_limit_time():
            warnings.warn("the engine 'inline' cannot apply a time limit outside the main thread.", stacklevel=2)
        queue = AttemptQueue(len(units))
        while queue.waiting:
            index = queue.take()
            yield from queue.settle(index, attempt(function, shared, units[index], time_limit))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...
