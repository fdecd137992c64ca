"""Selection of decisions of recorded episodes, and their alternatives.

- `Decisions`: decisions as columns; `choose_decisions`: a random sample, decisions before losses, and close ones.
- `other_choices`: for every decision the choice taken and all others; `forced_actions`: the actions that take them.

A choice is a number of ``FeatureSpace.actions``; `CHOICE_TAKEN` stands for the choice of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace, choices_of, move_to
from legible.play import Experiences, choice_space
from legible.policies import Policy
from legible.policies.protocol import MASKED

CHOICE_TAKEN = -1
# Mistakes are likely this many steps before the end of an episode that went badly.
STEPS_BEFORE_LOSS = 30
LOW_RETURNS = 0.25  # without success in the infos, the quarter with the lowest returns went badly
RANDOM_SHARE = 0.5  # of the decisions; the others are chosen where mistakes are likely


@dataclass(frozen=True)
class Decisions:
    """Decisions of recorded episodes, in their order."""

    rows: NDArray[np.int64]  # rows of the decisions in the experiences
    is_random: NDArray[np.bool_]  # whether a decision belongs to the random sample, from which shares are estimated

    def __len__(self) -> int:
        return len(self.rows)


def choose_decisions(experiences: Experiences, count: int, *, seed: int) -> Decisions:
    """Return the recorded steps to examine for mistakes, in the order of the recording.

    One half is a random sample, which allows estimates for all decisions. The other half is taken where mistakes are
    likely: shortly before the end of episodes that went badly (without success, or with one of the lowest returns), and
    where the policy's best two scores are close.

    Parameters
    ----------
    experiences
        The recorded episodes.
    count
        Maximum number of decisions (steps).
    seed
        Seed of the random draws.
    """
    rng = np.random.default_rng([seed, len(experiences)])
    n_steps = len(experiences)
    count = min(count, n_steps)
    random_sample = rng.permutation(n_steps)[: max(1, round(RANDOM_SHARE * count))]

    # Steps shortly before the end of bad episodes.
    likely_parts: list[NDArray[np.int64]] = []
    n_likely = count - len(random_sample)
    steps_to_end = experiences.lengths[experiences.episode_ids] - steps_of(experiences)
    before_losses = went_badly(experiences)[experiences.episode_ids] & (steps_to_end <= STEPS_BEFORE_LOSS)

    # Steps with a narrow margin between the best two choices, in any part of the action; four times as many as needed,
    # because some are drawn already.
    margins = np.full(n_steps, np.inf)
    for group in experiences.space.groups:
        if group.count > 1:
            scores = experiences.scores[:, group.choices]
            best_two = np.partition(np.where(scores == MASKED, -np.inf, scores), -2, axis=1)[:, -2:]
            with np.errstate(invalid="ignore"):  # blocked choices have a score of −∞
                margins = np.fmin(margins, best_two[:, 1] - best_two[:, 0])
    narrow_margins = np.argsort(margins, kind="stable")[: 4 * n_likely].astype(np.int64)

    # Half of the likely decisions are of each kind. None is taken twice.
    for rows, wanted_number in (
        (np.flatnonzero(before_losses), n_likely // 2),
        (narrow_margins, n_likely - n_likely // 2),
    ):
        unused = np.setdiff1d(rows, np.concatenate([random_sample, *likely_parts]))
        likely_parts.append(rng.permutation(unused)[:wanted_number])
    rows = np.concatenate([random_sample, *likely_parts]).astype(np.int64)
    order = np.argsort(rows)
    return Decisions(rows[order], (np.arange(len(rows)) < len(random_sample))[order])


def went_badly(experiences: Experiences) -> NDArray[np.bool_]:
    """Return which episodes had no success or, where success is not reported, one of the lowest returns."""
    if not np.isnan(experiences.success).all():
        return experiences.success == 0
    return experiences.returns <= np.quantile(experiences.returns, LOW_RETURNS)


def steps_of(experiences: Experiences) -> NDArray[np.int64]:
    """Return the number of steps before each row in its episode."""
    starts = np.cumsum(experiences.lengths) - experiences.lengths
    return np.arange(len(experiences)) - starts[experiences.episode_ids]


def count_choices_in(space: FeatureSpace) -> int:
    """Return the number of choices at a decision: the choice taken, and all others of each group."""
    return 1 + sum(group.count - 1 for group in space.groups)


def other_choices(
    space: FeatureSpace, taken: NDArray[np.int64], scores: NDArray[np.floating[Any]] | None = None
) -> NDArray[np.int64]:
    """Return the choices to compare at each decision, ``int64[decisions, choices]``.

    The first column is `CHOICE_TAKEN`, which stands for the choice that was taken; the others are the numbers of all
    other choices. If an action has several parts, each other choice changes one part (group).

    Parameters
    ----------
    space
        Features and choices.
    taken
        The choices that were taken: ``int64[decisions]``, or ``int64[decisions, groups]`` for actions of several parts.
    scores
        ``float[decisions, choices]``: the policy's scores. Choices that the action mask forbids are replaced by
        `CHOICE_TAKEN`, so that nothing else is compared in their place.
    """
    taken_by_group = taken.reshape(len(taken), len(space.groups))
    columns = [np.full((len(taken), 1), CHOICE_TAKEN)]
    for group, taken_choice in zip(space.groups, taken_by_group.T, strict=True):
        all_choices = np.tile(np.arange(group.first, group.first + group.count), (len(taken), 1))
        columns.append(all_choices[all_choices != taken_choice[:, None]].reshape(len(taken), group.count - 1))
    choices = np.hstack(columns).astype(np.int64)
    # MASKED is the score of choices that the action mask forbids.
    if scores is not None:
        forbidden = np.take_along_axis(scores, np.maximum(choices, 0), axis=1) == MASKED
        choices[forbidden] = CHOICE_TAKEN
    return choices


def forced_actions(policy: Policy, taken: NDArray[Any], choices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the actions that make given choices at recorded decisions, ``[decisions, choices]`` or ``[…, groups]``.

    If an action has several parts (groups), a choice changes one of them, to the policy's typical value in a continuous
    part, and leaves the others as they were.

    Parameters
    ----------
    policy
        The policy; for actions of several parts it knows their choices.
    taken
        The actions that were taken, as the environment received them: one number or row per decision.
    choices
        ``int64[decisions, choices]``: the numbers of the choices; `CHOICE_TAKEN` leaves the action unchanged.
    """
    space = choice_space(policy)
    if space is None:
        forced: NDArray[Any] = np.where(choices == CHOICE_TAKEN, taken[:, None], choices)
        return forced
    n_choices = choices.shape[1]
    taken_actions = np.repeat(taken, n_choices, axis=0)
    wanted_choices = choices_of(space.groups, taken_actions)
    for row, choice in enumerate(choices.ravel().tolist()):
        if choice != CHOICE_TAKEN:
            wanted_choices[row, space.group_of(choice)] = choice
    return move_to(space.groups, taken_actions, wanted_choices).reshape(*choices.shape, -1)
