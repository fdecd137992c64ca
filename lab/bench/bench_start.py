"""Start-up: ``legible --help``, the first sign of life of a run on a terminal, and its first episodes.

``python -m lab.bench.bench_start [--quick] [--against CHECKOUT]``. Caches are warm: the first run of each commit is not
counted.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
REPEATS = 5
STUDY = ("run", "legible/PacmanSmall-v0", "zoo:PacmanSmall/ppo/4", "--preset", "quick", "--out")
LIMIT = 60.0
_CODES = re.compile(rb"\x1b[\[\]?0-9;]*[A-Za-z]")


def help_seconds(sources: Path) -> float:
    """Return the wall seconds of ``legible --help``."""
    started = time.perf_counter()
    words = [sys.executable, "-m", "legible", "--help"]
    subprocess.run(words, env=_variables(sources), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def run_seconds(sources: Path) -> tuple[float, float]:
    """Return when a run on a terminal shows the first text, and when it has played its first episodes."""
    with tempfile.TemporaryDirectory() as folder:
        main, terminal = pty.openpty()
        started = time.perf_counter()
        words = [sys.executable, "-m", "legible", *STUDY, f"{folder}/study"]
        program = subprocess.Popen(words, env=_variables(sources), stdout=terminal, stderr=terminal, stdin=terminal)
        os.close(terminal)
        shown, first = b"", 0.0
        while b"First " not in shown and time.perf_counter() - started < LIMIT:
            shown += os.read(main, 4096)
            if not first and re.search(rb"[a-z]{3}", _CODES.sub(b"", shown)):
                first = time.perf_counter() - started
        episodes = time.perf_counter() - started
        program.terminate()
        program.wait()
        os.close(main)
    return first, episodes


def _variables(sources: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(sources / "src"), "TERM": "xterm", "COLUMNS": "120"}


def main(quick: bool = False, against: Path | None = None) -> None:
    """Print the medians, in turn with another commit if one is given."""
    trees = {"now": ROOT, **({"before": against} if against else {})}
    repeats = 2 if quick else REPEATS
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in trees}
    for repeat in range(1 + repeats):
        for name, folder in trees.items():
            measured = (help_seconds(folder), *run_seconds(folder))
            if repeat:
                found[name].append(measured)
    table = Table(title=f"Seconds after Enter, medians of {repeats} (fastest)")
    for column in ("commit", "--help", "first text of a run", "its first episodes played"):
        table.add_column(column, justify="left" if column == "commit" else "right")
    for name, runs in found.items():
        columns = zip(*runs, strict=True)
        table.add_row(name, *(f"{statistics.median(column):.2f} ({min(column):.2f})" for column in columns))
    Console(width=120).print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two repeats")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="folder of another commit")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.against)
