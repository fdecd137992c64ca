"""What the engines with workers share: the work in a worker, and the run in the process that has the workers.

- `perform`: in a worker: loads the work unless it is loaded, runs one unit, and yields a `Message` about each.
- `Dispatcher`: gives the units of one run to workers, stops those that take too long, and reports what came of each.
- `EngineWithWorkers`: an engine whose workers last while it is entered.
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

# In a worker.


class Message(NamedTuple):
    """What a worker says: that it needs the work, has started the unit, cannot load the work, or how the unit ended.

    The work is the function and what is shared. The content is the outcome of a unit that ended, and a `FailedAttempt`
    where the work cannot be loaded.
    """

    kind: Literal["needs work", "started", "cannot load", "ended"]
    content: Any = None

    @property
    def leaves_unsound(self) -> bool:
        """Whether the worker was interrupted, so that it is not to run anything else."""
        return isinstance(self.content, FailedAttempt) and self.content.was_interrupted


_loaded: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {}  # one work at most, by its key


def perform(
    work_key: str, read_work: Callable[[], bytes], packed_unit: bytes, time_limit: float | None
) -> Iterator[Message]:
    """Load the work unless it is loaded, and run one unit; only then its time begins."""
    try:
        if work_key not in _loaded:
            _loaded.clear()  # first, to make room
            _loaded[work_key] = pickle.loads(read_work())
    except Exception as error:
        yield Message("cannot load", raised(error))
        return
    function, shared = _loaded[work_key]
    yield Message("started")
    yield Message(
        "ended",
        attempt(lambda shared, packed: function(shared, pickle.loads(packed)), shared, packed_unit, time_limit),
    )


# In the process that has the workers.


def pickled(thing: object, what: str, dumps: Callable[[object], bytes] = pickle.dumps) -> bytes:
    """Return a thing as bytes, or say what cannot be sent."""
    try:
        return dumps(thing)
    except Exception as error:
        raise LegibleError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}). Functions and classes must "
            "be defined at the top level of a module, not inside a function and not as a lambda. The engine 'inline' "
            "runs everything in this process and sends nothing."
        ) from error


def check_workers(workers: int | None) -> int | None:
    """Refuse a number of workers that is none."""
    if workers is not None and workers < 1:
        raise LegibleError(f"the number of workers is at least 1, got {workers}.")
    return workers


@dataclass(eq=False)
class Task:
    """A unit that a worker has been given."""

    index: int
    packed_unit: bytes
    worker: Any = None  # whatever the dispatcher knows the worker by
    deadline: float = math.inf  # when the worker is stopped; known once it has started the unit


class Dispatcher(ABC):
    """Gives the units of one run to workers and reports what came of each.

    Parameters
    ----------
    packed_work
        The function and what is shared, as bytes.
    time_limit
        Seconds that a unit may take.
    dumps
        How things are packed to be sent.
    """

    def __init__(
        self, packed_work: bytes, time_limit: float | None, dumps: Callable[[object], bytes] = pickle.dumps
    ) -> None:
        self.time_limit = time_limit
        self.dumps = dumps
        self.work_key = hashlib.sha256(packed_work).hexdigest()  # a worker keeps what it loaded for an earlier run
        self.tasks: list[Task] = []

    @abstractmethod
    def capacity(self) -> int:
        """Return how many tasks there may be at a time."""

    @abstractmethod
    def send(self, task: Task) -> None:
        """Give the task to a worker."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Task]:
        """Return the tasks whose workers have said something or have died; none when the time is over."""

    @abstractmethod
    def receive(self, task: Task) -> Message | None:
        """Return what the worker says; a death is an end, too. None: nothing that concerns the unit."""

    @abstractmethod
    def stop(self, task: Task) -> None:
        """Kill the worker."""

    def reports(self, units: Sequence[Any]) -> Iterator[Finished[Any] | Failed]:
        """Run the units."""
        queue = AttemptQueue(len(units))
        reports: list[Finished[Any] | Failed] = []
        while True:
            while queue.waiting and len(self.tasks) < self.capacity():
                index = queue.take()
                task = Task(index, pickled(units[index], f"unit {index}", self.dumps))
                self.tasks.append(task)
                self.send(task)
            yield from reports  # meanwhile no worker is idle
            if not self.tasks:
                return
            reports = [report for index, outcome in self._outcomes() for report in queue.settle(index, outcome)]

    def stop_all(self) -> None:
        """Kill the workers that have tasks."""
        while self.tasks:
            self.stop(self.tasks[-1])
            self.tasks.pop()

    def _outcomes(self) -> Iterator[tuple[int, Any]]:
        """Wait until something happens; yield the outcomes of the units that came to an end by it."""
        first_deadline = min(task.deadline for task in self.tasks)
        ready = self.wait(max(0.0, first_deadline - time.monotonic()))
        late = [task for task in self.tasks if task.deadline <= time.monotonic() and task not in ready]
        for task in late:
            self.stop(task)
            self.tasks.remove(task)  # not earlier: whatever is interrupted, the worker must be found and stopped
            yield task.index, took_too_long(self.time_limit)
        message = self.receive(ready[0]) if ready else None
        if message is None:
            return
        task = ready[0]
        if message.kind == "started":
            if self.time_limit is not None:
                task.deadline = time.monotonic() + self.time_limit + GRACE_SECONDS
            return
        self.tasks.remove(task)
        if message.kind == "cannot load":
            raise LegibleError(
                f"a worker cannot load the work ({message.content.error}). What it uses must be defined in a module "
                "that the worker can import, not in an interactive session. The engine 'inline' runs everything in "
                f"this process.\n{message.content.traceback}"
            )
        yield task.index, message.content


class EngineWithWorkers(ABC):
    """An engine whose workers start where it is first entered and stop where it is last left; a run enters it too."""

    _entered = 0

    def __enter__(self) -> Self:
        if self._entered == 0:
            self._start()
        self._entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            self._stop()

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

    def _start(self) -> None:  # noqa: B027 (workers may be started when they are needed)
        """Start what all workers need."""

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def _dispatcher(self, work: object, time_limit: float | None) -> Dispatcher: ...
