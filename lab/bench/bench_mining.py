"""The whole of Step 1 on a PAC-Man small policy, part by part: goal, under 15 seconds on two cores.

``python -m lab.bench.bench_mining [--quick] [--policy FILE]``
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.bench.bench_evaluation import ENV, the_policy
from legible.mining import mine
from legible.play import collect
from legible.settings import MiningSettings

GOAL = 15.0


def main(quick: bool = False, policy_path: Path | None = None) -> None:
    policy = the_policy(policy_path)
    mine(policy, collect(policy, ENV, 20, seed=1), seed=0)  # compile
    started = time.perf_counter()
    seen = collect(policy, ENV, 100 if quick else 600, seed=0)
    collecting = time.perf_counter() - started
    table = Table(title=f"Step 1, {seen.n_episodes} episodes, {len(seen):,} states (seconds)")
    for column in ("settings", "experiences", "intervals", "importance", "rules", "filter", "total", "rules kept"):
        table.add_column(column, justify="left" if column == "settings" else "right")
    for name, settings in (("default", MiningSettings()), ("paper", MiningSettings.paper())):
        mining = mine(policy, seen, seed=0, settings=settings)
        parts = [collecting, *mining.seconds.values()]
        kept = f"{len(mining.rules)} of {mining.learned}"
        table.add_row(name, *(f"{part:.2f}" for part in parts), f"{sum(parts):.2f}", kept)
    Console().print(table)
    Console().print(f"Compiling, once a machine, comes on top. Goal: {GOAL:g} s.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer episodes")
    parser.add_argument("--policy", type=Path, help="a policy file for PAC-Man small")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.policy)
