"""Blocks of episodes: lists of seeds, each played with one treatment.

- `Runner`: a function that runs units.
- `play_blocks`: plays blocks with any seeds and returns the results of each.
- `PlayedBlocks`: the unguided policy and every treatment of a setup on the same seeds; `play_on_same_seeds` plays them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.evaluation.units import UNGUIDED, Setup, Unit, UnitResult, cut_into_units, record_alone, record_episode
from legible.play import Recording

Runner = Callable[..., Any]
"""`legible.evaluation.units.run_units`, possibly with engine and store already chosen. Returns what `kept` asks for."""


def play_blocks(
    setup: Setup,
    plan: Sequence[tuple[int, Sequence[int]]],
    run: Runner,
) -> list[UnitResult]:
    """Play blocks of episodes, each given by the number of a treatment and its seeds; return the result of each."""
    treatments = [treatment for treatment, seeds in plan for _ in seeds]
    every_seed = [seed for _, seeds in plan for seed in seeds]
    units = cut_into_units(treatments, every_seed, setup.play.unit_episodes)
    result = run(setup, units)
    ends = np.cumsum([len(seeds) for _, seeds in plan])
    return [result[end - len(seeds) : end] for (_, seeds), end in zip(plan, ends, strict=True)]


@dataclass(frozen=True)
class PlayedBlocks:
    """Results of the unguided policy and every treatment of a setup, all on the same seeds.

    Parameters
    ----------
    setup
        Policy, environment and treatments.
    seeds
        Seeds of the episodes of every block.
    results
        The result of the unguided policy, then one for each treatment, which may cover only the first seeds.
    """

    setup: Setup
    seeds: tuple[int, ...]
    results: tuple[UnitResult, ...]

    @property
    def base(self) -> UnitResult:
        """The episodes of the unguided policy."""
        return self.results[0]

    def guided(self, treatment: int) -> UnitResult:
        """Return the episodes of a treatment."""
        return self.results[treatment + 1]

    def pair(self, treatment: int) -> tuple[UnitResult, UnitResult]:
        """Return the episodes of the unguided policy and of a treatment, on the seeds of the treatment."""
        guided = self.guided(treatment)
        return self.base[: len(guided)], guided

    def unit_of(self, treatment: int, episode: int) -> tuple[Unit, int]:
        """Return the unit in which an episode of a treatment (−1: unguided) was played, and its place there."""
        blocks, size = range(UNGUIDED, len(self.setup.treatments)), self.setup.play.unit_episodes
        units = cut_into_units([t for t in blocks for _ in self.seeds], self.seeds * len(blocks), size)
        position = (treatment + 1) * len(self.seeds) + episode
        return units[position // size], position % size

    def record(self, treatment: int, episode: int) -> Recording:
        """Play an episode of a treatment (−1: unguided) again and return it step by step."""
        if self.setup.rows:  # the episode is the same in any unit, unless scores depend on the row
            alone = record_alone(self.setup, Unit((treatment,), (self.seeds[episode],)), 0)
            is_whole = all(len(result) == len(self.seeds) for result in self.results)
            if not is_whole or len(alone.actions) == self.results[treatment + 1].lengths[episode]:
                return alone
        unit, place = self.unit_of(treatment, episode)
        first = (treatment + 1) * len(self.seeds) + episode - place
        failed = np.concatenate([result.failed for result in self.results])[first : first + len(unit)]
        return (record_alone if failed.any() else record_episode)(self.setup, unit, place)

    @property
    def failed(self) -> tuple[int, int]:
        """The numbers of guided and of unguided episodes that failed."""
        return sum(int(result.failed.sum()) for result in self.results[1:]), int(self.base.failed.sum())


def play_on_same_seeds(setup: Setup, seeds: Sequence[int], run: Runner) -> PlayedBlocks:
    """Play the unguided policy and every treatment of a setup on the same seeds."""
    plan = [(treatment, seeds) for treatment in range(UNGUIDED, len(setup.treatments))]
    return PlayedBlocks(setup, tuple(seeds), tuple(play_blocks(setup, plan, run)))
