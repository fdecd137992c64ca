"""Units of work: fixed lists of guided episodes, which give the same bits wherever and whenever they run.

- `Treatment`: what an episode is guided with: a rule set, or anything else that makes a chooser.
- `Setup`: all that units share: policy, environment, treatments and how they are played.
- `Unit`, `play_unit`, `UnitResult`: which episodes, playing them, what came of it.
- `record_unit`, `record_episode`: the episodes of a unit, or one of them, step by step.
- `cut_into_units`: from a long list of episodes to units of one shape.
- `run_units`: runs what is not yet stored, and stores every unit as soon as it is finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine, Failed, InProcess, UnitFailedError
from legible.environments import Env, EnvironmentSpec
from legible.errors import LegibleError
from legible.guidance import CountingChooser, GuidedChooser
from legible.play import Recorder, Recording, StepRecord, make_slots, play_episodes
from legible.policies import Policy
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
    """What came of a unit, an entry an episode."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    costs: NDArray[np.float64]
    fired: NDArray[np.int64]
    changed: NDArray[np.int64]

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
    play = setup.play
    slots = make_slots(setup.environment, min(play.batch, len(unit)), play.cost)
    chooser = setup.chooser(np.array(unit.treatments, np.int64), unit.seeds)
    try:
        episodes = play_episodes(slots, chooser, unit.seeds, step_limit=play.step_limit, on_step=on_step)
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
    on_episodes: Callable[[int], None] | None = None,
) -> UnitResult:
    """Run all units that are not in the store, and return everything in the order of the units.

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
        Seconds after which a unit is given up.
    on_episodes
        Called with the number of episodes that became known, for progress bars.
    """
    engine = engine or InProcess()
    store = {} if store is None else store
    tell = on_episodes or (lambda *_: None)
    keys = [unit_key(setup, unit, fingerprint) for unit in units]
    missing = [i for i, key in enumerate(keys) if key not in store]
    tell(sum(len(unit) for unit in units) - sum(len(units[i]) for i in missing))
    failures: list[Failed] = []
    for outcome in engine.run(play_unit, setup, [units[i] for i in missing], time_limit=time_limit):
        i = missing[outcome.index]
        if isinstance(outcome, Failed):
            failures.append(outcome)
        else:
            store[keys[i]] = outcome.result
        tell(len(units[i]))
    if failures:
        raise UnitFailedError(
            f"{len(failures)} of {len(units)} units failed; the first: {failures[0].error} The others are kept; run "
            "the same again to go on."
        )
    return UnitResult.concatenate([store[key] for key in keys])
