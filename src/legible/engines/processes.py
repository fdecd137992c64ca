"""Where units of work run. An engine knows nothing of what the work is, and has no influence on what comes out.

- `InProcess`: here, one unit after the other.
- `LocalProcesses`: in processes of this machine, by default one for every core.
- `RayEngine`: on Ray, on this machine or on a cluster.
- `make_engine`: one of these by name.

Every engine reports a unit as `Finished` or `Failed` as soon as that is known. A unit that raises is run once more, a
unit whose worker dies twice more, a unit that takes too long is not run again; the other units go on.
Every unit has one thread for its linear algebra: more would fight over cores, and could change the last bit.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Protocol, Self, TypeVar

from threadpoolctl import threadpool_limits

from legible.engines.threads import one_thread
from legible.errors import LegibleError, did_you_mean

Shared = TypeVar("Shared")
Unit = TypeVar("Unit")
R = TypeVar("R")

_GRACE = 5.0  # seconds that a worker has to stop by itself, at the end of its time or of its work, before it is killed
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Finished(Generic[R]):
    """A unit that gave a result."""

    index: int
    result: R


@dataclass(frozen=True)
class Failed:
    """A unit that gave none: its own error, where that was raised, and how often the unit was tried."""

    index: int
    error: str
    traceback: str
    attempts: int


class Engine(Protocol):
    """Something that runs units of work.

    Used as a context manager, it keeps its workers from one run to the next; otherwise they last for one run.
    """

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
            Seconds that one unit may take; None for no limit.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


_NAMES = ("inline", "processes", "ray")


def make_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """Return the engine of that name: ``"inline"``, ``"processes"`` or ``"ray"``.

    >>> with make_engine("inline") as engine:
    ...     [report.result for report in engine.run(pow, 2, [3, 4])]
    [8, 16]
    """
    if address is not None and name != "ray":
        raise LegibleError(f"an address is for the engine 'ray', not for {name!r}: leave it out or choose 'ray'.")
    if name == "inline":
        if workers not in {None, 1}:
            raise LegibleError(f"the engine 'inline' is one process, not {workers} workers: choose 'processes'.")
        return InProcess()
    if name == "processes":
        return LocalProcesses(workers)
    if name == "ray":
        return RayEngine(address, workers)
    raise LegibleError(
        f"there is no engine {name!r}." + did_you_mean(name, _NAMES) + f" The engines are {', '.join(_NAMES)}."
    )


# What every engine shares: one attempt at a unit, and what follows from it.


class _TimeUpError(BaseException):
    """The unit's time is over. Not an Exception, so that an environment's ``except Exception`` does not swallow it."""


@dataclass(frozen=True)
class _Mishap:
    """An attempt that gave no result, and how many attempts a unit may have in all when one ends like this."""

    error: str
    traceback: str
    allowed: int


def _raised(error: BaseException) -> _Mishap:
    text = "".join(traceback.format_exception(error))
    return _Mishap(f"{type(error).__name__}: {error}".removesuffix(": "), text, allowed=2)


def _took_too_long(time_limit: float | None, where: str = "") -> _Mishap:
    return _Mishap(f"took longer than {time_limit:g} s", where, allowed=1)


class _Death(_Mishap):
    """An attempt in which the worker died."""

    def __init__(self, how: str) -> None:
        super().__init__(f"worker died ({how})", "", allowed=3)


class _Tries:
    """The units of a run that wait for their turn, and how often each has been tried."""

    def __init__(self, count: int) -> None:
        self.waiting = deque(range(count))
        self.attempts = [0] * count

    def take(self) -> int:
        index = self.waiting.popleft()
        self.attempts[index] += 1
        return index

    def settle(self, index: int, outcome: R | _Mishap) -> list[Finished[R] | Failed]:
        """Return the report of a unit; none when it is to be tried again."""
        if not isinstance(outcome, _Mishap):
            return [Finished(index, outcome)]
        if self.attempts[index] < outcome.allowed:
            self.waiting.appendleft(index)
            return []
        return [Failed(index, outcome.error, outcome.traceback, self.attempts[index])]


def _attempt(function: Callable[[Shared, Unit], R], shared: Shared, unit: Unit, limit: float | None) -> R | _Mishap:
    try:
        with one_thread(), threadpool_limits(limits=1), _alarm(limit):
            return function(shared, unit)
    except _TimeUpError:
        return _took_too_long(limit, traceback.format_exc())
    except (Exception, SystemExit) as error:
        return _raised(error)


def _can_alarm() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise `_TimeUpError` in the body when it lasts longer."""
    if seconds is None or not _can_alarm():
        yield
        return
    armed = True

    def ring(signal_number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if armed:
            raise _TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _check_time_limit(time_limit: float | None) -> None:
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise LegibleError(f"the time limit of a unit is a number of seconds above 0, or None; got {time_limit!r}.")


def _check_workers(workers: int | None) -> int | None:
    if workers is not None and workers < 1:
        raise LegibleError(f"the number of workers is at least 1, got {workers}.")
    return workers


def _pickled(thing: object, what: str, dumps: Callable[[object], bytes] = pickle.dumps) -> bytes:
    try:
        return dumps(thing)
    except Exception as error:
        raise LegibleError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}). Functions and classes must "
            "be defined at the top level of a module, not inside a function and not as a lambda. The engine 'inline' "
            "runs everything in this process and sends nothing."
        ) from error


def _cannot_load(mishap: _Mishap) -> LegibleError:
    return LegibleError(
        f"a worker cannot load the work ({mishap.error}). What it uses must be defined in a module that the worker "
        "can import, not in an interactive session. The engine 'inline' runs everything in this process.\n"
        f"{mishap.traceback}"
    )


class InProcess:
    """Here, in the process that asks: one unit after the other, in order.

    A time limit stops Python code only, and only where the main thread runs it.
    """

    def run(
        self,
        function: Callable[[Shared, Unit], R],
        shared: Shared,
        units: Sequence[Unit],
        *,
        time_limit: float | None = None,
    ) -> Iterator[Finished[R] | Failed]:
        """Call ``function(shared, unit)`` for every unit: see `Engine.run`."""
        _check_time_limit(time_limit)
        if time_limit is not None and not _can_alarm():
            warnings.warn("outside the main thread the engine 'inline' cannot keep a time limit.", stacklevel=2)
        tries = _Tries(len(units))
        while tries.waiting:
            index = tries.take()
            yield from tries.settle(index, _attempt(function, shared, units[index], time_limit))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


# In a worker, of this machine or of Ray's.

_work: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {}  # the function and what is shared, of the run in progress


def _load(key: str, read: Callable[[], bytes]) -> _Mishap | None:
    """Make the work ready unless it is; what was there before goes first, to make room."""
    try:
        if key not in _work:
            _work.clear()
            _work[key] = pickle.loads(read())
    except Exception as error:
        return _raised(error)
    return None


def _load_file(path: Path) -> _Mishap | None:
    return _load(str(path), path.read_bytes)


def _run_loaded(packed_unit: bytes, time_limit: float | None) -> Any:
    ((function, shared),) = _work.values()
    return _attempt(lambda shared, packed: function(shared, pickle.loads(packed)), shared, packed_unit, time_limit)


# In the process that has workers.


@dataclass
class _Job:
    """A unit in the hands of a worker, which first loads the work and then runs the unit; only then its time begins."""

    index: int
    packed_unit: bytes
    worker: Any = None  # whom the crew gives it to, if it knows
    running: bool = False
    deadline: float = math.inf
    killed: bool = False

    def clock_in(self, time_limit: float | None) -> None:
        self.running = True
        if time_limit is not None:
            self.deadline = time.monotonic() + time_limit + _GRACE


class _Crew(ABC):
    """The workers of one run and their jobs, each under a handle that can be waited for."""

    def __init__(self, time_limit: float | None, dumps: Callable[[object], bytes]) -> None:
        self.time_limit = time_limit
        self.dumps = dumps
        self.jobs: dict[Any, _Job] = {}

    @abstractmethod
    def places(self) -> int:
        """Return how many jobs may be in hand at a time."""

    @abstractmethod
    def begin(self, job: _Job) -> Any:
        """Let a worker load the work, or run the unit if it has loaded; return the job's handle."""

    @abstractmethod
    def go_on(self, handle: Any, job: _Job) -> Any:
        """Let the worker that has loaded run the unit; return the job's handle."""

    @abstractmethod
    def wait(self, timeout: float | None) -> Any:
        """Return the handle of a job that has news, or None when the time is over."""

    @abstractmethod
    def news(self, handle: Any, job: _Job) -> Any:
        """Return what the worker has to say: None or a mishap after loading, the outcome after running."""

    @abstractmethod
    def kill(self, handle: Any, job: _Job) -> None:
        """Stop a worker that does not stop by itself."""

    def reports(self, units: Sequence[Any]) -> Iterator[Finished[Any] | Failed]:
        tries = _Tries(len(units))
        reports: list[Finished[Any] | Failed] = []
        while True:
            while tries.waiting and len(self.jobs) < self.places():
                index = tries.take()
                job = _Job(index, _pickled(units[index], f"unit {index}", self.dumps))
                self.jobs[self.begin(job)] = job
            yield from reports  # meanwhile no worker is idle
            if not self.jobs:
                return
            reports = [report for index, outcome in self.outcomes() for report in tries.settle(index, outcome)]

    def outcomes(self) -> Iterator[tuple[int, Any]]:
        """Wait until something happens, and yield the outcome if it was that a unit came to its end."""
        soonest = min(job.deadline for job in self.jobs.values())
        handle = self.wait(None if soonest == math.inf else max(0.0, soonest - time.monotonic()))
        job = self.jobs.get(handle)
        if job is not None:
            job.deadline = math.inf
        self.kill_late_jobs()
        if job is None:
            return
        news = self.news(handle, job)
        del self.jobs[handle]  # not earlier: whatever is interrupted, the worker must be found and stopped
        if isinstance(news, _Death) and job.killed:
            yield job.index, _took_too_long(self.time_limit)
        elif isinstance(news, _Death) or job.running:
            yield job.index, news
        elif news is not None:
            raise _cannot_load(news)
        else:
            job.clock_in(self.time_limit)
            self.jobs[self.go_on(handle, job)] = job

    def kill_late_jobs(self) -> None:
        for handle, job in self.jobs.items():
            if job.deadline <= time.monotonic():
                job.killed, job.deadline = True, math.inf
                self.kill(handle, job)


class _WithWorkers(ABC):
    """An engine whose workers start where it is first entered and stop where it is last left; a run enters it too."""

    _depth = 0

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._start()
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
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
        _check_time_limit(time_limit)
        with self, self._crew((function, shared), time_limit) as crew:
            yield from crew.reports(units)

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def _crew(self, work: object, time_limit: float | None) -> AbstractContextManager[_Crew]: ...


# Processes of this machine.


def _set_up_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then stops its workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        for path in _work:  # it was killed, or it would have cleared up
            shutil.rmtree(Path(path).parent, ignore_errors=True)
        os._exit(1)


@contextmanager
def _for_children() -> Iterator[None]:
    """Let processes that start here be born with one thread each, and deaf to Ctrl-C while they still import."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if heard is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)


class _LocalWorker:
    """A pool of one process, so that a death has one suspect and no other victim."""

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        with _for_children():
            self.pool.submit(_set_up_worker)
        (self.process,) = self.pool._processes.values()
        self.loaded: Path | None = None

    def submit(self, function: Callable[..., object], *arguments: object) -> Future[Any]:
        try:
            return self.pool.submit(function, *arguments)
        except BrokenExecutor as broken:  # it has just died
            future: Future[Any] = Future()
            future.set_exception(broken)
            return future

    def cause_of_death(self) -> str:
        self.pool.shutdown()
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        hint = ": perhaps too little memory for so many workers" if code == -signal.SIGKILL else ""
        return f"signal {-code}, {signal.Signals(-code).name}{hint}"


def _dismiss(workers: Iterable[_LocalWorker], patience: float) -> None:
    """Let workers end, and kill those that have not when the patience is over."""
    workers = list(workers)
    over = time.monotonic() + patience
    for worker in workers:
        worker.pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        if not connection.wait([worker.process.sentinel], max(0.0, over - time.monotonic())):
            worker.process.kill()
        worker.process.join()


class _LocalCrew(_Crew):
    """Local workers; those that rest are the engine's, and may have loaded the work of another run."""

    def __init__(self, path: Path, size: int, resting: list[_LocalWorker], time_limit: float | None) -> None:
        super().__init__(time_limit, pickle.dumps)
        self.path, self.size, self.resting = path, size, resting

    def places(self) -> int:
        return self.size

    def begin(self, job: _Job) -> Future[Any]:
        while self.resting and not self.resting[-1].process.is_alive():  # not the fault of any unit
            self.resting.pop().pool.shutdown()
        job.worker = worker = self.resting.pop() if self.resting else _LocalWorker()
        if worker.loaded == self.path:
            job.clock_in(self.time_limit)
            return worker.submit(_run_loaded, job.packed_unit, self.time_limit)
        worker.loaded = self.path
        return worker.submit(_load_file, self.path)

    def go_on(self, handle: Future[Any], job: _Job) -> Future[Any]:  # noqa: ARG002
        self.resting.remove(job.worker)
        return job.worker.submit(_run_loaded, job.packed_unit, self.time_limit)

    def wait(self, timeout: float | None) -> Future[Any] | None:
        done, _ = wait(self.jobs, timeout, FIRST_COMPLETED)
        return next(iter(done), None)

    def news(self, handle: Future[Any], job: _Job) -> Any:
        error = handle.exception()
        if isinstance(error, BrokenExecutor):
            death = _Death(job.worker.cause_of_death())
            if not job.running and job.worker.process.exitcode == 1:
                raise _cannot_start(death)
            return death
        if job.killed:  # too late: it has come to its end
            _dismiss([job.worker], 0)
        else:
            self.resting.append(job.worker)
        return handle.result() if error is None else _raised(error)

    def kill(self, handle: Future[Any], job: _Job) -> None:  # noqa: ARG002
        job.worker.process.kill()


def _cannot_start(death: _Death) -> LegibleError:
    return LegibleError(
        f"{death.error} before it could start. A script that uses the engine 'processes' must do so below "
        "`if __name__ == '__main__':`, because every worker imports the script. The engine 'inline' starts no process."
    )


class LocalProcesses(_WithWorkers):
    """Processes of this machine, one thread each; by default as many as this process may use cores."""

    def __init__(self, workers: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers = _check_workers(workers) or cores
        self._resting: list[_LocalWorker] = []

    @contextmanager
    def _crew(self, work: object, time_limit: float | None) -> Iterator[_LocalCrew]:
        with tempfile.TemporaryDirectory(prefix="legible-") as folder:
            # A file, because what goes through a process's starting pipe holds up the start of the next one.
            path = Path(folder, "work.pickle")
            path.write_bytes(_pickled(work, "the work"))
            crew = _LocalCrew(path, self.workers, self._resting, time_limit)
            try:
                yield crew
            finally:
                _dismiss([job.worker for job in crew.jobs.values() if job.worker], 0)

    def _start(self) -> None: ...

    def _stop(self) -> None:
        _dismiss(self._resting, _GRACE)
        self._resting.clear()


# Ray.


def _run_on_ray(
    boxed_work: list[Any], import_path: list[str], packed_unit: bytes, time_limit: float | None
) -> Iterator[Any]:
    sys.path += [place for place in import_path if place not in sys.path]
    (work,) = boxed_work  # boxed, or Ray would unpack it again for every unit
    yield _load(work.hex(), lambda: _ray().get(work))
    yield _run_loaded(packed_unit, time_limit)


def _ray() -> Any:
    if importlib.util.find_spec("ray") is None:
        raise LegibleError("the engine 'ray' needs ray: pip install 'legible-rl[ray]', or choose 'processes'.")
    return importlib.import_module("ray")


def _knock(address: str) -> None:
    """Raise OSError when nobody answers at host:port: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


class _RayCrew(_Crew):
    """Ray's workers, each job a task of Ray."""

    def __init__(self, work: object, size: int | None, time_limit: float | None) -> None:
        self.ray = _ray()
        super().__init__(time_limit, self.ray.cloudpickle.dumps)
        self.size = size
        self.boxed_work = [self.ray.put(_pickled(work, "the work", self.dumps))]
        # The two things that the task yields come as two pieces of news. What fails is tried again by our own rule.
        self.task = self.ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_run_on_ray)

    def places(self) -> int:
        # Two for every CPU, so that none waits for the driver. Nodes may come and go.
        return self.size or 2 * max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def begin(self, job: _Job) -> Any:
        return self.task.remote(self.boxed_work, sys.path, job.packed_unit, self.time_limit)

    def go_on(self, handle: Any, job: _Job) -> Any:  # noqa: ARG002
        return handle

    def wait(self, timeout: float | None) -> Any:
        ready, _ = self.ray.wait(list(self.jobs), num_returns=1, timeout=timeout)
        return next(iter(ready), None)

    def news(self, handle: Any, job: _Job) -> Any:  # noqa: ARG002
        try:
            return self.ray.get(next(handle))
        except self.ray.exceptions.RayTaskError as error:  # not the unit's: that would come as a mishap
            return _raised(error.cause)
        except self.ray.exceptions.RayError as error:
            return _Death(_raised(error).error)

    def kill(self, handle: Any, job: _Job) -> None:  # noqa: ARG002
        self.ray.cancel(handle, force=True)


class RayEngine(_WithWorkers):
    """Ray: the cluster at an address, or one of its own on this machine. If Ray is connected already, that is used.

    Parameters
    ----------
    address
        Of a running cluster, as for ``ray.init``; by default that in ``RAY_ADDRESS``; without it, Ray starts here.
    workers
        How many units run at a time; by default one for every CPU that Ray has.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        _ray()
        self.address = address
        self.workers = _check_workers(workers)
        self._started = False

    def _start(self) -> None:
        if _ray().is_initialized():
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        options = {"num_cpus": self.workers, "include_dashboard": False} if address == "local" else {}
        try:
            _knock(address)
            _ray().init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except OSError as error:
            raise LegibleError(f"there is no Ray cluster at {address!r}: {error}") from error
        self._started = True

    def _stop(self) -> None:
        if self._started:
            self._started = False
            _ray().shutdown()

    @contextmanager
    def _crew(self, work: object, time_limit: float | None) -> Iterator[_RayCrew]:
        crew = _RayCrew(work, self.workers, time_limit)
        try:
            yield crew
        finally:
            for handle, job in crew.jobs.items():
                crew.kill(handle, job)
