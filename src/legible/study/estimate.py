"""Estimates of the time that a study takes, from a few episodes, and settings that suit an environment.

- `measure_rate`: episodes and steps a second in one process, a `Rate`; `planned_episodes`: how many episodes the stages
  of a study play; `estimate`: both together.
"""

from __future__ import annotations

import itertools
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from legible.engines import Engine, LocalProcesses, UnitFailedError
from legible.environments import Env, EnvironmentSpec, UnfitEnvironmentError
from legible.evaluation.units import UNGUIDED, Setup, Unit, UnitResult, play_unit
from legible.formatting import number
from legible.play import STAGES, Known, StepRecord, stage_seeds
from legible.settings import StudySettings
from legible.study.running import run_within_limit

# What is not known before it is found: rules that an action gets, and the share of rule sets that look like weaknesses;
# of those that a search proposes, which did well already, many do again.
RULES_PER_ACTION = 15
SHARE_OF_CANDIDATES, SHARE_OF_PROPOSED = 0.1, 0.5
# Steps of a study that are not part of every run, or have a budget in steps.
_APART = ("baseline", "mistakes")
EXPLAINED_RULES = 12
# Episodes that raced studies of CartPole (twice), Acrobot and PAC-Man played, as a share of those planned for: most
# rule sets are dropped early, and fewer are confirmed than may be.
USUALLY_PLAYED = {
    "racing": 0.35,
    "racing confirmation": 0.4,
    "composition": 0.65,
    "composition check": 0.6,
    "explanation": 0.25,
}
# A race plays each rule set on a few seeds before it goes on: about this many episodes run side by side.
PLAYED_IN_FEW_SLOTS = {"racing"}
FEW_SLOTS = 16
NATIVE_SEARCH_STEPS = 15_000_000
# Seconds that an episode takes in addition to being played: it is sent, recorded, read and judged, and slots run empty
# when small units end. It matters where a thousand episodes are played a second.
OVERHEAD_SECONDS = 0.0005
# A batch whose rate differs by more than this factor from the one before is played again, at most this many times.
DIFFERENT, MOST_REPLAYS = 3.0, 2
# Environments that step in whole batches are measured in larger lots, even if that takes a few times longer: of few
# episodes each takes many times as long there.
PATIENCE = 3.0


class Rate(NamedTuple):
    """Episodes and environment steps a second in one process, and what the measured episodes returned.

    `mean` is the mean return of the last lot of `played` episodes, `truncated` the share that a time limit ended.
    `episodes_in_few_slots` are the episodes a second where only `FEW_SLOTS` of them run side by side; 0 if that was not
    measured.
    """

    episodes: float
    steps: float
    is_varied: bool = True
    mean: float = float("nan")
    played: int = 0
    truncated: float = 0.0
    episodes_in_few_slots: float = 0.0

    @property
    def length(self) -> float:
        """Steps of an episode, on average."""
        return self.steps / self.episodes


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a study.

    Parameters
    ----------
    rate
        Episodes a second in one process, as measured.
    episodes
        Episodes that will be played, by stage; for a search, as many as it has steps for.
    workers
        Processes that play them.
    rate_in_few_slots
        Episodes a second where few run side by side, as in a race; 0 if that was not measured.
    """

    rate: float
    episodes: dict[str, int]
    workers: int
    rate_in_few_slots: float = 0.0

    @property
    def seconds(self) -> float:
        """Estimated time in seconds."""
        in_few_slots = sum(n for name, n in self.episodes.items() if name in PLAYED_IN_FEW_SLOTS)
        others = sum(self.episodes.values()) - in_few_slots
        playing = others / self.rate + in_few_slots / (self.rate_in_few_slots or self.rate)
        return playing / self.workers + sum(self.episodes.values()) * OVERHEAD_SECONDS

    def without(self, *steps: str) -> Estimate:
        """Return the estimate without some steps, such as "improve"."""
        kept = {name: n for name, n in self.episodes.items() if STAGES[name].step not in steps}
        return replace(self, episodes=kept)


def measure_rate(
    setup: Setup,
    *,
    seconds: float = 1.0,
    seed: int = 0,
    engine: Engine | None = None,
    time_limit: float | None = None,
) -> Rate:
    """Return how many episodes and environment steps of the unguided policy one process plays per second.

    Batches of 1, 4, 16, … episodes are played until one takes long enough, and the last one counts: episodes side by
    side are faster than one by one, and the first batches may include compilation. A batch whose speed differs much
    from the one before is played again, because something may have been compiled or the machine was busy. If a batch
    fails, the one before counts.

    Parameters
    ----------
    seconds, seed
        How long to play, and the seed of the study.
    engine, time_limit
        With a time limit the episodes are played on an engine (by default another process), and a batch is given up
        after this many seconds.
    """
    # Only another process can be given up when it takes too long; without a time limit, this process plays.
    engine = (engine or LocalProcesses(1)) if time_limit is not None else None
    episodes, replays = 1, 0
    rate = rate_in_few_slots = 0.0
    measured = Rate(0.0, 0.0)
    longest = seconds * (PATIENCE if is_native(setup.environment) else 1.0)
    with engine or nullcontext():
        for batch in itertools.count():
            unit = Unit((UNGUIDED,) * episodes, tuple(stage_seeds(seed, "experiences", 0, episodes)))
            try:
                took, played = _seconds_for(setup, unit, engine, time_limit)
            except (UnfitEnvironmentError, UnitFailedError):
                if measured.played:
                    return measured
                raise  # not even the first batch could be played
            rate_before, rate = rate, episodes / took
            if episodes <= FEW_SLOTS:
                rate_in_few_slots = rate
            measured = Rate(
                episodes=rate,
                steps=float(played.lengths.sum()) / took,
                is_varied=episodes == 1 or float(np.ptp(played.returns)) > 0.0,
                mean=float(played.returns.mean()),
                played=episodes,
                truncated=float(played.truncated.mean()),
                episodes_in_few_slots=rate_in_few_slots,
            )
            if batch == 0:
                # The first batch never counts: it may have been compiling. A slow one is repeated, not enlarged.
                if took < longest:
                    episodes *= 4
                continue
            is_steady = 1 / DIFFERENT <= rate / rate_before <= DIFFERENT
            if not is_steady and replays < MOST_REPLAYS:
                replays += 1
                continue
            replays = 0
            # A study plays at most `play.batch` episodes side by side, so larger batches would not be faster.
            is_full_batch = episodes >= setup.play.batch and took >= seconds / 4
            if took >= longest or is_full_batch:
                break
            episodes *= 4
    return measured


def describe_endless(setup: Setup, *, seed: int = 0, seconds: float = 10.0) -> str:
    """Return a warning if the first episode does not end, or only at the step limit; "" otherwise.

    `seed` is that of the study, and `seconds` the longest time to play.
    """
    step_limit, end_time, steps = setup.play.step_limit, 0.0, 0

    def count_step(_: StepRecord) -> None:
        """Count a step, and stop the episode when the time since the first one is up; loading and compiling is free."""
        nonlocal steps, end_time
        steps += 1
        end_time = end_time or time.monotonic() + seconds
        if time.monotonic() > end_time:
            raise _StillPlayingError

    # Play the first episode of the study; the exception ends it from within.
    first_episode = Unit((UNGUIDED,), tuple(stage_seeds(seed, "experiences", 0, 1)))
    try:
        played = play_unit(setup, first_episode, count_step)
        if int(played.lengths[0]) < step_limit or not played.truncated[0]:
            return ""
        problem = f"The first episode was cut off after {number(step_limit)} steps"
    except _StillPlayingError:
        problem = f"The first episode has not ended after {number(steps)} steps ({seconds:.0f} s)"
    return (
        f"{problem}. A study plays thousands of episodes, so it would take very long. If episodes never end, cut them "
        "off earlier, for example with --set play.step_limit=1000."
    )


class _StillPlayingError(Exception):
    """An episode takes long."""


def _seconds_for(setup: Setup, unit: Unit, engine: Engine | None, time_limit: float | None) -> tuple[float, UnitResult]:
    """Play a unit and return the seconds that it took and its episodes; without a time limit in this process."""
    if engine is None or time_limit is None:
        return _time_unit(setup, unit)
    episodes = f"seed {unit.seeds[0]}" if len(unit) == 1 else f"seeds {unit.seeds[0]} to {unit.seeds[-1]}"
    return run_within_limit(
        engine, _time_unit, setup, unit, time_limit, f"the episodes that measure the speed, {episodes}"
    )


def _time_unit(setup: Setup, unit: Unit) -> tuple[float, UnitResult]:
    before = time.perf_counter()
    played = play_unit(setup, unit)
    return time.perf_counter() - before, played


def planned_episodes(settings: StudySettings, known: Known, *, collected: bool = False) -> dict[str, int]:
    """Return how many episodes each stage of a whole run plays.

    `known` says how many rule sets there are and look like weaknesses; with `collected` the experiences are there.
    """
    stages = [stage for stage in STAGES.values() if stage.step not in _APART and stage.seeds(settings, known)]
    return {
        stage.name: 0 if collected and stage.step == "collect" else stage.episodes(settings, known) for stage in stages
    }


def guess_known(rule_sets: int) -> Known:
    """Return the usual number of candidates among a number of rule sets."""
    return Known(rule_sets, round(SHARE_OF_CANDIDATES * rule_sets))


def expected_episodes(settings: StudySettings, known: Known) -> dict[str, tuple[int, int]]:
    """Return the least and the expected number of episodes of stages whose size is known only step by step."""
    least = {
        "search": 0,
        "racing": settings.evaluation.race_seeds,
        "racing confirmation": 2 * settings.evaluation.confirmation_changes,
        "composition": settings.improvement.episodes,
        "composition check": 2 * settings.improvement.episodes,
        "final": settings.improvement.final_episodes,
    }
    return {name: (n, max(n, STAGES[name].episodes(settings, known))) for name, n in least.items()}


def estimate(
    setup: Setup, settings: StudySettings, engine: Engine, rule_sets: int | None = None, *, rate: Rate | None = None
) -> Estimate:
    """Return an estimate of the episodes and the time that a study takes, or the rest of it after mining.

    How many rule sets will look like weaknesses is a guess. If all episodes have the same return, none are expected:
    usually that return is the maximum, unless the environment counts as solved from a higher one.

    Parameters
    ----------
    engine
        Where episodes run; its number of workers divides the time.
    rule_sets
        Number of mined rule sets if they are known; then the steps up to mining are left out.
    rate
        Measured speed; by default it is measured now.
    """
    rate = rate or measure_rate(setup, engine=engine, time_limit=settings.time_limit or None)
    evaluation = settings.evaluation
    # Rule sets to test: mined ones, of which the settings may race only some, and those that the search proposes.
    mined = rule_sets if rule_sets is not None else RULES_PER_ACTION * setup.policy.n_actions
    most_confirmed = evaluation.most_confirmed or mined
    if evaluation.most_raced:
        mined = min(mined, evaluation.most_raced)
    proposed = settings.search.proposed if "searched" in settings.sources else 0
    # Baselines: random play and constant actions. The search has a budget in steps.
    references = 1 + min(setup.policy.n_actions, settings.references.most_constants)
    searched_episodes = round(search_budget(settings, setup.environment, mined, rate.length) / rate.length)
    solved = setup.environment.solved_from if isinstance(setup.environment, EnvironmentSpec) else None
    if rate.is_varied or (solved is not None and rate.mean < solved):
        # Candidates pass the first test and are confirmed; their number may be limited.
        mined_candidates = SHARE_OF_CANDIDATES * mined
        if evaluation.most_raced:  # few are raced, those that change most, and they often look like weaknesses
            mined_candidates = min(SHARE_OF_PROPOSED * mined, most_confirmed)
        candidates = round(mined_candidates + min(SHARE_OF_PROPOSED * proposed, most_confirmed))
        known = Known(mined + proposed, candidates, EXPLAINED_RULES, references, searched_episodes)
    else:
        known = Known(mined, candidates=0, explained_rules=0, references=references, searched=searched_episodes)
    # In a race most rule sets are dropped early, so fewer episodes are played than are planned for.
    planned = planned_episodes(settings, known, collected=rule_sets is not None)
    usual_shares = USUALLY_PLAYED if evaluation.method == "racing" else {}
    episodes = {stage: round(usual_shares.get(stage, 1.0) * count) for stage, count in planned.items()}
    return Estimate(rate.episodes, episodes, engine.workers or 1, rate.episodes_in_few_slots)


def search_budget(settings: StudySettings, environment: EnvironmentSpec | Env, rule_sets: int, length: float) -> int:
    """Return the environment steps that the search of a study may take.

    `rule_sets` are those to test without the search, and `length` is the mean number of steps of an episode.
    """
    if settings.search.budget:
        return settings.search.budget
    if is_native(environment):
        return NATIVE_SEARCH_STEPS
    known = Known(rule_sets, round(SHARE_OF_CANDIDATES * rule_sets), EXPLAINED_RULES)
    # Compositions on the seeds of the confirmation take few episodes; the search is as long as if they did not.
    settings = replace(settings, improvement=replace(settings.improvement, seeds="own"))
    return round(sum(planned_episodes(settings, known).values()) * length)


def is_native(environment: EnvironmentSpec | Env) -> bool:
    """Return whether an environment can be stepped in whole batches."""
    envs = environment.make_batch(1) if isinstance(environment, EnvironmentSpec) else None
    if envs is None:
        return False
    envs.close()
    return True


def settings_for(environment: EnvironmentSpec, settings: StudySettings | None = None) -> StudySettings:
    """Return settings, by default the default ones, with units of work of a size that suits an environment."""
    settings = settings or StudySettings()
    return settings if is_native(environment) else settings.for_single_environments()
