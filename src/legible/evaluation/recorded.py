"""Episodes played once a seed and kept step by step: what (other) guidance is compared with.

- `RecordedEpisodes`: episodes with all that decides what guidance would change in them; `STEPS` has
  `legible.evaluation.units.run_units` keep them.
- `EpisodeRecord`: those of a stage, unguided or all guided alike, as many as are asked for; what a study's folder holds
  is not played again.
- `find_repetition`, `Repetition`: whether the same seed gives the same episode, wherever it is played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.blocks import Runner
from legible.evaluation.starts import UnitStarts
from legible.evaluation.units import (
    UNGUIDED,
    Kept,
    LoneEpisode,
    Setup,
    Treatment,
    Unit,
    UnitResult,
    cut_into_units,
    play_in_slots,
    slots_for,
    slots_for_one,
    usual_rows,
)
from legible.play import Observations, Recorder, Scores, Slots, StepRecord, stage_seeds
from legible.play.packed_states import PackedStates, pack_states
from legible.rules import RuleSet

RECORD_EPISODES = 256
"""Episodes in a unit that is recorded: they all run side by side."""
REPEATED_EPISODES = 24
REMEMBERED_BYTES = 1_000_000_000
_COLUMNS = ("observations", "scores", "rewards", "step_costs", "states")


@dataclass(frozen=True)
class RecordedEpisodes:
    """Episodes with what was seen in every step.

    Parameters
    ----------
    result
        How they went.
    observations, scores
        What the policy saw and thought, a row a step, episode after episode. Episodes that failed have no rows.
    rewards, step_costs
        What every step earned and cost.
    states
        The states after every step, where they can be kept (`legible.play.packed_states`).
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
        """Why they did."""
        return self.result.errors

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of every episode, and the end."""
        return np.concatenate([[0], np.cumsum(self.result.lengths)])

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(getattr(self, name).nbytes for name in _COLUMNS)

    @classmethod
    def of_failed(cls, error: str) -> RecordedEpisodes:
        """One episode that failed."""
        no_rows, nothing = np.empty((0, 0), np.float32), np.empty(0)
        return cls(UnitResult.of_failed(error), no_rows, no_rows, nothing, nothing, np.empty((0, 0), np.uint8))

    @classmethod
    def concatenate(cls, parts: Sequence[RecordedEpisodes]) -> RecordedEpisodes:
        """Put episodes one after the other."""
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
        """Return it as arrays, for a file."""
        return {**self.result.to_arrays(), **{name: getattr(self, name) for name in _COLUMNS}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RecordedEpisodes:
        """Make it from what `to_arrays` returned."""
        made = cls(UnitResult.from_arrays(arrays), *(arrays[name] for name in _COLUMNS))
        if any(len(getattr(made, name)) != made.starts[-1] for name in _COLUMNS):
            raise ValueError("steps are missing")
        return made

    def __len__(self) -> int:
        return len(self.result)


class _StepKeeper:
    """Keeps what happens in episodes and the states after every step."""

    def __init__(self, slots: Slots, *, rows: bool = False) -> None:
        self._slots = slots
        self._recorder = Recorder(rows=rows)
        self._costs: list[NDArray[np.float64]] = []
        self._states: list[PackedStates] = []
        self._order: list[NDArray[np.int64]] = []

    def __call__(self, step: StepRecord) -> None:
        """Keep a step."""
        self._recorder(step)
        rows = np.flatnonzero(step.episodes >= 0)
        self._order.append(np.stack([step.steps[rows], step.episodes[rows]]))
        self._costs.append(self._slots.cost[rows].copy() if self._slots.cost_name else np.zeros(len(rows)))
        self._states.append(pack_states(self._slots, rows))

    def recorded(self, result: UnitResult) -> RecordedEpisodes:
        """Return everything that was kept."""
        steps = self._recorder.steps()
        order = np.lexsort(np.concatenate(self._order, axis=1))
        width = min(part.shape[1] for part in self._states)
        states = np.concatenate([part[:, :width] for part in self._states])[order]
        costs = np.concatenate(self._costs)[order]
        return RecordedEpisodes(result, steps.observations, steps.scores, steps.rewards, costs, states)


def record_unguided_unit(setup: Setup, unit: Unit, *, rows: bool = False) -> RecordedEpisodes:
    """Play a unit and keep its steps; with `rows` all that the policy was shown in them."""
    slots = slots_for(setup, unit)
    keeper = _StepKeeper(slots, rows=rows)
    return keeper.recorded(play_in_slots(setup, unit, slots, keeper))


def record_unguided_alone(setup: Setup, episode: LoneEpisode, *, rows: bool = False) -> RecordedEpisodes:
    """Play one episode of a unit that failed as a whole, and keep its steps."""
    slots = slots_for_one(setup)
    keeper, this = _StepKeeper(slots, rows=rows), replace(setup, rows=setup.rows or episode.rows)
    return keeper.recorded(play_in_slots(this, Unit((episode.treatment,), (episode.seed,)), slots, keeper))


STEPS = Kept("unguided", RecordedEpisodes, record_unguided_unit, record_unguided_alone)
"""How episodes went, and what was seen in them."""
ROWS = Kept(
    "rows", RecordedEpisodes, partial(record_unguided_unit, rows=True), partial(record_unguided_alone, rows=True)
)
"""The same with all that the policy was shown, also where rules see something else."""


@dataclass(frozen=True)
class Repetition:
    """Whether episodes repeat themselves.

    Parameters
    ----------
    rows
        Rows of the batches that the policy is to see.
    holds
        Whether the same seed then gives the same episode, whatever unit it is played in.
    steps
        Environment steps that it took to find out.
    """

    rows: int
    holds: bool
    steps: int = 0


def find_repetition(setup: Setup, seed: int, stage: str, run: Runner) -> Repetition:
    """Play some seeds of a stage twice, in other rows and with others, and see whether all is the same to the bit.

    Where it is not, the shape of the batch may be why: then the policy is asked about one state at a time. Where the
    episodes still differ, the environment or the policy draws random numbers that do not come from the seed.
    """
    seeds = stage_seeds(seed, stage, 0, REPEATED_EPISODES)
    wide = usual_rows(setup.play)
    there, back = tuple(seeds), tuple(reversed(seeds))
    # The second time with half as many side by side, so that rows are filled again by other episodes.
    fewer = replace(setup.play, batch=max(1, min(setup.play.batch, len(seeds)) // 2))
    steps = 0
    for rows in (wide, 1):
        once = replace(setup, treatments=(), rows=rows)
        first = run(once, [Unit((UNGUIDED,) * len(seeds), there)], kept=STEPS, stage=stage)
        second = run(replace(once, play=fewer), [Unit((UNGUIDED,) * len(seeds), back)], kept=STEPS, stage=stage)
        steps += int(first.starts[-1] + second.starts[-1])
        if _same(first, second):
            return Repetition(rows, holds=True, steps=steps)
    return Repetition(wide, holds=False, steps=steps)


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
    columns = ("observations", "scores", "rewards", "step_costs")
    return all(np.array_equal(getattr(first, f), getattr(second, f)[rows], equal_nan=True) for f in columns)


class EpisodeRecord:
    """The policy on the seeds of a stage, unguided or always guided alike.

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
    treatment
        What the episodes are guided with; None: nothing.
    first
        How many seeds of the stage are passed over.
    """

    def __init__(
        self,
        setup: Setup,
        seed: int,
        stage: str,
        most: int,
        run: Runner,
        on_episodes: Callable[[int], None] | None = None,
        treatment: RuleSet | Treatment | None = None,
        first: int = 0,
    ) -> None:
        self.treatment = treatment
        self._setup = replace(setup, treatments=() if treatment is None else (treatment,))
        self.stage, self._run, self._on_episodes = stage, run, on_episodes
        self.seeds = np.array(stage_seeds(seed, stage, first, most), np.int64)
        self._units = cut_into_units(
            [UNGUIDED if treatment is None else 0] * most,
            self.seeds.tolist(),
            min(RECORD_EPISODES, setup.play.unit_episodes),
        )
        self._parts: dict[int, RecordedEpisodes] = {}
        self._results: list[UnitResult] = []
        self._whole: UnitResult | None = None

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
        if self._whole is None:
            self._whole = UnitResult.concatenate(self._results)
        return self._whole

    def extend(self, seeds: int) -> int:
        """Play at least this many seeds, whole units of them; returns how many are known now."""
        wanted = min(seeds, self.most)
        if self.known >= wanted:
            return self.known
        first = len(self._results)
        new = self._units[first : -(-wanted // len(self._units[0]))]
        played = self._run(self._setup, new, kept=STEPS, stage=self.stage, on_episodes=self._on_episodes)
        ends = np.cumsum([len(unit) for unit in new]).tolist()
        for i, (unit, end) in enumerate(zip(new, ends, strict=True), start=first):
            part = played.episodes(end - len(unit), end)
            self._results.append(part.result)
            self._remember(i, part)
        self._whole = None
        return self.known

    def parts(self, first: int, last: int) -> list[tuple[slice, RecordedEpisodes]]:
        """Return what is known of the seeds from `first` up to but not including `last`, unit by unit."""
        size = len(self._units[0])
        found = []
        for i in range(first // size, min(len(self._results), -(-last // size))):
            start = i * size
            found.append((slice(start, start + len(self._results[i])), self._part(i)))
        return found

    def starts_at(
        self,
        places: NDArray[np.int64],
        steps: NDArray[np.int64],
        fired: NDArray[np.int64],
        changed: NDArray[np.int64],
    ) -> UnitStarts | None:
        """Return where episodes go on from steps of recorded ones; None where states could not be kept.

        Parameters
        ----------
        places, steps
            Of every episode, the place of its seed and the first step to be played.
        fired, changed
            In how many steps before that a treatment stepped in, and changed the action.
        """
        size = len(self._units[0])
        found: list[tuple[NDArray[np.intp], UnitStarts]] = []
        for i in np.unique(places // size).tolist():
            part = self._part(i)
            if not part.states.shape[1]:
                return None
            mine = np.flatnonzero(places // size == i)
            known = (places[mine] - i * size, steps[mine], fired[mine], changed[mine])
            found.append((mine, _starts_in(part, *known)))
        order = np.argsort(np.concatenate([mine for mine, _ in found]))
        return UnitStarts(
            *(np.concatenate([getattr(starts, f.name) for _, starts in found])[order] for f in fields(UnitStarts))
        )

    def _part(self, i: int) -> RecordedEpisodes:
        if i not in self._parts:
            self._remember(i, self._run(self._setup, [self._units[i]], kept=STEPS, stage=self.stage))
        return self._parts[i]

    def _remember(self, i: int, part: RecordedEpisodes) -> None:
        """Keep a part in memory, unless they are too large together: then the oldest is read again when needed."""
        self._parts[i] = part
        while len(self._parts) > 1 and sum(other.nbytes for other in self._parts.values()) > REMEMBERED_BYTES:
            del self._parts[next(iter(self._parts))]


def _starts_in(
    part: RecordedEpisodes,
    episodes: NDArray[np.int64],
    steps: NDArray[np.int64],
    fired: NDArray[np.int64],
    changed: NDArray[np.int64],
) -> UnitStarts:
    begins, rows = part.starts[episodes], part.starts[episodes] + steps
    known = steps > 0
    # Added up one after the other, as in play, so that the bits are the same.
    returns = [float(np.cumsum(part.rewards[a:b])[-1]) if b > a else 0.0 for a, b in zip(begins, rows, strict=True)]
    costs = [float(np.cumsum(part.step_costs[a:b])[-1]) if b > a else 0.0 for a, b in zip(begins, rows, strict=True)]
    shown = np.where(known, rows, 0)  # an episode that starts anew shows what it shows
    return UnitStarts(
        steps=steps,
        returns=np.array(returns),
        costs=np.array(costs),
        fired=fired,
        changed=changed,
        states=part.states[np.where(known, rows - 1, 0)],
        observations=part.observations[shown],
    )
