"""Processor time of a command with all processes that it starts, in turn with another commit of legible.

``python -m lab.bench.processor_time [--repeats N] [--against CHECKOUT] COMMAND …``; ``{out}`` in the command is a new
folder. The shell's ``time`` misses workers, which are children of a process that forks them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SET_CHILD_SUBREAPER = 36  # of prctl: processes whose parent has ended become children of this one


def measure(command: list[str], sources: Path) -> tuple[float, float]:
    """Return the processor seconds and the wall seconds of a command with the sources of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        words = [word.replace("{out}", f"{folder}/out") for word in command]
        before, started = _seconds(), time.perf_counter()
        subprocess.run(
            words, env=os.environ | {"PYTHONPATH": str(sources / "src")}, check=True, stdout=subprocess.DEVNULL
        )
        wall = time.perf_counter() - started
        with suppress(ChildProcessError):
            while True:
                os.wait()
        return _seconds() - before, wall


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the seconds of every repeat, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="folder of another commit")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux") or ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("this needs Linux")
    trees = {"now": ROOT, **({"before": arguments.against} if arguments.against else {})}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in trees}
    for repeat in range(arguments.repeats):
        for name, folder in trees.items():
            found[name].append(measure(arguments.command, folder))
            processor, wall = found[name][-1]
            print(f"{repeat + 1} {name}: {processor:.1f} s of processors, {wall:.1f} s", flush=True)
    for name, times in found.items():
        processor, wall = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name}: median {processor:.1f} s of processors, {wall:.1f} s")


if __name__ == "__main__":
    main()
