"""Transfer of policies that were trained in the fast environments to highway-env itself.

    python -m lab.experiments.highway_transfer --write docs/highway-transfer.md

A policy of the zoo drives episodes of 40 s in both (merge has its own end), greedily. Both draw different traffic, so
that their episodes are independent samples: means with standard errors, Welch's test (two-sided) for the returns, and
Fisher's exact test for the share of episodes without a crash (at the intersection: in which ego arrived). Each
scenario's highway-env has its own process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

NAMES = ("Highway", "HighwayFast", "Merge", "Roundabout", "Intersection")
SECONDS = 40
FAST_EPISODES = 1000
HEAD = (
    "scenario",
    "legible: return",
    "success",
    "highway-env: return",
    "success",
    "episodes",
    "p, return",
    "p, success",
)


def drive(family: str, name: str, episodes: int, seed: int) -> dict[str, list[float]]:
    """Drive here; return the returns and successes."""
    from legible.environments import EnvironmentSpec  # noqa: PLC0415 (the parent process needs none of this)
    from legible.play import PolicyChooser, make_slots, play_episodes  # noqa: PLC0415
    from legible.policies import load_policy  # noqa: PLC0415

    config = {} if name == "Merge" else {"duration": SECONDS}
    slots = make_slots(EnvironmentSpec(f"{family}/{name}-v0", {"config": config}), 50 if family == "legible" else 1)
    seeds = range(seed, seed + episodes)
    chooser = PolicyChooser(load_policy(f"zoo:{name}/dqn/0"), seeds)
    played = play_episodes(slots, chooser, seeds)
    return {"returns": played.returns.tolist(), "success": played.success.tolist()}


def drive_elsewhere(family: str, name: str, episodes: int, seed: int) -> dict[str, list[float]]:
    """Drive in a separate process."""
    command = [sys.executable, "-m", "experiments.highway_transfer", "--drive", family, name]
    command += ["--episodes", str(episodes), "--seed", str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{family}/{name}: {result.stderr}")
    made: dict[str, list[float]] = json.loads(result.stdout)
    return made


def row(name: str, ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> list[str]:
    """Compare two samples in a row of the table."""
    import numpy as np  # noqa: PLC0415
    from scipy import stats  # noqa: PLC0415

    cells = [name]
    for sample in (ours, theirs):
        returns = np.array(sample["returns"])
        error = returns.std(ddof=1) / np.sqrt(len(returns))
        cells += [f"{returns.mean():.2f} ± {error:.2f}", f"{np.mean(sample['success']):.1%}"]
    p_return = stats.ttest_ind(ours["returns"], theirs["returns"], equal_var=False).pvalue
    counts = [[int(sum(s["success"])), len(s["success"]) - int(sum(s["success"]))] for s in (ours, theirs)]
    p_success = stats.fisher_exact(counts).pvalue
    sizes = f"{len(ours['returns'])} and {len(theirs['returns'])}"
    return [*cells, sizes, f"{p_return:.2f}", f"{p_success:.2f}"]


def table(rows: Iterable[list[str]]) -> str:
    """Write the table in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows])


def main() -> None:
    """Drive in both, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50, help="episodes in highway-env")
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument("--scenario", action="append", choices=NAMES, help="only these")
    parser.add_argument("--write", type=Path, help="write a document instead of printing the table")
    parser.add_argument("--drive", nargs=2, metavar=("FAMILY", "SCENARIO"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        print(json.dumps(drive(*arguments.drive, arguments.episodes, arguments.seed)))
        return
    rows = []
    for name in arguments.scenario or NAMES:
        started = time.perf_counter()
        ours = drive_elsewhere("legible", name, FAST_EPISODES, arguments.seed)
        theirs = drive_elsewhere("farama", name, arguments.episodes, arguments.seed)
        rows.append(row(name, ours, theirs))
        print(f"{name}: {rows[-1]} ({time.perf_counter() - started:.0f} s)", file=sys.stderr)
    command = " ".join(["python -m lab.experiments.highway_transfer", *sys.argv[1:]])
    if arguments.write:
        text = f"# Policies in both\n\nMade by `{command}`.\n\n{table(rows)}\n"
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
