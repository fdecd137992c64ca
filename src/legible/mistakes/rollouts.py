"""Rollouts: take a choice at a decision, then follow the policy to the end of the episode.

- `RolloutSetup`: what all rollouts share; `RolloutUnit`: decisions with their choices and futures.
- `play_rollouts`: plays a unit, for engines; `Rollouts`: the results.
- `play_endings`: plays a unit and returns how its rollouts end; `play_in_detail`: also its reward terms and rewards.
- `record_futures`: records rollouts step by step, to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.environments import EnvironmentSpec
from legible.evaluation.ledger import find_reward_terms
from legible.evaluation.units import UnitResult
from legible.mistakes.decisions import forced_actions
from legible.play import (
    Branches,
    Future,
    Observations,
    Point,
    PolicyChooser,
    Recorder,
    Recording,
    Scores,
    StepRecord,
    Way,
    make_branching,
    make_slots,
    play_episodes,
)
from legible.policies import Policy
from legible.schemas import ROLLOUTS, check_arrays
from legible.settings import PlaySettings


@dataclass(frozen=True)
class RolloutSetup:
    """Everything that all rollouts share."""

    # Policy, environment and settings of play.
    policy: Policy
    environment: EnvironmentSpec
    way: Way  # how decisions are reached again (`legible.play.find_branching_method`)
    # "new": random numbers from the seeds of the futures; "same": the random numbers of the recorded episode.
    future: Future = "new"
    play: PlaySettings = field(default_factory=PlaySettings)
    hold: int = 1  # number of steps for which a given choice is repeated before the policy goes on


@dataclass(frozen=True)
class RolloutUnit:
    """Decisions with their choices and futures."""

    points: tuple[Point, ...]  # the decisions; the last of the actions of each is the one taken
    choices: NDArray[np.int64]  # ``int64[decisions, choices]``
    seeds: NDArray[np.int64]  # ``int64[decisions, rollouts]``: the futures, the same for all choices of a decision

    def __len__(self) -> int:
        return self.choices.size * self.seeds.shape[1]


class Rollouts(NamedTuple):
    """Results of rollouts: ``[decisions, choices, rollouts]``, NaN and 0 where a decision failed."""

    returns: NDArray[np.float64]
    steps: NDArray[np.int64]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, for a file."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Rollouts:
        """Read what `to_arrays` returned."""
        check_arrays(arrays, ROLLOUTS)
        return cls(arrays["returns"], arrays["steps"])


class _FirstChoice:
    """Chooser that takes a given choice at the decision and for `hold` steps in all, then follows the policy."""

    def __init__(self, policy: PolicyChooser, first: NDArray[np.int64], forced: NDArray[Any], hold: int) -> None:
        self._policy, self._hold = policy, hold
        # The last entries are for idle rows, whose episode is −1; no step of theirs comes before the largest integer.
        self._first = np.append(first, np.iinfo(np.int64).max - hold)
        self._forced = np.append(forced, forced[:1], axis=0)

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose for every row."""
        actions, scores = self._policy(observations, episodes, steps)
        first = self._first[episodes]
        is_forced = (steps >= first) & (steps < first + self._hold)
        if is_forced.any():
            actions = actions.copy()
            actions[is_forced] = self._forced[episodes[is_forced]]
        return actions, scores


def play_rollouts(setup: RolloutSetup, unit: RolloutUnit) -> Rollouts:
    """Play all rollouts of a unit."""
    shape = (*unit.choices.shape, unit.seeds.shape[1])
    played, _ = _play(setup, unit, keep=())
    starts = np.array([point.step for point in unit.points])  # steps before a decision are not played
    return Rollouts(played.returns.reshape(shape), played.lengths.reshape(shape) - starts[:, None, None])


def play_endings(setup: RolloutSetup, unit: RolloutUnit) -> NDArray[np.str_]:
    """Play all rollouts of a unit and return how they end, ``[decisions, choices, rollouts]``."""
    played, _ = _play(setup, unit, keep=())
    endings: NDArray[np.str_] = played.endings.reshape(*unit.choices.shape, unit.seeds.shape[1])
    return endings


def play_in_detail(setup: RolloutSetup, unit: RolloutUnit) -> UnitResult:
    """Play all rollouts of a unit and return their results with endings, reward terms and the reward of every step.

    A rollout returns to a decision, makes a choice there, and follows the policy to the end of the episode. Lengths,
    rewards and terms count from the decision on. The results are ordered by decision, then choice, then future.

    Parameters
    ----------
    setup
        Policy, environment and settings of play.
    unit
        The decisions, the choices to make at each, and the seeds of the futures.
    """
    # The step of the decision at which each rollout starts; a unit has the same number of rollouts per decision.
    starts = np.repeat([point.step for point in unit.points], len(unit) // len(unit.points))
    rewards: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def keep_rewards(step: StepRecord) -> None:
        rows = np.flatnonzero(step.episodes >= 0)
        rewards.append((step.episodes[rows], step.steps[rows], step.rewards[rows]))

    played, _ = _play(setup, unit, keep=(), on_step=keep_rewards)
    lengths = played.lengths - starts
    # The reward of every step after the decision: one row per rollout.
    course = np.zeros((len(unit), int(lengths.max())))
    for episodes, steps, step_rewards in rewards:
        course[episodes, steps - starts[episodes]] = step_rewards
    no_interventions = np.zeros(len(unit), np.int64)
    result = UnitResult(
        returns=played.returns,
        lengths=lengths,
        truncated=played.truncated,
        success=played.success,
        costs=played.costs,
        fired=no_interventions,
        changed=no_interventions,
        endings=played.endings,
        last=played.last,
        terms=played.terms,
        course=course,
    )
    # If the reward terms add up to the returns, both are of the whole episode. Otherwise terms are summed from the
    # decision on, and so must the returns be.
    return result if find_reward_terms(result) else replace(result, returns=course.sum(axis=1))


def record_futures(setup: RolloutSetup, unit: RolloutUnit) -> list[Recording]:
    """Play a unit and return its rollouts, from the decision on, in the order of decisions, choices and futures."""
    _, recordings = _play(setup, unit, keep=range(len(unit)))
    return recordings


def _play(
    setup: RolloutSetup, unit: RolloutUnit, keep: Sequence[int], on_step: Callable[[StepRecord], None] | None = None
) -> tuple[Any, list[Recording]]:
    """Play all rollouts of a unit, and return their results and the recordings of some.

    Results are ordered by decision, then choice, then future.

    Parameters
    ----------
    unit
        The decisions, the choices to make at each, and the seeds of the futures.
    keep
        The numbers of the rollouts to record.
    on_step
        Called with a record of every step, unless rollouts are recorded.
    """
    # For every rollout: the number of its decision, the step of the decision, and the action to take there.
    n_decisions, n_choices = unit.choices.shape
    n_futures = unit.seeds.shape[1]
    decision_of_rollout = np.repeat(np.arange(n_decisions), n_choices * n_futures)
    steps = np.array([point.step for point in unit.points], np.int64)[decision_of_rollout]
    taken_actions = np.array([point.actions[point.step] for point in unit.points])
    forced = forced_actions(setup.policy, taken_actions, unit.choices).reshape(-1, *taken_actions.shape[1:])
    # A new future has the same seed for all choices of a decision; otherwise the recorded episode's seed continues.
    if setup.future == "new":
        seeds = np.repeat(unit.seeds[:, None, :], n_choices, axis=1).ravel().tolist()
    else:
        seeds = [unit.points[i].seed for i in decision_of_rollout.tolist()]

    # Save the state of every decision, and play each rollout from a copy of it: the given choice, then the policy.
    slots = make_slots(
        setup.environment, min(setup.play.batch, len(seeds)), endings=setup.play.endings, terms=setup.play.terms
    )
    recorder = Recorder(keep)
    try:
        branching = make_branching(slots, setup.way)
        states = branching.visit(unit.points)
        branches = Branches(branching, states, decision_of_rollout, steps, future=setup.future)
        policy = PolicyChooser(setup.policy, seeds, epsilon=setup.play.epsilon, sample=setup.play.sample)
        chooser = _FirstChoice(policy, steps, np.repeat(forced, n_futures, axis=0), setup.hold)
        played = play_episodes(
            slots,
            chooser,
            seeds,
            step_limit=setup.play.step_limit,
            starts=branches,
            on_step=recorder if keep else on_step,
        )
    finally:
        slots.close()
    return played, recorder.recordings(seeds) if keep else []
