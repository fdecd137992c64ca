"""Pairs of guided and recorded episodes with the same seeds; episodes that guidance cannot change are not played.

- `PairedPlay`: plays treatments on the seeds of a stage, each until enough of its episodes were changed.
- `Pairs`: the episodes of one treatment, and the recorded episodes, which are unguided or have other guidance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.blocks import Runner
from legible.evaluation.changes import NEVER, Changes, changed_steps, first_changes
from legible.evaluation.recorded import EpisodeRecord, Repetition
from legible.evaluation.units import Setup, Treatment, UnitResult, cut_into_units
from legible.rules import RuleSet

FIRST_LOOK, MOST_GROWTH = 64, 4
SMALL_UNIT, MANY_UNITS = 256, 32
"""Minimum episodes of a unit, and the approximate maximum number of units: enough for all workers."""
FULL_UNIT = 768
"""Minimum episodes of a unit where many are played at once, so that slots are refilled and seldom idle."""


@dataclass(frozen=True)
class Pairs:
    """Episodes of one treatment and the recorded episodes on the first seeds of a stage.

    Parameters
    ----------
    guided, base
        Results. Episodes that the treatment cannot change were not played: they equal the recorded ones.
    changed
        Which episodes the treatment changed, or may have changed.
    """

    guided: UnitResult
    base: UnitResult
    changed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.changed)

    def beyond(self, other: Pairs) -> Pairs:
        """Return the treatment paired with another one on the same seeds."""
        return Pairs(self.guided, other.guided, self.changed | other.changed)


class _Play:
    """Episodes of one treatment, with one entry for every seed that has been examined."""

    def __init__(self) -> None:
        # For every seed the first step that the treatment changes (`NEVER`: none), and the numbers of steps before it
        # in which it triggers, and in which it changes the policy's action.
        self.first = self.fired = self.altered = np.empty(0, np.int64)
        self.steps = 0
        self.rows: dict[int, int] = {}
        self.results: list[UnitResult] = []

    def extend(self, first: NDArray[np.int64], fired: NDArray[np.int64], altered: NDArray[np.int64]) -> None:
        """Add what the treatment would change on the next seeds."""
        self.first = np.concatenate([self.first, first])
        self.fired = np.concatenate([self.fired, fired])
        self.altered = np.concatenate([self.altered, altered])

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Mask of the seeds whose episode is changed."""
        return self.first != NEVER

    def keep(self, indices: Sequence[int], result: UnitResult) -> None:
        """Add the results of the episodes with some of the seeds, given by their indices."""
        self.rows |= {index: row for row, index in enumerate(indices, start=len(self.rows))}
        self.results.append(result)

    def played(self, indices: Sequence[int]) -> UnitResult:
        """Return the results of the episodes with some of the seeds, given by their indices."""
        if len(self.results) > 1:
            self.results = [UnitResult.concatenate(self.results)]
        return self.results[0][[self.rows[index] for index in indices]]


class PairedPlay:
    """Treatments that are played on the seeds of a stage and compared with recorded episodes.

    Parameters
    ----------
    setup
        Policy and environment; its treatments are not used.
    repetition
        Whether the same seed gives the same episode. Where it does not, every episode is played.
    record
        The episodes that treatments are compared with, unguided or with other guidance.
    run
        As in `legible.evaluation.evaluate`.
    full_units
        Whether units are larger and episodes sorted by their remaining length, which is faster for many at once.

    Attributes
    ----------
    skips
        Whether episodes that a treatment cannot change are skipped.
    compared, differed
        Number of episodes whose unguided first steps were played again, and number that differed from the recording.
    """

    def __init__(
        self,
        setup: Setup,
        repetition: Repetition,
        record: EpisodeRecord,
        run: Runner,
        *,
        full_units: bool = False,
    ) -> None:
        self._full_units = full_units
        self._setup = replace(setup, treatments=(), rows=repetition.rows)
        self.skips, self._record = repetition.holds, record
        self._run = run
        self.compared = self.differed = 0
        self.treatments: list[RuleSet | Treatment] = []
        self._plays: list[_Play] = []

    @property
    def setup(self) -> Setup:
        """The setup with all treatments, in the order in which they were added."""
        return replace(self._setup, treatments=tuple(self.treatments))

    @property
    def record(self) -> EpisodeRecord:
        """The episodes that treatments are compared with."""
        return self._record

    @property
    def first_look(self) -> int:
        """Number of seeds that are played before it is known how many a treatment changes; few of slow environments."""
        return min(FIRST_LOOK, self._setup.play.batch)

    def add(self, treatment: RuleSet | Treatment) -> int:
        """Add a treatment and return its number."""
        self.treatments.append(treatment)
        self._plays.append(_Play())
        return len(self._plays) - 1

    def take_over(self, number: int, result: UnitResult) -> None:
        """Use episodes of a treatment that were played earlier: `result`, on the first seeds of the stage."""
        self._look([number], len(result))
        changed = np.flatnonzero(self._plays[number].changed[: len(result)])  # the others are never read
        if changed.size:
            self._plays[number].keep(changed.tolist(), result[changed])

    def play_changes(self, wanted: Mapping[int, int], most_seeds: int | None = None) -> None:
        """Play treatments until each has the wanted number of changed episodes, or there are no more seeds."""
        most = self._record.most if most_seeds is None else min(most_seeds, self._record.most)
        while True:
            lacking = {n: self._missing_seeds(n, changes, most) for n, changes in wanted.items()}
            lacking = {n: seeds for n, seeds in lacking.items() if seeds}
            if not lacking:
                break
            self._look(list(lacking), min(lacking.values()))
        self.play_seeds({number: self.seeds_for(number, changes) for number, changes in wanted.items()})

    def _missing_seeds(self, number: int, changes: int, most: int) -> int:
        """Estimate how many seeds hold a number of changed episodes; 0 if no more are needed, or there are none.

        The estimate is limited to a multiple of the known seeds, so that few more are played than needed.
        """
        changed, known = self.changes(number)
        if changed >= changes or known >= most:
            return 0
        guess = known * changes // changed if changed else most
        return min(max(guess, known + 1), MOST_GROWTH * known or self.first_look, most)

    def play_seeds(self, wanted: Mapping[int, int]) -> None:
        """Play each treatment, given by its number, on the first seeds, as many as wanted.

        Only episodes are played that the treatment changes and that were not played before.
        """
        for number, seeds in wanted.items():
            if len(self._plays[number].changed) < seeds:  # it is not known yet which of these seeds it changes
                self._look([number], seeds)
        episodes = [
            (number, index)
            for number, seeds in wanted.items()
            for index in np.flatnonzero(self._plays[number].changed[:seeds]).tolist()
            if index not in self._plays[number].rows
        ]
        if episodes:
            # Episodes of similar length are played together, the longest first, so that few slots are idle. In full
            # units, the length is that of the part that has to be played, from the first changed step on.
            lengths = self._record.result.lengths
            starts_late = self.skips and self._full_units
            first_steps = {number: self._plays[number].first if starts_late else 0 * lengths for number in wanted}
            episodes.sort(key=lambda episode: int(first_steps[episode[0]][episode[1]] - lengths[episode[1]]))
            self._play(episodes)

    def _look(self, numbers: Sequence[int], seeds: int) -> None:
        """Find what treatments would change on the first seeds, at least on this many, from the recorded episodes."""
        n_recorded = self._record.extend(seeds)
        examined = {number: len(self._plays[number].changed) for number in numbers}
        # Treatments for which the same number of seeds was examined are looked at together.
        for first in sorted(set(examined.values())):
            together = [number for number in numbers if examined[number] == first < n_recorded]
            for places, part in self._record.parts(first, n_recorded) if together else ():
                part_seeds = self._record.seeds[places].tolist()
                if self.skips:
                    setup = replace(self._setup, treatments=tuple(self.treatments[number] for number in together))
                    found = first_changes(setup, part, part_seeds, self._record.treatment)
                else:  # the same seed does not repeat an episode, so every episode may be changed from its first step
                    found = Changes(*[np.zeros((len(together), len(part_seeds)), np.int64)] * 3)
                n_examined = max(0, first - places.start)  # seeds of this part that were examined before
                for row, number in enumerate(together):
                    self._plays[number].extend(*(column[row, n_examined:] for column in found))

    def _play(self, episodes: Sequence[tuple[int, int]]) -> None:
        """Play episodes and keep their results.

        Parameters
        ----------
        episodes
            For each episode the number of its treatment (a rule set or other guidance), and the index of its seed among
            the seeds of the stage.
        """
        # The treatments that are played, renumbered from 0, so that the keys of stored results do not depend on others.
        used = sorted({number for number, _ in episodes})
        renumbered = {old: new for new, old in enumerate(used)}
        used_setup = replace(self._setup, treatments=tuple(self.treatments[number] for number in used))
        # Where the same seed gives the same episode, play need not begin at the start: it continues from the recorded
        # state before the first changed action. If states cannot be stored, episodes are played from the start, and
        # their known first steps are compared with the recording.
        starts = known_part = None
        if self.skips:
            indices = np.array([index for _, index in episodes], np.int64)
            first_changes, fired_before, altered_before = (
                np.array([getattr(self._plays[number], name)[index] for number, index in episodes], np.int64)
                for name in ("first", "fired", "altered")
            )
            starts = self._record.starts_at(indices, first_changes, fired_before, altered_before)
            known_part = self._record.known_part(indices, first_changes) if starts is None else None
        # Cut the episodes into units, the pieces of work of one worker: enough of them for all workers, none too small.
        min_size = FULL_UNIT if self._full_units else SMALL_UNIT
        unit_size = min(self._setup.play.unit_episodes, max(min_size, math.ceil(len(episodes) / MANY_UNITS)))
        seeds = [int(self._record.seeds[index]) for _, index in episodes]
        treatments = [renumbered[number] for number, _ in episodes]
        units = cut_into_units(treatments, seeds, unit_size, starts, known_part)
        result = self._run(used_setup, units, stage=self._record.stage)
        if known_part is not None:
            self.compared += int(((known_part.steps > 0) & ~result.failed).sum())
            self.differed += int((result.differs & ~result.failed).sum())
        # Sort the results by treatment; steps that were taken over from the recording were not played.
        rows_of: dict[int, list[int]] = {}
        for row, (number, _) in enumerate(episodes):
            rows_of.setdefault(number, []).append(row)
        for number, rows in rows_of.items():
            self._plays[number].keep([episodes[row][1] for row in rows], result[rows])
            known_steps = 0 if starts is None else int(starts.steps[rows].sum())
            self._plays[number].steps += int(result.lengths[rows].sum()) - known_steps

    def changes(self, number: int) -> tuple[int, int]:
        """Return how many episodes a treatment changes, and how many were examined."""
        play = self._plays[number]
        return int(play.changed.sum()), len(play.changed)

    def share_changed(self, number: int) -> float:
        """Return the share of all recorded episodes that a treatment changes; at least `FIRST_LOOK` are recorded."""
        self._look([number], max(self._record.known, FIRST_LOOK))
        changed, examined = self.changes(number)
        return changed / examined

    def changed_steps(self, numbers: Sequence[int]) -> NDArray[np.bool_]:
        """Return in which steps of the first recorded episodes treatments change the action, ``bool[numbers, steps]``.

        At least `FIRST_LOOK` episodes are recorded.
        """
        n_recorded = self._record.extend(FIRST_LOOK)
        setup = replace(self._setup, treatments=tuple(self.treatments[number] for number in numbers))
        masks = [
            changed_steps(setup, part, self._record.seeds[places].tolist())
            for places, part in self._record.parts(0, min(n_recorded, FIRST_LOOK))
        ]
        return np.concatenate(masks, axis=1)

    def first_changes(self, number: int) -> NDArray[np.int64]:
        """Return the first step of every examined episode that a treatment changes; `NEVER` where there is none."""
        return self._plays[number].first

    def steps(self, number: int) -> int:
        """Return the environment steps that were played with a treatment."""
        return self._plays[number].steps

    def with_comparisons(self, repetition: Repetition) -> Repetition:
        """Add the episodes that were played again here, to see whether the same seed gives the same episode."""
        compared, differed = repetition.compared + self.compared, repetition.differed + self.differed
        return replace(repetition, compared=compared, differed=differed)

    @property
    def results(self) -> list[UnitResult]:
        """All results, the recorded episodes first."""
        return [self._record.result, *(result for play in self._plays for result in play.results)]

    def seeds_for(self, number: int, changes: int) -> int:
        """Return how many seeds hold a number of changed episodes; all examined ones if they hold fewer."""
        changed = self._plays[number].changed
        indices = np.flatnonzero(changed)
        return int(indices[changes - 1]) + 1 if len(indices) >= changes else len(changed)

    def pairs(self, number: int, seeds: int) -> Pairs:
        """Return the episodes of a treatment on the first seeds, which must have been played."""
        play, base = self._plays[number], self._record.result[:seeds]
        changed = play.changed[:seeds]
        indices = np.flatnonzero(changed)
        guided = replace(base, fired=play.fired[:seeds].copy())
        if indices.size:
            guided = guided.with_episodes(indices, play.played(indices.tolist()))
        return Pairs(guided, base, changed)
