"""Pairs of episodes of the same seeds, where nothing is played that guidance cannot change.

- `PairedPlay`: plays treatments on the seeds of a stage, each until enough of its episodes were changed.
- `Pairs`: what came of one treatment, and the recorded episodes: the unguided policy, or one guided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.blocks import Runner
from legible.evaluation.changes import NEVER, Changes, first_changes
from legible.evaluation.recorded import EpisodeRecord, Repetition
from legible.evaluation.starts import UnitStarts
from legible.evaluation.units import Setup, Treatment, Unit, UnitResult, cut_into_units
from legible.rules import RuleSet

FIRST_LOOK, MOST_GROWTH = 64, 4
SMALL_UNIT, MANY_UNITS = 256, 32
"""Fewest episodes of a unit, and how many units there are about at most: enough for all workers."""
FULL_UNIT = 768
"""The same where many episodes are played at once: rows of a batch are filled again and seldom idle."""


@dataclass(frozen=True)
class Pairs:
    """One treatment and the recorded episodes on the first seeds of a stage.

    Parameters
    ----------
    guided, base
        How the episodes went. Those that the treatment cannot change were not played: they are the recorded ones.
    changed
        Which of them the treatment changed, or may have changed.
    """

    guided: UnitResult
    base: UnitResult
    changed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.changed)

    def beyond(self, other: Pairs) -> Pairs:
        """Return what the treatment changes beyond another one on the same seeds."""
        return Pairs(self.guided, other.guided, self.changed | other.changed)


class _Play:
    """What is known about one treatment: an entry for every seed that has been looked at."""

    def __init__(self) -> None:
        self.first = self.fired = self.altered = np.empty(0, np.int64)
        self.steps = 0
        self.rows: dict[int, int] = {}
        self.results: list[UnitResult] = []

    def extend(self, first: NDArray[np.int64], fired: NDArray[np.int64], altered: NDArray[np.int64]) -> None:
        """Learn what the treatment would change on the next seeds."""
        self.first = np.concatenate([self.first, first])
        self.fired = np.concatenate([self.fired, fired])
        self.altered = np.concatenate([self.altered, altered])

    @property
    def changed(self) -> NDArray[np.bool_]:
        """On which seeds the episode is changed."""
        return self.first != NEVER

    def seeds_for(self, changes: int) -> int:
        """Return how many seeds hold a number of changed episodes; all that were looked at if they hold fewer."""
        places = np.flatnonzero(self.changed)
        return int(places[changes - 1]) + 1 if len(places) >= changes else len(self.changed)

    def keep(self, places: Sequence[int], result: UnitResult) -> None:
        """Keep what came of the episodes in some places."""
        self.rows |= {place: row for row, place in enumerate(places, start=len(self.rows))}
        self.results.append(result)

    def played(self, places: Sequence[int]) -> UnitResult:
        """What came of the episodes in some places."""
        if len(self.results) > 1:
            self.results = [UnitResult.concatenate(self.results)]
        return self.results[0][[self.rows[place] for place in places]]


class PairedPlay:
    """Plays treatments on the seeds of a stage, for comparison with recorded episodes.

    Parameters
    ----------
    setup
        Policy and environment; its treatments are not used.
    repetition
        Whether the same seed gives the same episode. Where it does not, every episode is played.
    record
        The unguided policy on the seeds of the stage, or one that is guided in the way treatments are compared with.
    run
        How units are run.
    on_episodes
        Called with the number of episodes that became known.
    full_units
        Whether units are larger and episodes sorted by what is left of them, which is quicker for many at once.
    """

    def __init__(
        self,
        setup: Setup,
        repetition: Repetition,
        record: EpisodeRecord,
        run: Runner,
        on_episodes: Callable[[int], None] | None = None,
        *,
        full_units: bool = False,
    ) -> None:
        self._full_units = full_units
        self._setup = replace(setup, treatments=(), rows=repetition.rows)
        self._skips, self._record = repetition.holds, record
        self._run, self._on_episodes = run, on_episodes
        self.treatments: list[RuleSet | Treatment] = []
        self._plays: list[_Play] = []

    @property
    def setup(self) -> Setup:
        """What is played: all treatments, in the order in which they were added."""
        return replace(self._setup, treatments=tuple(self.treatments))

    @property
    def record(self) -> EpisodeRecord:
        """The episodes that treatments are compared with."""
        return self._record

    def add(self, treatment: RuleSet | Treatment) -> int:
        """Add a treatment; returns its number."""
        self.treatments.append(treatment)
        self._plays.append(_Play())
        return len(self._plays) - 1

    def play_changes(self, wanted: Mapping[int, int], most_seeds: int | None = None) -> None:
        """Play treatments until each has the wanted number of changed episodes, or there are no more seeds."""
        most = self._record.most if most_seeds is None else min(most_seeds, self._record.most)
        while True:
            lacking = {n: self._missing_seeds(n, changes, most) for n, changes in wanted.items()}
            lacking = {n: seeds for n, seeds in lacking.items() if seeds}
            if not lacking:
                break
            self._look(list(lacking), min(lacking.values()))
        self.play_seeds({number: self._plays[number].seeds_for(changes) for number, changes in wanted.items()})

    def _missing_seeds(self, number: int, changes: int, most: int) -> int:
        """Guess how many seeds hold a number of changed episodes; 0 if those known do, or there are no more.

        The guess grows with what is known, so that hardly more are played than are needed.
        """
        changed, known = self.changes(number)
        if changed >= changes or known >= most:
            return 0
        guess = known * changes // changed if changed else most
        return min(max(guess, known + 1), MOST_GROWTH * known or FIRST_LOOK, most)

    def play_seeds(self, wanted: Mapping[int, int]) -> None:
        """Play each treatment on the wanted number of seeds, the first ones."""
        for number, seeds in wanted.items():
            if len(self._plays[number].changed) < seeds:
                self._look([number], seeds)
        episodes = [
            (number, place)
            for number, seeds in wanted.items()
            for place in np.flatnonzero(self._plays[number].changed[:seeds]).tolist()
            if place not in self._plays[number].rows
        ]
        if not episodes:
            return
        # Episodes of like length side by side leave few rows idle; the longest come first.
        lengths = self._record.result.lengths
        known = self._skips and self._full_units
        first = {number: self._plays[number].first if known else 0 * lengths for number in wanted}
        episodes.sort(key=lambda episode: int(first[episode[0]][episode[1]] - lengths[episode[1]]))
        self._play(episodes)

    def _look(self, numbers: Sequence[int], seeds: int) -> None:
        """Find out what treatments would change on the first seeds, at least on this many."""
        known = self._record.extend(seeds)
        for first in sorted({len(self._plays[number].changed) for number in numbers}):
            same = [number for number in numbers if len(self._plays[number].changed) == first < known]
            for rows, part in self._record.parts(first, known) if same else ():
                part_seeds = self._record.seeds[rows].tolist()
                if self._skips:
                    some = replace(self._setup, treatments=tuple(self.treatments[number] for number in same))
                    found = first_changes(some, part, part_seeds, self._record.treatment)
                else:
                    found = Changes(*[np.zeros((len(same), len(part_seeds)), np.int64)] * 3)
                skipped = max(0, first - rows.start)
                for row, number in enumerate(same):
                    self._plays[number].extend(*(column[row, skipped:] for column in found))

    def _play(self, episodes: Sequence[tuple[int, int]]) -> None:
        used = sorted({number for number, _ in episodes})
        renumbered = {old: new for new, old in enumerate(used)}
        some = replace(self._setup, treatments=tuple(self.treatments[number] for number in used))
        starts = self._starts(episodes)
        units = self._units(episodes, renumbered, starts)
        result = self._run(some, units, stage=self._record.stage, on_episodes=self._on_episodes)
        rows_of: dict[int, list[int]] = {}
        for row, (number, _) in enumerate(episodes):
            rows_of.setdefault(number, []).append(row)
        for number, rows in rows_of.items():
            self._plays[number].keep([episodes[row][1] for row in rows], result[rows])
            known = 0 if starts is None else int(starts.steps[rows].sum())
            self._plays[number].steps += int(result.lengths[rows].sum()) - known

    def _starts(self, episodes: Sequence[tuple[int, int]]) -> UnitStarts | None:
        """Return where episodes part from the unguided ones; None where they must be played from their beginning."""
        if not self._skips:
            return None
        places = np.array([place for _, place in episodes], np.int64)
        known = (
            np.array([getattr(self._plays[number], name)[place] for number, place in episodes], np.int64)
            for name in ("first", "fired", "altered")
        )
        return self._record.starts_at(places, *known)

    def _units(
        self, episodes: Sequence[tuple[int, int]], renumbered: Mapping[int, int], starts: UnitStarts | None
    ) -> list[Unit]:
        least = FULL_UNIT if self._full_units else SMALL_UNIT
        size = min(self._setup.play.unit_episodes, max(least, -(-len(episodes) // MANY_UNITS)))
        treatments = [renumbered[number] for number, _ in episodes]
        return cut_into_units(treatments, [int(self._record.seeds[place]) for _, place in episodes], size, starts)

    def changes(self, number: int) -> tuple[int, int]:
        """How many episodes a treatment changes of how many that were looked at."""
        play = self._plays[number]
        return int(play.changed.sum()), len(play.changed)

    def first_changes(self, number: int) -> NDArray[np.int64]:
        """The first step of every episode that was looked at which a treatment changes; `NEVER` where there is none."""
        return self._plays[number].first

    def steps(self, number: int) -> int:
        """How many environment steps were played with a treatment."""
        return self._plays[number].steps

    @property
    def results(self) -> list[UnitResult]:
        """Everything that was played, the recorded episodes first."""
        return [self._record.result, *(result for play in self._plays for result in play.results)]

    def seeds_for(self, number: int, changes: int) -> int:
        """Return how many seeds hold a number of changed episodes; all that were looked at if they hold fewer."""
        return self._plays[number].seeds_for(changes)

    def pairs(self, number: int, seeds: int) -> Pairs:
        """Return what came of a treatment on the first seeds, all of which must have been played."""
        play, base = self._plays[number], self._record.result[:seeds]
        changed = play.changed[:seeds]
        places = np.flatnonzero(changed)
        guided = replace(base, fired=play.fired[:seeds].copy())
        if places.size:
            guided = guided.with_episodes(places, play.played(places.tolist()))
        return Pairs(guided, base, changed)
