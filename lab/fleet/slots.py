"""Places in which the environments of a fleet run, and the record of what happened in each step.

- `TrainingSlots`: what a fleet asks of them. Finished episodes start again at once.
- `PacmanSlots`: games of several PAC-Man levels in one call of compiled code, on several threads if wanted.
- `EnvironmentSlots`: any Gymnasium environments, native batches where there are some.

A record is a row of float32 for each environment: observation, next observation (the last one of its episode where the
episode ended), action, reward, terminated, truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.play import Slots, make_slots
from legible.streams import next_key
from legible_envs.pacman import kernel
from legible_envs.pacman.domain import LEVELS
from legible_envs.pacman.games import Games, PacmanSettings
from legible_envs.pacman.maze import Tables

ACTION, REWARD, TERMINATED, TRUNCATED = 0, 1, 2, 3  # columns of a record, counted after the two observations
RECORD_TAIL = 4
_CHUNK = 10  # games a thread plays before it takes the next ones: some 5 µs of work


class FleetError(LegibleError):
    """A fleet that cannot be trained as asked."""


class EpisodeCounts(NamedTuple):
    """Finished episodes of every environment and the sum of their returns, since the counts were last taken."""

    episodes: NDArray[np.int64]
    returns: NDArray[np.float64]


class TrainingSlots(Protocol):
    """Environments side by side, a row each; the rows of a policy are neighbours."""

    n: int
    width: int
    n_actions: int
    observations: NDArray[np.float32]

    def start(self, seeds: Sequence[int]) -> None:
        """Begin an episode in every row, with a seed each."""

    def step(self, actions: NDArray[np.int64], record: NDArray[np.float32]) -> None:
        """Take a step in every row, write the record ``[n, 2 · width + 4]`` and start finished episodes again."""

    def take_counts(self) -> EpisodeCounts:
        """Return what was counted since the last call, and count anew."""

    def state(self) -> dict[str, NDArray[Any]] | None:
        """Return everything that the course of the episodes depends on, or None where it cannot be read."""

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""

    def close(self) -> None:
        """Close what was opened."""


class _Level(NamedTuple):
    """The games of one level, as compiled code sees them; `first` is the row of the first."""

    tables: Tables
    rules: kernel.Rules
    agents: NDArray[np.int32]
    pellets: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    capsules: NDArray[np.int16]
    start_agents: NDArray[np.int32]
    start_pellets: NDArray[np.uint8]
    first: int


@njit(cache=True)
def _play_game(
    level: _Level,
    row: int,
    action: int,
    reward_scale: float,
    observation: NDArray[np.float32],
    record: NDArray[np.float32],
    running: NDArray[np.float64],
    episodes: NDArray[np.int64],
    returns: NDArray[np.float64],
) -> None:
    """Play a round of one game and start it again if it is over."""
    i = row - level.first
    width = observation.size
    n_ghosts = level.tables.ghost_start.size
    draws = np.empty(n_ghosts, np.float64)
    for g in range(n_ghosts):
        draws[g] = kernel.ghost_draw(level.keys[i], level.agents[i, kernel.STEPS], g)
    record[:width] = observation
    reward = kernel.play_round(level.tables, level.rules, level.agents[i], level.pellets[i], draws, action)
    kernel._observe(level.tables, level.agents[i], level.pellets[i], n_ghosts, level.capsules, observation)
    record[width : 2 * width] = observation
    status = level.agents[i, kernel.STATUS]
    tail = 2 * width
    record[tail + ACTION] = action
    record[tail + REWARD] = reward * reward_scale
    record[tail + TERMINATED] = 1.0 if status in (kernel.WON, kernel.LOST) else 0.0
    record[tail + TRUNCATED] = 1.0 if status == kernel.CUT_OFF else 0.0
    running[row] += reward
    if status == kernel.PLAYING:
        return
    episodes[row] += 1
    returns[row] += running[row]
    running[row] = 0.0
    level.keys[i] = next_key(level.keys[i])
    level.agents[i, :] = level.start_agents
    level.pellets[i, :] = level.start_pellets
    kernel._observe(level.tables, level.agents[i], level.pellets[i], n_ghosts, level.capsules, observation)


@njit(cache=True, nogil=True)
def _play_in_turn(
    levels: tuple[_Level, ...],
    chunks: NDArray[np.int64],
    actions: NDArray[np.int64],
    reward_scale: float,
    observations: NDArray[np.float32],
    record: NDArray[np.float32],
    running: NDArray[np.float64],
    episodes: NDArray[np.int64],
    returns: NDArray[np.float64],
) -> None:
    """Play a round of every game; `chunks` has rows of level, first and last row."""
    for c in range(chunks.shape[0]):
        level = levels[chunks[c, 0]]
        for row in range(chunks[c, 1], chunks[c, 2]):
            _play_game(
                level, row, actions[row], reward_scale, observations[row], record[row], running, episodes, returns
            )


@njit(cache=True, nogil=True, parallel=True)
def _play_in_parallel(
    tables: tuple[tuple[NDArray[Any], ...], ...],
    out_of_reach: NDArray[np.int64],
    attacks: NDArray[np.float64],
    flights: NDArray[np.float64],
    penalties: NDArray[np.float64],
    caps: NDArray[np.int64],
    agents: tuple[NDArray[np.int32], ...],
    pellets: tuple[NDArray[np.uint8], ...],
    keys: tuple[NDArray[np.uint64], ...],
    capsules: tuple[NDArray[np.int16], ...],
    start_agents: tuple[NDArray[np.int32], ...],
    start_pellets: tuple[NDArray[np.uint8], ...],
    firsts: NDArray[np.int64],
    chunks: NDArray[np.int64],
    actions: NDArray[np.int64],
    reward_scale: float,
    observations: NDArray[np.float32],
    record: NDArray[np.float32],
    running: NDArray[np.float64],
    episodes: NDArray[np.int64],
    returns: NDArray[np.float64],
) -> None:
    """As `_play_in_turn`, on several threads: games are independent, so both give the same bits.

    Numba's parallel loops take tuples of arrays but no tuples of named tuples, so levels are put together inside.
    """
    x, y, cell_at, neighbour, distance, first_step, order, rank, ghost_start = tables
    for c in prange(chunks.shape[0]):
        k = chunks[c, 0]
        level = _Level(
            Tables(
                x[k],
                y[k],
                cell_at[k],
                neighbour[k],
                distance[k],
                first_step[k],
                order[k],
                rank[k],
                ghost_start[k],
                out_of_reach[k],
            ),
            kernel.Rules(attacks[k], flights[k], penalties[k], caps[k]),
            agents[k],
            pellets[k],
            keys[k],
            capsules[k],
            start_agents[k],
            start_pellets[k],
            firsts[k],
        )
        for row in range(chunks[c, 1], chunks[c, 2]):
            _play_game(
                level, row, actions[row], reward_scale, observations[row], record[row], running, episodes, returns
            )


class PacmanSlots:
    """Games of several PAC-Man levels of one observation width.

    Parameters
    ----------
    levels
        For every level its settings (arguments of `PacmanSettings`) and the number of games.
    reward_scale
        What rewards are multiplied by in the record; counted returns stay as they are.
    threads
        How many threads play. The results are the same for any number.
    """

    def __init__(
        self, levels: Sequence[tuple[Mapping[str, Any], int]], *, reward_scale: float = 1.0, threads: int = 1
    ) -> None:
        self._games = [Games(n, PacmanSettings(**settings)) for settings, n in levels]
        widths = {len(games.feature_space) for games in self._games}
        if len(widths) != 1:
            raise FleetError(
                f"the levels of a fleet must have observations of one width, these have {sorted(widths)}; train levels "
                "with two and with four ghosts in separate fleets."
            )
        counts = [n for _, n in levels]
        firsts = np.concatenate(([0], np.cumsum(counts))).tolist()
        self.n, self.width = firsts[-1], widths.pop()
        self.n_actions = len(self._games[0].feature_space.actions)
        self.observations = np.zeros((self.n, self.width), np.float32)
        self._levels = tuple(_level(games, first) for games, first in zip(self._games, firsts[:-1], strict=True))
        self._chunks = np.array(
            [
                (number, first, min(first + _CHUNK, last))
                for number, (begin, last) in enumerate(pairwise(firsts))
                for first in range(begin, last, _CHUNK)
            ],
            np.int64,
        )
        self._reward_scale = float(reward_scale)
        self._running = np.zeros(self.n)
        self._counts = EpisodeCounts(np.zeros(self.n, np.int64), np.zeros(self.n))
        self._play: Callable[..., None] = _play_in_turn
        self._arguments: tuple[Any, ...] = (self._levels,)
        if threads > 1:
            most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
            numba.set_num_threads(min(threads, most))
            self._play, self._arguments = _play_in_parallel, _unpacked(self._levels)

    def start(self, seeds: Sequence[int]) -> None:
        """Begin an episode in every game, with a seed each."""
        for games, level in zip(self._games, self._levels, strict=True):
            n = len(games.keys)
            games.start(np.ones(n, np.bool_), list(seeds[level.first : level.first + n]))
            self.observations[level.first : level.first + n] = games.observations
        self._running[:] = 0.0

    def step(self, actions: NDArray[np.int64], record: NDArray[np.float32]) -> None:
        """Play a round of every game, write the record and start finished games again."""
        self._play(
            *self._arguments,
            self._chunks,
            actions,
            self._reward_scale,
            self.observations,
            record,
            self._running,
            self._counts.episodes,
            self._counts.returns,
        )

    def take_counts(self) -> EpisodeCounts:
        """Return what was counted since the last call, and count anew."""
        return _take(self._counts)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that the course of the games depends on."""
        state: dict[str, NDArray[Any]] = {"observations": self.observations.copy(), "running": self._running.copy()}
        for number, level in enumerate(self._levels):
            for name in ("agents", "pellets", "keys"):
                state[f"{name}.{number}"] = getattr(level, name).copy()
        return state

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.observations[:] = state["observations"]
        self._running[:] = state["running"]
        for number, level in enumerate(self._levels):
            for name in ("agents", "pellets", "keys"):
                getattr(level, name)[:] = state[f"{name}.{number}"]

    def close(self) -> None:
        """Nothing was opened."""


def _level(games: Games, first: int) -> _Level:
    return _Level(
        games.tables,
        games.rules,
        games.agents,
        games.pellets,
        games.keys,
        games.capsules,
        games._start_agents,
        games._start_pellets,
        first,
    )


def _unpacked(levels: tuple[_Level, ...]) -> tuple[Any, ...]:
    """Return levels as `_play_in_parallel` takes them."""
    names = [name for name in Tables._fields if name != "out_of_reach"]
    rules = [level.rules for level in levels]
    return (
        tuple(tuple(getattr(level.tables, name) for level in levels) for name in names),
        np.array([level.tables.out_of_reach for level in levels], np.int64),
        np.array([rule.attack for rule in rules]),
        np.array([rule.flee for rule in rules]),
        np.array([rule.illegal_move_penalty for rule in rules]),
        np.array([rule.step_cap for rule in rules], np.int64),
        *(
            tuple(getattr(level, name) for level in levels)
            for name in ("agents", "pellets", "keys", "capsules", "start_agents", "start_pellets")
        ),
        np.array([level.first for level in levels], np.int64),
    )


def _take(counts: EpisodeCounts) -> EpisodeCounts:
    taken = EpisodeCounts(counts.episodes.copy(), counts.returns.copy())
    counts.episodes[:] = 0
    counts.returns[:] = 0.0
    return taken


class EnvironmentSlots:
    """Any Gymnasium environments: for every entry as many as are asked for, in native batches where there are some.

    The state of an environment in general cannot be read, so a training that is taken up again starts new episodes.

    Parameters
    ----------
    environments
        Environments and how many of each.
    reward_scale
        What rewards are multiplied by in the record; counted returns stay as they are.
    threads
        How many threads step native batches, which are cut into pieces for it. Episodes depend on their seeds only, so
        the results are the same for any number.
    """

    def __init__(
        self, environments: Sequence[tuple[EnvironmentSpec, int]], *, reward_scale: float = 1.0, threads: int = 1
    ) -> None:
        pieces = _pieces(environments, threads) if threads > 1 else environments
        self._parts: list[Slots] = [make_slots(spec, n) for spec, n in pieces]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        widths = {part.observations.shape[1] for part in self._parts}
        actions = {part.n_actions for part in self._parts}
        if len(widths) != 1 or len(actions) != 1:
            raise FleetError(
                "the environments of a fleet must have observations of one width and the same number of actions, these "
                f"have widths {sorted(widths)} and {sorted(actions)} actions."
            )
        self._firsts = np.concatenate(([0], np.cumsum([part.n for part in self._parts]))).tolist()
        self.n, self.width, self.n_actions = self._firsts[-1], widths.pop(), actions.pop()
        self.observations = np.zeros((self.n, self.width), np.float32)
        self._reward_scale = reward_scale
        self._running = np.zeros(self.n)
        self._counts = EpisodeCounts(np.zeros(self.n, np.int64), np.zeros(self.n))
        self._episode = np.zeros(self.n, np.int64)
        self._seeds: list[int] = [0] * self.n

    def start(self, seeds: Sequence[int]) -> None:
        """Begin an episode in every row; the seeds of later episodes follow from these."""
        self._seeds = list(seeds)
        self._episode[:] = 0
        self._running[:] = 0.0
        for part, first in zip(self._parts, self._firsts[:-1], strict=True):
            self._begin(part, first, np.arange(part.n))

    def _begin(self, part: Slots, first: int, rows: NDArray[np.intp]) -> None:
        seeds = []
        for row in (first + rows).tolist():
            sequence = np.random.SeedSequence(self._seeds[row], spawn_key=(int(self._episode[row]),))
            seeds.append(int(sequence.generate_state(1, np.uint32)[0]))
            self._episode[row] += 1
        part.start(rows, seeds)
        self.observations[first + rows] = part.observations[rows]

    def step(self, actions: NDArray[np.int64], record: NDArray[np.float32]) -> None:
        """Take a step in every row, write the record and start finished episodes again."""
        width = self.width
        record[:, :width] = self.observations

        def step_part(part: Slots, first: int) -> None:
            rows = slice(first, first + part.n)
            part.step(actions[rows], np.ones(part.n, np.bool_))
            self.observations[rows] = part.observations
            record[rows, 2 * width + REWARD] = part.rewards * self._reward_scale
            record[rows, 2 * width + TERMINATED] = part.terminated
            # As Stable-Baselines3 has it: an episode that terminates in its last step was not cut off.
            record[rows, 2 * width + TRUNCATED] = part.truncated & ~part.terminated
            self._running[rows] += part.rewards

        each = map if self._pool is None else self._pool.map
        for _ in each(step_part, self._parts, self._firsts[:-1]):
            pass
        record[:, width : 2 * width] = self.observations
        record[:, 2 * width + ACTION] = actions
        self._restart(record)

    def _restart(self, record: NDArray[np.float32]) -> None:
        tail = 2 * self.width
        over = (record[:, tail + TERMINATED] + record[:, tail + TRUNCATED]) > 0
        if not over.any():
            return
        self._counts.episodes[over] += 1
        self._counts.returns[over] += self._running[over]
        self._running[over] = 0.0
        for part, first in zip(self._parts, self._firsts[:-1], strict=True):
            rows = np.flatnonzero(over[first : first + part.n])
            if rows.size:
                self._begin(part, first, rows)

    def take_counts(self) -> EpisodeCounts:
        """Return what was counted since the last call, and count anew."""
        return _take(self._counts)

    def state(self) -> None:
        """The state of foreign environments cannot be read."""

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: ARG002
        """Foreign environments have no state to set."""
        raise FleetError("the state of these environments cannot be set.")

    def close(self) -> None:
        """Close every environment."""
        for part in self._parts:
            part.close()
        if self._pool is not None:
            self._pool.shutdown()


def _pieces(environments: Sequence[tuple[EnvironmentSpec, int]], threads: int) -> list[tuple[EnvironmentSpec, int]]:
    """Cut the environments into pieces, some for every thread, so that no thread waits long for another."""
    size = max(1, sum(n for _, n in environments) // (2 * threads))
    return [(spec, min(size, n - first)) for spec, n in environments for first in range(0, n, size)]


def make_training_slots(
    environments: Sequence[tuple[EnvironmentSpec, int]], *, reward_scale: float = 1.0, threads: int = 1
) -> TrainingSlots:
    """Make slots for environments and their numbers: compiled PAC-Man games where all are PAC-Man levels."""
    settings = [_pacman_settings(spec) for spec, _ in environments]
    if all(each is not None for each in settings):
        levels = [(each or {}, n) for each, (_, n) in zip(settings, environments, strict=True)]
        return PacmanSlots(levels, reward_scale=reward_scale, threads=threads)
    native = all(_has_native_batch(spec) for spec, _ in environments)
    return EnvironmentSlots(environments, reward_scale=reward_scale, threads=threads if native else 1)


def _has_native_batch(spec: EnvironmentSpec) -> bool:
    """Return whether compiled code steps many of these environments at once, so that threads do not wait for it."""
    batch = spec.make_batch(1)
    if batch is None:
        return False
    batch.close()
    return True


def _pacman_settings(spec: EnvironmentSpec) -> dict[str, Any] | None:
    """Return the settings of a PAC-Man level by its id, or None when it is another environment."""
    name = spec.name.removeprefix("legible/").removesuffix("-v0")
    if name not in LEVELS or spec.name != f"legible/{name}-v0":
        return None
    return {**LEVELS[name], **spec.arguments}
