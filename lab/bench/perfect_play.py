"""Studies of perfect play in tic-tac-toe against random play: every confirmed rule is a false one.

The policy maximises the expected return against uniformly random replies, by looking through all games. No rule can
raise its mean return, so a study must not confirm any. Run ``python -m lab.bench.perfect_play 50``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.policies import load_policy
from legible.settings import SearchSettings, StudySettings
from legible.study import Study

GAME = EnvironmentSpec("pettingzoo:pettingzoo.classic.tictactoe_v3", {"seat": "any", "others": "random"})
LINES = [
    *(tuple(3 * i + j for j in range(3)) for i in range(3)),
    *(tuple(i + 3 * j for j in range(3)) for i in range(3)),
    (0, 4, 8),
    (2, 4, 6),
]
Board = tuple[int, ...]


def has_won(board: Board, who: int) -> bool:
    return any(all(board[place] == who for place in line) for line in LINES)


@cache
def values(board: Board) -> tuple[float, ...]:
    """The expected return of each move of player 1 against random replies; minus infinity where it is not allowed."""
    found = []
    for place, mark in enumerate(board):
        if mark:
            found.append(-np.inf)
            continue
        after = (*board[:place], 1, *board[place + 1 :])
        if has_won(after, 1):
            found.append(1.0)
            continue
        free = [i for i, other in enumerate(after) if not other]
        if not free:
            found.append(0.0)
            continue
        outcomes = []
        for reply in free:
            then = (*after[:reply], 2, *after[reply + 1 :])
            over = has_won(then, 2)
            outcomes.append(-1.0 if over else max(values(then)) if len(free) > 1 else 0.0)
        found.append(float(np.mean(outcomes)))
    return tuple(found)


@cache
def row_scores(row: bytes) -> tuple[float, ...]:
    mine, theirs = np.frombuffer(row, np.float32).reshape(9, 2).T
    board = tuple(int(one + 2 * other) for one, other in zip(mine, theirs, strict=True))
    if has_won(board, 1) or has_won(board, 2):
        return (0.0,) * 9
    return tuple(value if np.isfinite(value) else -9.0 for value in values(board))


def perfect_scores(observations: Any) -> Any:
    """Return the expected returns of all moves; squares that are taken get a low one."""
    rows = np.ascontiguousarray(observations, np.float32)
    return np.array([row_scores((row > 0.5).astype(np.float32).tobytes()) for row in rows])


def settings() -> StudySettings:
    quick = StudySettings.quick().for_single_environments()
    evaluation = replace(quick.evaluation, confirmation_seeds=600, race_seeds=100)
    return replace(quick, episodes=60, search=SearchSettings(budget=20_000), evaluation=evaluation)


def main(studies: int) -> None:
    policy = load_policy(perfect_scores, output="values", n_features=18, n_actions=9)
    started, false = time.monotonic(), 0
    tested = 0
    for seed in range(studies):
        with tempfile.TemporaryDirectory() as folder:
            study = Study(folder, GAME, policy, seed=seed, settings=settings(), engine=InProcess(), relations="none")
            found = study.evaluate()
        tested += len(found.verdicts)
        false += bool(found.confirmed)
        words = "; ".join(row["rule"] for row in found.to_rows(study.space) if row["confirmed"])
        print(
            f"study {seed}: {len(found.verdicts)} rule sets tested, {len(found.confirmed)} confirmed {words}; unguided "
            f"mean return {found.base.mean:.3f}; {time.monotonic() - started:.0f} s",
            flush=True,
        )
    print(f"{false} of {studies} studies confirm a rule; {tested} rule sets tested.")


if __name__ == "__main__":
    main(int(sys.argv[1]))
