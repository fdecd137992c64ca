"""Jobs side by side, each in a process of its own, that can be stopped and go on.

- `run_side_by_side`: runs them.
- `Seconds`: how long the parts of a job took, over all times that it was begun.
- `run_study`: all stages of a study, each timed.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legible.evaluation import Evaluation, References
from legible.files import write_json
from legible.improvement import Improvement
from legible.study import Study


class Seconds:
    """Seconds that the parts of a job took, added up over all times that it was begun.

    Parameters
    ----------
    path
        The file that keeps them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count a part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.known[part] = round(self.known.get(part, 0.0) + time.perf_counter() - begin, 1)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self.known)


def run_study(study: Study, seconds: Seconds) -> tuple[Evaluation, Improvement, References]:
    """Run all stages of a study; returns what they found."""
    with seconds.of("mining"):
        study.mine()
    with seconds.of("evaluation"):
        evaluation = study.evaluate()
    with seconds.of("improvement"):
        improvement = study.improve()
    with seconds.of("references"):
        references = study.play_references()
    return evaluation, improvement, references


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
            running[name] = context.Process(target=_work, args=(work, arguments), name=name)
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


def _work(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Do a job in this process; when it is stopped, it leaves in good order, so that its seconds are kept."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work(*arguments)
