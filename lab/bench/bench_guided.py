"""Guided play compared with the policy network alone on as many states, and with another commit of legible.

``python -m lab.bench.bench_guided [--quick] [--against CHECKOUT]``; CHECKOUT is the folder of another commit, whose
sources are measured in turn with those of this one, five times each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from legible.environments import EnvironmentSpec
from legible.evaluation.units import Setup, Unit, play_unit, usual_rows
from legible.play import one_thread, stage_seeds
from legible.policies import Policy, load_policy
from legible.rules import Condition, Rule, RuleSet
from legible.settings import PlaySettings

ROOT = Path(__file__).parents[2]
BATCH, REPEATS = 256, 5
PLAYED = {
    "legible/PacmanSmall-v0": ("PacmanSmall/ppo/4", 2048),
    "legible/HighwayFast-v0": ("HighwayFast/dqn/0", 1024),
}
"""Environments, with the policy of the zoo and the number of episodes."""


def some_rules(policy: Policy) -> RuleSet:
    """Return eight rules that trigger often and block an action."""
    rng, n_features = np.random.default_rng(0), policy.n_features or 0
    rules = []
    for number in range(8):
        features = sorted(rng.choice(n_features, 3, replace=False).tolist())
        conditions = tuple(Condition(feature, -np.inf, 0.5) for feature in features)
        rules.append(Rule("-", number % policy.n_actions, conditions))
    return RuleSet(tuple(rules))


def network_seconds(policy: Policy, states: int) -> float:
    """Return the processor seconds of the network alone, in batches of the size of the play."""
    rows = np.random.default_rng(0).random((BATCH, policy.n_features or 0), np.float32)
    with one_thread():
        for _ in range(20):
            policy.scores(rows)
        rounds = max(1, min(1000, states // BATCH))
        started = time.process_time()
        for _ in range(rounds):
            policy.scores(rows)
        return (time.process_time() - started) / (rounds * BATCH) * states


def measure(name: str, share: float) -> dict[str, float]:
    """Return the seconds of guided play of an environment, of the network alone, and the states."""
    zoo, episodes = PLAYED[name]
    policy = load_policy(ROOT / "zoo" / f"{zoo}.safetensors")
    play = PlaySettings(batch=BATCH)
    setup = Setup(policy, EnvironmentSpec(name), (some_rules(policy),), play, usual_rows(play))
    seeds = stage_seeds(1, "screening", 0, int(share * episodes))
    play_unit(setup, Unit((0,) * 64, tuple(seeds[:64])))
    started = time.process_time()
    result = play_unit(setup, Unit((0,) * len(seeds), tuple(seeds)))
    seconds, states = time.process_time() - started, int(result.lengths.sum())
    return {"play": seconds, "network": network_seconds(policy, states), "states": states}


def main(quick: bool = False, against: Path | None = None) -> None:
    """Measure all environments, in turn with another commit if one is given."""
    trees = {"now": ROOT, **({"before": against} if against else {})}
    table = Table(title=f"Guided play, batches of {BATCH}, medians of {REPEATS}")
    for column in ("environment", "commit", "states", "µs a state", "× the network alone", "range"):
        table.add_column(column, justify="left" if column in {"environment", "commit"} else "right")
    for name in PLAYED:
        found: dict[str, list[dict[str, float]]] = {tree: [] for tree in trees}
        for _ in range(2 if quick else REPEATS):
            for tree, folder in trees.items():
                paths = {"PYTHONPATH": os.pathsep.join((str(folder / "src"), str(ROOT)))}
                words = [
                    sys.executable,
                    "-m",
                    "lab.bench.bench_guided",
                    "--one",
                    name,
                    "--share",
                    str(0.5 if quick else 1),
                ]
                done = subprocess.run(words, env=os.environ | paths, capture_output=True, text=True, check=True)
                found[tree].append(json.loads(done.stdout))
        for tree, runs in found.items():
            ratios = sorted(run["play"] / run["network"] for run in runs)
            each = statistics.median(run["play"] / run["states"] for run in runs)
            table.add_row(
                name,
                tree,
                f"{runs[0]['states']:,.0f}",
                f"{each * 1e6:.2f}",
                f"{statistics.median(ratios):.2f}",
                f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer episodes, rougher figures")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="folder of another commit")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, default=1.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.share)))
    else:
        main(arguments.quick, arguments.against)
