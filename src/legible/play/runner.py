"""Units of work on an engine, and those in which an episode fails again piece by piece.

- `run_apart`: plays units; `Pieces`: what a unit is cut into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from legible.engines import Engine, Finished, UnitFailedError
from legible.play.failures import FailedEpisode, FailureLimit, is_of_episode, reason_of

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


class Pieces(NamedTuple, Generic[S, U]):
    """What a unit is cut into: what its pieces share, the pieces, and the seed of the episode of each."""

    setup: S
    units: Sequence[U]
    seeds: Sequence[int]


def run_apart(
    play: Callable[[S, U], R],
    setup: S,
    units: Sequence[U],
    *,
    cut: Callable[[U], Pieces[S, U]],
    engine: Engine,
    time_limit: float | None,
    failures: FailureLimit,
    problem: str,
) -> Iterator[tuple[int, list[R | None]]]:
    """Play units, and those in which an episode fails again piece by piece.

    Parameters
    ----------
    play
        Plays a unit, or a piece of one.
    setup, units
        What all units share, and the units.
    cut
        Cuts a unit into pieces.
    engine, time_limit
        Where they run, and the seconds after which a unit or a piece is given up.
    failures
        Counts the pieces that fail, none of them guided, and says when they are too many.
    problem
        What is wrong where a unit fails and no episode of it is the cause.

    Yields
    ------
    The number of every unit with its result alone; with those of its pieces where it failed, None for each that failed
    again. Units that failed come last, in their order.
    """
    broken: list[int] = []
    for outcome in engine.run(play, setup, units, time_limit=time_limit):
        if isinstance(outcome, Finished):
            yield outcome.index, [outcome.result]
        elif is_of_episode(outcome):
            broken.append(outcome.index)
        else:
            raise UnitFailedError(f"{problem}: {reason_of(outcome)}.")
    for index in sorted(broken):
        pieces = cut(units[index])
        found: list[R | None] = [None] * len(pieces.units)
        for outcome in engine.run(play, pieces.setup, pieces.units, time_limit=time_limit):
            if isinstance(outcome, Finished):
                found[outcome.index] = outcome.result
            else:
                seed = pieces.seeds[outcome.index]
                failures.add(FailedEpisode(guided=False, seed=seed, error=reason_of(outcome)))
        yield index, found
