"""PAC-Man: steps a second with observations on one core, compared with edq-pacai's rules-only game in the same run.

``python -m lab.bench.bench_pacman [--quick]``
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from importlib import resources

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import legible  # noqa: F401 (registers the environments)

BATCH = 1024
LEVELS = ("Small", "Medium", "Original")
GOALS = {"Small": 2.0e6, "Original": 1.0e6}


def best_rate(run: Callable[[], int], repeats: int) -> float:
    """Steps a second of the fastest of some repeats: the others were disturbed by something else."""
    rates = []
    for _ in range(repeats):
        started = time.perf_counter()
        steps = run()
        rates.append(steps / (time.perf_counter() - started))
    return max(rates)


def vector_rate(level: str, batch: int, steps: int, repeats: int = 5, *, copy: bool = True) -> float:
    envs = gymnasium.make_vec(f"legible/Pacman{level}-v0", num_envs=batch, copy=copy)
    actions = np.random.default_rng(0).integers(0, 5, (steps, batch))
    envs.reset(seed=0)
    for row in actions[:30]:
        envs.step(row)

    def run() -> int:
        for row in actions:
            envs.step(row)
        return steps * batch

    return best_rate(run, repeats)


def single_rate(level: str, steps: int) -> float:
    env = gymnasium.make(f"legible/Pacman{level}-v0")
    actions = np.random.default_rng(0).integers(0, 5, steps)
    env.reset(seed=0)

    def run() -> int:
        for action in actions:
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return steps

    return best_rate(run, 3)


def pacai_rate(level: str, steps: int) -> float:
    """Rounds a second of edq-pacai with random legal moves: the rules alone, no observation."""
    import pacai.core.agentinfo
    import pacai.core.board
    import pacai.pacman.gamestate

    path = resources.files("pacai") / "resources" / "boards" / f"classic-{level.lower()}.board"
    board = pacai.core.board.load_path(str(path))
    rng = random.Random(0)
    info = pacai.core.agentinfo.AgentInfo(name="pacai.agents.random.RandomAgent")
    infos = dict.fromkeys(range(board.agent_count()), info)

    def new_game() -> pacai.pacman.gamestate.GameState:
        state = pacai.pacman.gamestate.GameState(board=board.copy(), agent_infos=infos)
        state.game_start()
        return state

    def run() -> int:
        state, rounds = new_game(), 0
        while rounds < steps:
            rounds += state.agent_index == 0
            state.process_turn_full(rng.choice(state.get_legal_actions()), rng)
            if state.game_over:
                state = new_game()
        return rounds

    return best_rate(run, 3)


def main(quick: bool = False) -> None:
    console = Console()
    steps = 60 if quick else 300
    table = Table(title=f"PAC-Man, random play, one core, batch {BATCH} (million steps a second)")
    columns = ("level", "legible, observations", "no copies", "edq-pacai, rules only", "ratio", "one game", "goal")
    for column in columns:
        table.add_column(column, justify="right" if column != "level" else "left")
    for level in LEVELS:
        ours, bare = vector_rate(level, BATCH, steps), vector_rate(level, BATCH, steps, copy=False)
        peer, alone = pacai_rate(level, 2_000 if quick else 10_000), single_rate(level, 5_000)
        goal = GOALS.get(level)
        table.add_row(
            level,
            f"{ours / 1e6:.2f}",
            f"{bare / 1e6:.2f}",
            f"{peer / 1e6:.4f}",
            f"{ours / peer:.0f}×",
            f"{alone / 1e6:.3f}",
            "" if goal is None else f"≥ {goal / 1e6:g} {'met' if ours >= goal else 'missed'}",
        )
    console.print(table)
    growth = Table(title="Cost of a step as the batch grows (ns)")
    batches = (1, 16, 256, 1024, 4096, 16384)
    for column in ("level", *map(str, batches)):
        growth.add_column(column, justify="right")
    for level in LEVELS:
        rates = [vector_rate(level, batch, max(20, steps * BATCH // (4 * batch)), 3) for batch in batches]
        growth.add_row(level, *(f"{1e9 / rate:.0f}" for rate in rates))
    console.print(growth)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, rougher figures")
    main(parser.parse_args().quick)
