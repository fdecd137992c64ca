"""Small worlds and policies whose faults have a known cause.

- `Triage`, `Balance`: two families of worlds, stepped in batches, with an expert whose scores are known.
- `Planting`, `plant`: a policy with a planted cause, the name of the feature that it is about, and what is known about
  its decisions: recorded states, and the gain of every other choice.

A policy is a network of random features, fitted to the expert's scores by least squares: without a feature (it does not
use it), with a feature mirrored (it misjudges it), without the states of a region (it never met it), or with a fault
that no feature explains: a random field in its scores, choices that flip by a hash of the state, or a cause that is not
observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.failures.causes import TriedDecisions, choose_unusual, weigh_decisions

Floats = NDArray[np.float64]
Stepped = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]
PolicyScores = Callable[[Any], NDArray[np.float64]]
"""A policy: scores of all choices."""
Kind = Literal["does not use", "misjudges", "never met", "cannot tell"]
KINDS: tuple[Kind, ...] = ("does not use", "misjudges", "never met", "cannot tell")


class World:
    """A world: states are rows, and all random numbers come from the caller, so that futures can be shared."""

    names: tuple[str, ...]
    n_choices: int
    length: int
    draws: int
    hidden = 0  # the last columns of a state, which are not observed

    def start(self, rng: np.random.Generator, n: int) -> Floats:
        """Return the first states of episodes."""
        raise NotImplementedError

    def step(self, states: Floats, choices: NDArray[np.int64], noise: Floats) -> Stepped:
        """Return next states, rewards and which episodes are over; `noise` is ``[n, draws]``, standard normal."""
        raise NotImplementedError

    def expert(self, states: Floats) -> Floats:
        """Return scores of all choices by what is best."""
        raise NotImplementedError

    def observe(self, states: Floats) -> NDArray[np.float32]:
        """Return what a policy sees."""
        return states[:, : len(self.names)].astype(np.float32)

    relevant: tuple[int, ...]
    rare: int

    def mirror(self, observations: NDArray[Any], feature: int) -> NDArray[Any]:
        """Return observations with a feature mirrored at its middle."""
        changed = observations.copy()
        changed[:, feature] = -changed[:, feature]
        return changed

    def in_region(self, observations: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which states lie in the region that is left out of the training."""
        raise NotImplementedError


class Triage(World):
    """Features drift; each of three choices earns a sum of three of them, and moves another one a little.

    Where the last feature is very high, which is rare, the first choice earns much more.
    """

    n_choices, length = 3, 12

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        d = int(rng.integers(6, 9))
        self.names = tuple(f"x{i}" for i in range(d))
        self.hidden = 1
        self.draws = d + 2
        self.relevant = tuple(rng.choice(d - 1, 3, replace=False).tolist())
        self.rare = d - 1
        self._weights = np.zeros((d, 3))
        for feature in self.relevant:
            directions = rng.permutation([-1.0, 0.0, 1.0])
            self._weights[feature] = directions * rng.uniform(0.8, 1.3)
        self._both = rng.uniform(0.0, 0.5)
        self._drift = rng.uniform(0.5, 0.8)
        self._noise = rng.uniform(0.3, 1.0)
        self._moved = int(rng.integers(d - 1))
        self._rare = rng.uniform(1.6, 1.9)
        self._first = int(rng.integers(3))
        self.unseen_weight = 0.0

    def start(self, rng: np.random.Generator, n: int) -> Floats:
        return rng.normal(size=(n, len(self.names) + 1))

    def expert(self, states: Floats) -> Floats:
        d = len(self.names)
        scores = states[:, :d] @ self._weights
        one, two, _ = self.relevant
        scores[:, 1] += self._both * np.tanh(states[:, one] * states[:, two])
        scores[states[:, d - 1] > self._rare, self._first] += 4.0
        if states.shape[1] > d:
            scores[:, 0] += self.unseen_weight * states[:, d]
        return scores

    def step(self, states: Floats, choices: NDArray[np.int64], noise: Floats) -> Stepped:
        rewards = self.expert(states)[np.arange(len(states)), choices] + self._noise * noise[:, -1]
        new = self._drift * states + np.sqrt(1 - self._drift**2) * noise[:, : states.shape[1]]
        new[:, self._moved] += 0.15 * (choices - 1)
        return new, rewards, np.zeros(len(states), np.bool_)

    def in_region(self, observations: NDArray[Any]) -> NDArray[np.bool_]:
        return observations[:, -1] > self._rare


class Balance(World):
    """A pole on a cart in the wind: three forces; it falls at a large angle, which ends the episode.

    Where the load is very high, which is rare, forces act the other way round.
    """

    names = ("place", "speed", "angle", "turning", "wind", "load", "colour")
    n_choices, length, draws, hidden = 3, 30, 5, 0
    relevant = (2, 3, 4)
    rare = 5

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 3])
        self._gain = rng.uniform(1.6, 2.0, 2)
        self._heavy = rng.uniform(1.7, 2.0)
        self._wind = rng.uniform(0.5, 0.7)
        self._noise = rng.uniform(0.02, 0.1)

    def start(self, rng: np.random.Generator, n: int) -> Floats:
        states = 0.3 * rng.normal(size=(n, 7))
        states[:, 4:] = rng.normal(size=(n, 3))
        return states

    def _force(self, states: Floats) -> Floats:
        push = self._gain[0] * states[:, 2] + self._gain[1] * states[:, 3] + self._wind * states[:, 4]
        push += 0.05 * states[:, 0] + 0.1 * states[:, 1]
        return np.where(states[:, 5] > self._heavy, -push, push)

    def expert(self, states: Floats) -> Floats:
        push = self._force(states)
        return -np.abs(push[:, None] - np.array([-1.2, 0.0, 1.2]))

    def step(self, states: Floats, choices: NDArray[np.int64], noise: Floats) -> Stepped:
        new = states.copy()
        force = 1.2 * (choices - 1.0)
        force = np.where(states[:, 5] > self._heavy, -force, force)
        turning = states[:, 3] + 0.5 * (0.6 * states[:, 2] + self._wind * states[:, 4] - force)
        turning += self._noise * noise[:, 0]
        new[:, 3] = 0.9 * turning
        new[:, 2] = states[:, 2] + 0.5 * new[:, 3]
        new[:, 1] = 0.9 * states[:, 1] + 0.2 * force
        new[:, 0] = 0.95 * states[:, 0] + 0.3 * new[:, 1]
        new[:, 4:] = 0.6 * states[:, 4:] + 0.8 * noise[:, 1:4]
        fallen = np.abs(new[:, 2]) > 1.5
        rewards = 1.0 - 2.0 * new[:, 2] ** 2 - 5.0 * fallen
        return new, rewards, fallen

    def in_region(self, observations: NDArray[Any]) -> NDArray[np.bool_]:
        return observations[:, 5] > self._heavy


WORLDS: dict[str, Callable[[int], World]] = {"triage": Triage, "balance": Balance}


class Network:
    """A network of random features, fitted by least squares; `shown` changes what it sees."""

    def __init__(
        self,
        inputs: NDArray[Any],
        scores: Floats,
        rng: np.random.Generator,
        shown: Callable[[Any], Any],
        units: int = 250,
    ) -> None:
        self._shown = shown
        inputs = shown(inputs)
        self._mean, self._spread = inputs.mean(axis=0), inputs.std(axis=0)
        self._spread = np.where(self._spread > 0, self._spread, 1.0)
        self._in = rng.normal(size=(inputs.shape[1], units)) / np.sqrt(inputs.shape[1])
        self._bias = rng.normal(size=units)
        hidden = self._hidden(inputs)
        self._out = np.linalg.solve(
            hidden.T @ hidden + 1e-2 * len(inputs) / 100 * np.eye(hidden.shape[1]), hidden.T @ scores
        )

    def _hidden(self, inputs: NDArray[Any]) -> Floats:
        normal = (np.asarray(inputs, np.float64) - self._mean) / self._spread
        return np.hstack([np.maximum(normal @ self._in + self._bias, 0.0), normal, np.ones((len(normal), 1))])

    def __call__(self, observations: NDArray[Any]) -> Floats:
        """Return the scores."""
        found: Floats = self._hidden(self._shown(observations)) @ self._out
        return found


@dataclass(frozen=True)
class Planting:
    """A policy with a planted cause, and what is known about its decisions.

    Parameters
    ----------
    kind, feature
        The cause, and the name of the feature that it is about.
    names
        Names of the features.
    scores
        The policy.
    recorded
        Recorded states.
    tried
        Decisions, at which every choice was tried.
    costs
        Mean return of the expert minus that of the policy.
    """

    kind: Kind
    feature: str
    names: tuple[str, ...]
    scores: Callable[[NDArray[Any]], Floats]
    recorded: NDArray[np.float32]
    tried: TriedDecisions
    costs: float


def plant(
    world_name: str,
    kind: Kind,
    seed: int,
    *,
    episodes: int = 300,
    decisions: int = 900,
    unusual: int = 400,
    rollouts: int = 10,
) -> Planting:
    """Make a world and a policy with a planted cause, let it play, and try every choice at decisions."""
    world = WORLDS[world_name](seed)
    rng = np.random.default_rng([seed, KINDS.index(kind), 7])
    feature = ""
    if kind == "cannot tell" and world.hidden and seed % 3 == 0:
        world.unseen_weight = 2.0  # type: ignore[attr-defined]
    states = _visited(world, world.expert, rng, 600)
    scores, shown = world.expert(states[0]), world.observe(states[0])
    policy: PolicyScores
    if kind == "does not use":
        column = int(rng.choice(world.relevant))
        feature = world.names[column]
        policy = Network(shown, scores, rng, lambda seen: np.delete(seen, column, axis=1))
    elif kind == "misjudges":
        column = int(rng.choice(world.relevant))
        feature = world.names[column]
        honest = Network(shown, scores, rng, lambda seen: seen)
        policy = lambda seen: honest(world.mirror(seen, column))  # noqa: E731
    elif kind == "never met":
        known, feature = ~world.in_region(shown), world.names[world.rare]
        policy = Network(shown[known], scores[known], rng, lambda seen: seen)
    else:
        honest = Network(shown, scores, rng, lambda seen: seen)
        way = seed % 3
        if way == 0 and world.hidden:
            policy = honest
        elif way <= 1:
            policy = _with_field(honest, shown, rng)
        else:
            policy = _with_flips(honest, rng, world.n_choices)
    seen, ids = _visited(world, lambda s: policy(world.observe(s)), rng, episodes)
    usual = rng.permutation(len(seen))[:decisions]
    unlike = np.setdiff1d(choose_unusual(world.observe(seen), unusual, rng), usual)
    chosen = np.concatenate([usual, unlike])
    weights = weigh_decisions(world.observe(seen), chosen)
    values = _rollouts(world, policy, seen[chosen], rollouts, rng)
    taken = policy(world.observe(seen[chosen])).argmax(axis=1)
    values = values - values[np.arange(len(values)), taken][:, None]
    tried = TriedDecisions(world.observe(seen[chosen]), taken, values, ids[chosen], weights)
    costs = _mean_return(world, world.expert, rng) - _mean_return(world, lambda s: policy(world.observe(s)), rng)
    return Planting(kind, feature, world.names, policy, world.observe(seen), tried, costs)


def _with_field(policy: PolicyScores, shown: NDArray[Any], rng: np.random.Generator) -> PolicyScores:
    """Return a policy with a random field of all features in its scores."""
    waves = rng.normal(size=(shown.shape[1], 60)) * rng.uniform(0.5, 1.5)
    phases, mix = rng.uniform(0, 2 * np.pi, 60), rng.normal(size=(60, policy(shown[:1]).shape[1])) / np.sqrt(30)
    mean, spread = shown.mean(axis=0), np.where(shown.std(axis=0) > 0, shown.std(axis=0), 1.0)
    own = policy(shown)
    size = rng.uniform(0.7, 1.2) * float((own - own.mean(axis=1, keepdims=True)).std())
    return lambda seen: policy(seen) + size * np.cos((seen - mean) / spread @ waves + phases) @ mix


def _with_flips(policy: PolicyScores, rng: np.random.Generator, n_choices: int) -> PolicyScores:
    """Return a policy that takes a random choice in some states, by a hash of the state."""
    share = rng.uniform(0.15, 0.35)

    def scores(seen: NDArray[Any]) -> Floats:
        found = policy(seen)
        weights = 1000.0 * np.sin(1.0 + np.arange(seen.shape[1]))
        hashed = (np.asarray(seen, np.float64) * weights).sum(axis=1) % 1.0
        flips = hashed < share
        found[flips, (hashed[flips] * 1e6).astype(np.int64) % n_choices] = found[flips].max(axis=1, initial=0.0) + 0.5
        return found

    return scores


def _visited(
    world: World, policy: Callable[[Floats], Floats], rng: np.random.Generator, episodes: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Return the states that a policy visits, and their episodes."""
    states, alive, found, ids = world.start(rng, episodes), np.arange(episodes), [], []
    for _ in range(world.length):
        found.append(states)
        ids.append(alive)
        states, _, over = world.step(states, policy(states).argmax(axis=1), rng.normal(size=(len(states), world.draws)))
        states, alive = states[~over], alive[~over]
    return np.concatenate(found), np.concatenate(ids)


def _mean_return(world: World, policy: Callable[[Floats], Floats], rng: np.random.Generator, n: int = 1000) -> float:
    states, total = world.start(rng, n), 0.0
    for _ in range(world.length):
        states, rewards, over = world.step(
            states, policy(states).argmax(axis=1), rng.normal(size=(len(states), world.draws))
        )
        total += float(rewards.sum())
        states = states[~over]
    return total / n


def _rollouts(world: World, policy: PolicyScores, states: Floats, rollouts: int, rng: np.random.Generator) -> Floats:
    """Return the mean return of every choice at every state, with the same futures for all choices."""
    n, k = len(states), world.n_choices
    now = np.repeat(states, k * rollouts, axis=0)
    choices = np.tile(np.repeat(np.arange(k), rollouts), n)
    returns, alive = np.zeros(len(now)), np.arange(len(now))
    for step in range(world.length // 2):
        if step:
            choices = policy(world.observe(now)).argmax(axis=1)
        noise = rng.normal(size=(n, 1, rollouts, world.draws))
        noise = np.broadcast_to(noise, (n, k, rollouts, world.draws)).reshape(-1, world.draws)[alive]
        now, rewards, over = world.step(now, choices, noise)
        returns[alive] += rewards
        now, alive = now[~over], alive[~over]
    return returns.reshape(n, k, rollouts).mean(axis=2)
