"""The fleet and Stable-Baselines3, in the same run.

``python -m lab.bench.bench_fleet [--quick]``: throughput on one core, and on a GPU, where there is one, the time of an
update and its gap to the floor.

``python -m lab.bench.bench_fleet --curves [--quick] [--seeds 10] [--first-seed 0] [--problem 2]``: learning curves of
both over several seeds on CartPole and on PAC-Man small, with smaller networks and fewer steps than the zoo's; what it
printed is in ``lab/bench/results/fleet-curves.txt``. They must agree within their errors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import stats
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from lab.fleet.plan import FleetPlan, make_fleet, policies_of
from legible.environments import EnvironmentSpec
from legible.play import one_thread
from legible.policies import NetworkPolicy, load_policy
from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.measuring import measure_policy
from legible.training.sb3 import sb3_arguments
from legible_envs.pacman.training import PACMAN_DQN, PACMAN_PPO, PACMAN_PPO_REWARD_SCALE

SMALL = EnvironmentSpec("legible/PacmanSmall-v0")
WINDOWS = 8


def sb3_model(environment: EnvironmentSpec, settings: DqnSettings | PpoSettings, seed: int, scale: float = 1.0) -> Any:
    def make() -> Any:
        import gymnasium

        env = Monitor(environment.make())
        return env if scale == 1.0 else gymnasium.wrappers.TransformReward(env, lambda reward: scale * float(reward))

    kind = DQN if isinstance(settings, DqnSettings) else PPO
    return kind("MlpPolicy", DummyVecEnv([make] * settings.n_envs), seed=seed, device="cpu", **sb3_arguments(settings))


@dataclass
class Curve:
    """Mean returns of the episodes that ended in each window of a training, and the greedy policy's at the end."""

    windows: NDArray[np.float64]
    final: float


class _Returns(BaseCallback):
    """Remembers when episodes ended, and with which return."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.ends.append((self.num_timesteps, float(info["episode"]["r"])))
        return True


def sb3_curve(problem: Problem, seed: int) -> Curve:
    model = sb3_model(problem.environment, problem.settings, seed, problem.reward_scale)
    returns = _Returns()
    model.learn(problem.steps, callback=returns)
    at, values = np.array(returns.ends).T
    window = np.minimum((at - 1) * WINDOWS // problem.steps, WINDOWS - 1)
    means = np.array([values[window == w].mean() if (window == w).any() else np.nan for w in range(WINDOWS)])
    policy = load_policy(model)
    assert isinstance(policy, NetworkPolicy)
    return Curve(means, measure_policy(policy, problem.environment, problem.episodes).mean_return)


def fleet_curves(problem: Problem, seeds: tuple[int, ...]) -> list[Curve]:
    plan = FleetPlan((problem.environment,), seeds, problem.settings, problem.steps, problem.reward_scale)
    fleet = make_fleet(plan)
    windows = np.full((len(seeds), WINDOWS), np.nan)
    for w in range(WINDOWS):
        while fleet.steps < (w + 1) * problem.steps // WINDOWS:
            fleet.learn(max_phases=1)
        windows[:, w] = fleet.progress().mean_returns
    policies = policies_of(fleet, plan)
    finals = [measure_policy(policy, problem.environment, problem.episodes).mean_return for policy in policies]
    return [Curve(row, final) for row, final in zip(windows, finals, strict=True)]


@dataclass(frozen=True)
class Problem:
    """A training problem for both."""

    name: str
    environment: EnvironmentSpec
    settings: DqnSettings | PpoSettings
    steps: int
    reward_scale: float = 1.0
    episodes: int = 100


PROBLEMS = (
    Problem(
        "CartPole, DQN",
        EnvironmentSpec("CartPole-v1"),
        DqnSettings(
            learning_rate=5e-4, buffer_size=10_000, learning_starts=200, batch_size=64, gamma=0.98, gradient_steps=-1,
            n_envs=4, target_update_interval=500, exploration_fraction=0.4,
        ),
        16_000,
    ),
    Problem(
        "PAC-Man small, DQN",
        SMALL,
        replace(PACMAN_DQN, hidden=(64, 64), batch_size=64, buffer_size=10_000, target_update_interval=1000),
        24_000,
    ),
    Problem(
        "CartPole, PPO",
        EnvironmentSpec("CartPole-v1"),
        PpoSettings(n_steps=128, n_envs=4, batch_size=64, n_epochs=6, learning_rate=5e-4),
        16_384,
    ),
    Problem(
        "PAC-Man small, PPO",
        SMALL,
        replace(PACMAN_PPO, hidden=(64, 64)),
        49_152,
        PACMAN_PPO_REWARD_SCALE,
    ),
)  # fmt: skip


def curves(console: Console, seeds: tuple[int, ...], problems: Sequence[Problem], *, quick: bool) -> None:
    for problem in problems:
        shortened = replace(problem, steps=problem.steps // 4) if quick else problem
        theirs = [sb3_curve(shortened, seed) for seed in seeds]
        ours = fleet_curves(shortened, seeds)
        console.print(_curve_table(shortened, theirs, ours))
        areas = [np.array([np.nanmean(curve.windows) for curve in group]) for group in (theirs, ours)]
        finals = [np.array([curve.final for curve in group]) for group in (theirs, ours)]
        for name, (a, b) in (("mean of the whole curve", areas), ("greedy policy at the end", finals)):
            p = stats.ttest_ind(a, b, equal_var=False).pvalue
            console.print(
                f"{name}: Stable-Baselines3 {_mean(a)}, fleet {_mean(b)}; difference {b.mean() - a.mean():+.1f} ± "
                f"{np.hypot(_error(a), _error(b)):.1f}, Welch p = {p:.2f}"
            )


def _error(values: NDArray[np.float64]) -> float:
    return float(np.nanstd(values, ddof=1) / np.sqrt(np.isfinite(values).sum()))


def _mean(values: NDArray[np.float64]) -> str:
    return f"{np.nanmean(values):.1f} ± {_error(values):.1f}"


def _curve_table(problem: Problem, theirs: list[Curve], ours: list[Curve]) -> Table:
    table = Table(title=f"{problem.name}: returns while training, {len(ours)} seeds, {problem.steps:,} steps each")
    for heading in ("steps", "Stable-Baselines3", "fleet", "difference / its error"):
        table.add_column(heading, justify="right")
    for w in range(WINDOWS):
        a, b = (np.array([curve.windows[w] for curve in group]) for group in (theirs, ours))
        z = (np.nanmean(b) - np.nanmean(a)) / np.hypot(_error(a), _error(b))
        table.add_row(f"{(w + 1) * problem.steps // WINDOWS:,}", _mean(a), _mean(b), f"{z:+.1f}")
    return table


def sb3_rate(seconds: float) -> float:
    """Return the environment steps a second of Stable-Baselines3's DQN with the paper's hyperparameters."""
    model = sb3_model(SMALL, PACMAN_DQN, 0)
    model.learn(320)  # past the beginning, in which nothing is learnt
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        model.learn(160, reset_num_timesteps=False)
        steps += 160
    return steps / (time.perf_counter() - began)


def fleet_rate(n: int, seconds: float) -> float:
    """Return the environment steps a second of a fleet, all its policies together."""
    fleet = make_fleet(FleetPlan((SMALL,), tuple(range(n)), PACMAN_DQN, 2_500_000))
    fleet.learn(max_phases=5)
    steps, began = fleet.steps, time.perf_counter()
    fleet.learn(until=time.monotonic() + seconds)
    return n * (fleet.steps - steps) / (time.perf_counter() - began)


def throughput(console: Console, *, quick: bool) -> None:
    seconds = 3.0 if quick else 15.0
    table = Table(title="PAC-Man small, DQN of the paper, one core: environment steps a second, one update each")
    for heading in ("", "steps/s", "ratio"):
        table.add_column(heading, justify="right")
    with one_thread():
        peer = sb3_rate(seconds)
        table.add_row("Stable-Baselines3, one policy", f"{peer:,.0f}", "1.0")
        for n in (1, 5):
            rate = fleet_rate(n, seconds)
            table.add_row(f"fleet of {n}, together", f"{rate:,.0f}", f"{rate / peer:.1f}")
    console.print(table)


def on_gpu(console: Console) -> None:
    from lab.fleet import check_fused
    from lab.fleet.fused import FusedSettings, FusedStep
    from lab.fleet.gradient_step import TorchStep

    table = Table(title=f"{torch.cuda.get_device_name()}: microseconds an update of all policies, batch 256")
    for heading in ("policies × inputs", "PyTorch", "fused", "floor (3 tf32 products + Adam's bytes)"):
        table.add_column(heading, justify="right")
    for n, inputs in ((20, 69), (10, 117)):
        problem = check_fused.Problem.random(n, inputs, 256, torch.device("cuda"))
        plain = TorchStep(problem.networks(), problem.replay(), problem.adam)
        fused = FusedStep(problem.networks(), problem.replay(), problem.adam, 256, FusedSettings())
        batch, row = problem.batch(0), problem.coefficients[0]
        times = [check_fused.microseconds(partial(step, batch, row), 16) for step in (plain, fused)]
        table.add_row(
            f"{n} × {inputs}", *(f"{t:.1f}" for t in times), f"{check_fused.floor_us(n, problem.shape, 256):.0f}"
        )
    console.print(table)


def main(*, quick: bool = False) -> None:
    console = Console(width=110)
    throughput(console, quick=quick)
    if torch.cuda.is_available():
        on_gpu(console)
    else:
        console.print("No GPU here: the time of fused updates was not measured.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less data, rougher figures")
    parser.add_argument("--curves", action="store_true", help="learning curves instead of throughput")
    parser.add_argument("--seeds", type=int, help="how many seeds for the curves; 10, or 3 when quick")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--problem", type=int, choices=range(1, len(PROBLEMS) + 1), help="one of the curves only")
    given = parser.parse_args()
    if given.curves:
        n = given.seeds or (3 if given.quick else 10)
        chosen = PROBLEMS if given.problem is None else PROBLEMS[given.problem - 1 : given.problem]
        with one_thread():
            curves(Console(width=110), tuple(range(given.first_seed, given.first_seed + n)), chosen, quick=given.quick)
    else:
        main(quick=given.quick)
