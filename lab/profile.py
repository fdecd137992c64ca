"""``python -m lab.profile COMMAND …``: run a study command in one process and print where its time goes.

COMMAND is what a user types, such as ``legible run CartPole-v1 policy.zip --preset quick``. Seconds are shown by step
of the study ("between": start-up, estimates and the terminal) and by kind:

- environment: steps and resets of the environment itself;
- network: scores and actions of the policy, without the batches that are made for it;
- matching: compiled rules, on states that are played or recorded;
- statistics: other compiled functions, such as resampling;
- compiling: numba compiles a function, or reads it from its cache;
- Python: everything else;
- waiting: no processor time passes (files, or a busy machine).

The columns "episodes", "steps" and "states" count the episodes that were played, the environment steps taken and the
states that the policy was asked about. Stages of a step (`legible.play.stages`) have rows of their own; "recorded" are
the episodes that others are compared with: unguided ones, and those of a composition that grows.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event
from rich.console import Console
from rich.table import Table

import legible.imports
from legible.cli import main as run_legible
from legible.engines import InProcess
from legible.evaluation.recorded import STEPS
from legible.evaluation.units import RETURNS
from legible.play import slots
from legible.policies import network, wrapped
from legible.policies.actors import policy as actors
from legible.report import builder
from legible.study import Study
from legible.study.running import StageRunner

KINDS = ("environment", "network", "matching", "statistics", "compiling", "Python")
_KINDS_OF_KERNELS = {"legible.rules": "matching", "legible.guidance": "matching", "legible_envs": "environment"}


class Clock:
    """Wall and processor seconds by step of the study and by kind; each moment counts for the innermost kind."""

    def __init__(self) -> None:
        self.wall: dict[tuple[str, str], float] = defaultdict(float)
        self.processor: dict[str, float] = defaultdict(float)
        self.counts: dict[tuple[str, str], int] = defaultdict(int)
        self.step = "between"
        self._kinds = ["Python"]
        self._wall, self._processor = time.perf_counter(), 0.0  # processor time since the process started

    def _book(self) -> None:
        now = time.perf_counter()
        self.wall[self.step, self._kinds[-1]] += now - self._wall
        self._wall = now

    def enter(self, kind: str) -> None:
        """Start to book time for a kind."""
        self._book()
        self._kinds.append(kind)

    def leave(self) -> None:
        """Book time for the kind before again."""
        self._book()
        self._kinds.pop()

    def change_step(self, step: str) -> str:
        """Book time for another step of the study, and return the one before."""
        self._book()
        now = time.process_time()
        self.processor[self.step] += now - self._processor
        before, self.step, self._processor = self.step, step, now
        return before

    def timed(self, kind: str, function: Callable[..., Any], count: Callable[..., int] | None = None) -> Any:
        """Return a function that books its time for a kind, and what `count` returns for its arguments."""

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if count is not None and self._kinds[-1] != kind:
                self.counts[self.step, kind] += count(*args)
            self.enter(kind)
            try:
                return function(*args, **options)
            finally:
                self.leave()

        return call

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per step, in the order of their time, and the sum of all."""
        steps = sorted({step for step, _ in self.wall}, key=lambda step: -sum(self._of(step).values()))
        rows = [self._row(step, [step]) for step in steps]
        return [*rows, self._row("all", steps)]

    def _of(self, step: str) -> dict[str, float]:
        return {kind: self.wall[step, kind] for kind in KINDS}

    def _row(self, name: str, steps: list[str]) -> dict[str, Any]:
        seconds = {kind: sum(self.wall[step, kind] for step in steps) for kind in KINDS}
        wall, processor = sum(seconds.values()), sum(self.processor[step] for step in steps)
        waiting = max(0.0, wall - processor)
        return {
            "step": name,
            **{kind: round(value, 3) for kind, value in seconds.items()},
            "waiting": round(waiting, 3),
            "wall": round(wall, 3),
            "processor": round(processor, 3),
            "episodes": sum(self.counts[step, "episodes"] for step in steps),
            "steps": sum(self.counts[step, "environment"] for step in steps),
            "states": sum(self.counts[step, "network"] for step in steps),
        }


def instrument(clock: Clock) -> None:
    """Book the time of environments, networks, compiled functions and steps of the study on a clock."""
    slots.step_environment = clock.timed("environment", slots.step_environment, lambda *_: 1)
    slots.reset_environment = clock.timed("environment", slots.reset_environment)
    seen: set[type] = set()
    make_batch_slots = slots.BatchSlots.__init__

    def watch_batch(self: Any, envs: Any, *args: Any, **options: Any) -> None:
        kind = type(envs)
        if kind not in seen:
            seen.add(kind)
            kind.step = clock.timed("environment", kind.step)
            kind.reset = clock.timed("environment", kind.reset)
        make_batch_slots(self, envs, *args, **options)

    slots.BatchSlots.__init__ = watch_batch  # type: ignore[method-assign]
    batch_step = slots.BatchSlots.step

    def count_batch(self: Any, actions: Any, active: Any) -> None:
        clock.counts[clock.step, "environment"] += int(np.count_nonzero(active))
        batch_step(self, actions, active)

    slots.BatchSlots.step = count_batch  # type: ignore[method-assign]
    policies = (network.NetworkPolicy, wrapped.FunctionPolicy, wrapped.ActionFunctionPolicy, actors.ActorPolicy)
    for policy in policies:
        for name in {"scores", "predict", "part_scores"} & vars(policy).keys():
            setattr(policy, name, clock.timed("network", getattr(policy, name), lambda _, seen, *__: _length(seen)))

    kernel_call = legible.imports._Kernel.__call__

    def call_kernel(self: Any, *args: Any) -> Any:
        module = self.__wrapped__.__module__
        kind = next((kind for start, kind in _KINDS_OF_KERNELS.items() if module.startswith(start)), "statistics")
        clock.enter(kind)
        try:
            return kernel_call(self, *args)
        finally:
            clock.leave()

    legible.imports._Kernel.__call__ = call_kernel  # type: ignore[method-assign]

    class Compiling(event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            clock.enter("compiling")

        def on_end(self, _: Any) -> None:
            clock.leave()

    event.register("numba:compile", Compiling())
    instrument_steps(clock)


def instrument_steps(clock: Clock) -> None:
    """Book the time of every step of the study, of its stages and of the report in rows of their own."""
    do = Study.do

    def do_step(self: Study, name: str) -> Any:
        before = clock.change_step(name)
        try:
            return do(self, name)
        finally:
            clock.change_step(before)

    Study.do = do_step  # type: ignore[method-assign]
    run_stage = StageRunner.__call__

    def call_stage(self: StageRunner, *args: Any, kept: Any = RETURNS, stage: str = "", **options: Any) -> Any:
        name = (stage or self._stages[0]) + (" (recorded)" if kept is STEPS else "")
        before = clock.change_step(name)
        try:
            return run_stage(self, *args, kept=kept, stage=stage, **options)
        finally:
            clock.change_step(before)

    StageRunner.__call__ = call_stage  # type: ignore[method-assign]
    run_in_process = InProcess.run

    def count_episodes(self: InProcess, function: Any, shared: Any, units: Any, **options: Any) -> Any:
        clock.counts[clock.step, "episodes"] += sum(len(unit) for unit in units if hasattr(unit, "__len__"))
        return run_in_process(self, function, shared, units, **options)

    InProcess.run = count_episodes  # type: ignore[method-assign]
    write_report = builder.write_report

    def write(*args: Any, **options: Any) -> Any:
        before = clock.change_step("report")
        try:
            return write_report(*args, **options)
        finally:
            clock.change_step(before)

    builder.write_report = write


def _length(observations: Any) -> int:
    """Return the number of rows of observations, which may be a dictionary."""
    one = next(iter(observations.values())) if isinstance(observations, dict) else observations
    return len(one) if np.ndim(one) > 1 else 1


def draw(rows: list[dict[str, Any]], words: list[str]) -> Table:
    """Return the table of the rows of a clock."""
    table = Table(*rows[0], title=f"Seconds: legible {' '.join(words)}")
    for row in rows:
        table.add_row(
            *(value if isinstance(value, str) else f"{value:,.{isinstance(value, float):d}f}" for value in row.values())
        )
    return table


def main() -> None:
    """Run the command, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.profile", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="legible run …")
    arguments = parser.parse_args()
    words = arguments.command[arguments.command[:1] == ["legible"] :]
    if not words or words[0] != "run":
        parser.error("the command must be 'legible run …'")
    clock = Clock()
    instrument(clock)
    # One process, or nothing would be seen of the workers; results do not depend on it.
    sys.argv = ["legible", *words, "--engine", "inline"]
    try:
        run_legible()
    except SystemExit as error:
        if error.code:
            raise
    finally:
        clock.change_step("end")
        rows = clock.rows()
        Console(width=180).print(draw(rows, words))
        if arguments.json:
            arguments.json.write_text(json.dumps({"command": words, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
