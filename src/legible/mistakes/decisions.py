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
RANDOM_SHARE = 0.5


@dataclass(frozen=True)
class Decisions:
    """Decisions of recorded episodes, in their order.

    Parameters
    ----------
    rows
        Rows of the decisions in the experiences.
    is_random
        Whether a decision belongs to the random sample, from which shares are estimated.
    """

    rows: NDArray[np.int64]
    is_random: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)


def choose_decisions(experiences: Experiences, count: int, *, seed: int) -> Decisions:
    """Choose decisions to examine: one half a random sample, the other half where mistakes are likely.

    Mistakes are likely shortly before the end of episodes that went badly (without success, or with one of the lowest
    returns), and where the best two scores are close.

    Parameters
    ----------
    experiences
        The recorded episodes.
    count
        Maximum number of decisions.
    seed
        Seed of the random draws.
    """
    rng = np.random.default_rng([seed, len(experiences)])
    n = len(experiences)
    count = min(count, n)
    sample = rng.permutation(n)[: max(1, round(RANDOM_SHARE * count))]
    likely: list[NDArray[np.int64]] = []
    left = count - len(sample)
    to_the_end = experiences.lengths[experiences.episode_ids] - steps_of(experiences)
    before_losses = went_badly(experiences)[experiences.episode_ids] & (to_the_end <= STEPS_BEFORE_LOSS)
    margins = np.full(n, np.inf)
    for group in experiences.space.groups:
        if group.count > 1:
            scores = experiences.scores[:, group.choices]
            best = np.partition(np.where(scores == MASKED, -np.inf, scores), -2, axis=1)[:, -2:]
            with np.errstate(invalid="ignore"):  # blocked choices have a score of −∞
                margins = np.fmin(margins, best[:, 1] - best[:, 0])
    close = np.argsort(margins, kind="stable")[: 4 * left].astype(np.int64)
    for rows, share in ((np.flatnonzero(before_losses), left // 2), (close, left - left // 2)):
        unused = np.setdiff1d(rows, np.concatenate([sample, *likely]))
        likely.append(rng.permutation(unused)[:share])
    rows = np.concatenate([sample, *likely]).astype(np.int64)
    order = np.argsort(rows)
    return Decisions(rows[order], (np.arange(len(rows)) < len(sample))[order])


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
    """Return for every decision `CHOICE_TAKEN` and the other choices of each group, ``int64[decisions, choices]``.

    Parameters
    ----------
    space
        Features and choices.
    taken
        Choices taken: ``int64[decisions]``, or ``int64[decisions, groups]`` where an action takes one of each group.
    scores
        Scores of all choices at the decisions. `CHOICE_TAKEN` stands in the place of choices that are masked.
    """
    columns = taken.reshape(len(taken), len(space.groups))
    parts = [np.full((len(taken), 1), CHOICE_TAKEN)]
    for group, done in zip(space.groups, columns.T, strict=True):
        every = np.tile(np.arange(group.first, group.first + group.count), (len(taken), 1))
        parts.append(every[every != done[:, None]].reshape(len(taken), group.count - 1))
    choices = np.hstack(parts).astype(np.int64)
    if scores is not None:
        forbidden = np.take_along_axis(scores, np.maximum(choices, 0), axis=1) == MASKED
        choices[forbidden] = CHOICE_TAKEN
    return choices


def forced_actions(policy: Policy, taken: NDArray[Any], choices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the actions that take choices: the typical action in the group of the choice, the same in other groups.

    Parameters
    ----------
    policy
        The policy, which knows its choices where an action consists of several.
    taken
        Actions taken, as the environment received them: one entry or row per decision.
    choices
        ``int64[decisions, choices]``.
    """
    space = choice_space(policy)
    if space is None:
        forced: NDArray[Any] = np.where(choices == CHOICE_TAKEN, taken[:, None], choices)
        return forced
    n = choices.shape[1]
    done = np.repeat(taken, n, axis=0)
    wanted = choices_of(space.groups, done)
    for row, choice in enumerate(choices.ravel().tolist()):
        if choice != CHOICE_TAKEN:
            wanted[row, space.group_of(choice)] = choice
    return move_to(space.groups, done, wanted).reshape(*choices.shape, -1)
