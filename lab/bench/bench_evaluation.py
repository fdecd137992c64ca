"""Guided evaluation: 100 rule sets × 250 episodes of PAC-Man small, compared with the network alone and a plain loop.

The floor is the policy network: the same number of states in the same batches, nothing else. The plain loop is what
one would write first: one environment, Stable-Baselines3's ``predict``, rules checked one by one in Python.

``python -m lab.bench.bench_evaluation [--quick] [--policy FILE]``
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from legible.engines import LocalProcesses
from legible.environments import EnvironmentSpec
from legible.evaluation import evaluate
from legible.evaluation.units import Setup, Unit, play_unit, run_units
from legible.features import deciles
from legible.mining import mine
from legible.play import collect, one_thread, stage_seeds
from legible.policies import Policy, load_policy
from legible.relations import generalise_all, load_relations, share_cuts, shipped_relations
from legible.rules import RuleSet
from legible.settings import EvaluationSettings, PlaySettings

ENV = EnvironmentSpec("legible/PacmanSmall-v0")
ZOO = Path(__file__).parents[2] / "zoo" / "PacmanSmall" / "dqn" / "0.safetensors"


def the_policy(path: Path | None) -> Policy:
    """Return the given policy, the zoo's, or a network of the same shape with random weights."""
    if path is not None or ZOO.exists():
        return load_policy(path or ZOO)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(69, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU()]
    return load_policy(
        torch.nn.Sequential(*layers, torch.nn.Linear(256, 5)), output="values", n_features=69, n_actions=5
    )


def rule_sets(policy: Policy, count: int) -> tuple[RuleSet, ...]:
    """Mined and generalised rule sets, repeated if there are too few."""
    seen = collect(policy, ENV, 200, seed=0)
    relations = load_relations(shipped_relations(ENV.name)[0][1], seen.space)
    intervals = share_cuts(deciles(seen.space, seen.observations), seen.space, relations)
    mined = [found.rule for found in mine(policy, seen, seed=0, intervals=intervals).rules]
    sets = [rule_set for rule_set in generalise_all(mined, relations) if rule_set.rules]
    return tuple(sets[i % len(sets)] for i in range(count))


def network_seconds(
    policy: Policy, states: int, batch: int = 256, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of one core for the network alone."""
    rows = np.random.default_rng(0).random((batch, 69), np.float32)
    with one_thread():
        for _ in range(20):
            policy.scores(rows)
        started = clock()
        rounds = max(1, min(2000, states // batch))
        for _ in range(rounds):
            policy.scores(rows)
        return (clock() - started) / (rounds * batch) * states


def unit_seconds(setup: Setup, treatment: int, episodes: int) -> tuple[float, int]:
    """Return the seconds and states of one unit in this process."""
    unit = Unit((treatment,) * episodes, tuple(stage_seeds(1, "screening", 0, episodes)))
    started = time.perf_counter()
    result = play_unit(setup, unit)
    return time.perf_counter() - started, int(result.lengths.sum())


def plain_loop(policy: Any, rules: RuleSet, seconds: float) -> float:
    """Return the states a second of the loop that one would write first."""
    env = gymnasium.make(ENV.name)
    states, seed, started = 0, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            triggered = [
                rule for rule in rules.rules if all(c.low < observation[c.feature] <= c.high for c in rule.conditions)
            ]
            positive = {rule.action for rule in triggered if rule.polarity == "+"}
            action, _ = policy.predict(observation, deterministic=True)
            if len(positive) == 1:
                action = positive.pop()
            elif triggered:
                with torch.no_grad():
                    q = policy.q_net(policy.policy.obs_to_tensor(observation)[0])[0].numpy()
                for rule in triggered:
                    if rule.polarity == "-":
                        q[rule.action] = -np.inf
                action = int(np.argmax(q))
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            states += 1
        seed += 1
    return states / (time.perf_counter() - started)


def sb3_model() -> Any:
    """Return a Stable-Baselines3 DQN of the paper's shape (its weights do not matter for the time of a step)."""
    from stable_baselines3 import DQN

    shape = {"net_arch": [256, 256]}
    return DQN("MlpPolicy", gymnasium.make(ENV.name), policy_kwargs=shape, buffer_size=10, device="cpu")


def main(quick: bool = False, policy_path: Path | None = None) -> None:
    console = Console()
    policy = the_policy(policy_path)
    sets, episodes = rule_sets(policy, 20 if quick else 100), 50 if quick else 250
    setup = Setup(policy, ENV, sets, PlaySettings())
    unit_seconds(setup, 0, 10)
    with LocalProcesses(2) as engine:
        run = functools.partial(run_units, engine=engine)
        warm = [Unit((-1,) * 10, tuple(range(10)))] * 2
        run(setup, warm)
        started = time.perf_counter()
        settings = EvaluationSettings(method="paper", episodes=episodes, confirmation_episodes=0)
        found = evaluate(setup, seed=0, settings=settings, run=run)
        wall = time.perf_counter() - started
    states = int(
        sum(v.sample.episodes * v.sample.length for v in found.verdicts) + found.base.episodes * found.base.length
    )
    floor = network_seconds(policy, states)
    per_core = states / (2 * wall)
    loop = plain_loop(sb3_model(), sets[0], 2 if quick else 8)
    table = Table(title=f"{len(sets)} rule sets × {episodes} episodes, PAC-Man small, 2 processes")
    for column in ("what", "seconds", "states a second and core", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("network alone, one core ÷ 2", f"{floor / 2:.1f}", f"{states / floor:,.0f}", "1", "")
    table.add_row(
        "whole evaluation", f"{wall:.1f}", f"{per_core:,.0f}", f"{wall / (floor / 2):.2f}× the network", "≤ 2"
    )
    table.add_row(
        "plain loop, one core", "", f"{loop:,.0f}", f"{2 * per_core / loop:.0f}× slower than 2 cores here", "≥ 300"
    )
    console.print(table)
    guided_cost(console, setup, 500 if quick else 2500)
    growth(console, setup, 250 if quick else 1000)


def guided_cost(console: Console, setup: Setup, episodes: int) -> None:
    """Measure what guidance adds to an unguided step."""
    unguided = min(seconds / states for seconds, states in (unit_seconds(setup, -1, episodes) for _ in range(3)))
    guided = min(seconds / states for seconds, states in (unit_seconds(setup, 0, episodes) for _ in range(3)))
    more = f"{guided / unguided - 1:+.0%} (goal ≤ 25 %)"
    console.print(f"A step: {unguided * 1e6:.2f} µs unguided, {guided * 1e6:.2f} µs guided: {more}")


def growth(console: Console, setup: Setup, episodes: int) -> None:
    """Measure how the cost grows with episodes and with rules a set."""
    table = Table(title="Growth (one process)")
    for column in ("episodes", "µs a state", "rules a set", "µs a state "):
        table.add_column(column, justify="right")
    rules = tuple(dict.fromkeys(rule for rule_set in setup.treatments for rule in rule_set.rules))  # type: ignore[union-attr]
    for factor, size in zip((1, 2, 4, 8), (4, 16, 64, 256), strict=True):
        seconds, states = unit_seconds(setup, 0, factor * episodes)
        wide = Setup(setup.policy, ENV, (RuleSet(rules[:size]),), setup.play)
        more, wide_states = unit_seconds(wide, 0, episodes)
        table.add_row(
            f"{factor * episodes:,}",
            f"{seconds / states * 1e6:.2f}",
            str(len(wide.treatments[0].rules)),  # type: ignore[union-attr]
            f"{more / wide_states * 1e6:.2f}",
        )
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer episodes, rougher figures")
    parser.add_argument("--policy", type=Path, help="a policy file for PAC-Man small")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.policy)
