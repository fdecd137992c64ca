"""Units of work: fixed lists of guided episodes, which give the same bits wherever and whenever they run.

- `Treatment`: what an episode is guided with: a rule set, or anything else that makes a chooser.
- `Setup`: all that units share: policy, environment, treatments and how they are played.
- `Unit`, `play_unit`, `UnitResult`: which episodes, playing them, what came of it.
- `record_unit`, `record_episode`: the episodes of a unit, or one of them, step by step.
- `play_alone`: one episode of a unit that failed as a whole.
- `cut_into_units`: from a long list of episodes to units of one shape.
- `Kept`: what is kept of episodes: `RETURNS`, or more.
- `run_units`: runs what is not yet stored, and stores every unit as soon as it is finished; a unit that fails is played
  again episode by episode.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine, Failed, Finished, InProcess, UnitFailedError
from legible.environments import Env, EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation.starts import StartedSlots, UnitStarts
from legible.guidance import CountingChooser, GuidedChooser
from legible.play import (
    Recorder,
    Recording,
    Slots,
    StepRecord,
    make_slots,
    play_episodes,
    with_fixed_rows,
)
from legible.play.failures import FailedEpisode, FailureLimit, is_of_episode, reason_of
from legible.policies import ChoicePolicy, Policy
from legible.rules import RuleSet
from legible.settings import PlaySettings

UNGUIDED = -1
SLOTS_FACTOR = 4
"""Episodes that run side by side, for each of the setting's batch, where that decides no bits."""
LARGE_ROWS, SMALL_ROWS = 128, 32
"""Rows of a batch that networks see, where many episodes run side by side and where few do."""
# Columns that only the files of units with failed episodes have.
_OF_FAILURES = ("failed", "errors")
# Columns that not every file has: those of failures, and the counts of choices.
_NOT_ALWAYS = (*_OF_FAILURES, "taken")


def usual_rows(play: PlaySettings) -> int:
    """How many rows networks see at a time where that is fixed: few enough that little is wasted when episodes end."""
    return LARGE_ROWS if play.batch > SMALL_ROWS else SMALL_ROWS


class Treatment(Protocol):
    """Something that episodes are guided with and that is not a rule set, such as a random test."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data that tells it from any other."""

    @staticmethod
    def chooser(setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> CountingChooser:
        """Make the chooser that plays episodes, each with its treatment (−1: none)."""


@dataclass(frozen=True)
class Setup:
    """What all units of a stage share.

    Parameters
    ----------
    policy, environment
        Who plays, and where.
    treatments
        What episodes may be guided with.
    play
        How they are played.
    rows
        Rows of every batch that the policy sees (`legible.play.FixedRowsPolicy`): an episode is then the same to the
        bit whatever unit it is played in. 0 shows it the whole batch of a unit, as it is.
    count_choices
        Whether results say how often each choice was taken; nothing else of them depends on it.
    """

    policy: Policy
    environment: EnvironmentSpec | Env
    treatments: tuple[RuleSet | Treatment, ...] = ()
    play: PlaySettings = field(default_factory=PlaySettings)
    rows: int = 0
    count_choices: bool = False

    @property
    def asked_policy(self) -> Policy:
        """The policy as it is asked: about batches of one size, if that is wanted."""
        return with_fixed_rows(self.policy, self.rows) if self.rows else self.policy

    def chooser(self, episodes: NDArray[np.int64], seeds: Sequence[int]) -> CountingChooser:
        """Make what chooses the actions of episodes, each with its treatment."""
        kinds = {type(treatment) for treatment in self.treatments}
        if len(kinds) > 1:
            raise LegibleError("the treatments of a stage must be of one kind.")
        if kinds and RuleSet not in kinds:
            return kinds.pop().chooser(self, episodes, seeds)  # type: ignore[union-attr]
        return GuidedChooser(
            self.asked_policy,
            [treatment for treatment in self.treatments if isinstance(treatment, RuleSet)],
            episodes,
            seeds,
            epsilon=self.play.epsilon,
            epsilon_when_guided=self.play.epsilon_when_guided,
            sample=self.play.sample,
            precedence=self.play.precedence,
            enforce=self.play.enforce,
        )


@dataclass(frozen=True)
class Unit:
    """Episodes to play: for each the number of its treatment (−1: unguided) and its seed.

    `starts` say where they start if that is not their beginning. What comes of them is the same, so that is no part of
    what makes the unit.
    """

    treatments: tuple[int, ...]
    seeds: tuple[int, ...]
    starts: UnitStarts | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class UnitResult:
    """What came of a unit, an entry an episode.

    Episodes that failed have a reason in `errors`; their returns and costs are NaN and their lengths 0. `taken` says in
    how many steps each choice was taken, ``int64[n, choices]``; where that was not counted, no columns or zeros.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    costs: NDArray[np.float64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]
    failed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    errors: NDArray[np.str_] = field(default_factory=lambda: np.zeros(0, np.str_))
    taken: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        # Without these columns no episode failed, and choices were not counted.
        for name in _NOT_ALWAYS:
            column = getattr(self, name)
            if not np.size(column):
                shape = (*np.shape(self.returns), 0) if name == "taken" else np.shape(self.returns)
                object.__setattr__(self, name, np.zeros(shape, column.dtype))

    @property
    def played(self) -> UnitResult:
        """The episodes that did not fail."""
        return self[~self.failed] if self.failed.any() else self

    @classmethod
    def of_failed(cls, error: str) -> UnitResult:
        """One episode that failed."""
        unknown, none = np.array([np.nan]), np.zeros(1, np.int64)
        return cls(
            returns=unknown,
            lengths=none,
            truncated=np.zeros(1, np.bool_),
            success=unknown,
            costs=unknown,
            fired=none,
            changed=none,
            failed=np.ones(1, np.bool_),
            errors=np.array([error]),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[UnitResult]) -> UnitResult:
        """Put results one after the other."""
        width = max((part.taken.shape[1] for part in parts), default=0)
        # Where choices were not counted, there are zeros.
        taken = [p.taken if p.taken.shape[1] == width else np.zeros((len(p), width), np.int64) for p in parts]
        names = [f.name for f in fields(cls) if f.name != "taken"]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**columns, taken=np.concatenate(taken))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays, for a file; failures and choices only where there are some."""
        left_out = (*(() if self.failed.any() else _OF_FAILURES), *(() if self.taken.size else ("taken",)))
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> UnitResult:
        """Make it from what `to_arrays` returned."""
        needed = [f.name for f in fields(cls) if f.name not in _NOT_ALWAYS or f.name in arrays]
        return cls(**{name: arrays[name] for name in needed})

    def with_episodes(self, places: NDArray[np.intp], others: UnitResult) -> UnitResult:
        """Return these episodes with others in some places."""
        columns = []
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(others, f.name)
            column = mine.astype(np.result_type(mine, theirs))
            column[places] = theirs
            columns.append(column)
        return UnitResult(*columns)

    def __getitem__(self, chosen: Any) -> UnitResult:
        return UnitResult(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def __len__(self) -> int:
        return len(self.returns)


def play_unit(setup: Setup, unit: Unit, on_step: Callable[[StepRecord], None] | None = None) -> UnitResult:
    """Play the episodes of a unit: always the same places, refilled in the same order."""
    return play_in_slots(setup, unit, slots_for(setup, unit), on_step)


def slots_for(setup: Setup, unit: Unit) -> Slots:
    """Make the slots that a unit is played in."""
    return make_slots(setup.environment, _rows(setup, unit), setup.play.cost)


def _rows(setup: Setup, unit: Unit) -> int:
    """How many episodes run side by side."""
    # Where that decides no bits, more of them share what a step costs besides the network.
    many = setup.rows and setup.play.batch > SMALL_ROWS
    return min(SLOTS_FACTOR * setup.play.batch if many else setup.play.batch, len(unit))


def play_in_slots(
    setup: Setup, unit: Unit, slots: Slots, on_step: Callable[[StepRecord], None] | None = None
) -> UnitResult:
    """Play the episodes of a unit in slots that were made for it, and close them."""
    chooser = setup.chooser(np.array(unit.treatments, np.int64), unit.seeds)
    if setup.count_choices:
        chooser.count_choices()
    try:
        episodes = play_episodes(
            slots,
            chooser,
            unit.seeds,
            step_limit=setup.play.step_limit,
            ask_idle=not setup.rows,
            starts=None if unit.starts is None else StartedSlots(slots, unit.starts),
            on_step=on_step,
        )
    finally:
        if isinstance(setup.environment, EnvironmentSpec):
            slots.close()
    return UnitResult(
        returns=episodes.returns,
        lengths=episodes.lengths,
        truncated=episodes.truncated,
        success=episodes.success,
        costs=episodes.costs,
        fired=chooser.fired if unit.starts is None else chooser.fired + unit.starts.fired,
        changed=chooser.changed if unit.starts is None else chooser.changed + unit.starts.changed,
        taken=chooser.taken,
    )


class LoneEpisode(NamedTuple):
    """An episode of a unit that failed as a whole: its treatment, its seed, and the rows of the unit's batch."""

    treatment: int
    seed: int
    rows: int


def play_alone(setup: Setup, episode: LoneEpisode, on_step: Callable[[StepRecord], None] | None = None) -> UnitResult:
    """Play one episode of a unit by itself, as nearly as it was in the unit as that is possible."""
    this = replace(setup, rows=setup.rows or episode.rows)
    slots = slots_for_one(setup)
    return play_in_slots(this, Unit((episode.treatment,), (episode.seed,)), slots, on_step)


def slots_for_one(setup: Setup) -> Slots:
    """Make the slot that one episode of a unit is played in."""
    slots = make_slots(setup.environment, 1, setup.play.cost)
    slots.cost_seen = True  # other episodes of the unit may be those that tell it
    return slots


def record_unit(
    setup: Setup, unit: Unit, episodes: Collection[int] | None = None
) -> tuple[list[Recording], UnitResult]:
    """Play a unit and keep its episodes, or some of them, step by step.

    The whole unit is played, because only the same batch gives the same bits.

    Parameters
    ----------
    setup, unit
        What to play.
    episodes
        Places in the unit of the episodes to keep; all by default.
    """
    recorder = Recorder(episodes, rows=True)
    result = play_unit(setup, unit, recorder)
    return recorder.recordings(unit.seeds), result


def record_episode(setup: Setup, unit: Unit, episode: int) -> Recording:
    """Play a unit and keep one of its episodes."""
    return record_unit(setup, unit, [episode])[0][0]


def record_alone(setup: Setup, unit: Unit, episode: int) -> Recording:
    """Play one episode of a unit by itself and keep it: for units in which others failed."""
    recorder = Recorder([0], rows=True)
    lone = LoneEpisode(unit.treatments[episode], unit.seeds[episode], _rows(setup, unit))
    play_alone(setup, lone, recorder)
    return recorder.recordings([lone.seed])[0]


def cut_into_units(
    treatments: Sequence[int], seeds: Sequence[int], unit_episodes: int, starts: UnitStarts | None = None
) -> list[Unit]:
    """Cut a list of episodes into units; every one but the last has `unit_episodes`."""
    cuts = [slice(i, i + unit_episodes) for i in range(0, len(seeds), unit_episodes)]
    return [Unit(tuple(treatments[cut]), tuple(seeds[cut]), None if starts is None else starts[cut]) for cut in cuts]


R = TypeVar("R", bound="Result")


class Result(Protocol):
    """What came of the episodes of a unit."""

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which episodes failed."""

    @property
    def errors(self) -> NDArray[np.str_]:
        """Why they did."""

    @classmethod
    def of_failed(cls, error: str) -> Self:
        """One episode that failed."""

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Put results one after the other."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make it from what `to_arrays` returned; KeyError, TypeError or ValueError where that is no such thing."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays, for a file."""

    def __len__(self) -> int:
        """How many episodes."""


@dataclass(frozen=True)
class Kept(Generic[R]):
    """What is kept of the episodes of a unit.

    Parameters
    ----------
    name
        What it is called: the folder of a study that it is kept in.
    kind
        What comes of a unit.
    play, play_alone
        Play a unit, and one episode of a unit that failed as a whole.
    """

    name: str
    kind: type[R]
    play: Callable[[Setup, Unit], R]
    play_alone: Callable[[Setup, LoneEpisode], R]


RETURNS = Kept("units", UnitResult, play_unit, play_alone)
"""How episodes went, and no more."""

Store = MutableMapping[str, R]
"""Results by the key of their unit; a study keeps them on disk."""

# Settings of play that every key holds. Others are in a key only where they are not at their default, so that a new
# setting does not change the keys of units that were played before it existed.
_FIRST_PLAY_SETTINGS = frozenset(
    ("epsilon", "epsilon_when_guided", "sample", "precedence", "batch", "unit_episodes", "step_limit", "cost")
)


def unit_key(setup: Setup, unit: Unit, fingerprint: str) -> str:
    """Name a unit by everything that decides its result, so that changed settings are never mixed up.

    `fingerprint` stands for the policy and for what the environment's name does not tell.
    """
    used = sorted(set(unit.treatments) - {UNGUIDED})
    renumbered = {old: new for new, old in enumerate(used)} | {UNGUIDED: UNGUIDED}
    default = asdict(PlaySettings())
    treatments = [setup.treatments[i] for i in used]
    content = {
        **choices_content(setup.policy),
        "fingerprint": fingerprint,
        "environment": repr(setup.environment),
        "play": {
            name: value
            for name, value in asdict(setup.play).items()
            if name in _FIRST_PLAY_SETTINGS or value != default[name]
        },
        # The mined rule behind a rule set does not decide how it acts.
        "treatments": [(RuleSet(t.rules) if isinstance(t, RuleSet) else t).to_dict() for t in treatments],
        "episodes": [(renumbered[t], seed) for t, seed in zip(unit.treatments, unit.seeds, strict=True)],
        **({"rows": setup.rows} if setup.rows else {}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def choices_content(policy: Policy) -> dict[str, Any]:
    """The choices that actions are cut into, where they are no single choice."""
    return {"choices": policy.space.to_dict()["groups"]} if isinstance(policy, ChoicePolicy) else {}


def run_units(
    setup: Setup,
    units: Sequence[Unit],
    *,
    kept: Kept[R] = RETURNS,  # type: ignore[assignment]  # mypy knows no default for a type variable
    engine: Engine | None = None,
    store: Store[R] | None = None,
    fingerprint: str = "",
    time_limit: float | None = None,
    stage: str = "",
    failures: FailureLimit | None = None,
    on_episodes: Callable[[int], None] | None = None,
) -> R:
    """Run all units that are not in the store, and return everything in the order of the units.

    A unit that fails is played again episode by episode. What came of it is stored with the episodes that failed, so
    that they are not tried again.

    Parameters
    ----------
    setup, units
        What to play.
    kept
        What is kept of it.
    engine
        Where; this process by default.
    store
        Where results are kept; a unit is stored before it is reported.
    fingerprint
        Stands for the policy in the store's keys, and for what the environment's name does not tell.
    time_limit
        Seconds after which a unit, or an episode that is played alone, is given up.
    stage
        What the stage is called that the units belong to.
    failures
        Counts the episodes that fail and says when they are too many; by default for these units alone.
    on_episodes
        Called with the number of episodes that became known, for progress bars.
    """
    engine = engine or InProcess()
    store = {} if store is None else store
    failures = failures or FailureLimit(stage=stage)
    failures.expect(sum(len(unit) for unit in units))
    tell = on_episodes or (lambda *_: None)
    keys = [unit_key(setup, unit, fingerprint) for unit in units]
    missing = [i for i, key in enumerate(keys) if key not in store]
    tell(sum(len(unit) for unit in units) - sum(len(units[i]) for i in missing))
    broken = [i for i in missing if _broken_key(keys[i]) in store]
    fresh = [i for i in missing if i not in broken]
    wrong: list[Failed] = []
    for outcome in engine.run(kept.play, setup, [units[i] for i in fresh], time_limit=time_limit):
        i = fresh[outcome.index]
        if isinstance(outcome, Finished):
            store[keys[i]] = outcome.result
        elif is_of_episode(outcome):
            broken.append(i)
            store[_broken_key(keys[i])] = kept.kind.of_failed(reason_of(outcome))
            continue
        else:
            wrong.append(outcome)
        tell(len(units[i]))
    if wrong:
        raise UnitFailedError(
            f"{len(wrong)} of {len(units)} units failed; the first: {wrong[0].error} The others are kept; run "
            "the same again to go on."
        )
    for i in sorted(broken):
        _mend(setup, units[i], keys[i], kept, engine, store, time_limit, failures, tell)
    results = [store[key] for key in keys]
    stored = sorted(set(range(len(units))) - set(missing))
    failures.add(*(one for i in stored for one in _failed_in(units[i], results[i])))
    return kept.kind.concatenate(results)


def _broken_key(key: str) -> str:
    """Where it is stored that a unit failed as a whole, until its episodes are known."""
    return f"{key}-broken"


def _mend(
    setup: Setup,
    unit: Unit,
    key: str,
    kept: Kept[R],
    engine: Engine,
    store: Store[R],
    time_limit: float | None,
    failures: FailureLimit,
    tell: Callable[[int], None],
) -> None:
    """Play the episodes of a unit that failed one by one, and store what came of each until the unit is whole."""
    parts = [f"{key}-{place}" for place in range(len(unit))]
    known = [place for place, part in enumerate(parts) if part in store]
    for place in known:
        failures.add(*_failed_in(Unit((unit.treatments[place],), (unit.seeds[place],)), store[parts[place]]))
    tell(len(known))
    missing = [place for place in range(len(unit)) if place not in known]
    episodes = [LoneEpisode(unit.treatments[i], unit.seeds[i], _rows(setup, unit)) for i in missing]
    for outcome in engine.run(kept.play_alone, setup, episodes, time_limit=time_limit):
        place, episode = missing[outcome.index], episodes[outcome.index]
        if isinstance(outcome, Failed):
            store[parts[place]] = kept.kind.of_failed(reason_of(outcome))
            failures.add(FailedEpisode(episode.treatment != UNGUIDED, episode.seed, reason_of(outcome)))
        else:
            store[parts[place]] = outcome.result
        tell(1)
    store[key] = kept.kind.concatenate([store[part] for part in parts])
    for part in (*parts, _broken_key(key)):
        del store[part]


def _failed_in(unit: Unit, result: Result) -> list[FailedEpisode]:
    return [
        FailedEpisode(unit.treatments[i] != UNGUIDED, unit.seeds[i], str(result.errors[i]))
        for i in np.flatnonzero(result.failed).tolist()
    ]
