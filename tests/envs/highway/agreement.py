"""Agreement of the fast environment with highway-env: one step from the same state, many times.

`compare` plays episodes in Farama's highway-env. Before each step the whole state is copied into legible's arrays; then
both take the step, and everything is compared: every vehicle, the observation, the reward and whether the episode ends.
Where newcomers are drawn at random (the intersection), both draw the same numbers. Errors cannot add up, so that a
difference is a difference in what a step does. `play_together` plays whole episodes instead, from their start and with
the same random numbers; rounding then adds up.

A state in which the two differ is checked again: if highway-env itself comes to another result when all vehicles are
moved by a billionth of a metre, the state lies on a threshold (which vehicle is ahead, which lane is closer, do two
rectangles touch), and the last bit decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.highway.reference import OurStream
from lab import synchronise
from legible.streams import key_of_seed
from legible_envs.highway import kernel, state
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.env import HighwayEnv
from legible_envs.highway.episodes import Episodes
from legible_envs.highway.farama import FaramaEnv

TOLERANCE = 1e-6
NUDGE = 1e-9
Chooser = Callable[[NDArray[np.float32], np.random.Generator], int]
"""From an observation and a source of randomness to an action."""


@dataclass(frozen=True)
class Difference:
    """A state after which the two differ: where it was, what differs by how much, and whether it is on a threshold."""

    seed: int
    actions: tuple[int, ...]
    sizes: dict[str, float]
    on_threshold: bool

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {size:.3g}" for name, size in self.sizes.items())
        where = f"seed {self.seed}, step {len(self.actions)}, action {self.actions[-1]}"
        return f"{where}: {sizes}{' (on a threshold)' if self.on_threshold else ''}"


@dataclass
class Agreement:
    """The result of comparing one scenario."""

    scenario: str
    states: int = 0
    episodes: int = 0
    vehicles: int = 0
    crashes: int = 0
    ends: int = 0
    largest: dict[str, float] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of states after which the two differ."""
        return len(self.differences) / max(1, self.states)

    @property
    def unexplained(self) -> list[Difference]:
        """Differences that no threshold explains."""
        return [difference for difference in self.differences if not difference.on_threshold]


@dataclass(frozen=True)
class Outcome:
    """The values that a step returns."""

    observation: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool

    def differences(self, other: Outcome) -> dict[str, float]:
        """Compare two outcomes."""
        return {
            "observation": _largest(self.observation, other.observation),
            "reward": _largest(np.array(self.reward), np.array(other.reward)),
            "terminated": float(self.terminated != other.terminated),
            "truncated": float(self.truncated != other.truncated),
        }


def _largest(expected: NDArray[Any], actual: NDArray[Any]) -> float:
    """Return the largest difference; NaN, which counts as one, where only one of the two is no number."""
    both_missing = np.isnan(expected) & np.isnan(actual)
    return float(np.abs(np.where(both_missing, 0.0, expected.astype(np.float64) - actual)).max())


class Ours:
    """Legible's batch of episodes, as the environments use it; episode 0 is stepped, 1 holds the expected state."""

    def __init__(self, scenario: str, config: Mapping[str, Any] | None, preset: str) -> None:
        self.settings = settings_of(scenario, config, preset=preset)
        self.episodes = Episodes(2, self.settings)
        self.world = self.episodes.world

    def read(self, env: Any, e: int) -> None:
        """Copy the state of highway-env into an episode."""
        synchronise.read_state(env, self.episodes.road_map, self.world, e)

    def step(self, action: int, key: np.uint64) -> Outcome:
        """Step episode 0 with random numbers from the beginning of a stream."""
        self.world.keys[0], self.world.episode[0, state.DRAWS] = key, 0
        what = np.array([kernel.PLAY, kernel.LEAVE], np.uint8)
        episodes = self.episodes
        episodes.step(np.array([action, 0]), what)
        return Outcome(
            episodes.observations[0].copy(),
            float(episodes.rewards[0]),
            bool(episodes.terminated[0]),
            bool(episodes.truncated[0]),
        )


class Reference:
    """highway-env, with random numbers from legible's streams once an episode has begun."""

    def __init__(self, scenario: str, config: Mapping[str, Any] | None, preset: str) -> None:
        from highway_env.envs.common.abstract import AbstractEnv

        self.env = FaramaEnv(scenario, config, preset=preset)
        self._bare_step = AbstractEnv.step
        self._renews = scenario == "intersection"

    def reset(self, seed: int) -> NDArray[np.float32]:
        """Start an episode."""
        return self.env.reset(seed=seed)[0]

    def step(self, action: int, key: np.uint64) -> Outcome:
        """Take a step; at the intersection some leave and come after it, unless the episode is over."""
        inner = self.env.inner
        seen, reward, terminated, truncated, _ = self._bare_step(inner, action)
        if self._renews and not (terminated or truncated):
            inner.np_random = inner.road.np_random = OurStream(int(key))
            inner._clear_vehicles()
            inner._spawn_vehicle(spawn_probability=inner.config["spawn_probability"])
        return Outcome(np.asarray(seen, np.float32).reshape(-1), float(reward), bool(terminated), bool(truncated))

    def nudge(self, rng: np.random.Generator) -> None:
        """Move all vehicles a tiny bit."""
        for vehicle in self.env.inner.road.vehicles:
            vehicle.position += rng.uniform(-NUDGE, NUDGE, 2)


def key_of_step(seed: int, step: int) -> np.uint64:
    """Return the stream of random numbers for a step of an episode."""
    return key_of_seed(np.uint64(seed * 10_000 + step))


_OPTIONAL = ("timer", "DELTA", "is_yielding", "speed_index")


def snapshot(env: Any) -> SimpleNamespace:
    """Return all that `synchronise.read_state` reads of highway-env's environment, as values that stay as they are."""
    vehicles = [_snapshot_of_vehicle(vehicle) for vehicle in env.road.vehicles]
    road = SimpleNamespace(vehicles=vehicles)
    if hasattr(env.road, "steps"):
        road.steps = env.road.steps
    frequencies = ("simulation_frequency", "policy_frequency")
    taken = SimpleNamespace(
        road=road,
        vehicle=vehicles[env.road.vehicles.index(env.vehicle)],
        steps=env.steps,
        time=env.time,
        config={name: env.config[name] for name in frequencies},
    )
    taken.unwrapped = taken
    return taken


def _snapshot_of_vehicle(vehicle: Any) -> SimpleNamespace:
    return SimpleNamespace(
        position=vehicle.position.copy(),
        heading=vehicle.heading,
        speed=vehicle.speed,
        lane_index=vehicle.lane_index,
        target_lane_index=vehicle.target_lane_index,
        target_speed=vehicle.target_speed,
        crashed=vehicle.crashed,
        impact=None if vehicle.impact is None else np.array(vehicle.impact),
        route=None if vehicle.route is None else list(vehicle.route),
        **{name: getattr(vehicle, name) for name in _OPTIONAL if hasattr(vehicle, name)},
    )


@dataclass(frozen=True)
class Transition:
    """A step of highway-env: the episode so far, the states before and after its last action."""

    seed: int
    actions: tuple[int, ...]
    before: SimpleNamespace
    after: SimpleNamespace
    outcome: Outcome


def transitions(
    scenario: str,
    states: int,
    *,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    preset: str = "authors",
    choose: Chooser | None = None,
    most_steps: int = 40,
) -> Iterator[Transition]:
    """Yield steps of highway-env from this many states; for the parameters see `compare`."""
    reference = Reference(scenario, config, preset)
    n_actions = int(reference.env.action_space.n)
    rng = np.random.default_rng(seed)
    done = 0
    while done < states:
        seen, actions = reference.reset(seed), ()
        for _ in range(min(most_steps, states - done)):
            actions = (*actions, choose(seen, rng) if choose else int(rng.integers(n_actions)))
            before = snapshot(reference.env.inner)
            outcome = reference.step(actions[-1], key_of_step(seed, len(actions)))
            yield Transition(seed, actions, before, snapshot(reference.env.inner), outcome)
            seen, done = outcome.observation, done + 1
            if outcome.terminated or outcome.truncated:
                break
        seed += 1


def check(
    scenario: str,
    steps: Iterable[Transition],
    *,
    config: Mapping[str, Any] | None = None,
    preset: str = "authors",
    explain: bool = True,
) -> Agreement:
    """Take the same steps as highway-env did, and compare."""
    ours, agreement = Ours(scenario, config, preset), Agreement(scenario)
    for step in steps:
        _check_step(ours, step, agreement)
    if explain:
        agreement.differences = [
            Difference(d.seed, d.actions, d.sizes, is_on_threshold(scenario, d, config, preset))
            for d in agreement.differences
        ]
    return agreement


def _check_step(ours: Ours, step: Transition, agreement: Agreement) -> None:
    world = ours.world
    ours.read(step.before, 0)
    ours.read(step.after, 1)
    actual = ours.step(step.actions[-1], key_of_step(step.seed, len(step.actions)))
    sizes = {**synchronise.differences(world, 1, world, 0), **step.outcome.differences(actual)}
    sizes["clock"] = abs(float(world.clock[0] - world.clock[1]))
    beyond = {name: size for name, size in sizes.items() if not size <= TOLERANCE}
    agreement.states += 1
    agreement.episodes += len(step.actions) == 1
    agreement.vehicles += int(world.episode[1, state.COUNT])
    agreement.crashes += int(world.marks[1, state.CRASHED, world.episode[1, state.EGO]])
    agreement.ends += step.outcome.terminated or step.outcome.truncated
    if beyond:
        agreement.differences.append(Difference(step.seed, step.actions, beyond, on_threshold=False))
        return
    for name, size in sizes.items():
        agreement.largest[name] = max(size, agreement.largest.get(name, 0.0))


def compare(
    scenario: str,
    states: int,
    *,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    preset: str = "authors",
    choose: Chooser | None = None,
    most_steps: int = 40,
    explain: bool = True,
) -> Agreement:
    """Compare one step from each of `states` states.

    Parameters
    ----------
    scenario, config, preset
        The environment.
    states
        How many states.
    seed
        Of the first episode; the others count up. Also decides random actions.
    choose
        The policy whose states they are; random actions by default.
    most_steps
        Longer episodes are left, for the sake of variety.
    explain
        Whether to look for thresholds where the two differ.
    """
    steps = transitions(scenario, states, seed=seed, config=config, preset=preset, choose=choose, most_steps=most_steps)
    return check(scenario, steps, config=config, preset=preset, explain=explain)


def is_on_threshold(
    scenario: str, difference: Difference, config: Mapping[str, Any] | None, preset: str, *, tries: int = 8
) -> bool:
    """Return whether highway-env itself comes to another result when all vehicles move by a billionth of a metre."""
    reference, ours = Reference(scenario, config, preset), Ours(scenario, config, preset)
    world = ours.world

    def outcome(nudged: int) -> Outcome:
        reference.reset(difference.seed)
        for step, action in enumerate(difference.actions[:-1], start=1):
            reference.step(action, key_of_step(difference.seed, step))
        if nudged:
            reference.nudge(np.random.default_rng(nudged))
        last = len(difference.actions)
        result = reference.step(difference.actions[-1], key_of_step(difference.seed, last))
        ours.read(reference.env.inner, min(nudged, 1))
        return result

    plain = outcome(0)
    for nudged in range(1, tries + 1):
        sizes = plain.differences(outcome(nudged)) | synchronise.differences(world, 0, world, 1)
        if any(not size <= TOLERANCE for size in sizes.values()):
            return True
    return False


def play_together(
    scenario: str,
    seed: int,
    actions: Sequence[int],
    config: Mapping[str, Any] | None = None,
    preset: str = "authors",
) -> dict[str, float]:
    """Play a whole episode in both from the same random numbers; return the largest differences, as in `compare`.

    The episode ends with the actions, or when either environment says so.
    """
    theirs = FaramaEnv(scenario, config, preset=preset)
    ours = HighwayEnv(scenario, config=config, preset=preset)
    theirs.inner.np_random = OurStream(int(key_of_seed(np.uint64(seed))))
    seen, _ = theirs.reset()
    expected = Outcome(seen, 0.0, terminated=False, truncated=False)
    actual = Outcome(ours.reset(seed=seed)[0], 0.0, terminated=False, truncated=False)
    world = state.new_world(1, ours.settings.capacity)
    largest: dict[str, float] = {"steps": 0.0}
    for action in [None, *actions]:
        if action is not None:
            expected, actual = Outcome(*theirs.step(action)[:4]), Outcome(*ours.step(action)[:4])
            largest["steps"] += 1
        sizes = expected.differences(actual)
        over = expected.terminated or expected.truncated or actual.terminated or actual.truncated
        if not over:  # after the end of an episode only highway-env lets others enter the intersection
            synchronise.read_state(theirs.inner, ours.road_map, world, 0)
            sizes |= synchronise.differences(world, 0, ours.episodes.world, 0)
        largest |= {name: max(size, largest.get(name, 0.0)) for name, size in sizes.items()}
        if over:
            break
    return largest
