"""Units of work: fixed lists of guided episodes, which give the same bits wherever and whenever they run.

- `Treatment`: what an episode is guided with: a rule set, or anything else that makes a chooser.
- `Setup`: what all units share: policy, environment, treatments and settings of play.
- `Unit`, `play_unit`, `UnitResult`: a list of episodes, playing them, and their results.
- `record_unit`, `record_episode`, `record_alone`: episodes of a unit step by step.
- `cut_into_units`: cuts a long list of episodes into units of one size.
- `Kept`: what is kept of episodes: `RETURNS`, or more.
- `run_units`: runs the units that are not yet stored, and stores every unit as soon as it finishes. A unit that fails
  is played again episode by episode.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine, Failed, Finished, InProcess, UnitFailedError
from legible.environments import Env, EnvironmentSpec
from legible.environments.reward_terms import Terms, join_tables
from legible.errors import LegibleError
from legible.evaluation.starts import KnownPart, KnownPartCheck, StartedSlots, UnitStarts
from legible.files import DamagedFileError
from legible.guidance import CountingChooser, GuidedChooser
from legible.play import Recorder, Recording, Slots, StepRecord, adapt_policy, choice_space, play_episodes
from legible.play.failures import FailedEpisode, FailureLimit, failure_reason, is_episode_failure
from legible.play.vector_envs import make_fast_slots
from legible.policies import Policy
from legible.rules import RuleSet
from legible.schemas import UNIT, check_arrays
from legible.settings import PlaySettings

UNGUIDED = -1
SLOTS_FACTOR = 4
"""Multiple of the batch size of the settings that runs at once, where this does not change results."""
LARGE_ROWS, SMALL_ROWS = 128, 32
"""Rows of a batch that networks see, where many episodes run at once and where few do."""
# Columns that are not in every file: in those of units with failed episodes, of units whose choices were counted, ….
_OPTIONAL_COLUMNS = ("failed", "errors", "taken", "differs", "endings", "last", "terms", "course", "first_changed")
_WIDE_COLUMNS = ("taken", "last", "course")  # they have several numbers per episode, or none


def usual_rows(play: PlaySettings) -> int:
    """Return the fixed number of rows that networks see: small enough that little is wasted when episodes end."""
    return LARGE_ROWS if play.batch > SMALL_ROWS else SMALL_ROWS


class Treatment(Protocol):
    """Guidance that is not a rule set, such as a random test."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that identifies the treatment."""

    @staticmethod
    def chooser(setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> CountingChooser:
        """Return the chooser that plays episodes, each with its treatment (−1: none)."""


@dataclass(frozen=True)
class Setup:
    """Everything that the units of a stage share."""

    # The policy, and the environment that it plays.
    policy: Policy
    environment: EnvironmentSpec | Env
    treatments: tuple[RuleSet | Treatment, ...] = ()  # guidance that episodes can have
    play: PlaySettings = field(default_factory=PlaySettings)  # settings of play
    # Rows of every batch that the policy sees (`legible.play.AdaptedPolicy`): an episode is then the same to the bit in
    # every unit. 0: the policy sees the whole batch of a unit.
    rows: int = 0
    # Whether results count how often each choice was taken, and keep the rewards of all steps; nothing else depends on
    # it.
    count_choices: bool = False

    @property
    def asked_policy(self) -> Policy:
        """The policy, which sees batches of one size if `rows` is set."""
        return adapt_policy(self.policy, rows=self.rows) if self.rows else self.policy

    def chooser(self, episodes: NDArray[np.int64], seeds: Sequence[int]) -> CountingChooser:
        """Return the chooser of actions for episodes, each with its treatment."""
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
    """Episodes to play: the number of the treatment (−1: unguided) and the seed of each.

    `starts` are states from which episodes continue; without them, `known` are their first steps as they were recorded.
    Results do not depend on these, so they are not compared.
    `is_alone` marks an episode of a larger unit that failed as a whole; other episodes of that unit may report a cost.
    """

    treatments: tuple[int, ...]
    seeds: tuple[int, ...]
    starts: UnitStarts | None = field(default=None, compare=False, repr=False)
    is_alone: bool = field(default=False, compare=False, repr=False)
    known: KnownPart | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class UnitResult:
    """Per-episode results of a unit.

    Failed episodes have a reason in `errors`; their returns and costs are NaN and their lengths 0. `taken` counts the
    steps in which each choice was taken, ``int64[n, choices]``; where they were not counted, no columns or zeros.
    `differs` marks episodes whose first steps are not what was recorded with the same seed. `endings`, `last`,
    `terms` and `course` are those of `legible.play.Episodes`; "", NaN and 0 for failed episodes. `first_changed` is the
    first step in which a treatment changed the action; −1, or 0 where `course` was not kept, if there is none.
    """

    schema = UNIT  # no field

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
    differs: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    endings: NDArray[np.str_] = field(default_factory=lambda: np.zeros(0, np.str_))
    last: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    terms: Terms = field(default_factory=lambda: np.zeros(0, []))
    course: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    first_changed: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        for name in _OPTIONAL_COLUMNS:
            column = getattr(self, name)
            if not np.size(column):
                shape = (*np.shape(self.returns), 0) if name in _WIDE_COLUMNS else np.shape(self.returns)
                object.__setattr__(self, name, np.zeros(shape, column.dtype))

    @property
    def played(self) -> UnitResult:
        """The episodes that did not fail."""
        return self[~self.failed] if self.failed.any() else self

    @classmethod
    def of_failed(cls, error: str) -> UnitResult:
        """Return the result of one failed episode."""
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
        """Concatenate results."""
        names = [f.name for f in fields(cls)]
        return cls(*(np.concatenate(_aligned(name, [getattr(part, name) for part in parts])) for name in names))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name, for a file; failures and choices only where there are any."""
        has_data = {
            **dict.fromkeys(("failed", "errors"), self.failed.any()),
            **{name: getattr(self, name).any() for name in ("differs", "first_changed")},
            **{name: getattr(self, name).size for name in _WIDE_COLUMNS},
            "terms": self.terms.dtype.names,
        }
        return {f.name: getattr(self, f.name) for f in fields(self) if has_data.get(f.name, True)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> UnitResult:
        """Read what `to_arrays` returned; raise `ValueError` if it is something else."""
        check_arrays(arrays, cls.schema)
        failed = arrays.get("failed", np.zeros(len(arrays["returns"]), np.bool_))
        if not np.array_equal(np.isnan(arrays["returns"]), failed):
            raise ValueError("returns are missing")
        needed = [f.name for f in fields(cls) if f.name not in _OPTIONAL_COLUMNS or f.name in arrays]
        return cls(**{name: arrays[name] for name in needed})

    def with_episodes(self, places: NDArray[np.intp], others: UnitResult) -> UnitResult:
        """Return a copy with other episodes in some places."""
        columns = []
        for f in fields(self):
            own_column, new_episodes = _aligned(f.name, [getattr(self, f.name), getattr(others, f.name)])
            column = own_column.astype(np.result_type(own_column, new_episodes))
            column[places] = new_episodes
            columns.append(column)
        return UnitResult(*columns)

    def __getitem__(self, chosen: Any) -> UnitResult:
        return UnitResult(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def without_course(self) -> UnitResult:
        """The same results without the rewards of single steps."""
        return replace(self, course=np.zeros((len(self), 0)))


def _aligned(name: str, parts: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    """Return the parts of a column of `UnitResult` with as many numbers per episode as the widest of them."""
    if name == "terms":
        return join_tables(parts)
    if name not in _WIDE_COLUMNS:
        return parts
    width, fill = max(part.shape[1] for part in parts), np.nan if name == "last" else 0
    return [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=fill) for part in parts]


def play_unit(setup: Setup, unit: Unit, on_step: Callable[[StepRecord], None] | None = None) -> UnitResult:
    """Play the episodes of a unit in slots that are refilled in a fixed order."""
    if unit.known is None or on_step is not None:
        return play_in_slots(setup, unit, slots_for(setup, unit), on_step)
    check = KnownPartCheck(unit.known)
    return replace(play_in_slots(setup, unit, slots_for(setup, unit), check), differs=check.differs)


def slots_for(setup: Setup, unit: Unit) -> Slots:
    """Return the slots that a unit is played in."""
    play = setup.play
    n = _count_slots(setup, unit)
    # With fixed rows, results do not depend on the number of slots, so a vector environment gets more of them.
    n_in_batch = min(SLOTS_FACTOR * n, len(unit)) if setup.rows else n
    slots = make_fast_slots(
        setup.environment, n, setup.policy, play.cost, play.endings, play.terms, n_in_batch=n_in_batch
    )
    if unit.is_alone:
        slots.cost_seen = True
    return slots


def _count_slots(setup: Setup, unit: Unit) -> int:
    # With fixed rows, results do not depend on the number of slots, so use more of them to amortise step overhead.
    many = setup.rows and setup.play.batch > SMALL_ROWS
    return min(SLOTS_FACTOR * setup.play.batch if many else setup.play.batch, len(unit))


def play_in_slots(
    setup: Setup, unit: Unit, slots: Slots, on_step: Callable[[StepRecord], None] | None = None
) -> UnitResult:
    """Play the episodes of a unit and return their results, one element per episode.

    Parameters
    ----------
    setup
        Policy, environment, rule sets and settings of play.
    unit
        The episodes: for each the number of its rule set (−1: unguided) and its seed; perhaps a state to start from.
    slots
        Copies of the environment that are stepped together; a slot whose episode ends takes the next one. They are
        closed at the end, unless the environment is an object of the caller.
    on_step
        Called after every step of all slots, for recordings.
    """
    # The chooser queries the policy, applies the rules, and counts how often they triggered and changed the action.
    chooser = setup.chooser(np.array(unit.treatments, np.int64), unit.seeds)
    if setup.count_choices:
        chooser.count_choices()
    try:
        episodes = play_episodes(
            slots,
            chooser,
            unit.seeds,
            step_limit=setup.play.step_limit,
            ask_idle=not setup.rows,  # fixed rows are filled up by the policy's adapter, so idle slots are not needed
            starts=None if unit.starts is None else StartedSlots(slots, unit.starts),
            on_step=on_step,
            keep_course=setup.count_choices,
        )
    finally:
        if isinstance(setup.environment, EnvironmentSpec):
            slots.close()
    # Episodes that continued from a recorded state: add what was counted in the steps before it.
    fired, changed = chooser.fired, chooser.changed
    if unit.starts is not None:
        fired, changed = fired + unit.starts.fired, changed + unit.starts.changed
    return UnitResult(
        returns=episodes.returns,
        lengths=episodes.lengths,
        truncated=episodes.truncated,
        success=episodes.success,
        costs=episodes.costs,
        fired=fired,
        changed=changed,
        taken=chooser.taken,
        endings=episodes.endings,
        last=episodes.last,
        terms=episodes.terms,
        course=episodes.course,
        first_changed=chooser.first_changed if episodes.course.size else np.zeros(len(episodes), np.int64),
    )


def record_unit(
    setup: Setup, unit: Unit, episodes: Collection[int] | None = None
) -> tuple[list[Recording], UnitResult]:
    """Play a whole unit, since only the same batch gives the same bits, and record episodes of it step by step.

    Parameters
    ----------
    setup, unit
        What to play.
    episodes
        Places in the unit of the episodes to record; all by default.
    """
    recorder = Recorder(episodes, rows=True)
    result = play_unit(setup, unit, recorder)
    return recorder.recordings(unit.seeds), result


def record_episode(setup: Setup, unit: Unit, episode: int) -> Recording:
    """Play a unit and record one of its episodes."""
    return record_unit(setup, unit, [episode])[0][0]


def record_alone(setup: Setup, unit: Unit, episode: int) -> Recording:
    """Play one episode of a unit alone and record it: for units in which other episodes failed."""
    alone, (one,) = _split_unit(setup, unit, [episode])
    return record_episode(alone, one, 0)


def _split_unit(setup: Setup, unit: Unit, places: Sequence[int]) -> tuple[Setup, list[Unit]]:
    """Return units of single episodes, and the setup in which they are played as in the whole unit."""
    ones = [Unit((unit.treatments[place],), (unit.seeds[place],), is_alone=True) for place in places]
    return replace(setup, rows=setup.rows or _count_slots(setup, unit)), ones


def cut_into_units(
    treatments: Sequence[int],
    seeds: Sequence[int],
    unit_episodes: int,
    starts: UnitStarts | None = None,
    known: KnownPart | None = None,
) -> list[Unit]:
    """Cut a list of episodes into units of `unit_episodes`; the last one may be smaller."""
    cuts = [slice(i, i + unit_episodes) for i in range(0, len(seeds), unit_episodes)]
    return [
        Unit(
            tuple(treatments[cut]),
            tuple(seeds[cut]),
            None if starts is None else starts[cut],
            known=None if known is None else known[cut],
        )
        for cut in cuts
    ]


R = TypeVar("R", bound="Result")


class Result(Protocol):
    """Results of the episodes of a unit."""

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which episodes failed."""

    @property
    def errors(self) -> NDArray[np.str_]:
        """Reasons of the failures."""

    @classmethod
    def of_failed(cls, error: str) -> Self:
        """Return the result of one failed episode."""

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Concatenate results."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what `to_arrays` returned; raise KeyError, TypeError or ValueError if it is something else."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name, for a file."""

    def __len__(self) -> int:
        """Return the number of episodes."""


@dataclass(frozen=True)
class Kept(Generic[R]):
    """Data that is kept of the episodes of a unit."""

    name: str  # name of the folder of a study in which it is kept
    kind: type[R]  # class of the results
    play: Callable[[Setup, Unit], R]  # plays a unit


RETURNS = Kept("units", UnitResult, play_unit)
"""Per-episode results only."""

Store = MutableMapping[str, R]
"""Results by the key of their unit; a study stores them on disk."""

# Settings of play that are part of every key. Others are part of a key only if they differ from their default, so that
# a new setting does not change the keys of units that were played before it existed.
_FIRST_PLAY_SETTINGS = frozenset(
    ("epsilon", "epsilon_when_guided", "sample", "precedence", "batch", "unit_episodes", "step_limit", "cost")
)


def unit_key(setup: Setup, unit: Unit, fingerprint: str) -> str:
    """Return a hash of everything that determines the result of a unit, under which the result is stored.

    Parameters
    ----------
    setup
        Policy, environment, rule sets and settings of play.
    unit
        The episodes: for each the number of its rule set (−1: unguided) and its seed.
    fingerprint
        A hash of the policy, and of properties of the environment that its name does not determine.
    """
    # Only the treatments (rule sets) that the unit uses, renumbered from 0: the key does not depend on any others.
    used = sorted(set(unit.treatments) - {UNGUIDED})
    renumbered = {old: new for new, old in enumerate(used)} | {UNGUIDED: UNGUIDED}
    treatments = [setup.treatments[i] for i in used]
    # A setting that was added later is left out while it has its default, so that older keys stay valid.
    default = asdict(PlaySettings())
    play_settings = {
        name: value
        for name, value in asdict(setup.play).items()
        if name in _FIRST_PLAY_SETTINGS or value != default[name]
    }
    content = {
        **choices_content(setup.policy),
        "fingerprint": fingerprint,
        "environment": repr(setup.environment),
        "play": play_settings,
        # The mined rule behind a rule set does not change how it acts.
        "treatments": [(RuleSet(t.rules) if isinstance(t, RuleSet) else t).to_dict() for t in treatments],
        "episodes": [(renumbered[t], seed) for t, seed in zip(unit.treatments, unit.seeds, strict=True)],
        **({"rows": setup.rows} if setup.rows else {}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def choices_content(policy: Policy) -> dict[str, Any]:
    """Return the groups of choices of a policy whose actions consist of several choices, for a key."""
    space = choice_space(policy)
    return {} if space is None else {"choices": space.to_dict()["groups"]}


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
    """Return the results of all units, one element per episode, in the order of the units.

    Units that are in the store are read from it; the others are played. A unit that fails is played again episode by
    episode. Its result is stored with the failed episodes, which are not tried again.

    Parameters
    ----------
    setup
        Policy, environment, rule sets and settings of play.
    units
        Fixed lists of episodes, each with a rule set (or none) and a seed. A unit is the piece of work of one worker.
    kept
        Data to keep of the episodes: per-episode results by default, or all steps.
    engine
        Where units run; this process by default.
    store
        Where results are kept; a unit is stored before it is reported.
    fingerprint
        Stands for the policy in the keys of the store, and for properties of the environment that its name does not
        determine.
    time_limit
        Seconds after which a unit, or an episode that is played alone, is given up.
    stage
        Name of the stage that the units belong to, for error messages.
    failures
        Limits the number of failed episodes; by default for these units alone.
    on_episodes
        Called with the number of episodes that have finished or were found in the store, for progress bars.
    """
    engine = engine or InProcess()
    store = {} if store is None else store
    failures = failures or FailureLimit(stage=stage)
    failures.expect(sum(len(unit) for unit in units))
    report = on_episodes or (lambda *_: None)

    # Find the units that have to be played; those that have failed as a whole before are played episode by episode.
    keys = [unit_key(setup, unit, fingerprint) for unit in units]
    missing = [i for i, key in enumerate(keys) if key not in store]
    report(sum(len(unit) for unit in units) - sum(len(units[i]) for i in missing))
    broken = [i for i in missing if keys[i] + _BROKEN in store]
    untried = [i for i in missing if i not in broken]

    # Play them, and store each as soon as it finishes. A failure of an episode marks the unit as broken; an error that
    # concerns all episodes, such as a policy that does not fit, ends the run once the remaining units are stored.
    errors: list[Failed] = []
    for outcome in engine.run(kept.play, setup, [units[i] for i in untried], time_limit=time_limit):
        i = untried[outcome.index]
        if isinstance(outcome, Finished):
            store[keys[i]] = outcome.result
        elif is_episode_failure(outcome):
            broken.append(i)
            store[keys[i] + _BROKEN] = kept.kind.of_failed(failure_reason(outcome))
            continue
        else:
            errors.append(outcome)
        report(len(units[i]))
    if errors:
        raise UnitFailedError(
            f"{failure_reason(errors[0])}. Other episodes are kept: correct this, then run the same command again to "
            "continue."
        )
    for i in sorted(broken):
        _play_one_by_one(setup, units[i], keys[i], kept, engine, store, time_limit, failures, report)

    # Read all results, and count the failed episodes of those that were stored before; the others are counted already.
    results = [store[key] for key in keys]
    for unit, key, result in zip(units, keys, results, strict=True):
        if len(result) != len(unit):
            raise DamagedFileError(
                f"{kept.name}/{key}.npz: is damaged (it holds {len(result)} episodes instead of {len(unit)}); delete "
                "it and run the study again."
            )
    stored_before = sorted(set(range(len(units))) - set(missing))
    failures.add(*(failed for i in stored_before for failed in _find_failed(units[i], results[i])))
    return kept.kind.concatenate(results)


# Suffix of the key under which it is stored that a unit failed as a whole, until its episodes are known.
_BROKEN = "-broken"


def _play_one_by_one(
    setup: Setup,
    unit: Unit,
    key: str,
    kept: Kept[R],
    engine: Engine,
    store: Store[R],
    time_limit: float | None,
    failures: FailureLimit,
    report: Callable[[int], None],
) -> None:
    """Play the episodes of a failed unit one by one, and store the result of the unit with its failed episodes marked.

    Parameters
    ----------
    setup, unit
        Policy, environment and rule sets, and the list of episodes that failed when they were played together.
    key
        Key of the unit in the store.
    kept
        Data to keep of the episodes.
    engine, time_limit
        Where episodes run, and the seconds after which one is given up.
    store
        Where results are kept by key. Single episodes have keys of their own until the unit is complete, so that an
        interrupted run loses nothing.
    failures
        Counts failed episodes, and raises an error if there are too many.
    report
        Called with the number of episodes that have finished.
    """
    episode_keys = [f"{key}-{place}" for place in range(len(unit))]
    alone_setup, single_units = _split_unit(setup, unit, range(len(unit)))
    # Episodes that an interrupted run has stored are not played again, but their failures count.
    missing = [place for place, episode_key in enumerate(episode_keys) if episode_key not in store]
    for single, episode_key in zip(single_units, episode_keys, strict=True):
        if episode_key in store:
            failures.add(*_find_failed(single, store[episode_key]))
    report(len(unit) - len(missing))
    to_play = [single_units[place] for place in missing]
    for outcome in engine.run(kept.play, alone_setup, to_play, time_limit=time_limit):
        place = missing[outcome.index]
        store[episode_keys[place]] = (
            kept.kind.of_failed(failure_reason(outcome)) if isinstance(outcome, Failed) else outcome.result
        )
        failures.add(*_find_failed(single_units[place], store[episode_keys[place]]))
        report(1)
    # Join the episodes, then delete their entries and the mark that the unit failed.
    store[key] = kept.kind.concatenate([store[episode_key] for episode_key in episode_keys])
    for used_key in (*episode_keys, key + _BROKEN):
        del store[used_key]


def _find_failed(unit: Unit, result: Result) -> list[FailedEpisode]:
    return [
        FailedEpisode(unit.treatments[i] != UNGUIDED, unit.seeds[i], str(result.errors[i]))
        for i in np.flatnonzero(result.failed).tolist()
    ]
