"""Estimates of the time that a study takes, from a few episodes, and units of work that suit an environment.

- `measure_rate`: episodes and steps a second in one process, a `Rate`.
- `planned_episodes`: how many episodes the stages of a study play; `expected_episodes`, `guess_known`: how many are to
  be expected of those that learn only step by step.
- `estimate`: both together.
- `search_budget`: environment steps that the search of a study may take.
- `settings_for`: settings with units of work of a size that suits an environment.
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
NATIVE_SEARCH_STEPS = 15_000_000
# Seconds that an episode takes in addition to being played: it is sent, recorded, read and judged, and slots run empty
# when small units end. It matters where a thousand episodes are played a second.
OVERHEAD_SECONDS = 0.0005
# A lot whose rate differs by more than this factor from the one before is played again, at most so often.
DIFFERENT, MOST_REPLAYS = 3.0, 2
# Environments that step in whole batches are measured in larger lots, even if that takes a few times longer: of few
# episodes each takes many times as long there.
PATIENCE = 3.0


class Rate(NamedTuple):
    """Episodes and environment steps a second in one process, and what the measured episodes returned.

    `mean` is the mean return of the last lot of `played` episodes, `truncated` the share that a time limit ended.
    """

    episodes: float
    steps: float
    is_varied: bool = True
    mean: float = float("nan")
    played: int = 0
    truncated: float = 0.0

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
    """

    rate: float
    episodes: dict[str, int]
    workers: int

    @property
    def seconds(self) -> float:
        """Estimated time in seconds."""
        return sum(self.episodes.values()) * (1.0 / (self.rate * self.workers) + OVERHEAD_SECONDS)

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
    """Play unguided episodes for about some seconds and return how many a second there were.

    Ever larger lots are played, up to the batch that units have, and the last one counts: the first ones pay for what
    is only done once, and episodes side by side are faster than one by one. The first never counts, and a lot that is
    much faster or slower than what was played before it is played again: something may have been compiled, or the
    machine was busy. When a lot fails, the one before counts: whether episodes that fail are too many is not for an
    estimate to say.

    Parameters
    ----------
    setup
        What is played.
    seconds, seed
        How long to play, and the seed of the study.
    engine, time_limit
        With a time limit the episodes are played on an engine (by default another process), and a lot is given up
        after this many seconds.
    """
    if time_limit is not None and engine is None:
        engine = LocalProcesses(1)
    count, rate, again, measured = 1, 0.0, 0, Rate(0.0, 0.0)
    longest = seconds * (PATIENCE if is_native(setup.environment) else 1.0)
    with engine if engine is not None and time_limit is not None else nullcontext():
        for lot in itertools.count():
            unit = Unit((UNGUIDED,) * count, tuple(stage_seeds(seed, "experiences", 0, count)))
            try:
                took, played = _seconds_for(setup, unit, engine, time_limit)
            except (UnfitEnvironmentError, UnitFailedError):
                if measured.played:
                    return measured
                raise
            before, rate = rate, count / took
            measured = Rate(
                rate,
                float(played.lengths.sum()) / took,
                count == 1 or float(np.ptp(played.returns)) > 0.0,
                float(played.returns.mean()),
                count,
                float(played.truncated.mean()),
            )
            # The first lot never counts: it may have been compiling.
            if lot > 0 and again < MOST_REPLAYS and not 1 / DIFFERENT <= rate / before <= DIFFERENT:
                again += 1
                continue
            again = 0
            if lot > 0 and (took >= longest or (count >= setup.play.batch and took >= seconds / 4)):
                break
            if lot > 0 or took < longest:
                count *= 4
    return measured


def describe_endless(setup: Setup, *, seed: int = 0, seconds: float = 10.0) -> str:
    """Play one episode for some seconds at most; return a warning if it does not end or is cut off, otherwise "".

    Parameters
    ----------
    setup
        What is played.
    seed, seconds
        The seed of the study, and how long to wait.
    """
    limit, end, steps = setup.play.step_limit, time.monotonic() + seconds, 0

    def count(_: StepRecord) -> None:
        nonlocal steps
        steps += 1
        if time.monotonic() > end:
            raise _StillPlayingError

    try:
        played = play_unit(setup, Unit((UNGUIDED,), tuple(stage_seeds(seed, "experiences", 0, 1))), count)
        if int(played.lengths[0]) < limit or not played.truncated[0]:
            return ""
        seen = f"The first episode was cut off after {number(limit)} steps"
    except _StillPlayingError:
        seen = f"The first episode has not ended after {number(steps)} steps ({seconds:.0f} s)"
    return (
        f"{seen}. A study plays thousands of episodes, each up to {number(limit)} steps. If episodes never end, cut "
        "them off earlier: --set play.step_limit=1000, for example."
    )


class _StillPlayingError(Exception):
    """An episode takes long."""


def _seconds_for(setup: Setup, unit: Unit, engine: Engine | None, time_limit: float | None) -> tuple[float, UnitResult]:
    if engine is None or time_limit is None:
        return _time_unit(setup, unit)
    episodes = f"seed {unit.seeds[0]}" if len(unit) == 1 else f"seeds {unit.seeds[0]} to {unit.seeds[-1]}"
    what = f"the episodes that tell how long a study takes, {episodes}"
    return run_within_limit(engine, _time_unit, setup, unit, time_limit, what)


def _time_unit(setup: Setup, unit: Unit) -> tuple[float, UnitResult]:
    """Play a unit, and return the seconds that it took and its episodes."""
    before = time.perf_counter()
    played = play_unit(setup, unit)
    return time.perf_counter() - before, played


def planned_episodes(settings: StudySettings, known: Known, *, collected: bool = False) -> dict[str, int]:
    """Return how many episodes each stage of a whole run plays.

    Parameters
    ----------
    settings
        The numbers.
    known
        How many rule sets there are, and how many of them look like weaknesses.
    collected
        Whether the experiences are there already.
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
    """Estimate the cost of a study or, with the number of its `rule_sets`, of the steps after mining.

    The number of findings is a guess. If all episodes have the same return, none are expected: usually this return is
    the maximum.
    """
    rate = rate or measure_rate(setup, engine=engine, time_limit=settings.time_limit or None)
    known = rule_sets if rule_sets is not None else RULES_PER_ACTION * setup.policy.n_actions
    evaluation = settings.evaluation
    most = evaluation.most_confirmed or known
    if evaluation.most_raced:
        known = min(known, evaluation.most_raced)
    references = 1 + min(setup.policy.n_actions, settings.references.most_constants)
    searched = round(search_budget(settings, setup.environment, known, rate.length) / rate.length)
    proposed = settings.search.proposed if "searched" in settings.sources else 0
    if rate.is_varied:
        mined = SHARE_OF_CANDIDATES * known
        candidates = round(
            (min(mined, most) if evaluation.most_raced else mined) + min(SHARE_OF_PROPOSED * proposed, most)
        )
        guess = Known(known + proposed, candidates, EXPLAINED_RULES, references, searched)
    else:
        guess = Known(known, 0, 0, references, searched)
    planned = planned_episodes(settings, guess, collected=rule_sets is not None)
    played = USUALLY_PLAYED if evaluation.method == "racing" else {}
    episodes = {name: round(played.get(name, 1.0) * n) for name, n in planned.items()}
    return Estimate(rate.episodes, episodes, engine.workers or 1)


def search_budget(settings: StudySettings, environment: EnvironmentSpec | Env, rule_sets: int, length: float) -> int:
    """Return the environment steps that the search of a study may take.

    Parameters
    ----------
    settings, environment
        Of the study.
    rule_sets
        How many there are without it.
    length
        Steps of an episode, on average.
    """
    if settings.search.budget:
        return settings.search.budget
    if is_native(environment):
        return NATIVE_SEARCH_STEPS
    known = Known(rule_sets, round(SHARE_OF_CANDIDATES * rule_sets), EXPLAINED_RULES)
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
