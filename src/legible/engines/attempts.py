"""Attempts at units and their retries, the same on every engine.

- `attempt`: calls the function with one thread and within the time limit; returns a result or a `FailedAttempt`.
- `AttemptQueue`: the units that wait, and whether a failed one is retried.
- `limit_time`, `can_limit_time`: time limits, by a signal that interrupts Python code.
"""

from __future__ import annotations

import functools
import math
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from threadpoolctl import ThreadpoolController

from legible.engines.base import Failed, Finished, R, Shared, Unit
from legible.engines.threads import one_thread
from legible.errors import LegibleError

GRACE_SECONDS = 5.0  # time to stop after the first signal, before the next signal or a kill


@dataclass(frozen=True)
class FailedAttempt:
    """An attempt without a result, and how many attempts a unit has in total after such a failure.

    If it was interrupted, at any point and perhaps while compiling, its process may be in a bad state.
    """

    error: str
    traceback: str
    allowed_attempts: int
    exception: LegibleError | None = None
    was_interrupted: bool = False


def raised(error: BaseException) -> FailedAttempt:
    """Return the description of an attempt that raised an error."""
    text = "".join(traceback.format_exception(error))
    exception = None
    with suppress(Exception):  # an exception with special arguments may not survive pickling
        if isinstance(error, LegibleError) and type(pickle.loads(pickle.dumps(error))) is type(error):
            exception = error
    return FailedAttempt(f"{type(error).__name__}: {error}".removesuffix(": "), text, 2, exception)


def took_too_long(time_limit: float | None, where: str = "") -> FailedAttempt:
    """Return the description of an attempt that was stopped at its time limit."""
    return FailedAttempt(f"took longer than {time_limit:g} s", where, 1, was_interrupted=True)


def worker_died(how: str) -> FailedAttempt:
    """Return the description of an attempt in which the worker died."""
    return FailedAttempt(f"worker died ({how})", "", 3)


class AttemptQueue:
    """The waiting units of a run, and the number of attempts at each unit."""

    def __init__(self, count: int) -> None:
        self.waiting = deque(range(count))
        self.attempts = [0] * count

    def take(self) -> int:
        """Return the next unit to try."""
        index = self.waiting.popleft()
        self.attempts[index] += 1
        return index

    def settle(self, index: int, outcome: R | FailedAttempt) -> list[Finished[R] | Failed]:
        """Return the report of a unit in a list; an empty list if the unit is retried."""
        if not isinstance(outcome, FailedAttempt):
            return [Finished(index, outcome)]
        if self.attempts[index] < outcome.allowed_attempts:
            self.waiting.appendleft(index)
            return []
        return [Failed(index, outcome.error, outcome.traceback, self.attempts[index], outcome.exception)]


def attempt(
    function: Callable[[Shared, Unit], R], shared: Shared, unit: Unit, time_limit: float | None
) -> R | FailedAttempt:
    """Call the function once; return its result or the failed attempt."""
    try:
        with one_thread(), _thread_pools(len(sys.modules)).limit(limits=1), limit_time(time_limit):
            return function(shared, unit)
    except _TimeUpError:
        return took_too_long(time_limit, traceback.format_exc())
    except (Exception, SystemExit) as error:
        return raised(error)


@functools.lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:  # noqa: ARG001 (cached until modules are loaded)
    """Find the libraries with thread pools; this takes milliseconds, which is long for a small unit."""
    return ThreadpoolController()


class _TimeUpError(BaseException):
    """The end of a unit's time. Not an Exception, so that an environment's ``except Exception`` does not catch it."""


def can_limit_time() -> bool:
    """Return whether `limit_time` works: on Unix, in the main thread."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def limit_time(seconds: float | None) -> Iterator[None]:
    """Interrupt the body of a ``with`` block after some seconds, and again every `GRACE_SECONDS` until it stops.

    Only Python code is interrupted, but not C code or code that catches ``BaseException`` and continues. Limits may be
    nested; an outer limit that passes inside an inner one takes effect when the inner one ends. Without Unix's timer
    signal, or outside the main thread, there is no limit.
    """
    if seconds is None or not can_limit_time():
        yield
        return
    is_over = False

    def interrupt(signal_number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if not is_over:
            raise _TimeUpError

    # There is one timer: start it for this limit, and remember the one of an outer limit.
    began = time.monotonic()
    outer_handler = signal.signal(signal.SIGALRM, interrupt)
    outer_seconds, outer_interval = signal.setitimer(signal.ITIMER_REAL, seconds, GRACE_SECONDS)
    try:
        try:
            yield
        finally:
            is_over = True  # ignore later signals
    finally:
        # Stop the timer and continue that of the outer limit with the time that it has left.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer_handler)
        if outer_seconds:
            remaining_seconds = max(1e-6, outer_seconds - (time.monotonic() - began))  # 0 would stop the timer
            signal.setitimer(signal.ITIMER_REAL, remaining_seconds, outer_interval)


def check_time_limit(time_limit: float | None) -> None:
    """Raise unless a time limit is valid."""
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise LegibleError(
            f"the time limit of a unit must be a number of seconds above 0, or None; got {time_limit!r}."
        )
