"""Traffic at the start: the same as highway-env's for the same random numbers, and the numbers are well distributed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from envs.highway.reference import OurStream, live, state_of
from lab.synchronise import differences
from legible_envs.highway import spawn
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.scratch import new_scratch
from legible_envs.highway.settings import HighwaySettings
from legible_envs.highway.state import COUNT, DRAWS, EGO, EXPONENT, World, X, Y, new_world


def starter(settings: HighwaySettings) -> Callable[[int], World]:
    """Return what starts an episode with a given key."""
    roads, driving, spawning = settings.roads().tables, settings.driving(), settings.spawning()
    scratch = new_scratch(settings.capacity)

    def start(key: int) -> World:
        world = new_world(1, settings.capacity)
        world.keys[0] = key
        motion, marks, episode = world.motion[0], world.marks[0], world.episode[0]
        spawn.start_episode(roads, driving, spawning, motion, marks, episode, world.keys[0], scratch)
        return world

    return start


def assert_same(theirs: World, ours: World) -> None:
    found = differences(theirs, 0, ours, 0)
    exponents = theirs.motion[0, EXPONENT] - ours.motion[0, EXPONENT]
    count = int(theirs.episode[0, COUNT])
    others = np.arange(count) != theirs.episode[0, EGO]
    found["exponent"] = float(np.abs(exponents[:count][others]).max(initial=0.0))
    assert {name: value for name, value in found.items() if value > 1e-9} == {}


CONFIGS: list[tuple[str, dict[str, Any], str]] = [
    ("highway", {}, "authors"),
    ("highway", {"lanes_count": 5, "initial_lane_id": 2, "ego_spacing": 1, "vehicles_density": 1.7}, "highway-env"),
    ("highway", {"vehicles_count": 0}, "authors"),
    ("highway-fast", {}, "highway-env"),
    ("merge", {}, "authors"),
    ("merge", {"action": {"type": "DiscreteMetaAction", "target_speeds": [0, 10, 20, 30, 40]}}, "authors"),
    ("roundabout", {}, "authors"),
    ("roundabout", {"incoming_vehicle_destination": 1}, "authors"),
    ("intersection", {}, "authors"),
    ("intersection", {"destination": None, "initial_vehicle_count": 20}, "highway-env"),
    ("intersection", {"destination": "o3", "initial_vehicle_count": 1}, "highway-env"),
]


@pytest.mark.parametrize(("scenario", "config", "preset"), CONFIGS)
def test_the_same_random_numbers_give_the_same_traffic(scenario: str, config: dict[str, Any], preset: str) -> None:
    env = live(scenario, config, preset=preset)
    settings = settings_of(scenario, config, preset=preset)
    start = starter(settings)
    for key in range(4):
        stream = OurStream(1000 + key)
        env.inner.np_random = stream
        env.reset()
        ours = start(1000 + key)
        assert_same(state_of(env, settings), ours)
        assert ours.episode[0, DRAWS] == stream.count


def test_the_same_random_numbers_renew_the_intersections_traffic_alike() -> None:
    settings = settings_of("intersection")
    roads, spawning = settings.roads().tables, settings.spawning()
    env = live("intersection")
    entered, left = 0, 0
    for seed in range(2):
        env.reset(seed=seed)
        for step in range(40):
            # No vehicle enters or leaves during the step itself; this is done below, with known numbers.
            keep = env.inner._clear_vehicles, env.inner._spawn_vehicle
            env.inner._clear_vehicles = env.inner._spawn_vehicle = lambda **_: None
            env.step(0)
            env.inner._clear_vehicles, env.inner._spawn_vehicle = keep
            world = state_of(env, settings)
            before = int(world.episode[0, COUNT])
            stream = OurStream(step, count=3)
            world.episode[0, DRAWS] = 3
            spawn.renew_traffic(roads, spawning, world.motion[0], world.marks[0], world.episode[0], np.uint64(step))
            env.inner.np_random = env.inner.road.np_random = stream
            env.inner._clear_vehicles()
            left += before - len(env.inner.road.vehicles)
            here = len(env.inner.road.vehicles)
            env.inner._spawn_vehicle(spawn_probability=env.inner.config["spawn_probability"])
            entered += len(env.inner.road.vehicles) - here
            assert_same(state_of(env, settings), world)
            assert world.episode[0, DRAWS] == stream.count
    assert entered > 5
    assert left > 5


def test_other_scenarios_keep_their_traffic() -> None:
    settings = settings_of("roundabout")
    world = starter(settings)(1)
    before = world.motion.copy()
    roads, spawning = settings.roads().tables, settings.spawning()
    spawn.renew_traffic(roads, spawning, world.motion[0], world.marks[0], world.episode[0], np.uint64(1))
    np.testing.assert_array_equal(world.motion, before)


def test_a_full_road_takes_no_vehicle_in() -> None:
    settings = settings_of("intersection", {"spawn_probability": 1.0})
    roads, spawning = settings.roads().tables, settings.spawning()
    full = starter(settings)(5)
    count = int(full.episode[0, COUNT])
    # Room for exactly the vehicles on the road, far from the place where others would enter.
    motion, marks = full.motion[0, :, :count].copy(), full.marks[0, :, :count].copy()
    motion[X], motion[Y] = 0.0, np.arange(count)
    for key in range(20):
        spawn.renew_traffic(roads, spawning, motion, marks, full.episode[0], np.uint64(key))
        assert full.episode[0, COUNT] <= count


# Random numbers -------------------------------------------------------------------------------------------------------


def drawn(how: Callable[..., float], *arguments: float, n: int = 20_000) -> NDArray[np.float64]:
    episode = new_world(1, 1).episode[0]
    return np.array([how(episode, np.uint64(77), *arguments) for _ in range(n)])


def test_normal_numbers_are_normal_and_independent() -> None:
    numbers = drawn(spawn._draw_normal)
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_uniform_and_whole_numbers_are_evenly_spread() -> None:
    assert stats.kstest(drawn(spawn._draw_between, 3.5, 4.5), stats.uniform(3.5, 1.0).cdf).pvalue > 0.01
    counts = np.bincount(drawn(spawn._draw_below, 3).astype(int), minlength=3)
    assert len(counts) == 3
    assert stats.chisquare(counts).pvalue > 0.01
