"""`LocalProcesses`: an engine with worker processes on this machine.

A worker is a spawned process with a pipe. It reads a request (work, unit, time limit), requests the work if it has not
loaded it, and answers with the messages of `legible.engines.workers.perform`; an empty request ends it. The main
process waits for all pipes at once, without threads or files in between: the death of a worker concerns one unit, and
every worker that hangs can be killed.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait

from legible.engines.attempts import GRACE_SECONDS, raised, worker_died
from legible.engines.workers import WORK, Dispatcher, EngineWithWorkers, Message, Task, check_workers, perform, pickled
from legible.errors import LegibleError

_STOP = b""
_CHECK_SECONDS = 1.0  # interval of checks for dead workers whose pipes are kept open by their child processes
_LIBRARIES = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM", "NUMEXPR_NUM", "NUMBA_NUM")
_THREAD_VARIABLES = tuple(f"{library}_THREADS" for library in _LIBRARIES)


# --- In a worker ---


def _serve(pipe: Connection) -> None:
    """Run units in a worker process: answer the requests that come through its end of a pipe until the empty one.

    A request is a pickled triple: the key of the work (the function and its shared data), the pickled unit, and its
    time limit. The answers are pickled `Message` objects.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops its workers

    def exit_with_parent() -> None:
        # Otherwise workers of a main process that was killed would stay.
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()

    def read_work() -> bytes:
        # Called only if this worker has not loaded the work yet: it is large, so it is not part of every request.
        pipe.send_bytes(pickle.dumps(Message("needs work")))
        return pipe.recv_bytes()

    with suppress(EOFError, ConnectionError):  # the parent is gone
        while (request := pipe.recv_bytes()) != _STOP:
            work_key, packed_unit, time_limit = pickle.loads(request)
            for message in perform(work_key, read_work, packed_unit, time_limit):
                try:
                    packed = pickle.dumps(message)
                except Exception as error:  # a result that cannot be sent
                    packed = pickle.dumps(Message("ended", raised(error)))
                pipe.send_bytes(packed)


# --- In the main process ---


class _Worker:
    """A worker process and this end of its pipe."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, other_end = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(other_end,), name="legible worker")
        with _environment_of_workers():
            self.process.start()
        other_end.close()
        self.has_answered = False
        atexit.register(self.kill)  # a program may end without leaving the engine

    def send(self, data: bytes) -> None:
        with suppress(OSError):  # a dead worker is noticed when its answer is read
            self.pipe.send_bytes(data)

    def receive(self) -> Message | None:
        """Return the worker's message; None if it has died."""
        data = None
        with suppress(EOFError, OSError):
            data = self.pipe.recv_bytes() if self.pipe.poll() else None
        if data is None:
            return None
        self.has_answered = True
        try:
            message: Message = pickle.loads(data)
        except Exception as error:  # a result that can be pickled but not unpickled
            return Message("ended", raised(error))
        return message

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        atexit.unregister(self.kill)

    def how_it_died(self) -> str:
        """Return how the worker died; raise if it could not start because a script starts workers on import."""
        _stop([self], GRACE_SECONDS)  # it may still be ending
        code = self.process.exitcode
        if not self.has_answered and code == 1:
            raise LegibleError(
                f"a worker process ended before it could start (exit code {code}). Every worker imports the script "
                "that uses the engine 'processes', so put the script's code below `if __name__ == '__main__':`. Or use "
                "the engine 'inline', which starts no process."
            )
        if code is None or code >= 0:
            return f"exit code {code}"
        hint = ": perhaps too little memory; try fewer workers" if code == -signal.SIGKILL else ""
        return f"signal {-code}, {signal.Signals(-code).name}{hint}"


def _stop(workers: Iterable[_Worker], seconds: float) -> None:
    """Ask workers to end, and kill those that are still running after some seconds."""
    workers = list(workers)
    over = time.monotonic() + seconds
    for worker in workers:
        worker.send(_STOP)
    for worker in workers:
        worker.process.join(max(0.0, over - time.monotonic()))
        worker.kill()


@contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Give processes that are started in the body one thread each, and block Ctrl-C while they import."""
    before = {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ}
    mask = None
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # otherwise the first worker would start it, which unblocks signals
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name in _THREAD_VARIABLES:
            del os.environ[name]
        os.environ.update(before)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _LocalDispatcher(Dispatcher):
    """A dispatcher of units to local workers. Idle workers belong to the engine and outlive a run."""

    def __init__(self, work: object, time_limit: float | None, workers: int, idle: list[_Worker]) -> None:
        self.packed_work = pickled(work, WORK)
        super().__init__(self.packed_work, time_limit)
        self.workers, self.idle = workers, idle

    def capacity(self) -> int:
        return self.workers

    def send(self, task: Task) -> None:
        while self.idle and not self.idle[-1].process.is_alive():  # no unit caused this
            self.idle.pop().kill()
        task.worker = self.idle.pop() if self.idle else _Worker()
        task.worker.send(pickle.dumps((self.work_key, task.packed_unit, self.time_limit)))

    def wait(self, seconds: float) -> list[Task]:
        ready = wait([task.worker.pipe for task in self.tasks], min(seconds, _CHECK_SECONDS))
        with_message = [task for task in self.tasks if task.worker.pipe in ready]
        return with_message or [task for task in self.tasks if not task.worker.process.is_alive()]

    def receive(self, task: Task) -> Message | None:
        worker = task.worker
        message = worker.receive()
        if message is None:
            return Message("ended", worker_died(worker.how_it_died()))
        if message.kind == "needs work":
            worker.send(self.packed_work)
            return None
        if message.leaves_unsound:
            worker.kill()
        elif message.kind != "started":
            self.idle.append(worker)
        return message

    def stop(self, task: Task) -> None:
        if task.worker is not None:
            task.worker.kill()


class LocalProcesses(EngineWithWorkers):
    """An engine with worker processes on this machine, one thread each; by default one per available core.

    A time limit stops every unit: Python code is interrupted, and a worker that is still running five seconds later is
    killed. An interrupted worker is replaced, because it may have been compiling.
    """

    def __init__(self, workers: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers: int = check_workers(workers) or cores
        self._idle: list[_Worker] = []

    def _dispatcher(self, work: object, time_limit: float | None) -> _LocalDispatcher:
        return _LocalDispatcher(work, time_limit, self.workers, self._idle)

    def _stop(self, *, in_a_hurry: bool) -> None:
        _stop(self._idle, 0.0 if in_a_hurry else GRACE_SECONDS)
        self._idle.clear()
