"""Blocks of episodes: lists of seeds, each played with one treatment.

- `Runner`: how units are run.
- `play_blocks`: plays blocks, whatever their seeds, and returns what came of each.
- `PlayedBlocks`: the unguided policy and every treatment of a setup on the same seeds; `play_on_same_seeds` plays them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.evaluation.units import (
    UNGUIDED,
    Setup,
    Unit,
    UnitResult,
    cut_into_units,
    record_alone,
    record_episode,
)
from legible.play import Recording

Runner = Callable[..., Any]
"""`legible.evaluation.units.run_units`, or that with engine and store already chosen. It returns what is to be kept."""


def play_blocks(
    setup: Setup,
    plan: Sequence[tuple[int, Sequence[int]]],
    run: Runner,
    on_episodes: Callable[[int], None] | None = None,
) -> list[UnitResult]:
    """Play blocks of episodes, each the number of a treatment and its seeds, and return what came of each block."""
    result = run(setup, _units(setup, plan), on_episodes=on_episodes)
    ends = np.cumsum([len(seeds) for _, seeds in plan])
    starts = ends - [len(seeds) for _, seeds in plan]
    return [result[start:end] for start, end in zip(starts, ends, strict=True)]


def _units(setup: Setup, plan: Sequence[tuple[int, Sequence[int]]]) -> list[Unit]:
    treatments = [treatment for treatment, seeds in plan for _ in seeds]
    every_seed = [seed for _, seeds in plan for seed in seeds]
    return cut_into_units(treatments, every_seed, setup.play.unit_episodes)


@dataclass(frozen=True)
class PlayedBlocks:
    """The unguided policy and every treatment of a setup, all on the same seeds.

    Parameters
    ----------
    setup
        Policy, environment and treatments.
    seeds
        Of the episodes of every block.
    results
        One for the unguided policy, then one for each treatment, which may be of the first seeds only.
    """

    setup: Setup
    seeds: tuple[int, ...]
    results: tuple[UnitResult, ...]

    @property
    def base(self) -> UnitResult:
        """The unguided policy."""
        return self.results[0]

    def guided(self, treatment: int) -> UnitResult:
        """The policy with one of the treatments."""
        return self.results[treatment + 1]

    def pair(self, treatment: int) -> tuple[UnitResult, UnitResult]:
        """The unguided policy and one of the treatments, on the seeds of the latter."""
        guided = self.guided(treatment)
        return self.base[: len(guided)], guided

    def unit_of(self, treatment: int, episode: int) -> tuple[Unit, int]:
        """Return the unit in which an episode of a treatment (−1: unguided) was played, and its place there."""
        units = _units(self.setup, _plan(self.setup, self.seeds))
        position, size = (treatment + 1) * len(self.seeds) + episode, self.setup.play.unit_episodes
        return units[position // size], position % size

    def record(self, treatment: int, episode: int) -> Recording:
        """Play an episode of a treatment (−1: unguided) again as it was played here, and keep it step by step."""
        if self.setup.rows:  # it is the same in any unit, unless scores depend on the row
            alone = record_alone(self.setup, Unit((treatment,), (self.seeds[episode],)), 0)
            known = self.results[treatment + 1]
            whole = all(len(result) == len(self.seeds) for result in self.results)
            if not whole or len(alone.actions) == known.lengths[episode]:
                return alone
        unit, place = self.unit_of(treatment, episode)
        size = self.setup.play.unit_episodes
        first = ((treatment + 1) * len(self.seeds) + episode) // size * size
        failed = np.concatenate([result.failed for result in self.results])[first : first + size]
        return (record_alone if failed.any() else record_episode)(self.setup, unit, place)

    @property
    def failed(self) -> tuple[int, int]:
        """How many episodes failed: guided, and unguided."""
        return sum(int(result.failed.sum()) for result in self.results[1:]), int(self.base.failed.sum())


def _plan(setup: Setup, seeds: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
    return [(treatment, seeds) for treatment in range(UNGUIDED, len(setup.treatments))]


def play_on_same_seeds(
    setup: Setup, seeds: Sequence[int], run: Runner, on_episodes: Callable[[int], None] | None = None
) -> PlayedBlocks:
    """Play the unguided policy and every treatment of a setup on the same seeds."""
    return PlayedBlocks(setup, tuple(seeds), tuple(play_blocks(setup, _plan(setup, seeds), run, on_episodes)))
