"""Whole episodes of anything that chooses actions, each with a seed of its own.

- `play_episodes`: plays a list of seeds in slots. Which episode runs where and when follows from the list alone, so
  the same list in the same number of slots gives the same bits.
- `Episodes`: how they went; `StepRecord`: what happened in one step.
- `Starts`: where they start, when that is not their beginning.
- `MissingCostError`: a cost that was asked for and never told.
- `episode_seeds`: numbers for episodes, such that different blocks never share one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch  # noqa: F401 (`one_thread` must find it, even if a policy would only import it in the first step)
from numpy.typing import NDArray

from legible.engines.threads import one_thread
from legible.environments import UnfitEnvironmentError, map_arrays
from legible.environments.spaces import Batch
from legible.errors import LegibleError
from legible.play.choosing import Chooser, Scores
from legible.play.slots import Slots
from legible.settings import STEP_LIMIT
from legible.streams import check_seed, key_of_seed


@dataclass(frozen=True)
class StepRecord:
    """What happened in one step of all slots; rows with ``episodes == -1`` were idle.

    Observations are what rules see, ``float32[n, features]``, and actions ``int64[n]``, in slots of any spaces what
    those say; `masks` are None where the environment has none. A policy without scores has scores without columns.
    `rows` are all that the policy was shown, where that is more than rules see.
    """

    episodes: NDArray[np.int64]
    steps: NDArray[np.int64]
    observations: Batch
    actions: NDArray[Any]
    scores: Scores
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None = None
    rows: Batch = None


@dataclass(frozen=True)
class Episodes:
    """How episodes went, in the order of their seeds.

    `success` is NaN where the environment does not tell, `costs` are 0 where no cost was asked for.
    """

    seeds: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    costs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seeds)


def play_episodes(
    slots: Slots,
    choose: Chooser,
    seeds: Sequence[int],
    *,
    step_limit: int = STEP_LIMIT,
    ask_idle: bool = True,
    starts: Starts | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> Episodes:
    """Play one episode for every seed.

    A slot that becomes free takes the next seed of the list, lowest slot first. Batches have all rows by default, busy
    or not, so that the shape that the policy sees never changes.

    Parameters
    ----------
    slots
        Where the episodes run.
    choose
        Chooses the actions.
    seeds
        A seed for every episode.
    step_limit
        An episode that is not over after this many steps is cut off, and counts as truncated.
    ask_idle
        Whether the chooser is asked about idle rows, too. Without them batches shrink towards the end, which only
        gives the same bits where the policy takes care of that (`legible.play.FixedRowsPolicy`).
    starts
        Where the episodes start when that is not their beginning (`legible.play.Branches`). Steps, returns and costs
        then go on from what they were there.
    on_step
        Called after every step with what happened in it.
    on_episode
        Called with the number of episodes that ended, whenever some did.
    """
    if step_limit < 1:
        raise LegibleError(f"step_limit must be at least 1, got {step_limit}.")
    checked = [check_seed(seed) for seed in seeds]
    too_large = next((seed for seed in checked if seed >= 2**63), None)
    if too_large is not None:
        raise LegibleError(f"the seed of an episode must be below 2⁶³, got {too_large}.")
    game = _Play(slots, checked, starts or _Beginnings(slots, len(seeds)), choose)
    with one_thread():
        while len(game.rows):
            if on_step is not None:
                rows = None if slots.n_features is None else slots.observations.copy()
                before = map_arrays(np.copy, slots.seen)
                masks = None if slots.masks is None else slots.masks.copy()
            actions, scores = _choose(game, choose, ask_idle=ask_idle)
            if on_step is not None:
                # Scores may be a view of the observations, which the step overwrites.
                scores = scores.copy()
            slots.step(actions, game.active)
            if on_step is not None:
                steps = game.steps.copy()
                earned, episodes = slots.rewards.copy(), game.episodes.copy()
                on_step(StepRecord(episodes, steps, before, actions, scores, earned, masks, rows))
            ended = game.advance(step_limit)
            if ended and on_episode is not None:
                on_episode(ended)
    if slots.cost_name and not slots.cost_seen:
        raise MissingCostError(f"a cost {slots.cost_name!r} was asked for, but the environment's infos never held it.")
    return game.result()


def _choose(game: _Play, choose: Chooser, *, ask_idle: bool) -> tuple[NDArray[Any], Scores]:
    """Actions and scores of all rows; where idle ones are not asked about, theirs are 0."""
    slots, rows = game.slots, game.rows
    if ask_idle or len(rows) == slots.n:
        return choose(slots.observations, game.episodes, game.steps)
    found = choose(map_arrays(lambda column: column[rows], slots.observations), game.episodes[rows], game.steps[rows])
    actions, scores = (np.zeros((slots.n, *part.shape[1:]), part.dtype) for part in found)
    actions[rows], scores[rows] = found
    return actions, scores


class MissingCostError(UnfitEnvironmentError):
    """A cost that was asked for and that the environment never tells."""


class Starts(Protocol):
    """Where episodes start: an entry an episode."""

    @property
    def steps(self) -> NDArray[np.int64]:
        """How many steps come before."""

    @property
    def returns(self) -> NDArray[np.float64]:
        """What they earned."""

    @property
    def costs(self) -> NDArray[np.float64]:
        """What they cost."""

    def start(self, rows: NDArray[np.intp], episodes: NDArray[np.int64], seeds: Sequence[int], choose: Chooser) -> None:
        """Bring rows to where the episodes with these numbers and seeds start, and the chooser's memory of them."""


class _Beginnings:
    """Episodes that start at their beginning."""

    def __init__(self, slots: Slots, n: int) -> None:
        self._slots = slots
        self.steps, self.returns, self.costs = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)

    def start(
        self,
        rows: NDArray[np.intp],
        episodes: NDArray[np.int64],  # noqa: ARG002 (all start alike)
        seeds: Sequence[int],
        choose: Chooser,  # noqa: ARG002 (what a policy remembers starts anew with step 0)
    ) -> None:
        self._slots.start(rows, seeds)


class _Play:
    """Bookkeeping of `play_episodes`: which slot plays which episode, and what came of it."""

    def __init__(self, slots: Slots, seeds: list[int], starts: Starts, choose: Chooser) -> None:
        total = len(seeds)
        self.slots, self.seeds, self.starts, self.choose = slots, seeds, starts, choose
        self.episodes = np.full(slots.n, -1, np.int64)
        self.steps = np.zeros(slots.n, np.int64)
        self.returns, self.lengths = starts.returns.copy(), np.zeros(total, np.int64)
        self.truncated, self.success = np.zeros(total, np.bool_), np.full(total, np.nan)
        self.costs = starts.costs.copy()
        self.rows = np.arange(slots.n)
        self.active = np.ones(slots.n, np.bool_)
        self._next = 0
        self._refill(self.rows)

    def _refill(self, rows: NDArray[np.intp]) -> None:
        """Give the next seeds to the rows, lowest first; rows for which none is left become idle."""
        fresh = rows[: len(self.seeds) - self._next]
        self.episodes[rows] = -1
        self.steps[rows] = 0
        if fresh.size:
            episodes = np.arange(self._next, self._next + fresh.size)
            self.episodes[fresh], self.steps[fresh] = episodes, self.starts.steps[episodes]
            self.starts.start(fresh, episodes, self.seeds[self._next : self._next + fresh.size], self.choose)
            self._next += fresh.size
        if fresh.size < rows.size:
            self.active = self.episodes >= 0
            self.rows = np.flatnonzero(self.active)

    def advance(self, step_limit: int) -> int:
        """Book the last step; returns how many episodes ended with it."""
        slots, rows = self.slots, self.rows
        playing, rewards = self.episodes[rows], slots.rewards[rows]
        if not np.isfinite(rewards).all():
            bad = int(np.argmin(np.isfinite(rewards)))
            raise UnfitEnvironmentError(
                f"the environment gave the reward {rewards[bad]} in step {self.steps[rows[bad]]} of the episode with "
                f"seed {self.seeds[playing[bad]]}; rewards must be finite numbers."
            )
        self.returns[playing] += rewards
        if slots.cost_name:
            self.costs[playing] += slots.cost[rows]
        self.steps[rows] += 1
        ends = slots.terminated[rows] | slots.truncated[rows] | (self.steps[rows] >= step_limit)
        over = rows[ends]
        if over.size:
            ended = self.episodes[over]
            self.lengths[ended] = self.steps[over]
            self.truncated[ended] = ~slots.terminated[over]
            self.success[ended] = slots.success[over]
            self._refill(over)
        return int(over.size)

    def result(self) -> Episodes:
        seeds = np.array(self.seeds, np.int64)
        return Episodes(seeds, self.returns, self.lengths, self.truncated, self.success, self.costs)


def episode_seeds(seed: int, first: int, count: int) -> list[int]:
    """Return seeds for the episodes ``first … first + count - 1`` of a study.

    They are consecutive numbers from an offset that depends on the study's seed, so two blocks of episodes that do not
    overlap never share a seed. All stay below 2³¹, which every environment accepts.
    """
    if first < 0 or count < 0 or first + count > 2**30:
        raise LegibleError(f"episodes {first} … {first + count} lie outside 0 … {2**30}.")
    offset = int(key_of_seed(np.uint64(check_seed(seed) % 2**64))) % 2**30
    return list(range(offset + first, offset + first + count))
