"""Shared code of the engines with workers.

- `perform`: in a worker, loads the work if necessary, runs one unit, and yields a `Message` about each step.
- `Dispatcher`: gives the units of one run to workers, stops those that take too long, and reports the results.
- `EngineWithWorkers`: base class of engines that keep their workers while they are entered.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from legible.engines.attempts import (
    GRACE_SECONDS,
    AttemptQueue,
    FailedAttempt,
    attempt,
    check_time_limit,
    raised,
    took_too_long,
)
from legible.engines.base import Failed, Finished, R, Shared, Unit
from legible.errors import LegibleError

# --- In a worker ---


class Message(NamedTuple):
    """A message of a worker: it needs the work, has started the unit, cannot load the work, or has ended the unit.

    The work is the function and its shared data. The content is the outcome of an ended unit, or a `FailedAttempt` if
    the work cannot be loaded.
    """

    kind: Literal["needs work", "started", "cannot load", "ended"]
    content: Any = None

    @property
    def leaves_unsound(self) -> bool:
        """Return whether the worker was interrupted, so that it must not run another unit."""
        return isinstance(self.content, FailedAttempt) and self.content.was_interrupted


_loaded: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {}  # one work at most, by its key


def perform(
    work_key: str, read_work: Callable[[], bytes], packed_unit: bytes, time_limit: float | None
) -> Iterator[Message]:
    """Load the work if necessary, then run one unit; loading does not count towards its time limit."""
    try:
        if work_key not in _loaded:
            _loaded.clear()  # first, to free memory
            _loaded[work_key] = pickle.loads(read_work())
    except Exception as error:
        yield Message("cannot load", raised(error))
        return
    function, shared = _loaded[work_key]
    yield Message("started")
    outcome = attempt(lambda shared, packed: function(shared, pickle.loads(packed)), shared, packed_unit, time_limit)
    yield Message("ended", outcome)


# --- In the main process ---


WORK = "the policy, the environment or a function given with them"


def pickled(thing: object, what: str, dumps: Callable[[object], bytes] = pickle.dumps) -> bytes:
    """Return an object as bytes; raise an error with its description if it cannot be pickled."""
    try:
        return dumps(thing)
    except Exception as error:
        raise LegibleError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}). Define functions and "
            "classes at the top level of a module, not inside a function and not as a lambda. Or use the engine "
            "'inline' (--engine inline), which runs everything in this process."
        ) from error


def check_workers(workers: int | None) -> int | None:
    """Return the number of workers; raise if it is below 1."""
    if workers is not None and workers < 1:
        raise LegibleError(f"the number of workers must be at least 1, got {workers}.")
    return workers


@dataclass(eq=False)
class Task:
    """A unit that was given to a worker."""

    index: int
    packed_unit: bytes
    worker: Any = None  # the dispatcher's handle of the worker
    deadline: float = math.inf  # time at which the worker is stopped; set when it has started the unit


class Dispatcher(ABC):
    """Base class of dispatchers, which give the units of one run to workers and report the results.

    The packed work are the function and its shared data, pickled by `dumps`; the time limit is in seconds per unit.
    """

    def __init__(
        self, packed_work: bytes, time_limit: float | None, dumps: Callable[[object], bytes] = pickle.dumps
    ) -> None:
        self.time_limit, self.dumps = time_limit, dumps
        self.work_key = hashlib.sha256(packed_work).hexdigest()  # a worker keeps the work of an earlier run
        self.tasks: list[Task] = []

    @abstractmethod
    def capacity(self) -> int:
        """Return the maximum number of simultaneous tasks."""

    @abstractmethod
    def send(self, task: Task) -> None:
        """Give the task to a worker."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Task]:
        """Return the tasks whose workers have sent a message or have died; an empty list after the given time."""

    @abstractmethod
    def receive(self, task: Task) -> Message | None:
        """Return the worker's message, "ended" if it has died; None if the message does not concern the unit."""

    @abstractmethod
    def stop(self, task: Task) -> None:
        """Kill the worker."""

    def reports(self, units: Sequence[Any]) -> Iterator[Finished[Any] | Failed]:
        """Run the units and yield their reports."""
        queue = AttemptQueue(len(units))
        reports: list[Finished[Any] | Failed] = []
        while True:
            while queue.waiting and len(self.tasks) < self.capacity():
                index = queue.take()
                task = Task(index, pickled(units[index], f"unit {index}", self.dumps))
                self.tasks.append(task)
                self.send(task)
            yield from reports  # after new tasks were sent, so that no worker is idle meanwhile
            if not self.tasks:
                return
            reports = [report for index, outcome in self._outcomes() for report in queue.settle(index, outcome)]

    def stop_all(self) -> None:
        """Kill the workers that have tasks."""
        while self.tasks:
            self.stop(self.tasks[-1])
            self.tasks.pop()

    def _outcomes(self) -> Iterator[tuple[int, Any]]:
        """Wait until a worker sends a message, dies or exceeds its time; yield (index, outcome) of units that ended.

        The index is that of the unit. The outcome is its result, or a `FailedAttempt`.
        """
        first_deadline = min(task.deadline for task in self.tasks)
        tasks_with_news = self.wait(max(0.0, first_deadline - time.monotonic()))
        late_tasks = [task for task in self.tasks if task.deadline <= time.monotonic() and task not in tasks_with_news]

        # Workers that are too late are killed.
        for task in late_tasks:
            self.stop(task)
            self.tasks.remove(task)  # only now, so that `stop_all` finds the worker if this is interrupted
            yield task.index, took_too_long(self.time_limit)

        # One message is handled at a time; the others wait for the next call.
        message = self.receive(tasks_with_news[0]) if tasks_with_news else None
        if message is None:
            return
        task = tasks_with_news[0]
        if message.kind == "started":
            # The worker limits the time itself; the grace is for code that it cannot interrupt.
            if self.time_limit is not None:
                task.deadline = time.monotonic() + self.time_limit + GRACE_SECONDS
            return
        self.tasks.remove(task)
        if message.kind == "cannot load":
            raise LegibleError(
                f"a worker process cannot load {WORK} ({message.content.error}). Define them in a module that workers "
                "can import, not in an interactive session. Or use the engine 'inline' (--engine inline), which runs "
                "everything in this process.\n"
                f"{message.content.traceback}"
            )
        yield task.index, message.content


class EngineWithWorkers(ABC):
    """Base class of engines whose workers start on the first enter and stop on the last exit; a run enters, too."""

    _entered = 0

    def __enter__(self) -> Self:
        if self._entered == 0:
            self._start()
        self._entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            self._stop(in_a_hurry=bool(error and error[0] is not None))

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
        with self:
            dispatcher = self._dispatcher((function, shared), time_limit)
            try:
                yield from dispatcher.reports(units)
            finally:
                dispatcher.stop_all()

    def _start(self) -> None:  # noqa: B027 (workers may be started on demand)
        """Start what all workers need."""

    @abstractmethod
    def _stop(self, *, in_a_hurry: bool) -> None:
        """Stop all workers; in a hurry, after an error or Ctrl-C, without waiting for them."""

    @abstractmethod
    def _dispatcher(self, work: object, time_limit: float | None) -> Dispatcher: ...
