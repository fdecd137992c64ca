"""Which decisions of recorded episodes are looked at, and what else could have been done there.

- `Decisions`: decisions as columns; `choose_decisions`: a random sample, decisions before losses, and close ones.
- `other_choices`: for every decision what it did and all other choices; `forced_actions`: the actions that take them.

A choice is a number of ``FeatureSpace.actions``; `AS_IT_DID` stands for what the policy did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace, choices_of, move_to
from legible.play import Experiences
from legible.policies import ChoicePolicy, Policy

AS_IT_DID = -1
# Decisions this many steps before the end of an episode that went badly are looked at.
STEPS_BEFORE_LOSS = 30
LOW_RETURNS = 0.25  # episodes that went badly where the environment does not tell: the lowest quarter
RANDOM_SHARE = 0.5


@dataclass(frozen=True)
class Decisions:
    """Decisions of recorded episodes, in their order.

    Parameters
    ----------
    rows
        Their rows in the experiences.
    is_random
        Whether a decision belongs to the random sample, from which shares are estimated.
    """

    rows: NDArray[np.int64]
    is_random: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)


def choose_decisions(experiences: Experiences, count: int, *, seed: int) -> Decisions:
    """Choose decisions to look at: half a random sample, the others where mistakes are likely.

    Those are decisions shortly before the end of episodes that went badly (without success, or with one of the lowest
    returns), and decisions in which the best two scores were close.

    Parameters
    ----------
    experiences
        The recorded episodes.
    count
        How many decisions at most.
    seed
        Of what is drawn.
    """
    rng = np.random.default_rng([seed, len(experiences)])
    n = len(experiences)
    count = min(count, n)
    sample = rng.permutation(n)[: max(1, round(RANDOM_SHARE * count))]
    likely: list[NDArray[np.int64]] = []
    left = count - len(sample)
    to_the_end = experiences.lengths[experiences.episode_ids] - steps_of(experiences)
    before_losses = went_badly(experiences)[experiences.episode_ids] & (to_the_end <= STEPS_BEFORE_LOSS)
    close = _close(experiences, 4 * left)
    for rows, share in ((np.flatnonzero(before_losses), left // 2), (close, left - left // 2)):
        fresh = np.setdiff1d(rows, np.concatenate([sample, *likely]))
        likely.append(rng.permutation(fresh)[:share])
    rows = np.concatenate([sample, *likely]).astype(np.int64)
    order = np.argsort(rows)
    return Decisions(rows[order], (np.arange(len(rows)) < len(sample))[order])


def went_badly(experiences: Experiences) -> NDArray[np.bool_]:
    """Mark the episodes without success; where the environment does not tell, those with the lowest returns."""
    told = ~np.isnan(experiences.success)
    if told.any():
        return told & (experiences.success == 0)
    return experiences.returns <= np.quantile(experiences.returns, LOW_RETURNS)


def steps_of(experiences: Experiences) -> NDArray[np.int64]:
    """How many steps come before each row in its episode."""
    starts = np.cumsum(experiences.lengths) - experiences.lengths
    return np.arange(len(experiences)) - starts[experiences.episode_ids]


def _close(experiences: Experiences, count: int) -> NDArray[np.int64]:
    """The decisions in which the best two scores of a group were closest."""
    margins = np.full(len(experiences), np.inf)
    for group in experiences.space.groups:
        if group.count > 1:
            best = np.partition(experiences.scores[:, group.choices], -2, axis=1)[:, -2:]
            with np.errstate(invalid="ignore"):  # blocked choices have a score of −∞
                margins = np.fmin(margins, best[:, 1] - best[:, 0])
    return np.argsort(margins, kind="stable")[:count].astype(np.int64)


def choices_in(space: FeatureSpace) -> int:
    """How many choices a decision has: what was done, and in each group everything else."""
    return 1 + sum(group.count - 1 for group in space.groups)


def other_choices(space: FeatureSpace, taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for every decision `AS_IT_DID` and the other choices of each group, ``int64[decisions, choices]``.

    Parameters
    ----------
    space
        The choices.
    taken
        What was done: ``int64[decisions]``, or ``int64[decisions, groups]`` where an action takes one of each.
    """
    columns = taken.reshape(len(taken), len(space.groups))
    parts = [np.full((len(taken), 1), AS_IT_DID)]
    for group, done in zip(space.groups, columns.T, strict=True):
        every = np.tile(np.arange(group.first, group.first + group.count), (len(taken), 1))
        parts.append(every[every != done[:, None]].reshape(len(taken), group.count - 1))
    return np.hstack(parts).astype(np.int64)


def forced_actions(policy: Policy, taken: NDArray[Any], choices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the actions that take choices: of one group the typical action of the choice, all others as they were.

    Parameters
    ----------
    policy
        Knows what its choices are where an action is no single one.
    taken
        What was done, as the environment took it: an entry, or a row, a decision.
    choices
        ``int64[decisions, choices]``.
    """
    if not isinstance(policy, ChoicePolicy):
        forced: NDArray[Any] = np.where(choices == AS_IT_DID, taken[:, None], choices)
        return forced
    space, n = policy.space, choices.shape[1]
    done = np.repeat(taken, n, axis=0)
    wanted = choices_of(space.groups, done)
    for row, choice in enumerate(choices.ravel().tolist()):
        if choice != AS_IT_DID:
            wanted[row, space.group_of(choice)] = choice
    return move_to(space.groups, done, wanted).reshape(*choices.shape, -1)
