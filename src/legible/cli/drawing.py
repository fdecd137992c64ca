"""Output of the commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Table
from rich.text import Text

from legible.formatting import counted, duration, number

# Stages that are over sooner are not worth a line.
PATIENCE = 1.0
# Seconds after which a line is printed where none is drawn, at first and at most.
SILENCE, LONGEST_SILENCE = 10.0, 120.0
_NOT_EPISODES = {"importance", "rules", "distillation", "training"}
STAGE_WORDS = {
    "bench": "confirming",
    "exploit": "playing against the exploiter",
    "experiences": "playing",
    "importance": "finding important features",
    "rules": "mining rules",
    "search": "searching for rules",
    "screening": "testing rules",
    "racing": "testing rules",
    "confirmation": "confirming on held-out seeds",
    "racing confirmation": "confirming on held-out seeds",
    "improvement": "composing",
    "composition": "composing",
    "composition check": "checking the composition",
    "final": "final check",
    "references": "baselines",
    "explanation": "explaining",
    "mistakes rollouts": "mistakes",
    "ledger": "splitting gains",
    "failures": "looking for failures",
    "failures rollouts": "looking for last chances",
    "causes rollouts": "looking for causes",
    "discovery": "discovering relations",
    "symmetry": "measuring symmetry",
    "own rules": "testing your rules",
    "try": "trying your rules",
    "try confirmation": "confirming your rules",
    "compare": "comparing",
    "verify": "verifying",
    "distillation": "training the network",
    "distillation check": "checking the network",
    "distilled": "comparing the networks",
    "rounds": "comparing the rounds",
}
"""Stages in plain words; others by their own names."""


def out() -> Console:
    """Return the console for results."""
    return Console(highlight=False, emoji=False)


def tell(text: str, *, markup: bool = False) -> None:
    """Print sentences of a result: a terminal's lines break between words, elsewhere a sentence is one line."""
    console = out()
    console.print(text, soft_wrap=not console.is_terminal, markup=markup)


def print_list(sentences: Iterable[str]) -> None:
    """Print sentences of a result, each with a bullet and indented."""
    for sentence in sentences:
        out().print(Padding(f"• {escape(sentence)}", (0, 0, 0, 2)))


def say(text: str) -> None:
    """Remark something that is no result, above the bars if there are some; lines break as in `tell`."""
    if Bars.current is not None:
        Bars.current.print(text)
    else:
        console = Console(stderr=True, emoji=False)
        console.print(text, soft_wrap=not console.is_terminal, highlight=False)


def now(text: str) -> None:
    """Show what is being done, if progress is drawn."""
    if Bars.current is not None:
        Bars.current.now(text)


def complain(text: str) -> None:
    """Print an error: one line."""
    one_line = " ".join(text.split())
    Console(stderr=True, emoji=False).print(
        f"[bold red]legible:[/] {escape(one_line)}", highlight=False, soft_wrap=True
    )


def print_json(document: Any) -> None:
    """Print results as JSON; numbers that JSON does not have are null."""
    click.echo(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return plain data: records as dictionaries, arrays and tuples as lists, None for numbers that are not finite."""
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
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left", no_wrap=column in right)
    for row in rows:
        grid.add_row(*(escape(cell) for cell in row))
    return grid


class _Now(ProgressColumn):
    """The current work, its progress, and the time that everything takes."""

    def __init__(self, bars: Bars) -> None:
        super().__init__()
        self._bars = bars

    def render(self, task: Task) -> Text:  # noqa: ARG002 (there is one task)
        """Draw the line."""
        return Text(self._bars.status())


class Bars:
    """Progress of a study: call it as ``bars(stage, done, of)``, and `now` with what has no stages.

    A terminal shows one line with the stage in plain words, a bar and the time left of everything; elsewhere, a line is
    printed when nothing else was for a while. Stages that took long leave a line when they end.
    """

    current: Bars | None = None
    """The one that is being drawn: what is printed past it would leave copies of its line behind."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, emoji=False)
        self._quiet, self._is_drawn = quiet, self.console.is_terminal and not quiet
        self._line = Progress(
            SpinnerColumn(), _Now(self), BarColumn(30), console=self.console, transient=True, disable=not self._is_drawn
        )
        self._task = self._line.add_task("", total=None)
        self._stages: dict[str, _Stage] = {}
        self._stage: _Stage | None = None
        self._text, self._started = "starting", time.monotonic()
        self._expected: dict[str, float] = {}
        self._said, self._silence = self._started, SILENCE
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        Bars.current = self
        self._line.start()
        if not self._quiet and not self._is_drawn:
            threading.Thread(target=self._show_life, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if error is None:
            self._end(self._stage)
        self._line.stop()
        Bars.current = None

    def __call__(self, stage: str, done: int, of: int) -> None:
        """Show how far a stage is."""
        if stage not in self._stages:
            self._stages[stage] = _Stage(stage, time.monotonic(), done)
        current = self._stages[stage]
        if current is not self._stage:
            self._end(self._stage)
            self._stage = current
        current.done, current.of = done, of
        if done >= of:
            self._end(current)

    def now(self, text: str) -> None:
        """Show what is being done outside of stages, such as "loading the policy"."""
        self._end(self._stage)
        self._stage, self._text = None, text

    def expect(self, seconds: float, episodes: Mapping[str, int]) -> None:
        """Set how many seconds all stages probably take together, and how many episodes each plays."""
        total = max(1, sum(episodes.values()))
        self._expected = {stage: seconds * n / total for stage, n in episodes.items()}

    def seconds_left(self) -> float | None:
        """Return how long everything still takes; None if that is not known."""
        if not self._expected:
            return None
        later_stages = sum(seconds for stage, seconds in self._expected.items() if stage not in self._stages)
        stage = self._stage
        if stage is None:
            return later_stages
        # The rest of the current stage: as expected before, and as measured from the share of it that is done.
        took, share = time.monotonic() - stage.began, (stage.done - stage.before) / max(1, stage.of - stage.before)
        expected = max(0.0, self._expected.get(stage.name, 0.0) - took)
        if share <= 0:
            return later_stages + expected
        # The speed of the first episodes says little: it includes starting and compiling.
        measured, trust = took * (1 - share) / share, math.sqrt(share)
        return later_stages + trust * measured + (1 - trust) * expected

    def status(self) -> str:
        """Return the stage in plain words, how far it is, and the time left."""
        stage, left = self._stage, self.seconds_left()
        took = time.monotonic() - self._started
        text = self._text if stage is None else f"{stage.words} {number(stage.done)}/{number(stage.of)}"
        if left is None:
            return f"{text} ({duration(took)})"
        if self._is_drawn:
            self._line.update(self._task, total=took + left, completed=took)
        return f"{text}, about {duration(max(1.0, left))} left"

    def _show_life(self) -> None:
        """Where no line is drawn, print one when nothing was printed for a while, ever more rarely."""
        while not self._stop.wait(0.5):
            if time.monotonic() - self._said > self._silence:
                self._silence = min(2 * self._silence, LONGEST_SILENCE)
                say(f"… {self.status()}")

    def print(self, text: str) -> None:
        """Print a line above the one that is drawn."""
        self._said = time.monotonic()
        self.console.print(text, soft_wrap=not self.console.is_terminal, highlight=False)

    def _end(self, stage: _Stage | None) -> None:
        """Leave a line of a stage that took long."""
        if stage is None or stage.is_over:
            return
        seconds = time.monotonic() - stage.began
        stage.is_over = stage.done >= stage.of or seconds >= PATIENCE
        if seconds >= PATIENCE and not self._quiet:
            episodes = "" if stage.name in _NOT_EPISODES else f"{counted(stage.done, 'episode')} in "
            say(f"{stage.words}: {episodes}{duration(seconds)}")


@dataclass
class _Stage:
    """A stage: its name, when it began and what was done then; how far it is; whether its line was printed."""

    name: str
    began: float
    before: int
    done: int = 0
    of: int = 0
    is_over: bool = False

    @property
    def words(self) -> str:
        return STAGE_WORDS.get(self.name, self.name)
