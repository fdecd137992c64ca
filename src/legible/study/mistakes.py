"""The steps of a study that look for single decisions that cost most, and what rollouts of a study share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from legible.errors import LegibleError
from legible.evaluation import FailureLimit
from legible.hypotheses import DecisionGains
from legible.mistakes import (
    DecisionSearch,
    Mistakes,
    RolloutRunner,
    Rollouts,
    RolloutSetup,
    RolloutUnit,
    find_mistakes,
    plan_decisions,
)
from legible.mistakes.decisions import count_choices_in
from legible.mistakes.finding import EXACT_ROLLOUTS
from legible.play import BranchingMethod, Experiences
from legible.play.experiences import ExperienceSetup
from legible.play.runner import Pieces, run_units_or_pieces
from legible.study.collecting import collect_in_units
from legible.study.folder import UnitFiles
from legible.study.running import ProgressCount

if TYPE_CHECKING:
    from legible.study.study import Study

Unit = TypeVar("Unit", bound=RolloutUnit)
T = TypeVar("T")


def record_decisions(study: Study) -> Experiences:
    """Record the episodes whose decisions are looked at."""
    setup = ExperienceSetup.of(study.player(), study.environment, study.settings.play)
    found = collect_in_units(study, setup, "mistakes", episodes=study.settings.mistakes.episodes)
    return found if found.space.is_discrete else found.with_choices(study.space)


def decision_gains(study: Study) -> DecisionGains | None:
    """Return what other choices are worth at the decisions that were looked at; None where none could be."""
    found, planned = study.mistakes, plan_search(study)
    if isinstance(planned, Mistakes):
        return None
    one_future = planned.way.futures == "cannot be reseeded"
    count = 1 if one_future else EXACT_ROLLOUTS if found.is_exact else study.settings.mistakes.rollouts
    return planned.search.gains(planned.runner, count)


def rollout_setup(study: Study) -> RolloutSetup:
    """Return what all rollouts of a study share."""
    found = study.branching_method()
    if found.way is None:
        raise LegibleError(f"single decisions cannot be examined: {found.problem}")
    future: Any = "same" if found.futures == "cannot be reseeded" else "new"
    return RolloutSetup(study.player(), study.environment, found.way, future, study.settings.play)


def play_rollout_units(
    study: Study, play: Callable[[RolloutSetup, Unit], T], setup: RolloutSetup, units: Sequence[Unit], stage: str
) -> list[T | None]:
    """Return the result of every unit of rollouts, played on the engine of a study; None for a unit that failed.

    A unit that fails is played once more; it is not cut into smaller pieces.
    """
    results: list[T | None] = [None] * len(units)
    for index, found in run_units_or_pieces(
        play,
        setup,
        units,
        cut=lambda unit: Pieces(setup, [unit], [unit.points[0].seed]),
        engine=study.engine,
        time_limit=study.settings.time_limit or None,
        failures=FailureLimit(study.settings.most_failed, stage, len(units)),
        problem="rollouts failed",
    ):
        results[index] = found[0]
    return results


class _Search(NamedTuple):
    """Everything that the search for mistakes needs."""

    search: DecisionSearch
    runner: RolloutRunner
    way: BranchingMethod
    greedy: bool


def plan_search(study: Study) -> _Search | Mistakes:
    """Return a planned search for mistakes among recorded decisions, or a result that says why none is possible.

    A mistake is a single decision in which another choice is better. To find it, states are visited again and other
    choices are played from them (rollouts), in several futures: seeds of everything random after the state.
    """
    branching, settings = study.branching_method(), study.settings.mistakes
    if branching.way is None:
        return Mistakes(problem=f"single decisions cannot be examined: {branching.problem}")
    experiences, play = study.decisions, study.settings.play
    # One rollout per choice is enough where nothing is random after a state. Where random numbers cannot be changed, it
    # is all there is, and the results hold for the recorded episodes only.
    is_greedy = not play.sample and play.epsilon == 0
    is_exact = branching.futures == "cannot be reseeded" or (branching.futures == "nothing random" and is_greedy)
    choices = count_choices_in(experiences.space)
    count, problem = plan_decisions(experiences, settings, choices, way=branching.way, exact=is_exact)
    if problem:
        return Mistakes(branching=branching.way, problem=problem)
    # Draw the decisions, and prepare a runner that keeps finished rollouts in the folder of the study.
    search = DecisionSearch.plan(experiences, count, seed=study.seed)
    progress = ProgressCount(study.progress, "mistakes rollouts", 0)
    runner = RolloutRunner(
        rollout_setup(study),
        search.points,
        seed=study.seed,
        engine=study.engine,
        store=UnitFiles(study.folder / "rollouts", Rollouts),
        fingerprint=study.fingerprint,
        time_limit=study.settings.time_limit or None,
        failures=FailureLimit(study.settings.most_failed, "mistakes rollouts"),
        on_plan=progress.expect,
        on_rollouts=progress.add,
    )
    return _Search(search, runner, branching, is_greedy)


def look_for_mistakes(study: Study) -> Mistakes:
    """Look for single decisions in which another choice is proven better."""
    planned = plan_search(study)
    if isinstance(planned, Mistakes):
        return planned
    search, runner, way, greedy = planned
    settings, alpha = study.settings.mistakes, study.settings.evaluation.alpha
    mistakes = find_mistakes(
        search, runner, runner.futures, way, greedy=greedy, settings=settings, alpha=alpha, seed=study.seed
    )
    return replace(mistakes, steps_played=runner.steps_played)
