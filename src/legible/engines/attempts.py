"""One attempt at a unit, and what follows from it: the same on every engine.

- `attempt`: calls the function with one thread and within the time limit; gives a result or a `FailedAttempt`.
- `AttemptQueue`: which units are still to be tried, and whether one that failed is tried again.
- `limit_time`, `can_limit_time`: the time limit, by a signal that interrupts Python code.
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

GRACE_SECONDS = 5.0  # what code has to stop by itself after the first signal, before there is a second one or a kill


@dataclass(frozen=True)
class FailedAttempt:
    """An attempt that gave no result, and how many attempts a unit may have in all when one ends like this.

    `was_interrupted`: in the middle of whatever it did, such as compiling, so that its process may be left unsound.
    """

    error: str
    traceback: str
    allowed_attempts: int
    exception: LegibleError | None = None
    was_interrupted: bool = False


def raised(error: BaseException) -> FailedAttempt:
    """Describe an attempt that raised an error."""
    text = "".join(traceback.format_exception(error))
    exception = None
    if isinstance(error, LegibleError):
        with suppress(Exception):  # an exception with arguments of its own need not survive being sent
            exception = error if type(pickle.loads(pickle.dumps(error))) is type(error) else None
    return FailedAttempt(f"{type(error).__name__}: {error}".removesuffix(": "), text, 2, exception)


def took_too_long(time_limit: float | None, where: str = "") -> FailedAttempt:
    """Describe an attempt that was stopped at its time limit."""
    return FailedAttempt(f"took longer than {time_limit:g} s", where, 1, was_interrupted=True)


def worker_died(how: str) -> FailedAttempt:
    """Describe an attempt in which the worker died."""
    return FailedAttempt(f"worker died ({how})", "", 3)


class AttemptQueue:
    """The units of a run that wait to be tried, and how often each has been."""

    def __init__(self, count: int) -> None:
        self.waiting = deque(range(count))
        self.attempts = [0] * count

    def take(self) -> int:
        """Return the unit to try now."""
        index = self.waiting.popleft()
        self.attempts[index] += 1
        return index

    def settle(self, index: int, outcome: R | FailedAttempt) -> list[Finished[R] | Failed]:
        """Return the report of a unit; none when it is to be tried again."""
        if not isinstance(outcome, FailedAttempt):
            return [Finished(index, outcome)]
        if self.attempts[index] < outcome.allowed_attempts:
            self.waiting.appendleft(index)
            return []
        return [Failed(index, outcome.error, outcome.traceback, self.attempts[index], outcome.exception)]


def attempt(
    function: Callable[[Shared, Unit], R], shared: Shared, unit: Unit, time_limit: float | None
) -> R | FailedAttempt:
    """Call the function once."""
    try:
        with one_thread(), _thread_pools(len(sys.modules)).limit(limits=1), limit_time(time_limit):
            return function(shared, unit)
    except _TimeUpError:
        return took_too_long(time_limit, traceback.format_exc())
    except (Exception, SystemExit) as error:
        return raised(error)


@functools.lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:  # noqa: ARG001 (another number of modules: look again)
    """Find the libraries that have threads: milliseconds, which is long for a small unit."""
    return ThreadpoolController()


class _TimeUpError(BaseException):
    """The unit's time is over. Not an Exception, so that an environment's ``except Exception`` does not swallow it."""


def can_limit_time() -> bool:
    """Return whether `limit_time` works here: on Unix, in the main thread."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def limit_time(seconds: float | None) -> Iterator[None]:
    """Interrupt the body when it lasts longer, and again every `GRACE_SECONDS` if it does not stop.

    Only Python code is interrupted: not C code that runs without end, and not code that catches ``BaseException`` and
    goes on. Limits may be nested; one that passes while an inner one is set counts when the inner one ends.
    """
    if seconds is None or not can_limit_time():
        yield
        return
    over = False

    def interrupt(signal_number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if not over:
            raise _TimeUpError

    began = time.monotonic()
    outer_handler = signal.signal(signal.SIGALRM, interrupt)
    outer_seconds, outer_interval = signal.setitimer(signal.ITIMER_REAL, seconds, GRACE_SECONDS)
    try:
        try:
            yield
        finally:
            over = True  # a signal that comes from here on is late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer_handler)
        if outer_seconds:
            left = max(1e-6, outer_seconds - (time.monotonic() - began))
            signal.setitimer(signal.ITIMER_REAL, left, outer_interval)


def check_time_limit(time_limit: float | None) -> None:
    """Refuse a time limit that is none."""
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise LegibleError(f"the time limit of a unit is a number of seconds above 0, or None; got {time_limit!r}.")
