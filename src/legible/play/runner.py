"""Units of work on an engine; a unit that fails because of an episode is run again in pieces.

- `run_units_or_pieces`: plays units; `Pieces`: the pieces of a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from legible.engines import Engine, Finished, UnitFailedError
from legible.play.failures import FailedEpisode, FailureLimit, failure_reason, is_episode_failure

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


class Pieces(NamedTuple, Generic[S, U]):
    """The pieces of a unit, their shared setup, and the seed of the episode of each piece."""

    setup: S
    units: Sequence[U]
    seeds: Sequence[int]


def run_units_or_pieces(
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
    """Play units; play a unit that fails because of an episode again in pieces.

    Parameters
    ----------
    play
        Plays a unit, or a piece of one.
    setup, units
        The shared setup and the units.
    cut
        Cuts a unit into pieces.
    engine, time_limit
        The engine, and the maximum seconds per unit or piece.
    failures
        Counts the failed pieces (all unguided) and raises if there are too many.
    problem
        Start of the error message if a unit fails for another reason than an episode.

    Yields
    ------
    The number of each unit and a list with its result; for a unit that failed, the results of its pieces, None for each
    failed piece. Units that failed come last, in order.
    """
    broken: list[int] = []
    for outcome in engine.run(play, setup, units, time_limit=time_limit):
        if isinstance(outcome, Finished):
            yield outcome.index, [outcome.result]
        elif is_episode_failure(outcome):
            broken.append(outcome.index)
        else:
            raise UnitFailedError(f"{problem}: {failure_reason(outcome)}.")
    for index in sorted(broken):
        pieces = cut(units[index])
        results: list[R | None] = [None] * len(pieces.units)
        for outcome in engine.run(play, pieces.setup, pieces.units, time_limit=time_limit):
            if isinstance(outcome, Finished):
                results[outcome.index] = outcome.result
            else:
                seed = pieces.seeds[outcome.index]
                failures.add(FailedEpisode(guided=False, seed=seed, error=failure_reason(outcome)))
        yield index, results
