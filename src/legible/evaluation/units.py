"""Units of work: fixed lists of guided episodes, which give the same bits wherever and whenever they run.

- `Treatment`: what an episode is guided with: a rule set, or anything else that makes a chooser.
- `Setup`: all that units share: policy, environment, treatments and how they are played.
- `Unit`, `play_unit`, `UnitResult`: which episodes, playing them, what came of it.
- `record_unit`, `record_episode`: the episodes of a unit, or one of them, step by step.
- `play_alone`: one episode of a unit that failed as a whole.
- `cut_into_units`: from a long list of episodes to units of one shape.
- `run_units`: runs what is not yet stored, and stores every unit as soon as it is finished; a unit that fails is played
  again episode by episode.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine, Failed, Finished, InProcess, UnitFailedError
from legible.environments import Env, EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation.failures import FailedEpisode, FailureLimit, is_of_episode, reason_of
from legible.guidance import CountingChooser, GuidedChooser
from legible.play import Observations, Recorder, Recording, Scores, Slots, StepRecord, make_slots, play_episodes
from legible.policies import ChoicePolicy, Policy
from legible.rules import RuleSet
from legible.settings import PlaySettings

UNGUIDED = -1


class Treatment(Protocol):
    """Something that episodes are guided with and that is not a rule set, such as a random test."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data that tells it from any other."""

    @staticmethod
    def chooser(setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> CountingChooser:
        """Make the chooser that plays episodes, each with its treatment (−1: none)."""


@dataclass(frozen=True)
class Setup:
    """What all units of a stage share."""

    policy: Policy
    environment: EnvironmentSpec | Env
    treatments: tuple[RuleSet | Treatment, ...] = ()
    play: PlaySettings = field(default_factory=PlaySettings)

    def chooser(self, episodes: NDArray[np.int64], seeds: Sequence[int]) -> CountingChooser:
        """Make what chooses the actions of episodes, each with its treatment."""
        kinds = {type(treatment) for treatment in self.treatments}
        if len(kinds) > 1:
            raise LegibleError("the treatments of a stage must be of one kind.")
        if kinds and RuleSet not in kinds:
            return kinds.pop().chooser(self, episodes, seeds)  # type: ignore[union-attr]
        return GuidedChooser(
            self.policy,
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
    """Episodes to play: for each the number of its treatment (−1: unguided) and its seed."""

    treatments: tuple[int, ...]
    seeds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.seeds)


@dataclass(frozen=True)
class UnitResult:
    """What came of a unit, an entry an episode.

    Episodes that failed have a reason in `errors`; their returns and costs are NaN and their lengths 0.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    costs: NDArray[np.float64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]
    failed: NDArray[np.bool_] = None  # type: ignore[assignment]  # none failed, as in files from before there were any
    errors: NDArray[np.str_] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.failed is None:
            object.__setattr__(self, "failed", np.zeros(np.shape(self.returns), np.bool_))
        if self.errors is None:
            object.__setattr__(self, "errors", np.zeros(np.shape(self.returns), np.str_))

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
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def __getitem__(self, chosen: Any) -> UnitResult:
        return UnitResult(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def __len__(self) -> int:
        return len(self.returns)


def play_unit(setup: Setup, unit: Unit, on_step: Callable[[StepRecord], None] | None = None) -> UnitResult:
    """Play the episodes of a unit: always the same places, refilled in the same order."""
    slots = make_slots(setup.environment, _rows(setup, unit), setup.play.cost)
    return _play(setup, unit, slots, on_step)


def _rows(setup: Setup, unit: Unit) -> int:
    return min(setup.play.batch, len(unit))


def _play(setup: Setup, unit: Unit, slots: Slots, on_step: Callable[[StepRecord], None] | None = None) -> UnitResult:
    chooser = setup.chooser(np.array(unit.treatments, np.int64), unit.seeds)
    try:
        episodes = play_episodes(slots, chooser, unit.seeds, step_limit=setup.play.step_limit, on_step=on_step)
    finally:
        if isinstance(setup.environment, EnvironmentSpec):
            slots.close()
    return UnitResult(
        returns=episodes.returns,
        lengths=episodes.lengths,
        truncated=episodes.truncated,
        success=episodes.success,
        costs=episodes.costs,
        fired=chooser.fired,
        changed=chooser.changed,
    )


@dataclass(frozen=True)
class PaddedPolicy:
    """A policy that is asked about a batch of fixed size, whatever the number of observations.

    Matrix products may differ in the last bit between batch shapes: an episode that is played alone should see scores
    of the shape that its unit has. (The row can still be another one than in the whole unit, which with some linear
    algebra makes a difference in the last bit, too; but it is always the same row, whatever the workers.)
    """

    policy: Policy
    rows: int

    @property
    def kind(self) -> Any:
        """What the scores are."""
        return self.policy.kind

    @property
    def n_features(self) -> Any:
        """How many features the policy reads."""
        return self.policy.n_features

    @property
    def n_actions(self) -> int:
        """How many actions it chooses among."""
        return self.policy.n_actions

    def scores(self, observations: Observations) -> Scores:
        """Scores of the observations, from a batch that is filled up with the first of them."""
        n = len(observations)
        batch = np.concatenate([observations, np.repeat(observations[:1], max(0, self.rows - n), axis=0)])
        scores: Scores = np.asarray(self.policy.scores(batch))[:n]
        return scores


def padded(policy: Policy, rows: int) -> Policy:
    """Return a policy that is asked about batches of at least so many rows."""
    return replace(policy, rows=rows) if isinstance(policy, ChoicePolicy) else PaddedPolicy(policy, rows)


class LoneEpisode(NamedTuple):
    """An episode of a unit that failed as a whole: its treatment, its seed, and the rows of the unit's batch."""

    treatment: int
    seed: int
    rows: int


def play_alone(setup: Setup, episode: LoneEpisode, on_step: Callable[[StepRecord], None] | None = None) -> UnitResult:
    """Play one episode of a unit by itself, as nearly as it was in the unit as that is possible."""
    this = replace(setup, policy=padded(setup.policy, episode.rows))
    slots = make_slots(setup.environment, 1, setup.play.cost)
    slots.cost_seen = True  # other episodes of the unit may be those that tell it
    return _play(this, Unit((episode.treatment,), (episode.seed,)), slots, on_step)


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
    recorder = Recorder(episodes)
    result = play_unit(setup, unit, recorder)
    return recorder.recordings(unit.seeds), result


def record_episode(setup: Setup, unit: Unit, episode: int) -> Recording:
    """Play a unit and keep one of its episodes."""
    recordings, _ = record_unit(setup, unit, [episode])
    return recordings[0]


def record_alone(setup: Setup, unit: Unit, episode: int) -> Recording:
    """Play one episode of a unit by itself and keep it: for units in which others failed."""
    recorder = Recorder([0])
    lone = LoneEpisode(unit.treatments[episode], unit.seeds[episode], _rows(setup, unit))
    play_alone(setup, lone, recorder)
    return recorder.recordings([lone.seed])[0]


def cut_into_units(treatments: Sequence[int], seeds: Sequence[int], unit_episodes: int) -> list[Unit]:
    """Cut a list of episodes into units; every one but the last has `unit_episodes`."""
    starts = range(0, len(seeds), unit_episodes)
    return [Unit(tuple(treatments[i : i + unit_episodes]), tuple(seeds[i : i + unit_episodes])) for i in starts]


Store = MutableMapping[str, UnitResult]
"""Results by the key of their unit; a study keeps them on disk."""


def unit_key(setup: Setup, unit: Unit, fingerprint: str) -> str:
    """Name a unit by everything that decides its result, so that changed settings are never mixed up.

    `fingerprint` stands for the policy and for what the environment's name does not tell.
    """
    used = sorted(set(unit.treatments) - {UNGUIDED})
    renumbered = {old: new for new, old in enumerate(used)} | {UNGUIDED: UNGUIDED}
    content = {
        **choices_content(setup.policy),
        "fingerprint": fingerprint,
        "environment": repr(setup.environment),
        "play": _play_content(setup.play),
        "treatments": [_content(setup.treatments[i]) for i in used],
        "episodes": [(renumbered[t], seed) for t, seed in zip(unit.treatments, unit.seeds, strict=True)],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


# Settings of play that every key has held from the beginning.
_FIRST_PLAY_SETTINGS = frozenset(
    ("epsilon", "epsilon_when_guided", "sample", "precedence", "batch", "unit_episodes", "step_limit", "cost")
)


def _play_content(play: PlaySettings) -> dict[str, Any]:
    """The settings of play for a key: those that came later only where they are not at their default.

    So a new setting does not change the keys of units that were played before it existed.
    """
    default = asdict(PlaySettings())
    return {
        name: value for name, value in asdict(play).items() if name in _FIRST_PLAY_SETTINGS or value != default[name]
    }


def choices_content(policy: Policy) -> dict[str, Any]:
    """The choices that actions are cut into, where they are no single choice."""
    return {"choices": policy.space.to_dict()["groups"]} if isinstance(policy, ChoicePolicy) else {}


def _content(treatment: RuleSet | Treatment) -> dict[str, Any]:
    """What decides how a treatment acts; the mined rule behind a rule set does not."""
    return RuleSet(treatment.rules).to_dict() if isinstance(treatment, RuleSet) else treatment.to_dict()


def run_units(
    setup: Setup,
    units: Sequence[Unit],
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    fingerprint: str = "",
    time_limit: float | None = None,
    failures: FailureLimit | None = None,
    on_episodes: Callable[[int], None] | None = None,
) -> UnitResult:
    """Run all units that are not in the store, and return everything in the order of the units.

    A unit that fails is played again episode by episode. What came of it is stored with the episodes that failed, so
    that they are not tried again.

    Parameters
    ----------
    setup, units
        What to play.
    engine
        Where; this process by default.
    store
        Where results are kept; a unit is stored before it is reported.
    fingerprint
        Stands for the policy in the store's keys, and for what the environment's name does not tell.
    time_limit
        Seconds after which a unit, or an episode that is played alone, is given up.
    failures
        Counts the episodes that fail and says when they are too many; by default for these units alone.
    on_episodes
        Called with the number of episodes that became known, for progress bars.
    """
    engine = engine or InProcess()
    store = {} if store is None else store
    failures = failures or FailureLimit()
    failures.expect(sum(len(unit) for unit in units))
    tell = on_episodes or (lambda *_: None)
    keys = [unit_key(setup, unit, fingerprint) for unit in units]
    missing = [i for i, key in enumerate(keys) if key not in store]
    tell(sum(len(unit) for unit in units) - sum(len(units[i]) for i in missing))
    broken = [i for i in missing if _broken_key(keys[i]) in store]
    fresh = [i for i in missing if i not in broken]
    wrong: list[Failed] = []
    for outcome in engine.run(play_unit, setup, [units[i] for i in fresh], time_limit=time_limit):
        i = fresh[outcome.index]
        if isinstance(outcome, Finished):
            store[keys[i]] = outcome.result
        elif is_of_episode(outcome):
            broken.append(i)
            store[_broken_key(keys[i])] = UnitResult.of_failed(reason_of(outcome))
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
        _mend(setup, units[i], keys[i], engine, store, time_limit, failures, tell)
    results = [store[key] for key in keys]
    stored = sorted(set(range(len(units))) - set(missing))
    failures.add(*(one for i in stored for one in _failed_in(units[i], results[i])))
    return UnitResult.concatenate(results)


def _broken_key(key: str) -> str:
    """Where it is stored that a unit failed as a whole, until its episodes are known."""
    return f"{key}-broken"


def _mend(
    setup: Setup,
    unit: Unit,
    key: str,
    engine: Engine,
    store: Store,
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
    for outcome in engine.run(play_alone, setup, episodes, time_limit=time_limit):
        place, episode = missing[outcome.index], episodes[outcome.index]
        if isinstance(outcome, Failed):
            store[parts[place]] = UnitResult.of_failed(reason_of(outcome))
            failures.add(FailedEpisode(episode.treatment != UNGUIDED, episode.seed, reason_of(outcome)))
        else:
            store[parts[place]] = outcome.result
        tell(1)
    store[key] = UnitResult.concatenate([store[part] for part in parts])
    for part in (*parts, _broken_key(key)):
        del store[part]


def _failed_in(unit: Unit, result: UnitResult) -> list[FailedEpisode]:
    return [
        FailedEpisode(unit.treatments[i] != UNGUIDED, unit.seeds[i], str(result.errors[i]))
        for i in np.flatnonzero(result.failed).tolist()
    ]
