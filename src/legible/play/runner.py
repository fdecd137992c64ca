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
    """Yield the results of units, which are pieces of work of fixed size, such as a batch of episodes.

    If an episode fails in a unit, the unit is cut into smaller pieces that are played again, so that only the failed
    episode is lost.

    - `play`: function of the setup and a unit, or a piece of one, that plays it and returns its result.
    - `setup`: what all units share, such as the policy and the environment.
    - `cut`: function that cuts a unit into pieces.
    - `engine`: where units run: this process, worker processes or a cluster.
    - `time_limit`: the maximum seconds per unit or piece; None for no limit.
    - `failures`: counts the failed pieces (all unguided) and raises if there are too many.
    - `problem`: start of the error message if a unit fails for another reason than an episode.

    Yields
    ------
    The number of each unit and a list with its result; for a unit that failed, the results of its pieces, None for each
    failed piece. Units that failed come last, in order.
    """
    failed_units: list[int] = []
    for outcome in engine.run(play, setup, units, time_limit=time_limit):
        if isinstance(outcome, Finished):
            yield outcome.index, [outcome.result]
        elif is_episode_failure(outcome):
            failed_units.append(outcome.index)
        else:
            raise UnitFailedError(f"{problem}: {failure_reason(outcome)}.")

    # Play the failed units again in pieces, to find the episodes that fail.
    for index in sorted(failed_units):
        pieces = cut(units[index])
        results: list[R | None] = [None] * len(pieces.units)
        for outcome in engine.run(play, pieces.setup, pieces.units, time_limit=time_limit):
            if isinstance(outcome, Finished):
                results[outcome.index] = outcome.result
            else:
                seed = pieces.seeds[outcome.index]
                failures.add(FailedEpisode(guided=False, seed=seed, error=failure_reason(outcome)))
        yield index, results
