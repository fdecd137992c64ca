"""The steps of a study that split gains: of weaknesses (`split_weaknesses`), and of mistakes (`split_mistakes`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Verdict
from legible.evaluation.ledger import Courses, Ledger, courses_of, split_gain
from legible.evaluation.units import UNGUIDED, UnitResult, cut_into_units
from legible.mistakes import CHOICE_TAKEN, Mistakes, RolloutUnit, play_in_detail, points_of
from legible.mistakes.finding import MEASURED_AGAIN
from legible.mistakes.racing import SHOWN_FUTURES
from legible.study.mistakes import plan_search, play_rollout_units, rollout_setup

if TYPE_CHECKING:
    from legible.study.study import Study

STEP_SHARE, MISTAKE_SHARE = 0.08, 0.1
"""Largest shares of the steps of tests and composition, and of the search for mistakes, that are played again."""
Pair: TypeAlias = tuple[UnitResult, UnitResult]
_NO_REWARDS = np.zeros(0)


def split_weaknesses(study: Study) -> tuple[Ledger | None, ...]:
    """Return a ledger for every weakness: its gain split by ending, reward term and time; None if it was not confirmed.

    The split by time needs the rewards of single steps, which were not kept. So episodes that the rules changed are
    played again, of the strongest weaknesses first, as long as there are environment steps for them; unchanged episodes
    add nothing to a gain. Without these rewards a ledger has no split by time.
    """
    evaluation = study.evaluation
    steps_left = round(STEP_SHARE * (evaluation.steps + study.improvement.environment_steps))
    # Rewards of the unguided episodes that were played again, by episode: weaknesses share them.
    unguided_rewards: dict[int, NDArray[np.float64]] = {}
    ledgers: list[Ledger | None] = []
    for group in study.weaknesses:
        pair = evaluation.confirmation_pair(group.front)  # episodes of the rule set that stands for the weakness
        if pair is None:
            ledgers.append(None)
            continue
        base, guided = pair
        changed = np.flatnonzero((guided.changed > 0) | (guided.returns != base.returns))
        new_unguided = np.array([episode for episode in changed.tolist() if episode not in unguided_rewards], np.intp)
        cost = int(base.lengths[new_unguided].sum() + guided.lengths[changed].sum())
        # For every seed: unguided rewards, guided rewards, and the first step that differs.
        courses: list[Courses] = []
        # A failed episode would fail again, so without all episodes there is no split by time.
        if 0 < cost <= steps_left and not (base.failed | guided.failed).any():
            steps_left -= cost
            replayed = _play_again(study, group.front, new_unguided, changed, pair)
            if replayed is not None:
                unguided_rewards |= dict(zip(new_unguided.tolist(), replayed.unguided_rewards, strict=True))
                courses = [(_NO_REWARDS, _NO_REWARDS, 0)] * len(base)  # unchanged episodes stay so
                first_changed = np.full(len(base), -1, np.int64)  # -1: the rules change no step
                for episode, rewards, step in zip(
                    changed.tolist(), replayed.guided_rewards, replayed.first_changed, strict=True
                ):
                    first_changed[episode] = step
                    courses[episode] = (unguided_rewards[episode], rewards, step if step >= 0 else len(rewards))
                guided = replace(guided, first_changed=first_changed)
        ledgers.append(split_gain(base, guided, study.experiences.observations, study.experiences.space, courses))
    return tuple(ledgers)


class _Replayed(NamedTuple):
    """Rewards of single steps of episodes that were played again, and the first steps that guidance changed.

    `first_changed` belongs to the guided episodes; −1 if no action was changed.
    """

    unguided_rewards: list[NDArray[np.float64]]
    guided_rewards: list[NDArray[np.float64]]
    first_changed: list[int]


def _play_again(
    study: Study, verdict: Verdict, new: NDArray[np.intp], changed: NDArray[np.intp], pair: Pair
) -> _Replayed | None:
    """Return the rewards of single steps of episodes of a confirmation, which are played once more.

    None if rewards are too many to keep, or if returns differ from those before (`pair`: unguided and guided results).
    `new` are the numbers of the unguided episodes to play, and `changed` those of the episodes that the rule set of
    `verdict` guides.
    """
    blocks = study.evaluation.confirmation_blocks
    assert blocks is not None
    # With counted choices, results also hold the reward of every step (`course`) and the first changed steps.
    setup = replace(blocks.setup, treatments=(verdict.treatment,), count_choices=True)
    seeds = [blocks.seeds[episode] for episode in (*new.tolist(), *changed.tolist())]
    units = cut_into_units([UNGUIDED] * len(new) + [0] * len(changed), seeds, setup.play.unit_episodes)
    played = study.runner("ledger", of=len(seeds), keep=False)(setup, units, stage="ledger")
    base, guided = pair
    earlier_returns = np.concatenate([base.returns[new], guided.returns[changed]])
    if not played.course.size or not np.allclose(played.returns, earlier_returns):
        return None
    rewards = [row[:length] for row, length in zip(played.course, played.lengths.tolist(), strict=True)]
    return _Replayed(rewards[: len(new)], rewards[len(new) :], played.first_changed[len(new) :].tolist())


def split_mistakes(study: Study) -> tuple[Ledger | None, ...]:
    """Return a ledger for the largest mistakes, which are single decisions with a better choice, the largest first.

    A ledger splits the gain of the better choice by ending, reward term and time. The rollouts of both choices (plays
    from the state to the end) are repeated for that, in the same futures; a future is a seed of everything random after
    the state. None where a rollout failed.
    """
    search_result = study.mistakes
    planned = plan_search(study)  # a `Mistakes` says why no search is possible
    if isinstance(planned, Mistakes) or not search_result.listed:
        return ()
    runner, recorded = planned.runner, study.decisions
    index_of_row = {int(row): index for index, row in enumerate(planned.search.decisions.rows)}
    # Where nothing is random, or the environment cannot be reseeded, there is one future. Otherwise the futures of the
    # quoted figures are played again.
    is_single = search_result.is_exact or planned.way.futures == "cannot be reseeded"
    first, count = (0, 1) if is_single else (SHOWN_FUTURES, study.settings.mistakes.final_rollouts)
    # As many as the allowed environment steps suffice for, but at least one. Both choices play every future to the end.
    mistakes = search_result.listed[:MEASURED_AGAIN]
    lengths = recorded.lengths[recorded.episode_ids[[mistake.row for mistake in mistakes]]]
    is_affordable = np.cumsum(2.0 * count * lengths) <= MISTAKE_SHARE * search_result.steps_played
    mistakes = mistakes[: max(1, int(is_affordable.sum()))]
    # One piece of work per mistake: its state, the choice taken and the better one, and the futures.
    units = [
        RolloutUnit(
            points_of(recorded, np.array([mistake.row])),
            np.array([[CHOICE_TAKEN, mistake.better]]),
            np.array([runner.futures(index_of_row[mistake.row], first, count)]),
        )
        for mistake in mistakes
    ]
    ledgers: list[Ledger | None] = []
    for episodes in play_rollout_units(study, play_in_detail, rollout_setup(study), units, "ledger"):
        if episodes is None:  # a rollout failed
            ledgers.append(None)
            continue
        taken, better = episodes[:count], episodes[count:]  # rollouts are ordered by choice, then by future
        courses = courses_of(taken, better)
        states, space = recorded.observations, recorded.space
        ledgers.append(split_gain(taken, better, states, space, courses, is_exact=is_single))
    return tuple(ledgers)
