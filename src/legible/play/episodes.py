"""Whole episodes of anything that chooses actions, over any Gymnasium environment, one seed an episode.

- `make_slots`: a fixed number of places in which episodes run side by side.
- `play_episodes`: plays a list of seeds in those places. Which episode runs where and when follows from the list alone,
  so the same list in the same number of places gives the same bits.
- `choose_actions`: from scores to actions: the best one, ε-greedy, or sampled.
- `episode_seeds`: numbers for episodes, such that different blocks never share one.
- `check_policy`: whether a policy and an environment belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numba import njit
from numpy.typing import NDArray

from legible.environments import (
    Env,
    EnvironmentSpec,
    ObservationEncoder,
    UnfitEnvironmentError,
    as_environment,
    count_actions,
    first_action,
)
from legible.errors import LegibleError
from legible.policies import Policy
from legible.policies.protocol import as_scores
from legible.settings import STEP_LIMIT
from legible.streams import check_seed, key_of_seed, policy_keys, uniform

Observations = NDArray[np.float32]
Scores = NDArray[np.floating[Any]]
DEFAULT_BATCH = 256


class Slots(Protocol):
    """Places in which episodes run side by side. Rows of idle places hold whatever was there last."""

    n: int
    n_actions: int
    observations: Observations
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    success: NDArray[np.float64]
    cost: NDArray[np.float64]
    cost_name: str
    cost_seen: bool

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""

    def step(self, actions: NDArray[np.int64], active: NDArray[np.bool_]) -> None:
        """Take a step in every active row and fill the arrays; `success` where an episode says so at its end."""

    def close(self) -> None:
        """Close what was opened."""


class _SlotArrays:
    """The arrays that both kinds of slots fill."""

    def __init__(self, n: int, width: int, n_actions: int, cost_name: str) -> None:
        self.n = n
        self.n_actions = n_actions
        self.observations: Observations = np.zeros((n, width), np.float32)
        self.rewards = np.zeros(n, np.float64)
        self.terminated = np.zeros(n, np.bool_)
        self.truncated = np.zeros(n, np.bool_)
        self.success = np.full(n, np.nan)
        self.cost = np.zeros(n, np.float64)
        self.cost_name = cost_name
        self.cost_seen = False


class BatchSlots(_SlotArrays):
    """Slots in a native vector environment; idle ones are stepped along, which costs less than leaving them out."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], cost_name: str = "") -> None:
        self._encoder = ObservationEncoder.of(envs.single_observation_space)
        super().__init__(envs.num_envs, self._encoder.width, count_actions(envs.single_action_space), cost_name)
        self._envs = envs
        self._first_action = first_action(envs.single_action_space)
        self._begin(np.ones(self.n, np.bool_), [0] * self.n)

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""
        mask = np.zeros(self.n, np.bool_)
        mask[rows] = True
        all_seeds: list[int | None] = [None] * self.n
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            all_seeds[row] = seed
        self._begin(mask, all_seeds)

    def _begin(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> None:
        # Gymnasium types `seed` as a single int; its own vector environments take lists, as `make_batch` demands.
        every_seed: Any = list(seeds)
        observations, _ = self._envs.reset(seed=every_seed, options={"reset_mask": mask})
        self.observations = self._encoder.encode(observations)

    def step(self, actions: NDArray[np.int64], active: NDArray[np.bool_]) -> None:
        """Take a step in every row; an idle one whose episode is over starts another that nobody watches."""
        idle_and_over = ~active & (self.terminated | self.truncated)
        if idle_and_over.any():
            self._begin(idle_and_over, [0] * self.n)
        stepped = self._envs.step(actions + self._first_action)
        observations, self.rewards, self.terminated, self.truncated, infos = stepped
        self.observations = self._encoder.encode(observations)
        told = infos.get("_is_success", np.zeros(self.n, np.bool_))
        self.success = np.where(told, infos.get("is_success", np.nan), np.nan)
        if self.cost_name:
            self.cost_seen |= self.cost_name in infos
            charged = infos.get(f"_{self.cost_name}", np.zeros(self.n, np.bool_))
            self.cost = np.where(charged, infos.get(self.cost_name, 0.0), 0.0)

    def close(self) -> None:
        """Close the vector environment."""
        self._envs.close()


class SingleSlots(_SlotArrays):
    """Slots made of single environments; idle ones rest."""

    def __init__(self, envs: Sequence[Env], cost_name: str = "") -> None:
        if len({id(env) for env in envs}) < len(envs):
            raise UnfitEnvironmentError("the factory made the same environment twice; every slot needs its own.")
        self._encoder = ObservationEncoder.of(envs[0].observation_space)
        super().__init__(len(envs), self._encoder.width, count_actions(envs[0].action_space), cost_name)
        self._envs = envs
        self._first_action = first_action(envs[0].action_space)
        self._seeds = [-1] * self.n

    def start(self, rows: NDArray[np.intp], seeds: Sequence[int]) -> None:
        """Begin an episode with its seed in each of the rows."""
        seen = []
        unused = max(self._seeds) < 0
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            self._seeds[row] = seed
            try:
                observation, _ = self._envs[row].reset(seed=seed)
            except Exception as error:
                raise _failure(seed, error) from error
            seen.append(observation)
        encoded = self._encoder.encode(seen)
        if unused:
            # Policies are shown idle rows, too: zeros need not be an observation of this space.
            self.observations[:] = encoded[0]
        self.observations[rows] = encoded

    def step(self, actions: NDArray[np.int64], active: NDArray[np.bool_]) -> None:
        """Take a step in every active row."""
        rows = np.flatnonzero(active)
        numbers = actions + self._first_action
        seen = []
        for row in rows.tolist():
            try:
                observation, reward, terminated, truncated, info = self._envs[row].step(numbers[row])
            except Exception as error:
                raise _failure(self._seeds[row], error) from error
            seen.append(observation)
            self.rewards[row], self.terminated[row], self.truncated[row] = float(reward), terminated, truncated
            self.success[row] = float(info["is_success"]) if "is_success" in info else np.nan
            if self.cost_name:
                self.cost_seen |= self.cost_name in info
                self.cost[row] = float(info.get(self.cost_name, 0.0))
        self.observations[rows] = self._encoder.encode(seen)

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


class EpisodeFailedError(UnfitEnvironmentError):
    """An episode in which the environment raised an error."""

    exit_code = 1


def _failure(seed: int, error: Exception) -> EpisodeFailedError:
    return EpisodeFailedError(f"in the episode with seed {seed} the environment raised {type(error).__name__}: {error}")


def make_slots(environment: str | EnvironmentSpec | Env, n: int, cost_name: str = "") -> Slots:
    """Make n slots: a native vector environment where every episode can have its own seed, else single environments.

    An environment object can only be used as it is, so it makes one slot, whatever n. `cost_name` is an entry of the
    environment's infos that is added up over an episode, beside the reward.
    """
    if n < 1:
        raise LegibleError(f"at least one slot is needed, got {n}.")
    environment = as_environment(environment)
    if not isinstance(environment, EnvironmentSpec):
        return SingleSlots([environment], cost_name)
    batch = environment.make_batch(n)
    with ExitStack() as opened:
        slots: Slots
        if batch is not None:
            slots = BatchSlots(opened.enter_context(closing(batch)), cost_name)
        else:
            slots = SingleSlots([opened.enter_context(closing(environment.make())) for _ in range(n)], cost_name)
        # They fit, so they stay open.
        opened.pop_all()
    return slots


class Chooser(Protocol):
    """Anything that chooses actions for the rows of a batch.

    `episodes` holds the number of the episode that each row plays (−1: idle), `steps` how many steps it has taken.
    Returns actions ``int64[n]`` and the scores behind them.
    """

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Scores]:
        """Choose."""


@dataclass(frozen=True)
class StepRecord:
    """What happened in one step of all slots; rows with ``episodes == -1`` were idle."""

    episodes: NDArray[np.int64]
    steps: NDArray[np.int64]
    observations: Observations
    actions: NDArray[np.int64]
    scores: Scores
    rewards: NDArray[np.float64]


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
    on_step: Callable[[StepRecord], None] | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> Episodes:
    """Play one episode for every seed.

    A slot that becomes free takes the next seed of the list, lowest slot first. Batches always have all rows, busy or
    not, so the shape that the policy sees never changes.

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
    on_step
        Called after every step with what happened in it.
    on_episode
        Called with the number of episodes that ended, whenever some did.
    """
    if step_limit < 1:
        raise LegibleError(f"step_limit must be at least 1, got {step_limit}.")
    game = _Play(slots, [_check_episode_seed(seed) for seed in seeds])
    with one_thread():
        while game.active.any():
            before = slots.observations.copy() if on_step is not None else slots.observations
            actions, scores = choose(slots.observations, game.episodes, game.steps)
            if on_step is not None:
                # Scores may be a view of the observations, which the step overwrites.
                scores = scores.copy()
            slots.step(actions, game.active)
            if on_step is not None:
                steps = game.steps.copy()
                on_step(StepRecord(game.episodes.copy(), steps, before, actions, scores, slots.rewards.copy()))
            ended = game.advance(step_limit)
            if ended and on_episode is not None:
                on_episode(ended)
    if slots.cost_name and not slots.cost_seen:
        raise UnfitEnvironmentError(
            f"a cost {slots.cost_name!r} was asked for, but the environment's infos never held it."
        )
    return game.result()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside the block.

    A policy's matrices are too small to gain from more, threads that wait for each other are slow on a busy machine,
    and sums that are split differently differ in the last bit.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Play:
    """Bookkeeping of `play_episodes`: which slot plays which episode, and what came of it."""

    def __init__(self, slots: Slots, seeds: list[int]) -> None:
        total = len(seeds)
        self.slots, self.seeds = slots, seeds
        self.episodes = np.full(slots.n, -1, np.int64)
        self.steps = np.zeros(slots.n, np.int64)
        self.returns, self.lengths = np.zeros(total), np.zeros(total, np.int64)
        self.truncated, self.success = np.zeros(total, np.bool_), np.full(total, np.nan)
        self.costs = np.zeros(total)
        self._next = 0
        self._refill(np.arange(slots.n))

    @property
    def active(self) -> NDArray[np.bool_]:
        return self.episodes >= 0

    def _refill(self, rows: NDArray[np.intp]) -> None:
        """Give the next seeds to the rows, lowest first; rows for which none is left become idle."""
        fresh = rows[: len(self.seeds) - self._next]
        self.episodes[rows] = -1
        self.steps[rows] = 0
        if fresh.size:
            self.episodes[fresh] = np.arange(self._next, self._next + fresh.size)
            self.slots.start(fresh, self.seeds[self._next : self._next + fresh.size])
            self._next += fresh.size

    def advance(self, step_limit: int) -> int:
        """Book the last step; returns how many episodes ended with it."""
        slots, active = self.slots, self.active
        playing = self.episodes[active]
        rewards = slots.rewards[active]
        if not np.isfinite(rewards).all():
            bad = int(np.argmin(np.isfinite(rewards)))
            raise UnfitEnvironmentError(
                f"the environment gave the reward {rewards[bad]} in step {self.steps[active][bad]} of the episode with "
                f"seed {self.seeds[playing[bad]]}; rewards must be finite numbers."
            )
        self.returns[playing] += rewards
        if slots.cost_name:
            self.costs[playing] += slots.cost[active]
        self.steps[active] += 1
        limit = self.steps >= step_limit
        over = np.flatnonzero(active & (slots.terminated | slots.truncated | limit))
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


def _check_episode_seed(seed: object) -> int:
    checked = check_seed(seed)
    if checked >= 2**63:
        raise LegibleError(f"the seed of an episode must be below 2⁶³, got {checked}.")
    return checked


def episode_seeds(seed: int, first: int, count: int) -> list[int]:
    """Return seeds for the episodes ``first … first + count - 1`` of a study.

    They are consecutive numbers from an offset that depends on the study's seed, so two blocks of episodes that do not
    overlap never share a seed. All stay below 2³¹, which every environment accepts.
    """
    if first < 0 or count < 0 or first + count > 2**30:
        raise LegibleError(f"episodes {first} … {first + count} lie outside 0 … {2**30}.")
    offset = int(key_of_seed(np.uint64(check_seed(seed) % 2**64))) % 2**30
    return list(range(offset + first, offset + first + count))


# Each step of an episode has room for this many random numbers of the policy.
DRAWS_A_STEP = 4
_EXPLORE, _WHICH, _SAMPLE = np.uint64(0), np.uint64(1), np.uint64(2)


@njit(cache=True, nogil=True)
def _choose(
    scores: Scores, keys: NDArray[np.uint64], steps: NDArray[np.int64], epsilon: float, sample: bool
) -> NDArray[np.int64]:
    actions = np.empty(scores.shape[0], np.int64)
    for i in range(scores.shape[0]):
        actions[i] = choose_row(scores[i], keys[i], steps[i], epsilon, sample)
    return actions


@njit(cache=True)
def choose_row(scores: Scores, key: np.uint64, step: int, epsilon: float, sample: bool) -> int:
    """Choose one action; see `choose_actions`."""
    best = 0
    allowed = 0
    for a in range(scores.size):
        if scores[a] > scores[best]:
            best = a
        if scores[a] > -np.inf:
            allowed += 1
    count = np.uint64(step * DRAWS_A_STEP)
    if allowed == 0:
        return min(int(uniform(key, count + _WHICH) * scores.size), scores.size - 1)
    if epsilon > 0.0 and uniform(key, count + _EXPLORE) < epsilon:
        return _nth_allowed(scores, min(int(uniform(key, count + _WHICH) * allowed), allowed - 1))
    if sample:
        return _sampled(scores, best, uniform(key, count + _SAMPLE))
    return best


@njit(cache=True)
def _nth_allowed(scores: Scores, n: int) -> int:
    """The n-th action whose score is not −∞."""
    for a in range(scores.size):
        if scores[a] > -np.inf:
            if n == 0:
                return a
            n -= 1
    return scores.size - 1


@njit(cache=True)
def _sampled(scores: Scores, best: int, draw: float) -> int:
    """Draw an action with probability proportional to exp(score)."""
    total = 0.0
    for a in range(scores.size):
        total += np.exp(np.float64(scores[a] - scores[best]))
    passed = 0.0
    for a in range(scores.size):
        passed += np.exp(np.float64(scores[a] - scores[best])) / total
        if draw < passed:
            return a
    return best


def choose_actions(
    scores: Scores, keys: NDArray[np.uint64], steps: NDArray[np.int64], *, epsilon: float = 0.0, sample: bool = False
) -> NDArray[np.int64]:
    """Choose an action from every row of scores.

    The action with the highest score (the first of equals); with probability `epsilon` any action at random; with
    `sample`, an action drawn with probability proportional to exp(score), for scores that are log-probabilities. An
    action whose score is −∞ is blocked and never taken, unless all of them are: then a random one is.
    """
    return _choose(np.ascontiguousarray(scores), keys, steps, epsilon, sample)


class PolicyChooser:
    """Acts as a policy says, episode by episode with random streams of their own.

    Parameters
    ----------
    policy
        The policy.
    seeds
        The seed of every episode that will be played.
    epsilon
        Share of random actions.
    sample
        Draw actions from the policy's probabilities instead of taking the best one.
    """

    def __init__(self, policy: Policy, seeds: Sequence[int], *, epsilon: float = 0.0, sample: bool = False) -> None:
        check_exploration(policy, epsilon, sample)
        self._policy = policy
        # The last entry serves idle rows, whose episode is −1.
        self._keys = policy_keys([*seeds, 0])
        self._epsilon = epsilon
        self._sample = sample

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Scores]:
        """Choose for every row."""
        # The compiled loop below trusts the shape, and NaN compares with nothing.
        scores = as_scores(np.asarray(self._policy.scores(observations)), len(observations), self._policy.n_actions)
        actions = choose_actions(scores, self._keys[episodes], steps, epsilon=self._epsilon, sample=self._sample)
        return actions, scores


def check_policy(policy: Policy, n_features: int, n_actions: int) -> None:
    """Raise unless a policy reads that many features and chooses among that many actions."""
    if not isinstance(policy, Policy):
        raise LegibleError(
            f"a {type(policy).__name__} is no policy; make it one with legible.policies.load_policy(…, output=…)."
        )
    if policy.n_features not in (None, n_features):
        raise LegibleError(
            f"the policy reads {policy.n_features} features, but the environment shows {n_features}: they do not "
            "belong together."
        )
    if policy.n_actions != n_actions:
        raise LegibleError(
            f"the policy chooses among {policy.n_actions} actions, but the environment has {n_actions}: they do not "
            "belong together."
        )


def check_exploration(policy: Policy, epsilon: float, sample: bool) -> None:
    """Raise unless the ways of acting at random make sense for the policy."""
    if not 0.0 <= epsilon <= 1.0:
        raise LegibleError(f"epsilon is a probability between 0 and 1, got {epsilon}.")
    if sample and policy.kind != "log-probabilities":
        raise LegibleError(
            f"actions can be sampled from log-probabilities only, and this policy's scores are {policy.kind}; "
            "leave out sample, or use epsilon."
        )
