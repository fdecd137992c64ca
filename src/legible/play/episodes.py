"""Playing one episode for each of a list of seeds.

- `play_episodes`: plays seeds in slots. The list alone decides which episode runs where and when, so the same list in
  the same number of slots gives the same bits.
- `Episodes`: the results; `StepRecord`: one step of all slots.
- `Starts`: where episodes start, if not at their beginning.
- `MissingCostError`: a requested cost that the environment never reports.
- `episode_seeds`: seeds of episodes; disjoint blocks never share a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from legible.engines.threads import one_thread
from legible.environments import Ending, UnfitEnvironmentError, map_arrays
from legible.environments.faults import reward_fault
from legible.environments.reward_terms import Terms, as_table
from legible.environments.spaces import Batch
from legible.errors import LegibleError
from legible.imports import njit_uncounted
from legible.play.choosing import Chooser, Scores
from legible.play.slots import Slots
from legible.settings import STEP_LIMIT
from legible.streams import check_seed, key_of_seed

MAX_LAST_FEATURES = 256
MAX_COURSE = 5_000_000
"""Largest number of rewards, steps times episodes, that are kept of the episodes of a unit."""
_FIRST_COURSE = 64  # columns for the rewards of steps at first; there are more once an episode needs them


class MissingCostError(UnfitEnvironmentError):
    """A requested cost that the environment never reports."""


@dataclass(frozen=True)
class StepRecord:
    """One step of all slots; rows with ``episodes == -1`` were idle.

    `observations` are what rules see, ``float32[n, features]``, and `actions` are ``int64[n]``; slots of any spaces
    keep their types. `masks` are None if the environment has none. Scores have no columns if the policy has no scores.
    `rows` is the full input of the policy, if that is more than rules see.
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
    """Results of episodes, in the order of their seeds.

    `success` is NaN if the environment does not report it; `costs` are 0 if no cost was requested. `endings` are texts
    (`legible.environments.Ending`). `last` are the last observations of episodes whose ending is "other", NaN for the
    others; no columns where there are none, or where an observation has more than `MAX_LAST_FEATURES` numbers.
    `terms` are totals of reward terms, or of other numbers in the infos (`legible.environments.reward_terms.Terms`).
    `course` is the reward of every step, followed by zeros; no columns unless it was requested.
    """

    seeds: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    costs: NDArray[np.float64]
    endings: NDArray[np.str_]
    last: NDArray[np.float32]
    terms: Terms
    course: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seeds)


class Starts(Protocol):
    """Starting points of episodes, one entry per episode."""

    @property
    def steps(self) -> NDArray[np.int64]:
        """Number of steps before the start."""

    @property
    def returns(self) -> NDArray[np.float64]:
        """Return of these steps."""

    @property
    def costs(self) -> NDArray[np.float64]:
        """Cost of these steps."""

    def start(self, rows: NDArray[np.intp], episodes: NDArray[np.int64], seeds: Sequence[int], choose: Chooser) -> None:
        """Bring rows, and the chooser's memory of them, to the starts of the episodes with these numbers and seeds."""


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
    keep_course: bool = False,
) -> Episodes:
    """Play one episode for every seed, several at a time, and return their results in the order of the seeds.

    A slot that becomes free takes the next seed of the list, lowest slot first. By default the chooser is asked about
    all slots, busy or idle, so that the batch shape never changes.

    Parameters
    ----------
    slots
        The environments in which the episodes run; slot i is row i of all arrays of a step.
    choose
        Function that returns the actions and scores of a batch of observations, such as a `PolicyChooser`.
    seeds
        A seed for every episode.
    step_limit
        Number of steps after which an episode is cut off; it then counts as truncated.
    ask_idle
        Also ask the chooser about idle rows. Otherwise batches shrink towards the end, and the results are the same to
        the bit only if the policy ensures that (`legible.play.AdaptedPolicy`).
    starts
        Where the episodes start, if not at their beginning (`legible.play.Branches`). Steps, returns and costs then
        continue from their values there.
    on_step, on_episode
        Called with a record of every step, and with the number of episodes that ended in a step, if any did.
    keep_course
        Whether to keep the reward of every step in `Episodes.course`. It is not kept if it would be too much
        (`MAX_COURSE`) or if episodes do not start at their beginning.
    """
    if step_limit < 1:
        raise LegibleError(f"step_limit must be at least 1, got {step_limit}.")
    checked_seeds = [check_seed(seed) for seed in seeds]
    too_large = next((seed for seed in checked_seeds if seed >= 2**63), None)
    if too_large is not None:
        raise LegibleError(f"the seed of an episode must be below 2⁶³, got {too_large}.")
    import torch  # noqa: F401, PLC0415 (`one_thread` must find it, even if a policy imports it in the first step)

    play = _Play(slots, checked_seeds, starts, choose, keep_course=keep_course and starts is None)
    with one_thread():
        while len(play.rows):
            # Copies for the record, because the step overwrites the arrays: the policy's full input, if it is more than
            # what rules see, the observations that rules see, and the action masks.
            if on_step is not None:
                policy_inputs = None if slots.n_features is None else slots.observations.copy()
                observations = map_arrays(np.copy, slots.seen)
                masks = None if slots.masks is None else slots.masks.copy()
            actions, scores = play.choose_actions(ask_idle=ask_idle)
            if on_step is not None:
                # Scores may be a view of the observations, which the step overwrites.
                scores = scores.copy()
            slots.step(actions, play.active)

            # Report the step, then count it: `advance` starts new episodes in slots whose episode ended.
            if on_step is not None:
                steps = play.steps.copy()
                rewards, episodes = slots.rewards.copy(), play.episodes.copy()
                on_step(StepRecord(episodes, steps, observations, actions, scores, rewards, masks, policy_inputs))
            n_ended = play.advance(step_limit)
            if n_ended and on_episode is not None:
                on_episode(n_ended)

    if slots.cost_name and not slots.cost_seen:
        raise MissingCostError(f"the environment's infos never contain the requested cost {slots.cost_name!r}.")
    return Episodes(
        seeds=np.array(checked_seeds, np.int64),
        returns=play.returns,
        lengths=play.lengths,
        truncated=play.truncated,
        success=play.success,
        costs=play.costs,
        endings=np.array(play.endings, np.str_),
        last=play.last,
        terms=as_table(play.terms),
        course=play.course[:, : play.lengths.max(initial=0)].copy(),
    )


@njit_uncounted
def _count_step(
    rows: NDArray[np.intp],
    episodes: NDArray[np.int64],
    rewards: NDArray[np.float64],
    cost: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    step_limit: int,
    steps: NDArray[np.int64],
    returns: NDArray[np.float64],
    costs: NDArray[np.float64],
    course: NDArray[np.float64],
    ended: NDArray[np.int64],
) -> int:
    """Count a step of the busy rows, write the rows whose episodes ended to `ended`, and return their number.

    If a reward is not finite, nothing is counted, and the place of its row in `rows` is returned, counted from the end
    (-1: the last one), so that the caller can raise an error that names the episode.

    - `rows`: the busy rows; `episodes` and `steps`: the number of the episode in each row, and its steps so far.
    - `returns`, `costs`: sums, one per episode, to which the step is added.
    - `course`: rewards ``[episodes, steps]``; without columns if those of single steps are not kept.
    """
    for i in range(rows.size):
        if not np.isfinite(rewards[rows[i]]):
            return i - rows.size
    n_ended = 0
    for row in rows:
        if course.shape[1]:
            course[episodes[row], steps[row]] = rewards[row]
        steps[row] += 1
        returns[episodes[row]] += rewards[row]
        costs[episodes[row]] += cost[row]
        if terminated[row] or truncated[row] or steps[row] >= step_limit:
            ended[n_ended] = row
            n_ended += 1
    return n_ended


class _Play:
    """Bookkeeping of `play_episodes`: which slot plays which episode, and the results."""

    def __init__(
        self, slots: Slots, seeds: list[int], starts: Starts | None, choose: Chooser, *, keep_course: bool
    ) -> None:
        total = len(seeds)
        self.course, self._keep_course = np.zeros((total, 0)), keep_course
        self.slots, self.seeds, self.starts, self.choose = slots, seeds, starts, choose
        self.episodes = np.full(slots.n, -1, np.int64)
        self.steps = np.zeros(slots.n, np.int64)
        self.returns = np.zeros(total) if starts is None else starts.returns.copy()
        self.costs = np.zeros(total) if starts is None else starts.costs.copy()
        self.lengths, self.success = np.zeros(total, np.int64), np.full(total, np.nan)
        self.truncated = np.zeros(total, np.bool_)
        self.terms: list[Mapping[str, float]] = [{}] * total
        self.endings, self.last = [""] * total, np.zeros((total, 0), np.float32)
        self.rows, self._ended = np.arange(slots.n), np.zeros(slots.n, np.int64)
        self.active = np.ones(slots.n, np.bool_)
        self._next = 0
        self._refill(self.rows)

    def _refill(self, rows: NDArray[np.intp]) -> None:
        """Give the next seeds to the rows, lowest first; rows without a seed become idle."""
        filled = rows[: len(self.seeds) - self._next]
        self.episodes[rows] = -1
        self.steps[rows] = 0
        if filled.size:
            episodes = np.arange(self._next, self._next + filled.size)
            seeds = self.seeds[self._next : self._next + filled.size]
            self.episodes[filled] = episodes
            if self.starts is None:
                self.slots.start(filled, seeds)
            else:
                self.steps[filled] = self.starts.steps[episodes]
                self.starts.start(filled, episodes, seeds, self.choose)
            self._next += filled.size
        if filled.size < rows.size:
            self.active = self.episodes >= 0
            self.rows = np.flatnonzero(self.active)

    def choose_actions(self, *, ask_idle: bool) -> tuple[NDArray[Any], Scores]:
        """Return actions and scores of all rows; zeros for idle rows that the chooser is not asked about."""
        slots, rows = self.slots, self.rows
        if ask_idle or len(rows) == slots.n:
            return self.choose(slots.observations, self.episodes, self.steps)
        observations = map_arrays(lambda column: column.take(rows, axis=0), slots.observations)
        chosen = self.choose(observations, self.episodes[rows], self.steps[rows])
        actions, scores = (np.zeros((slots.n, *part.shape[1:]), part.dtype) for part in chosen)
        actions[rows], scores[rows] = chosen
        return actions, scores

    def advance(self, step_limit: int) -> int:
        """Count the step that was just taken, start new episodes where one ended, and return how many ended."""
        slots = self.slots
        if self._keep_course:
            self._widen_course()  # room for the rewards of this step
        n_ended = _count_step(
            self.rows,
            self.episodes,
            np.asarray(slots.rewards, np.float64),
            np.asarray(slots.cost, np.float64),
            np.asarray(slots.terminated, np.bool_),
            np.asarray(slots.truncated, np.bool_),
            step_limit,
            self.steps,
            self.returns,
            self.costs,
            self.course,
            self._ended,
        )
        if n_ended < 0:  # a reward that is not finite, of this row counted from the end
            row = self.rows[n_ended]
            reward, seed = float(slots.rewards[row]), self.seeds[self.episodes[row]]
            raise UnfitEnvironmentError(reward_fault(reward, seed, int(self.steps[row])))

        # Store the results of the episodes that ended, and give their rows the next seeds.
        if n_ended:
            ended_rows = self._ended[:n_ended].copy()
            ended_episodes = self.episodes[ended_rows]
            self.lengths[ended_episodes] = self.steps[ended_rows]
            self.truncated[ended_episodes] = ~slots.terminated[ended_rows]
            self.success[ended_episodes] = slots.success[ended_rows]
            for row, episode in zip(ended_rows.tolist(), ended_episodes.tolist(), strict=True):
                total, steps = float(self.returns[episode]), int(self.steps[row])
                self.endings[episode], self.terms[episode] = slots.outcome(row, total, steps)
                # The last observation helps the user to describe an ending that legible does not know.
                if Ending.parse(self.endings[episode]).kind == "other":
                    self._keep_last(episode, slots.seen, row)
            self._refill(ended_rows)
        return n_ended

    def _widen_course(self) -> None:
        """Make room for the rewards of the step that was just taken; keep none if they would be too many."""
        n_episodes, width = self.course.shape
        needed, most = int(self.steps.max()) + 1, MAX_COURSE // n_episodes
        if needed > most:
            self.course, self._keep_course = np.zeros((n_episodes, 0)), False
        elif needed > width:
            wider = np.zeros((n_episodes, min(most, max(_FIRST_COURSE, 2 * width))))
            wider[:, :width] = self.course
            self.course = wider

    def _keep_last(self, episode: int, seen: Any, row: int) -> None:
        """Keep the last observation of an episode, by which unknown endings are grouped."""
        if not isinstance(seen, np.ndarray) or seen.ndim != 2 or seen.shape[1] > MAX_LAST_FEATURES:
            return
        if not self.last.size:
            self.last = np.full((len(self.seeds), seen.shape[1]), np.nan, np.float32)
        self.last[episode] = seen[row]


def episode_seeds(seed: int, first: int, count: int) -> list[int]:
    """Return seeds for the episodes ``first … first + count - 1`` of a study.

    They are consecutive numbers from an offset that depends on the study's seed, so blocks of episodes that do not
    overlap never share a seed. All are below 2³¹, which every environment accepts.
    """
    if first < 0 or count < 0 or first + count > 2**30:
        raise LegibleError(f"episodes {first} … {first + count} lie outside 0 … {2**30}.")
    offset = int(key_of_seed(np.uint64(check_seed(seed) % 2**64))) % 2**30
    return list(range(offset + first, offset + first + count))
