"""The unguided policy, played once a seed and kept step by step: what guided episodes are compared with.

- `RecordedEpisodes`: unguided episodes with all that decides what guidance would change in them; `STEPS` has
  `legible.evaluation.units.run_units` keep them.
- `UnguidedRecord`: those of a stage, as many as are asked for; what a study's folder holds is not played again.
- `find_repetition`, `Repetition`: whether the same seed gives the same episode, wherever it is played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.blocks import Runner
from legible.evaluation.units import (
    UNGUIDED,
    Kept,
    LoneEpisode,
    Setup,
    Unit,
    UnitResult,
    cut_into_units,
    play_alone,
    play_unit,
)
from legible.play import Observations, Recorder, Scores, stage_seeds

RECORD_EPISODES = 256
"""Episodes in a unit that is recorded: they all run side by side."""
LARGE_ROWS, SMALL_ROWS = 128, 32
"""Rows of a batch that networks see, where many episodes run side by side and where few do."""
REPEATED_EPISODES = 24
REMEMBERED_BYTES = 1_000_000_000


@dataclass(frozen=True)
class RecordedEpisodes:
    """Episodes with what was seen in every step.

    Parameters
    ----------
    result
        How they went.
    observations, scores
        What the policy saw and thought, a row a step, episode after episode. Episodes that failed have no rows.
    """

    result: UnitResult
    observations: Observations
    scores: Scores

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which episodes failed."""
        return self.result.failed

    @property
    def errors(self) -> NDArray[np.str_]:
        """Why they did."""
        return self.result.errors

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of every episode, and the end."""
        return np.concatenate([[0], np.cumsum(self.result.lengths)])

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.observations.nbytes + self.scores.nbytes

    @classmethod
    def of_failed(cls, error: str) -> RecordedEpisodes:
        """One episode that failed."""
        return cls(UnitResult.of_failed(error), np.empty((0, 0), np.float32), np.empty((0, 0), np.float32))

    @classmethod
    def concatenate(cls, parts: Sequence[RecordedEpisodes]) -> RecordedEpisodes:
        """Put episodes one after the other."""
        with_rows = [part for part in parts if len(part.observations)] or parts[:1]
        return cls(
            UnitResult.concatenate([part.result for part in parts]),
            np.concatenate([part.observations for part in with_rows]),
            np.concatenate([part.scores for part in with_rows]),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays, for a file."""
        return {**self.result.to_arrays(), "observations": self.observations, "scores": self.scores}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RecordedEpisodes:
        """Make it from what `to_arrays` returned."""
        made = cls(UnitResult.from_arrays(arrays), arrays["observations"], arrays["scores"])
        if not len(made.observations) == len(made.scores) == made.starts[-1]:
            raise ValueError("steps are missing")
        return made

    def __len__(self) -> int:
        return len(self.result)


def record_unit(setup: Setup, unit: Unit) -> RecordedEpisodes:
    """Play a unit and keep its steps."""
    recorder = Recorder()
    return _recorded(recorder, play_unit(setup, unit, recorder))


def record_alone(setup: Setup, episode: LoneEpisode) -> RecordedEpisodes:
    """Play one episode of a unit that failed as a whole, and keep its steps."""
    recorder = Recorder()
    return _recorded(recorder, play_alone(setup, episode, recorder))


def _recorded(recorder: Recorder, result: UnitResult) -> RecordedEpisodes:
    steps = recorder.steps()
    return RecordedEpisodes(result, steps.observations, steps.scores)


STEPS = Kept("unguided", RecordedEpisodes, record_unit, record_alone)
"""How unguided episodes went, and what was seen in them."""


@dataclass(frozen=True)
class Repetition:
    """Whether episodes repeat themselves.

    Parameters
    ----------
    rows
        Rows of the batches that the policy is to see.
    holds
        Whether the same seed then gives the same episode, whatever unit it is played in.
    """

    rows: int
    holds: bool


def find_repetition(setup: Setup, seed: int, stage: str, run: Runner) -> Repetition:
    """Play some seeds of a stage twice, in other rows and beside others, and see whether all is the same to the bit.

    Where it is not, the shape of the batch may be why: then the policy is asked about one state at a time. Where the
    episodes still differ, the environment or the policy draws random numbers that do not come from the seed.
    """
    seeds = stage_seeds(seed, stage, 0, REPEATED_EPISODES)
    wide = LARGE_ROWS if setup.play.batch > SMALL_ROWS else SMALL_ROWS
    there, back = tuple(seeds), tuple(reversed(seeds))
    # The second time with half as many side by side, so that rows are filled again by other episodes.
    fewer = replace(setup.play, batch=max(1, min(setup.play.batch, len(seeds)) // 2))
    for rows in (wide, 1):
        once = replace(setup, treatments=(), rows=rows)
        first = run(once, [Unit((UNGUIDED,) * len(seeds), there)], kept=STEPS, stage=stage)
        second = run(replace(once, play=fewer), [Unit((UNGUIDED,) * len(seeds), back)], kept=STEPS, stage=stage)
        if _same(first, second):
            return Repetition(rows, holds=True)
    return Repetition(wide, holds=False)


def _same(first: RecordedEpisodes, second: RecordedEpisodes) -> bool:
    """Whether two recordings, the second in the reversed order, are of the same episodes."""
    n = len(first)
    order = np.arange(n)[::-1]
    again = second.result[order]
    names = ("returns", "lengths", "truncated", "success", "costs", "failed")
    if not all(np.array_equal(getattr(first.result, f), getattr(again, f), equal_nan=True) for f in names):
        return False
    starts = second.starts
    rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in order])
    return np.array_equal(first.observations, second.observations[rows], equal_nan=True) and np.array_equal(
        first.scores, second.scores[rows], equal_nan=True
    )


class UnguidedRecord:
    """The unguided policy on the seeds of a stage.

    Parameters
    ----------
    setup
        Policy and environment; its treatments are not used.
    seed, stage
        Of the study, and the name of the stage.
    most
        How many seeds there are at most.
    run
        How units are run.
    on_episodes
        Called with the number of episodes that became known.
    """

    def __init__(
        self,
        setup: Setup,
        seed: int,
        stage: str,
        most: int,
        run: Runner,
        on_episodes: Callable[[int], None] | None = None,
    ) -> None:
        self._setup = replace(setup, treatments=())
        self.stage, self._run, self._on_episodes = stage, run, on_episodes
        self.seeds = np.array(stage_seeds(seed, stage, 0, most), np.int64)
        self._units = cut_into_units([UNGUIDED] * most, self.seeds.tolist(), min(RECORD_EPISODES, _unit_size(setup)))
        self._parts: dict[int, RecordedEpisodes] = {}
        self._results: list[UnitResult] = []

    @property
    def most(self) -> int:
        """How many seeds there are at most."""
        return len(self.seeds)

    @property
    def known(self) -> int:
        """How many seeds have been played."""
        return sum(len(result) for result in self._results)

    @property
    def result(self) -> UnitResult:
        """How the episodes on the seeds that have been played went."""
        return UnitResult.concatenate(self._results)

    def extend(self, seeds: int) -> int:
        """Play up to so many seeds, whole units of them; returns how many are known now."""
        while self.known < min(seeds, self.most):
            self._extend(min(seeds, self.most))
        return self.known

    def _extend(self, seeds: int) -> None:
        first = len(self._results)
        size = len(self._units[0])
        new = self._units[first : -(-seeds // size)]
        played = self._run(self._setup, new, kept=STEPS, stage=self.stage, on_episodes=self._on_episodes)
        for i, (part, result) in enumerate(_split(played, [len(unit) for unit in new]), start=first):
            self._results.append(result)
            self._remember(i, part)

    def parts(self, first: int, last: int) -> list[tuple[slice, RecordedEpisodes]]:
        """Return what is known of the seeds from `first` up to but not including `last`, unit by unit."""
        size = len(self._units[0])
        found = []
        for i in range(first // size, min(len(self._results), -(-last // size))):
            start = i * size
            found.append((slice(start, start + len(self._results[i])), self._part(i)))
        return found

    def _part(self, i: int) -> RecordedEpisodes:
        if i not in self._parts:
            self._remember(i, self._run(self._setup, [self._units[i]], kept=STEPS, stage=self.stage))
        return self._parts[i]

    def _remember(self, i: int, part: RecordedEpisodes) -> None:
        """Keep a part in memory, unless they are too large together: then the oldest is read again when needed."""
        self._parts[i] = part
        while len(self._parts) > 1 and sum(other.nbytes for other in self._parts.values()) > REMEMBERED_BYTES:
            del self._parts[next(iter(self._parts))]


def _unit_size(setup: Setup) -> int:
    return setup.play.unit_episodes


def _split(played: RecordedEpisodes, sizes: Sequence[int]) -> list[tuple[RecordedEpisodes, UnitResult]]:
    ends = np.cumsum(sizes)
    starts = played.starts
    split = []
    for end, size in zip(ends.tolist(), sizes, strict=True):
        rows = slice(int(starts[end - size]), int(starts[end]))
        result = played.result[end - size : end]
        # Copies, so that a part that is forgotten frees its memory.
        part = RecordedEpisodes(result, played.observations[rows].copy(), played.scores[rows].copy())
        split.append((part, result))
    return split
