"""``python -m lab studies LIST --out FOLDER``: study every policy of a list, several at a time, with one table.

LIST is a text file. Each line holds what follows ``legible run`` for one policy: the environment, the policy, and
options such as ``--preset quick`` or ``--arg render_mode=None``. Empty lines and lines that begin with # are skipped.
A policy pattern such as ``policies/hopper-*.zip`` stands for all files that match.

Each study runs in its own process on one core. FOLDER holds one study per policy, its output (``NAME.log``) and its
record (``NAME.json``, what ``legible run --json`` prints). ``FOLDER/table.md`` is written anew whenever a study ends.
The command can be stopped and given again: finished studies are kept, begun ones go on.
"""

from __future__ import annotations

import argparse
import glob
import json
import multiprocessing
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.experiments.side_by_side import run_side_by_side
from legible.files import write_json, write_text
from legible.formatting import number

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """One study: its name, and what follows ``legible run``."""

    name: str
    words: tuple[str, ...]


def read_list(path: Path) -> list[Task]:
    """Return the studies of a list, named after environment and policy; equal names get a number."""
    tasks: list[Task] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if len(words) < 2:
            sys.exit(f"{path}: the line {line!r} needs an environment and a policy.")
        environment, pattern, *options = words
        for policy in sorted(glob.glob(pattern)) or [pattern]:  # noqa: PTH207 (Path.glob takes no absolute pattern)
            stem = Path(policy).stem if Path(policy).exists() else policy
            name = re.sub(r"[^A-Za-z0-9]+", "-", f"{environment} {stem}").strip("-")
            equal = sum(re.fullmatch(rf"{name}(-\d+)?", task.name) is not None for task in tasks)
            tasks.append(Task(f"{name}-{equal + 1}" if equal else name, (environment, policy, *options)))
    return tasks


def run_study(task: Task, folder: Path) -> None:
    """Run one study on one core and keep its record; a failed one leaves its log and no record."""
    command = [sys.executable, "-m", "legible", "run", *task.words, "--out", str(folder / task.name), "--json"]
    begin = time.perf_counter()
    log = folder / f"{task.name}.log"
    with log.open("w", encoding="utf-8") as errors:
        done = subprocess.run(
            [*command, "--workers", "1"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | dict.fromkeys(THREADS, "1"),
            check=False,
        )
    if done.returncode:
        sys.exit(f"{task.name}: {log.read_text(encoding='utf-8').strip()[-300:]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "seconds": round(time.perf_counter() - begin, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "megabytes": used.ru_maxrss // 1024,
    }
    write_json(folder / f"{task.name}.json", {"command": task.words, "measured": measured, **json.loads(done.stdout)})


def table(tasks: list[Task], folder: Path) -> str:
    """Return the table of all finished studies as Markdown, the largest gain first; then the studies that are left."""
    records: list[dict[str, Any]] = []
    left = []
    for task in tasks:
        file = folder / f"{task.name}.json"
        if file.exists():
            records.append(json.loads(file.read_text(encoding="utf-8")) | {"name": task.name})
        else:
            left.append(task.name)

    def gain(record: dict[str, Any]) -> float:
        effect = (record.get("improvement") or {}).get("effect") or {}
        return float(effect.get("mean", 0.0))

    lines = [
        f"{len(records)} of {len(tasks)} studies are finished.",
        "",
        "| study | options | unguided | guided | effect (95 % CI) | weaknesses | core-minutes | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for record in sorted(records, key=gain, reverse=True):
        improvement = record.get("improvement") or {}
        effect = improvement.get("effect") or {}
        interval = f"{number(effect['mean'])} ({number(effect['low'])} to {number(effect['high'])})" if effect else ""
        cells = [
            f"[{record['name']}]({record['name']}/report.html)",
            " ".join(record["command"][2:]),
            *(number(improvement[side]["mean"]) if improvement.get(side) else "" for side in ("base", "guided")),
            interval,
            str(record.get("confirmed_weaknesses", "")),
            f"{record['measured']['processor_seconds'] / 60:.1f}",
            str(record["headline"]).replace("|", "\\|"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if left:
        lines += ["", f"Not finished: {', '.join(left)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the studies that have no record yet; write the table whenever one ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("list", type=Path, help="what follows 'legible run', one study a line")
    parser.add_argument("--out", type=Path, required=True, help="the folder of studies, records and the table")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="studies at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this many; go on later")
    asked = parser.parse_args()
    tasks = read_list(asked.list)
    asked.out.mkdir(parents=True, exist_ok=True)

    def write_table() -> None:
        write_text(asked.out / "table.md", table(tasks, asked.out))

    missing = {task.name: (task, asked.out) for task in tasks if not (asked.out / f"{task.name}.json").exists()}
    write_table()
    run_side_by_side(run_study, missing, workers=asked.jobs, minutes=asked.minutes, after_each=write_table)
    print(f"{asked.out / 'table.md'}:\n\n{table(tasks, asked.out)}")


if __name__ == "__main__":
    main()
