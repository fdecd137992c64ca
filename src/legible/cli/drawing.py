"""What the commands draw with: results on standard output, everything else on standard error.

- `out`, `say`, `complain`: where results, remarks and errors go; `tell`: sentences of a result.
- `Bars`: progress of a study's stages, with rate and time left.
- `print_json`: results for machines.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from legible.formatting import duration, number

# Stages that are over sooner are not worth a line.
PATIENCE = 1.0
_NOT_EPISODES = {"importance", "rules", "distillation"}


def out() -> Console:
    """The console for results."""
    return Console(highlight=False)


def tell(text: str, *, markup: bool = False) -> None:
    """Print sentences of a result: a terminal's lines break between words, elsewhere a sentence is one line."""
    console = out()
    console.print(text, soft_wrap=not console.is_terminal, markup=markup)


def say(text: str) -> None:
    """Remark something that is no result, above the bars if there are some; lines break as in `tell`."""
    console = Bars.drawn_on or Console(stderr=True)
    console.print(text, soft_wrap=not console.is_terminal, highlight=False)


def complain(text: str) -> None:
    """Print an error: one line."""
    one_line = " ".join(text.split())
    Console(stderr=True).print(f"[bold red]legible:[/] {escape(one_line)}", highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print results as JSON; numbers that JSON does not have are null."""
    click.echo(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """Make a table of texts; the columns in `right` hold numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=column in right)
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    return made


class _RateColumn(TextColumn):
    """Episodes a second."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        """Draw the rate of one stage."""
        speed = task.finished_speed or task.speed
        if not speed or task.description in _NOT_EPISODES:
            return Text("")
        return Text(f"{number(speed, 2)} episodes/s")


class Bars:
    """Progress of stages: call it as ``bars(stage, done, of)``. Bars in a terminal, a line a stage elsewhere."""

    drawn_on: Console | None = None
    """The console of bars that are being drawn: what is printed past it would leave copies of them behind."""

    def __init__(self, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:15}"),
            BarColumn(30),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._lines = not quiet and not console.is_terminal
        self._tasks: dict[str, tuple[TaskID, float]] = {}
        self._ended: set[str] = set()

    def __enter__(self) -> Self:
        Bars.drawn_on = self._bars.console
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._settle()
        self._bars.stop()
        Bars.drawn_on = None

    def __call__(self, stage: str, done: int, of: int) -> None:
        """Draw how far a stage is."""
        if stage not in self._tasks:
            self._settle()
            self._tasks[stage] = (self._bars.add_task(stage, total=of), time.monotonic())
        task, began = self._tasks[stage]
        self._bars.update(task, completed=done, total=of)
        if done >= of and stage not in self._ended:
            self._end(stage, task, time.monotonic() - began, of)

    def _settle(self) -> None:
        """Fill the bars of stages that ended with less than was expected, such as a composition that nothing joined."""
        for task in self._bars.tasks:
            self._bars.update(task.id, total=task.completed)
            stage = task.description
            if stage not in self._ended:
                self._end(stage, task.id, time.monotonic() - self._tasks[stage][1], int(task.completed))

    def _end(self, stage: str, task: TaskID, seconds: float, of: int) -> None:
        if seconds < PATIENCE:
            self._bars.update(task, visible=False)
            return
        self._ended.add(stage)
        if self._lines:
            what = "steps" if stage in _NOT_EPISODES else "episodes"
            say(f"{stage}: {number(of)} {what} in {duration(seconds)}")
