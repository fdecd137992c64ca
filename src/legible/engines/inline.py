"""The process that asks: `InProcess` runs one unit after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from legible.engines.attempts import AttemptQueue, attempt, can_limit_time, check_time_limit
from legible.engines.base import Failed, Finished, R, Shared, Unit
from legible.errors import LegibleError


class InProcess:
    """The process that asks: one unit after the other, in order, each when its report is asked for.

    A time limit stops Python code only, and only on Unix where the main thread runs it: elsewhere there is a warning
    and no limit. Code that hangs inside a C library, or that catches every exception and goes on, is stopped by an
    engine with workers alone, because those can be killed.
    """

    workers = 1

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
            warnings.warn("outside the main thread the engine 'inline' cannot keep a time limit.", stacklevel=2)
        queue = AttemptQueue(len(units))
        while queue.waiting:
            index = queue.take()
            yield from queue.settle(index, attempt(function, shared, units[index], time_limit))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


def make_inline(workers: int | None = None) -> InProcess:
    """Make the engine, unless more than one worker is asked for."""
    if workers not in {None, 1}:
        raise LegibleError(f"the engine 'inline' is one process, not {workers} workers: choose 'processes'.")
    return InProcess()
