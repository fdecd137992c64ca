"""Jobs side by side, each in a process of its own: `run_side_by_side`."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from typing import Any


def run_side_by_side(
    work: Callable[..., None], jobs: Mapping[str, tuple[Any, ...]], *, workers: int, minutes: float
) -> None:
    """Run jobs, so many at a time; what is not done after some minutes is stopped, and can go on later.

    Parameters
    ----------
    work
        A function of a module, called with the arguments of a job.
    jobs
        The arguments by the name of the job, in the order in which they begin.
    workers, minutes
        How many run at a time, and when to stop.
    """
    context = multiprocessing.get_context("spawn")
    ends = time.monotonic() + 60 * minutes
    waiting = list(jobs.items())
    running: dict[str, Any] = {}
    while (waiting or running) and time.monotonic() < ends:
        while waiting and len(running) < workers:
            name, arguments = waiting.pop(0)
            running[name] = context.Process(target=work, args=arguments, name=name)
            running[name].start()
        for name, process in list(running.items()):
            if not process.is_alive():
                done = "done" if process.exitcode == 0 else f"failed with code {process.exitcode}"
                print(f"{name}: {done}, {len(waiting)} waiting, {len(running) - 1} running", flush=True)
                del running[name]
        time.sleep(0.5)
    for process in running.values():
        process.terminate()
        process.join()
    if waiting or running:
        print(f"{len(waiting) + len(running)} are left; give the command again.", flush=True)
