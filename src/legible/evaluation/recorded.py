"""Episodes that are played once per seed and recorded step by step, for comparison with (other) guidance.

- `RecordedEpisodes`: episodes with all data that determine what guidance would change in them; kept by
  `legible.evaluation.units.run_units` with `STEPS`.
- `EpisodeRecord`: recorded episodes of a stage, unguided or all with the same guidance, extended on demand; units in
  the store of a study are not played again.
- `find_repetition`, `Repetition`: whether the same seed gives the same episode in every unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation.blocks import Runner
from legible.evaluation.starts import KnownPart, UnitStarts
from legible.evaluation.units import (
    UNGUIDED,
    Kept,
    Setup,
    Treatment,
    Unit,
    UnitResult,
    cut_into_units,
    play_in_slots,
    slots_for,
    usual_rows,
)
from legible.play import Observations, Recorder, Scores, Slots, StepRecord, stage_seeds
from legible.play.branching.packed import PackedStates, pack_states
from legible.rules import RuleSet
from legible.schemas import RECORDED, check_arrays

RECORD_EPISODES = 256
"""Most episodes in a recorded unit, which all run at once."""
REPEATED_EPISODES = 24
MOST_LEAKED = 0.05
"""Largest share of replayed episodes that may differ from their recording."""
REMEMBERED_BYTES = 1_000_000_000
_COLUMNS = ("observations", "scores", "rewards", "step_costs", "states")


@dataclass(frozen=True)
class RecordedEpisodes:
    """Episodes recorded step by step.

    Parameters
    ----------
    result
        Per-episode results.
    observations, scores
        Observations and scores of the policy, one row per step, episode after episode. Failed episodes have no rows.
    rewards, step_costs
        Reward and cost of every step.
    states
        States after every step, where they can be kept (`legible.play.branching.packed`).
    """

    result: UnitResult
    observations: Observations
    scores: Scores
    rewards: NDArray[np.float64]
    step_costs: NDArray[np.float64]
    states: PackedStates

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which episodes failed."""
        return self.result.failed

    @property
    def errors(self) -> NDArray[np.str_]:
        """Reasons of the failures."""
        return self.result.errors

    @property
    def starts(self) -> NDArray[np.int64]:
        """First row of every episode, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.result.lengths)])

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(getattr(self, name).nbytes for name in _COLUMNS)

    @classmethod
    def of_failed(cls, error: str) -> RecordedEpisodes:
        """Return the record of one failed episode."""
        no_rows, nothing = np.empty((0, 0), np.float32), np.empty(0)
        return cls(UnitResult.of_failed(error), no_rows, no_rows, nothing, nothing, np.empty((0, 0), np.uint8))

    @classmethod
    def concatenate(cls, parts: Sequence[RecordedEpisodes]) -> RecordedEpisodes:
        """Concatenate records."""
        with_rows = [part for part in parts if len(part.observations)] or parts[:1]
        return cls(
            UnitResult.concatenate([part.result for part in parts]),
            *(np.concatenate([getattr(part, name) for part in with_rows]) for name in _COLUMNS),
        )

    def episodes(self, first: int, last: int) -> RecordedEpisodes:
        """Return a copy of the episodes from `first` up to but not including `last`."""
        rows = slice(int(self.starts[first]), int(self.starts[last]))
        return RecordedEpisodes(self.result[first:last], *(getattr(self, name)[rows].copy() for name in _COLUMNS))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name, for a file."""
        return {**self.result.to_arrays(), **{name: getattr(self, name) for name in _COLUMNS}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RecordedEpisodes:
        """Read what `to_arrays` returned."""
        check_arrays(arrays, RECORDED)
        made = cls(UnitResult.from_arrays(arrays), *(arrays[name] for name in _COLUMNS))
        if any(len(getattr(made, name)) != made.starts[-1] for name in _COLUMNS):
            raise ValueError("steps are missing")
        return made

    def __len__(self) -> int:
        return len(self.result)


class _StepKeeper:
    """Recorder of steps, costs and states of the episodes of a unit."""

    def __init__(self, slots: Slots, *, rows: bool = False) -> None:
        self._slots = slots
        self._recorder = Recorder(rows=rows)
        self._costs: list[NDArray[np.float64]] = []
        self._states: list[PackedStates] = []
        self._order: list[NDArray[np.int64]] = []

    def __call__(self, step: StepRecord) -> None:
        """Record a step."""
        self._recorder(step)
        rows = np.flatnonzero(step.episodes >= 0)
        self._order.append(np.stack([step.steps[rows], step.episodes[rows]]))
        self._costs.append(self._slots.cost[rows].copy() if self._slots.cost_name else np.zeros(len(rows)))
        self._states.append(pack_states(self._slots, rows))

    def recorded(self, result: UnitResult) -> RecordedEpisodes:
        """Return everything that was recorded."""
        steps = self._recorder.steps()
        order = np.lexsort(np.concatenate(self._order, axis=1))
        width = min(part.shape[1] for part in self._states)
        states = np.concatenate([part[:, :width] for part in self._states])[order]
        costs = np.concatenate(self._costs)[order]
        return RecordedEpisodes(result, steps.observations, steps.scores, steps.rewards, costs, states)


def record_steps(setup: Setup, unit: Unit, *, rows: bool = False) -> RecordedEpisodes:
    """Play a unit and record its steps; with `rows` all that the policy was shown in them."""
    slots = slots_for(setup, unit)
    keeper = _StepKeeper(slots, rows=rows)
    return keeper.recorded(play_in_slots(setup, unit, slots, keeper))


STEPS = Kept("unguided", RecordedEpisodes, record_steps)
"""Recorded episodes with the observations that rules see."""
ROWS = Kept("rows", RecordedEpisodes, partial(record_steps, rows=True))
"""Recorded episodes with all that the policy was shown, also where rules see something else."""


@dataclass(frozen=True)
class Repetition:
    """Result of a check whether the same seed gives the same episode.

    Parameters
    ----------
    rows
        Number of rows of the batches that the policy should see.
    holds
        Whether the same seed then gives the same episode in every unit.
    steps
        Environment steps of the check.
    compared, differed
        Number of episodes whose first steps were played again with the same seed later, and number that differed.
    """

    rows: int
    holds: bool
    steps: int = 0
    compared: int = 0
    differed: int = 0

    def describe_leak(self) -> str:
        """Return what is wrong if the same seed does not always give the same episode; "" if nothing was seen.

        Raises `LegibleError` if that is frequent: episodes with the same seed are then no pairs.
        """
        if not self.differed:
            return ""
        seen = (
            f"{self.differed} of {self.compared} episodes that were played again with the same seed differ from their "
            "recording: the environment draws random numbers that do not come from the seed"
        )
        if self.differed > MOST_LEAKED * self.compared:
            raise LegibleError(
                f"{seen}. Seed them all in reset, or compare without pairs (--set evaluation.method=paper)."
            )
        return f"{seen[0].upper()}{seen[1:]}. Effects are less precise than they could be, and replays may differ."


def find_repetition(setup: Setup, seed: int, stage: str, run: Runner, *, progress_name: str = "") -> Repetition:
    """Return whether the same seed gives the same episode to the bit, and the batch size with which it does.

    Some seeds are played twice, in different order and with different neighbours in the batch. If the episodes differ,
    the shape of the batch may be the reason: then the policy is queried for one state at a time. If they still differ,
    the environment or the policy draws random numbers that do not come from the seed.

    Parameters
    ----------
    setup
        Policy, environment and settings of play.
    seed, stage
        Seed of the study, and name of the stage whose first seeds are played.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    progress_name
        Name of the work in progress bars; by default that of the stage.
    """
    seeds = stage_seeds(seed, stage, 0, REPEATED_EPISODES)
    unguided = (UNGUIDED,) * len(seeds)
    usual_batch = usual_rows(setup.play)
    # The second time with half as many episodes at once, so that rows of the batch are refilled by other episodes.
    play_fewer = replace(setup.play, batch=max(1, min(setup.play.batch, len(seeds)) // 2))
    steps = 0
    for rows in (usual_batch, 1):  # numbers of states that the policy sees at once
        first_setup = replace(setup, treatments=(), rows=rows)
        first = run(first_setup, [Unit(unguided, tuple(seeds))], kept=STEPS, stage=progress_name or stage)
        second_setup = replace(first_setup, play=play_fewer)
        second = run(second_setup, [Unit(unguided, tuple(reversed(seeds)))], kept=STEPS, stage=progress_name or stage)
        steps += int(first.starts[-1] + second.starts[-1])
        if _is_same_reversed(first, second):
            return Repetition(rows, holds=True, steps=steps)
    return Repetition(usual_batch, holds=False, steps=steps)


def _is_same_reversed(first: RecordedEpisodes, second: RecordedEpisodes) -> bool:
    """Return whether two records, the second in reversed order, hold the same episodes."""
    order = np.arange(len(first))[::-1]
    again = second.result[order]
    names = ("returns", "lengths", "truncated", "success", "costs", "failed")
    if not all(np.array_equal(getattr(first.result, f), getattr(again, f), equal_nan=True) for f in names):
        return False
    rows = np.concatenate([np.arange(second.starts[i], second.starts[i + 1]) for i in order])
    columns = ("observations", "scores", "rewards", "step_costs")
    return all(np.array_equal(getattr(first, f), getattr(second, f)[rows], equal_nan=True) for f in columns)


class EpisodeRecord:
    """Recorded episodes of the policy on the seeds of a stage, unguided or all with the same guidance.

    Parameters
    ----------
    setup
        Policy and environment; its treatments are not used.
    seed, stage
        Seed of the study, and name of the stage.
    most
        Maximum number of seeds.
    run
        As in `legible.evaluation.evaluate`.
    treatment
        Guidance of the episodes; None: unguided.
    first
        Number of seeds of the stage to skip.
    repeated
        Number of the first seeds that `find_repetition` has played on this stage: they are a unit of their own, which a
        store holds already.
    """

    def __init__(
        self,
        setup: Setup,
        seed: int,
        stage: str,
        most: int,
        run: Runner,
        treatment: RuleSet | Treatment | None = None,
        first: int = 0,
        repeated: int = 0,
    ) -> None:
        """Prepare a record of up to `most` episodes of the policy, one per seed; nothing is played yet.

        The episodes are unguided, or all have the guidance `treatment`. Their seeds are those of a stage of the study
        with this `seed`, without the `first` ones. `run` plays lists of episodes.
        """
        self.treatment = treatment
        self._setup = replace(setup, treatments=() if treatment is None else (treatment,))
        self.stage, self._run = stage, run
        self.seeds = np.array(stage_seeds(seed, stage, first, most), np.int64)
        # Cut the episodes into units (lists of episodes that are played and stored together). The first `repeated` ones
        # are a unit of their own, because an earlier check has played and stored exactly that unit.
        treatments = [UNGUIDED if treatment is None else 0] * most
        unit_size = min(RECORD_EPISODES, setup.play.unit_episodes, setup.play.batch)
        seeds = self.seeds.tolist()
        early = cut_into_units(treatments[:repeated], seeds[:repeated], max(1, repeated))
        self._units = early + cut_into_units(treatments[repeated:], seeds[repeated:], unit_size)
        self._ends = np.cumsum([len(unit) for unit in self._units])  # the number of episodes up to each unit's end
        self._parts: dict[int, RecordedEpisodes] = {}  # recent units step by step, by their number
        self._results: list[UnitResult] = []  # per-episode results of the units played so far
        self._whole: UnitResult | None = None  # the same in one piece

    @property
    def setup(self) -> Setup:
        """Everything that its units share."""
        return self._setup

    @property
    def most(self) -> int:
        """Maximum number of seeds."""
        return len(self.seeds)

    @property
    def known(self) -> int:
        """Number of seeds that have been played."""
        return sum(len(result) for result in self._results)

    @property
    def result(self) -> UnitResult:
        """Results of the episodes that have been played."""
        if self._whole is None:
            self._whole = UnitResult.concatenate(self._results)
        return self._whole

    def extend(self, seeds: int) -> int:
        """Play at least this many seeds, in whole units, and return how many have been played."""
        wanted = min(seeds, self.most)
        if self.known >= wanted:
            return self.known
        first = len(self._results)
        new = self._units[first : int(np.searchsorted(self._ends, wanted)) + 1]
        played = self._run(self._setup, new, kept=STEPS, stage=self.stage)
        start = 0
        for i, unit in enumerate(new, start=first):
            part = played.episodes(start, start + len(unit))
            start += len(unit)
            self._results.append(part.result)
            self._remember(i, part)
        self._whole = None
        return self.known

    def parts(self, first: int, last: int) -> list[tuple[slice, RecordedEpisodes]]:
        """Return the units that hold the seeds from `first` up to but not including `last`, and their places."""
        if first >= last or not self._results:
            return []
        numbers = range(self._unit_of(first), min(len(self._results), self._unit_of(last - 1) + 1))
        return [(slice(self._begin(i), self._begin(i) + len(self._results[i])), self._part(i)) for i in numbers]

    def _unit_of(self, place: Any) -> Any:
        """Return the number of the unit that holds a seed, or those of several seeds."""
        return np.searchsorted(self._ends, place, side="right")

    def _begin(self, i: int) -> int:
        """Return the place of the first seed of a unit."""
        return int(self._ends[i]) - len(self._units[i])

    def starts_at(
        self, places: NDArray[np.int64], steps: NDArray[np.int64], fired: NDArray[np.int64], changed: NDArray[np.int64]
    ) -> UnitStarts | None:
        """Return states of recorded episodes from which other episodes continue; None if states could not be kept.

        A guided episode equals the recorded one up to the first step in which rules change the action. So it need not
        be played from its start.

        Parameters
        ----------
        places, steps
            For every episode the place of its seed among those of this record, and the first step to be played,
            ``int64[episodes]`` each. Steps before it are taken over from the recording.
        fired, changed
            Numbers of steps before it in which rules triggered, and in which they changed the action.

        Returns
        -------
        States, observations, and sums of rewards and costs up to there, in the order of `places`.
        """
        units = self._unit_of(places)
        indices_by_unit, starts_by_unit = [], []
        # Recordings are kept in units of consecutive seeds: read one unit after the other.
        for unit in np.unique(units).tolist():
            recorded = self._part(unit)
            if not recorded.states.shape[1]:
                return None
            in_unit = np.flatnonzero(units == unit)
            skipped_steps = steps[in_unit]
            # Rows of a recording are steps, episode after episode: the first row of each episode, and that to continue.
            first_rows = recorded.starts[places[in_unit] - self._begin(unit)]
            rows = first_rows + skipped_steps
            # Summed one after the other, as in play, so that the bits are the same.
            returns, costs = (
                np.array(
                    [
                        float(np.cumsum(per_step[first:end])[-1]) if end > first else 0.0
                        for first, end in zip(first_rows, rows, strict=True)
                    ]
                )
                for per_step in (recorded.rewards, recorded.step_costs)
            )
            # The state after the step before; episodes that skip no step get an arbitrary row, which is not used.
            states = recorded.states[np.where(skipped_steps > 0, rows - 1, 0)]
            observations = recorded.observations[np.where(skipped_steps > 0, rows, 0)]
            indices_by_unit.append(in_unit)
            starts_by_unit.append(
                UnitStarts(skipped_steps, returns, costs, fired[in_unit], changed[in_unit], states, observations)
            )
        # Back to the order of `places`.
        original_order = np.argsort(np.concatenate(indices_by_unit))
        columns = [
            np.concatenate([getattr(unit_starts, field.name) for unit_starts in starts_by_unit])[original_order]
            for field in fields(UnitStarts)
        ]
        return UnitStarts(*columns)

    def known_part(self, places: NDArray[np.int64], steps: NDArray[np.int64]) -> KnownPart:
        """Return the sums of rewards over the first steps of recorded episodes, to compare played episodes with them.

        For every episode, `places` is the place of its seed among those of this record, and `steps` the number of its
        steps, ``int64[episodes]`` each.
        """
        units, returns = self._unit_of(places), np.zeros(len(places))
        for unit in np.unique(units).tolist():
            recorded = self._part(unit)
            for episode in np.flatnonzero(units == unit).tolist():
                first_row = recorded.starts[places[episode] - self._begin(unit)]
                rewards = recorded.rewards[first_row : first_row + steps[episode]]
                # Summed one after the other, as in play, so that the bits are the same.
                returns[episode] = np.cumsum(rewards)[-1] if len(rewards) else 0.0
        return KnownPart(steps, returns)

    def _part(self, i: int) -> RecordedEpisodes:
        if i not in self._parts:
            self._remember(i, self._run(self._setup, [self._units[i]], kept=STEPS, stage=self.stage))
        return self._parts[i]

    def _remember(self, i: int, part: RecordedEpisodes) -> None:
        """Keep a part in memory, and forget the oldest ones if all are too large; they are read again when needed."""
        self._parts[i] = part
        while len(self._parts) > 1 and sum(other.nbytes for other in self._parts.values()) > REMEMBERED_BYTES:
            del self._parts[next(iter(self._parts))]
