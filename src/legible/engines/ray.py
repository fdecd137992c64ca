"""`RayEngine`: Ray on this machine or on a cluster. Ray is imported when the engine is made."""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

from legible.engines.attempts import raised, worker_died
from legible.engines.workers import WORK, Dispatcher, EngineWithWorkers, Message, Task, check_workers, perform, pickled
from legible.errors import LegibleError
from legible.imports import optional_package

_interruptions: list[Message] = []  # in a worker: messages about units that a time limit interrupted


def _import_ray() -> Any:
    return optional_package("ray", "ray", "the engine 'ray'")


def _perform_on_ray(
    work_key: str, boxed_work: list[Any], import_path: list[str], packed_unit: bytes, time_limit: float | None
) -> Iterator[Message]:
    """Run one unit in a Ray worker; the work is boxed, because otherwise Ray would unpack it for every unit."""
    if _interruptions:
        os._exit(1)  # this process may be in a bad state; the unit is retried in another one
    sys.path += [place for place in import_path if place not in sys.path]
    (work,) = boxed_work
    for message in perform(work_key, lambda: _import_ray().get(work), packed_unit, time_limit):
        if message.leaves_unsound:
            _interruptions.append(message)
        yield message


class _RayDispatcher(Dispatcher):
    """A dispatcher of units to Ray; the worker of a task is the stream of its messages."""

    def __init__(self, work: object, time_limit: float | None, workers: int | None) -> None:
        self.ray = _import_ray()
        packed_work = pickled(work, WORK, self.ray.cloudpickle.dumps)
        super().__init__(packed_work, time_limit, self.ray.cloudpickle.dumps)
        self.workers = workers
        self.boxed_work = [self.ray.put(packed_work)]
        # Messages arrive as soon as they are yielded. Retries follow the rules of `AttemptQueue`.
        self.perform = self.ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_perform_on_ray)

    def capacity(self) -> int:
        # Two per CPU, so that none waits for the driver. The number of nodes may change.
        return self.workers or 2 * max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def send(self, task: Task) -> None:
        task.worker = self.perform.remote(self.work_key, self.boxed_work, sys.path, task.packed_unit, self.time_limit)

    def wait(self, seconds: float) -> list[Task]:
        tasks = {task.worker: task for task in self.tasks}
        ready, others = self.ray.wait(list(tasks), num_returns=1, timeout=None if seconds == math.inf else seconds)
        if others and self.time_limit is not None:  # other tasks that are ready must not count as late
            ready += self.ray.wait(others, num_returns=len(others), timeout=0)[0]
        return [tasks[stream] for stream in ready]

    def receive(self, task: Task) -> Message | None:
        try:
            message: Message = self.ray.get(next(task.worker))
        except self.ray.exceptions.RayTaskError as error:  # not an error of the unit, which would be its outcome
            return Message("ended", raised(error.cause))
        except self.ray.exceptions.RayError as error:
            return Message("ended", worker_died(raised(error).error))
        return message

    def stop(self, task: Task) -> None:
        if task.worker is not None:
            self.ray.cancel(task.worker, force=True)


class RayEngine(EngineWithWorkers):
    """An engine that uses Ray: an existing connection, the cluster at an address, or a new one on this machine.

    A time limit stops every unit, as with `LocalProcesses`.

    - `address`: address of a running cluster, as for ``ray.init``; by default ``RAY_ADDRESS``. Without it, Ray starts
      here.
    - `workers`: number of units that run at a time; by default one per CPU of Ray.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._ray = _import_ray()
        self.address, self.workers, self._started = address, check_workers(workers), False

    def _start(self) -> None:
        if self._ray.is_initialized():
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        options = {"num_cpus": self.workers, "include_dashboard": False} if address == "local" else {}
        host, colon, port = address.rpartition(":")
        try:
            if colon and port.isdigit() and "/" not in host:  # without an answer, Ray would try for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            self._ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except OSError as error:
            raise LegibleError(f"there is no Ray cluster at {address!r}: {error}") from error
        except Exception as error:  # Ray raises plain exceptions, for example if it starts too slowly
            what = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise LegibleError(f"Ray did not start: {what} Try again, or use '--engine processes'.") from error
        self._started = True

    def _stop(self, *, in_a_hurry: bool) -> None:  # noqa: ARG002 (Ray has its own ways)
        if self._started:
            self._started = False
            self._ray.shutdown()

    def _dispatcher(self, work: object, time_limit: float | None) -> _RayDispatcher:
        return _RayDispatcher(work, time_limit, self.workers)
