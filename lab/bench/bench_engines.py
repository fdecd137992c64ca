"""A study on worker processes, and on a Ray cluster of two nodes (two raylets on this machine), in turn.

``python -m lab.bench.bench_engines [--repeats N] [--quick]`` prints the wall seconds of each run of the same command,
the median ratio, and whether both gave the same results. Two cores must be idle; the cluster is up before the first
run, as it is for users, and its first run, in which workers import everything, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

STUDY = "legible/PacmanSmall-v0 zoo:PacmanSmall/ppo/4 --set improvement.beginnings=1"
BUDGETS = "--set search.budget=400000 --set evaluation.race_seeds=400 --set evaluation.confirmation_seeds=2000"
UNLIKE = {"folder", "seconds", "workers", "engine", "versions"}


def run(options: list[str], *, quick: bool) -> tuple[float, str]:
    """Run the study in a new folder; return its wall seconds and its results as text."""
    words = [*STUDY.split(), *(["--preset", "quick"] if quick else BUDGETS.split()), *options, "--json"]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "legible", "run", *words, "--out", f"{folder}/study"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
            check=True,
        )
        seconds = time.perf_counter() - begin
    results = {name: value for name, value in json.loads(done.stdout).items() if name not in UNLIKE}
    return seconds, json.dumps(results["improvement"]) + json.dumps(results["evaluation"])


def main() -> None:
    """Print the seconds of both engines and their ratio."""
    from ray.cluster_utils import Cluster

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a study with small budgets")
    asked = parser.parse_args()
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        engines = {
            "two processes": ["--engine", "processes", "--workers", "2"],
            "two Ray nodes": ["--engine", "ray", "--address", cluster.address],
        }
        for options in engines.values():
            run(options, quick=True)  # imports are in the page cache, and Ray's workers are up
        seconds: dict[str, list[float]] = {name: [] for name in engines}
        results = set()
        for repeat in range(asked.repeats):
            for name, options in engines.items():
                taken, result = run(options, quick=asked.quick)
                seconds[name].append(taken)
                results.add(result)
                print(f"{repeat + 1} {name}: {taken:.1f} s", flush=True)
    finally:
        cluster.shutdown()
    here, there = (statistics.median(taken) for taken in seconds.values())
    print(f"medians: {here:.1f} s and {there:.1f} s, ratio {there / here:.2f}; same results: {len(results) == 1}")


if __name__ == "__main__":
    main()
