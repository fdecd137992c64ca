"""Resumable jobs that run side by side, each in its own process.

- `run_side_by_side`: runs them; `job_parser`, `run_jobs`: the command line of those that make records.
- `Seconds`: the time that the parts of a job took, over all its runs.
- `run_study`: all stages of a study, each timed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

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
    work: Callable[..., None],
    jobs: Mapping[str, tuple[Any, ...]],
    *,
    workers: int,
    minutes: float,
    after_each: Callable[[], None] = lambda: None,
) -> None:
    """Run jobs, several at a time; stop those that are not done after some minutes, which can go on later.

    Parameters
    ----------
    work
        A function of a module, called with the arguments of a job.
    jobs
        The arguments by the name of the job, in the order in which they begin.
    workers, minutes
        How many run at a time, and when to stop.
    after_each
        Called whenever a job ends.
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
                after_each()
        time.sleep(0.5)
    for process in running.values():
        process.terminate()
        process.join()
    if waiting or running:
        print(f"{len(waiting) + len(running)} are left; give the command again.", flush=True)


def job_parser(description: str, plan: Path, out: Path, studies: Path) -> argparse.ArgumentParser:
    """Return the options that commands which make records and a table share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--plan", type=Path, default=plan)
    parser.add_argument("--out", type=Path, default=out, help="where records and the table go")
    parser.add_argument("--studies", type=Path, default=studies, help="where policies and studies are kept")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--only", default="", help="only policies whose name contains this")
    parser.add_argument("--seeds", default="", help="only policies of these seeds, such as '0,1'")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this many and resume later")
    parser.add_argument("--table", action="store_true", help="only write the table, from the existing records")
    return parser


def chosen_seeds(text: str) -> set[int] | None:
    """Return the seeds of the option ``--seeds``; None for all."""
    return {int(seed) for seed in text.split(",")} if text else None


def run_jobs(make_record: Callable[..., dict[str, Any]], jobs: Sequence[Any], asked: Any, settings: Any) -> None:
    """Make the records of jobs side by side, with the options of `job_parser`."""
    arguments = {job.name: (make_record, job, asked.out, asked.studies, settings) for job in jobs}
    run_side_by_side(_write_record, arguments, workers=asked.workers, minutes=asked.minutes)


def _write_record(
    make_record: Callable[..., dict[str, Any]], job: Any, out: Path, studies: Path, settings: Any
) -> None:
    torch.set_num_threads(1)
    write_json(out / f"{job.name}.json", make_record(job, studies / job.name, settings))


def _work(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Do a job in this process; exit cleanly when it is stopped, so that its seconds are saved."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def stop_with_parent() -> None:
        # Otherwise the jobs of a killed command would go on, and lock their studies when it is given again.
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_parent, daemon=True).start()
    work(*arguments)
