"""A search over one small world, shared by the tests of searches."""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

import mirror_world
from legible.features import deciles
from legible.hypotheses import MeasuredEffect, SourceInput, Trial
from legible.mining import Mining
from legible.play import collect
from legible.settings import SearchSettings
from mirror_world import WORLD

ALWAYS_RIGHT = mirror_world.always_right()
SEEN = collect(ALWAYS_RIGHT, WORLD, 30, seed=0, names=mirror_world.SPACE)


def source_input(budget: int = 0, composition: float = 1.0, **settings: Any) -> SourceInput:
    mining = Mining((), SEEN.space, deciles(SEEN.space, SEEN.observations), None, 0, {})
    search = SearchSettings(**{"most_changed": 1.0, **settings})
    return SourceInput(ALWAYS_RIGHT, SEEN, mining, search=search, budget=budget, most_changed=composition)


def run_search(
    source: Generator[Any, Sequence[MeasuredEffect], Any], measure: Callable[[Trial], list[MeasuredEffect]]
) -> tuple[list[Trial], Any]:
    """Return all trials of a source and its proposal."""
    trials: list[Trial] = []
    found: Any = None
    with suppress(StopIteration):
        found = next(source)
        while isinstance(found, Trial):
            trials.append(found)
            found = source.send(measure(found))
    return trials, found
