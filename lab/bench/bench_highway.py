"""Driving: steps a second on one core, compared with Farama's highway-env and EnvPool in the same run.

``python -m lab.bench.bench_highway [--quick] [--write FILE]``

All drive at random in the configuration of the paper's experiments (3 lanes, 50 vehicles, ten rows of seven columns,
two decisions a second), and starting new episodes counts for all of them. Time is processor time, which other work on
the machine disturbs less; environments take turns, and the middle ratio of several rounds counts. EnvPool has fewer
settings (five columns in most scenarios, fixed resets, no vehicle enters the intersection): a mark for speed, no
substitute.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import legible  # noqa: F401 (registers the environments)

SCENARIOS = ("Highway", "HighwayFast", "Merge", "Roundabout", "Intersection")
BATCH = 256
VEHICLES = (10, 20, 50, 100, 200)
GOAL = 300.0
# EnvPool's names for the configuration of the paper's experiments; scenarios lack some of them.
ENVPOOL = {
    "lanes_count": 3,
    "vehicles_count": 50,
    "observation_vehicles_count": 10,
    "policy_frequency": 2,
    "duration": 600,
    "max_episode_steps": 1200,
}

Drive = Callable[[int], int]
"""Play at least a number of steps and return how many there were."""


def rate_of(drive: Drive, steps: int) -> float:
    """Steps a second of processor time."""
    started = time.process_time()
    driven = drive(steps)
    return driven / (time.process_time() - started)


def drive_legible(scenario: str, batch: int = BATCH, config: dict[str, Any] | None = None) -> Drive:
    """Drive a batch of the fast environments."""
    envs = gymnasium.make_vec(f"legible/{scenario}-v0", num_envs=batch, config=config or {}, copy=False)
    n_actions = int(envs.single_action_space.n)  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    envs.reset(seed=0)

    def drive(steps: int) -> int:
        rounds = -(-steps // batch)
        restarts = 0  # an episode that is over takes a call to start the next one, which is no step
        for actions in rng.integers(0, n_actions, (rounds, batch)):
            _, _, terminated, truncated, _ = envs.step(actions)
            restarts += int(np.count_nonzero(terminated | truncated))
        return rounds * batch - restarts

    drive(20 * batch)  # compile, and let episodes drift apart
    return drive


def drive_highway_env(scenario: str, config: dict[str, Any] | None = None) -> Drive:
    """Drive one environment of highway-env's."""
    env = gymnasium.make(f"farama/{scenario}-v0", config=config or {}, disable_env_checker=True)
    n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def drive(steps: int) -> int:
        for action in rng.integers(0, n_actions, steps):
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return steps

    return drive


def drive_envpool(scenario: str, batch: int = BATCH) -> Drive | None:
    """Drive a batch of EnvPool's environments on one thread; None where EnvPool is not installed."""
    try:
        import envpool
    except ImportError:
        return None
    name = f"{scenario}-v0"
    known = envpool.make_spec(name).config._fields
    options = {key: value for key, value in ENVPOOL.items() if key in known}
    envs = envpool.make(name, "gymnasium", num_envs=batch, num_threads=1, seed=0, **options)
    n_actions = int(envs.action_space.n)
    rng = np.random.default_rng(0)
    envs.reset()

    def drive(steps: int) -> int:
        rounds = -(-steps // batch)
        restarts = 0
        for actions in rng.integers(0, n_actions, (rounds, batch)):
            _, _, terminated, truncated, _ = envs.step(actions.astype(np.int32))
            restarts += int(np.count_nonzero(terminated | truncated))
        return rounds * batch - restarts

    drive(20 * batch)
    return drive


def compare(scenario: str, rounds: int, slow_steps: int, fast_steps: int) -> list[str]:
    """Let the three take turns; return a row of the table."""
    ours, theirs, pool = drive_legible(scenario), drive_highway_env(scenario), drive_envpool(scenario)
    rates: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        slow = rate_of(theirs, slow_steps)
        fast = rate_of(ours, fast_steps)
        rates.append((fast, slow, rate_of(pool, fast_steps) if pool else np.nan))
    fast, slow, peer = (median(column) for column in zip(*rates, strict=True))
    times = median(a / b for a, b, _ in rates)
    beside = median(a / c for a, _, c in rates)
    alone = rate_of(drive_legible(scenario, batch=1), max(200, fast_steps // 50))
    goal = f"{times:,.0f} × ({'met' if times >= GOAL else 'missed'})"
    return [
        scenario,
        f"{fast:,.0f}",
        f"{alone:,.0f}",
        f"{slow:.1f}",
        goal,
        "-" if pool is None else f"{peer:,.0f}",
        "-" if pool is None else f"{beside:.2f} ×",
    ]


def growth(slow_steps: int, fast_steps: int) -> list[list[str]]:
    """Cost of a step of highway as the number of vehicles grows."""
    rows = []
    for vehicles in VEHICLES:
        config = {"vehicles_count": vehicles}
        ours = rate_of(drive_legible("Highway", 64, config), fast_steps * 10 // vehicles)
        theirs = rate_of(drive_highway_env("Highway", config), max(4, slow_steps * 20 // vehicles))
        cost = 1e6 / ours
        row = [
            str(vehicles),
            f"{cost:.1f}",
            f"{1e3 * cost / vehicles:.0f}",
            f"{1e6 / theirs:,.0f}",
            f"{ours / theirs:,.0f} ×",
        ]
        rows.append(row)
    return rows


HEADS = {
    f"Random driving, one core, batch {BATCH} (steps a second)": (
        "scenario",
        "legible",
        "legible, batch 1",
        "highway-env",
        "legible / highway-env",
        "EnvPool",
        "legible / EnvPool",
    ),
    "Highway: cost of a step as traffic grows (µs)": (
        "other vehicles",
        "legible",
        "ns a vehicle",
        "highway-env",
        "ratio",
    ),
}


def markdown(tables: list[list[list[str]]]) -> str:
    """Write the tables for a document."""
    parts = []
    for (title, head), rows in zip(HEADS.items(), tables, strict=True):
        lines = [f"{title}:", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        parts.append("\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]))
    return "\n\n".join(parts) + "\n"


def main(quick: bool = False, write: Path | None = None) -> None:
    """Measure and print; write the tables as Markdown if asked to."""
    rounds, slow, fast = (2, 30, 20_000) if quick else (5, 100, 100_000)
    tables = [[compare(scenario, rounds, slow, fast) for scenario in SCENARIOS], growth(slow, fast)]
    for (title, head), rows in zip(HEADS.items(), tables, strict=True):
        table = Table(title=title)
        for column in head:
            table.add_column(column, justify="right")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
    if write is not None:
        write.write_text(markdown(tables), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, rougher figures")
    parser.add_argument("--write", type=Path, help="write the tables as Markdown, too")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.write)
