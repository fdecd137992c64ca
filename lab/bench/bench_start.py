"""Start-up: ``legible --help``, the first sign of life of a run on a terminal, and its first episodes.

``python -m lab.bench.bench_start [--quick] [--against CHECKOUT]``. Caches are warm: the first run of each commit is not
counted. The longest silence is the longest time without any output, the moving spinner included.
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

import torch
from rich.console import Console
from rich.table import Table

from legible.policies import load_policy, save_policy

ROOT = Path(__file__).parents[2]
REPEATS = 5
PACMAN = ("legible/PacmanSmall-v0", "zoo:PacmanSmall/ppo/4")
LIMIT = 60.0
_CODES = re.compile(rb"\x1b[\[\]?0-9;]*[A-Za-z]")


def help_seconds(sources: Path) -> float:
    """Return the wall seconds of ``legible --help``."""
    started = time.perf_counter()
    words = [sys.executable, "-m", "legible", "--help"]
    subprocess.run(words, env=_variables(sources), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def run_seconds(sources: Path, study: tuple[str, str]) -> tuple[float, float, float]:
    """Return the seconds after which a run on a terminal shows text and has played episodes, and its longest silence.

    Parameters
    ----------
    sources
        The checkout whose code runs.
    study
        The environment and the policy.
    """
    with tempfile.TemporaryDirectory() as folder:
        main, terminal = pty.openpty()
        started = last_output = time.perf_counter()
        words = [sys.executable, "-m", "legible", "run", *study, "--preset", "quick", "--out", f"{folder}/study"]
        program = subprocess.Popen(words, env=_variables(sources), stdout=terminal, stderr=terminal, stdin=terminal)
        os.close(terminal)
        shown, first, silence = b"", 0.0, 0.0
        while b"First " not in shown and time.perf_counter() - started < LIMIT:
            shown += os.read(main, 4096)
            silence = max(silence, time.perf_counter() - last_output)
            last_output = time.perf_counter()
            if not first and re.search(rb"[a-z]{3}", _CODES.sub(b"", shown)):
                first = last_output - started
        episodes = time.perf_counter() - started
        program.terminate()
        program.wait()
        os.close(main)
    return first, episodes, silence


def save_balancing_policy(path: Path) -> Path:
    """Save a small network that balances the pole of CartPole, and return its path."""
    hidden, output = torch.nn.Linear(4, 2), torch.nn.Linear(2, 2)
    with torch.no_grad():
        falls_right = torch.tensor([0.0, 0.3, 1.0, 1.0])  # how much the pole falls to the right
        hidden.weight.copy_(torch.stack([-falls_right, falls_right]))
        output.weight.copy_(torch.eye(2))
        for layer in (hidden, output):
            layer.bias.zero_()
    save_policy(load_policy(torch.nn.Sequential(hidden, torch.nn.ReLU(), output), output="values"), path)
    return path


def _variables(sources: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(sources / "src"), "TERM": "xterm", "COLUMNS": "120"}


def main(quick: bool = False, against: Path | None = None) -> None:
    """Print the medians, in turn with another commit if one is given."""
    trees = {"now": ROOT, **({"before": against} if against else {})}
    repeats = 2 if quick else REPEATS
    with tempfile.TemporaryDirectory() as folder:
        cartpole = ("CartPole-v1", str(save_balancing_policy(Path(folder) / "balances.safetensors")))
        measured: dict[str, list[tuple[float, ...]]] = {name: [] for name in trees}
        for repeat in range(1 + repeats):
            for name, sources in trees.items():
                runs = (*run_seconds(sources, PACMAN), *run_seconds(sources, cartpole))
                if repeat:
                    measured[name].append((help_seconds(sources), *runs))
    table = Table(title=f"Seconds after Enter, medians of {repeats} (slowest)")
    columns = [f"{what}, {env}" for env in ("PAC-Man", "CartPole") for what in ("text", "episodes", "longest silence")]
    for column in ("commit", "--help", *columns):
        table.add_column(column, justify="left" if column == "commit" else "right")
    for name, rows in measured.items():
        seconds = zip(*rows, strict=True)
        table.add_row(name, *(f"{statistics.median(column):.2f} ({max(column):.2f})" for column in seconds))
    Console(width=120).print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two repeats")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="folder of another commit")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.against)
