"""The steps of a study that split gains: of weaknesses, and of single mistakes.

- `split_weaknesses`: plays the changed episodes of the confirmation once more, to know when their rewards differ.
- `split_mistakes`: plays the futures of the largest mistakes once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Verdict
from legible.evaluation.ledger import Courses, Ledger, courses_of, split_gain
from legible.evaluation.units import UNGUIDED, UnitResult, cut_into_units
from legible.mistakes import CHOICE_TAKEN, Mistake, Mistakes, RolloutUnit, play_in_detail, points_of
from legible.mistakes.finding import MEASURED_AGAIN
from legible.mistakes.racing import SHOWN_FUTURES
from legible.play import Experiences
from legible.play.failures import FailureLimit
from legible.play.runner import Pieces, run_units_or_pieces
from legible.study.mistakes import plan_search, rollout_setup

if TYPE_CHECKING:
    from legible.study.study import Study

STEP_SHARE, MISTAKE_SHARE = 0.08, 0.1
"""Largest shares of the steps of tests and composition, and of the search for mistakes, that are played again."""
Pair: TypeAlias = tuple[UnitResult, UnitResult]
_NO_REWARDS = np.zeros(0)


def split_weaknesses(study: Study) -> tuple[Ledger | None, ...]:
    """Return where the gains of the weaknesses come from, in their order; None where they were not played.

    Seeds on which nothing changes add nothing, so only the others are played again, of the strongest weaknesses first.
    """
    evaluation = study.evaluation
    left = round(STEP_SHARE * (evaluation.steps + study.improvement.environment_steps))
    unguided: dict[int, NDArray[np.float64]] = {}  # rewards of the unguided episodes that were played again
    ledgers: list[Ledger | None] = []
    for group in study.weaknesses:
        pair = evaluation.confirmation_pair(group.front)
        if pair is None:
            ledgers.append(None)
            continue
        base, guided = pair
        changed = np.flatnonzero((guided.changed > 0) | (guided.returns != base.returns))
        new = np.array([episode for episode in changed.tolist() if episode not in unguided], np.intp)
        cost = int(base.lengths[new].sum() + guided.lengths[changed].sum())
        courses: list[Courses] = []
        if 0 < cost <= left and not (base.failed | guided.failed).any():
            left -= cost
            found = _play_again(study, group.front, new, changed, pair)
            if found is not None:
                unguided |= dict(zip(new.tolist(), found[0], strict=True))
                courses = [(_NO_REWARDS, _NO_REWARDS, 0)] * len(base)
                first = np.full(len(base), -1, np.int64)
                for episode, rewards, step in zip(changed.tolist(), *found[1:], strict=True):
                    first[episode] = step
                    courses[episode] = (unguided[episode], rewards, step if step >= 0 else len(rewards))
                guided = replace(guided, first_changed=first)
        ledgers.append(split_gain(base, guided, study.experiences.observations, study.experiences.space, courses))
    return tuple(ledgers)


def _play_again(
    study: Study, verdict: Verdict, new: NDArray[np.intp], changed: NDArray[np.intp], pair: Pair
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]], list[int]] | None:
    """Play `new` unguided and all `changed` guided episodes of a confirmation once more.

    Return the rewards of both, and the first changed steps; None if rewards are too many to keep, or other than before.
    """
    blocks = study.evaluation.confirmation_blocks
    assert blocks is not None
    setup = replace(blocks.setup, treatments=(verdict.treatment,), count_choices=True)
    seeds = [blocks.seeds[episode] for episode in (*new.tolist(), *changed.tolist())]
    units = cut_into_units([UNGUIDED] * len(new) + [0] * len(changed), seeds, setup.play.unit_episodes)
    played = study.runner("ledger", of=len(seeds), keep=False)(setup, units, stage="ledger")
    known = np.concatenate([pair[0].returns[new], pair[1].returns[changed]])
    if not played.course.size or not np.allclose(played.returns, known):
        return None
    rewards = [row[:length] for row, length in zip(played.course, played.lengths.tolist(), strict=True)]
    return rewards[: len(new)], rewards[len(new) :], played.first_changed[len(new) :].tolist()


def split_mistakes(study: Study) -> tuple[Ledger | None, ...]:
    """Return where the gains of the largest mistakes come from, in the order of `Mistakes.listed`."""
    found = study.mistakes
    planned = plan_search(study)
    if isinstance(planned, Mistakes) or not found.listed:
        return ()
    runner, seen = planned.runner, study.decisions
    places = {int(row): place for place, row in enumerate(planned.search.decisions.rows)}
    is_single = found.is_exact or planned.way.futures == "cannot be reseeded"
    first, count = (0, 1) if is_single else (SHOWN_FUTURES, study.settings.mistakes.final_rollouts)
    mistakes = _within(found.listed[:MEASURED_AGAIN], seen, count, MISTAKE_SHARE * found.steps_played)
    units = [
        RolloutUnit(
            points_of(seen, np.array([mistake.row])),
            np.array([[CHOICE_TAKEN, mistake.better]]),
            np.array([runner.futures(places[mistake.row], first, count)]),
        )
        for mistake in mistakes
    ]
    setup = rollout_setup(study)
    results: list[Ledger | None] = [None] * len(units)
    for number, parts in run_units_or_pieces(
        play_in_detail,
        setup,
        units,
        cut=lambda unit: Pieces(setup, [unit], [unit.points[0].seed]),
        engine=study.engine,
        time_limit=study.settings.time_limit or None,
        failures=FailureLimit(study.settings.most_failed, "ledger", len(units)),
        problem="rollouts failed",
    ):
        result = parts[0]
        if result is not None:
            taken, better = result[:count], result[count:]
            courses = courses_of(taken, better)
            results[number] = split_gain(taken, better, seen.observations, seen.space, courses, is_exact=is_single)
    return tuple(results)


def _within(mistakes: Sequence[Mistake], seen: Experiences, count: int, steps: float) -> list[Mistake]:
    """Return the first mistakes whose futures take no more than a number of steps, at least one of them."""
    to_the_end = seen.lengths[seen.episode_ids[[mistake.row for mistake in mistakes]]]
    cost = np.cumsum(2.0 * count * to_the_end)
    return list(mistakes[: max(1, int((cost <= steps).sum()))])
