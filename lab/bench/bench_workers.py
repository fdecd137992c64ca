"""Many workers: guided episodes of PAC-Man small on 1, 2, 4, … processes, and what one step costs beside the network.

Rule sets are random, so that nothing has to be mined first; the network is the zoo's. The sum of all returns is the
same whatever the workers and the units: it is printed to show that. Beside the wall time stands what limits it: the
time that this process, which hands units out and stores results, was busy itself.

``python -m lab.bench.bench_workers [--quick] [--workers 1,2,4,8,16] [--unit 500]``
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.bench.bench_evaluation import ENV, network_seconds, the_policy
from legible.engines import LocalProcesses
from legible.evaluation.units import Setup, Unit, UnitResult, cut_into_units, play_unit, run_units, usual_rows
from legible.play import stage_seeds
from legible.rules import Condition, Rule, RuleSet
from legible.settings import PlaySettings


def random_sets(count: int) -> tuple[RuleSet, ...]:
    """Rule sets of four rules with two conditions each."""
    rng = np.random.default_rng(0)

    def rule() -> Rule:
        features = rng.choice(69, 2, replace=False).tolist()
        return Rule("-", int(rng.integers(5)), tuple(Condition(f, 0.0, float(rng.integers(1, 4))) for f in features))

    return tuple(RuleSet(tuple(rule() for _ in range(4))) for _ in range(count))


def seconds_on(setup: Setup, units: list[Unit], workers: int) -> tuple[float, float, float, int]:
    """Wall seconds, seconds of this process, sum of returns and steps of all units on some workers, started before."""
    with LocalProcesses(workers) as engine:
        run_units(setup, [Unit((0,) * 4, tuple(range(4 * i, 4 * i + 4))) for i in range(2 * workers)], engine=engine)
        wall, busy = time.perf_counter(), time.process_time()
        found: UnitResult = run_units(setup, units, engine=engine)
        return (
            time.perf_counter() - wall,
            time.process_time() - busy,
            float(found.returns.sum()),
            int(found.lengths.sum()),
        )


def step_cost(setup: Setup, episodes: int, rounds: int = 5) -> tuple[float, float]:
    """Processor time of a guided step in a unit of so many episodes, and of the network alone, in microseconds."""
    policy, best = setup.policy, (np.inf, np.inf)
    unit = Unit((0,) * episodes, tuple(stage_seeds(1, "racing", 0, episodes)))
    play_unit(setup, unit)
    for _ in range(rounds):
        started = time.process_time()
        steps = int(play_unit(setup, unit).lengths.sum())
        cost = (time.process_time() - started) / steps * 1e6
        floor = network_seconds(policy, 50_000, clock=time.process_time) / 50_000 * 1e6
        best = min(best, (cost / floor, floor))
    return best[0] * best[1], best[1]


def main(*, quick: bool = False, workers: list[int], unit_episodes: int) -> None:
    console, policy = Console(), the_policy(None)
    play = PlaySettings()
    setup = Setup(policy, ENV, random_sets(20 if quick else 200), play, rows=usual_rows(play))
    table = Table(title="A guided step in a unit of n episodes, processor time")
    for column in ("n", "µs a step", "network alone", "ratio", "goal"):
        table.add_column(column, justify="right")
    for episodes in (250, 1000, 2500):
        cost, floor = step_cost(setup, episodes)
        table.add_row(str(episodes), f"{cost:.2f}", f"{floor:.2f}", f"{cost / floor:.2f}", "≤ 1.4")
    console.print(table)
    per_set = 50 if quick else 500
    sets = len(setup.treatments)
    treatments = [number for number in range(sets) for _ in range(per_set)]
    units = cut_into_units(treatments, stage_seeds(0, "racing", 0, per_set) * sets, unit_episodes)
    table = Table(title=f"{len(treatments):,} guided episodes in units of {unit_episodes}")
    for column in ("workers", "seconds", "speed-up", "steps a second", "this process", "sum of returns"):
        table.add_column(column, justify="right")
    first = 0.0
    for count in workers:
        wall, busy, total, steps = seconds_on(setup, units, count)
        first = first or wall * workers[0]
        table.add_row(
            str(count), f"{wall:.1f}", f"{first / wall:.1f}", f"{steps / wall:,.0f}", f"{busy:.1f} s", f"{total:.1f}"
        )
    console.print(table)


if __name__ == "__main__":
    cores = os.cpu_count() or 1
    powers = ",".join(str(2**k) for k in range(10) if 2**k <= cores)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer episodes, rougher figures")
    parser.add_argument("--workers", default=powers, help=f"how many, separated by commas (default: {powers})")
    parser.add_argument("--unit", type=int, default=500, help="episodes in a unit (default: 500)")
    arguments = parser.parse_args()
    main(
        quick=arguments.quick,
        workers=[int(count) for count in arguments.workers.split(",")],
        unit_episodes=arguments.unit,
    )
