"""Rewards and ends of episodes: the same as highway-env's, in ordinary states and in contrived ones."""

from typing import Any

import numpy as np
import pytest

from envs.highway.reference import SCENARIOS, live, smaller, state_of
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.rewards import judge
from legible_envs.highway.settings import HighwaySettings
from legible_envs.highway.state import RUNNING, TERMINATED, TRUNCATED, World

# Weights that no default has.
WEIGHTS: dict[str, dict[str, Any]] = {
    "highway": {"collision_reward": -3, "right_lane_reward": 0.7, "high_speed_reward": 1.3},
    "highway-fast": {"collision_reward": -3, "right_lane_reward": 0.7, "reward_speed_range": [10, 45]},
    "merge": {"merging_speed_reward": -1.1, "lane_change_reward": 0.3, "reward_speed_range": [5, 25]},
    "roundabout": {"collision_reward": -2, "high_speed_reward": 0.9, "lane_change_reward": -0.3},
    "intersection": {"arrived_reward": 3, "collision_reward": -1.5, "reward_speed_range": [2, 11]},
}


def verdict(settings: HighwaySettings, world: World, action: int) -> tuple[float, int]:
    roads, rewarding = settings.roads().tables, settings.rewarding()
    clock = float(world.clock[0])
    return judge(roads, rewarding, world.motion[0], world.marks[0], world.episode[0], clock, action)


def assert_agrees(env: Any, settings: HighwaySettings, action: int) -> int:
    reward, status = verdict(settings, state_of(env, settings), action)
    assert reward == pytest.approx(float(env.inner._reward(action)), abs=1e-9)
    assert bool(status & TERMINATED) == bool(env.inner._is_terminated())
    assert bool(status & TRUNCATED) == bool(env.inner._is_truncated())
    return status


def variations(scenario: str) -> list[dict[str, Any]]:
    """Return configurations with different rewards and ends of episodes."""
    short = {} if scenario == "merge" else {"duration": 5}
    plain = {} if scenario == "merge" else {"normalize_reward": False}
    scaled = {} if scenario == "merge" else {"normalize_reward": True}
    strict = {} if scenario in {"merge", "roundabout"} else {"offroad_terminal": True}
    return [{}, {**WEIGHTS[scenario], **short, **plain}, {**WEIGHTS[scenario], **scaled, **strict}]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rewards_and_ends_are_those_of_highway_env(scenario: str) -> None:
    for config in variations(scenario):
        env = live(scenario, {**smaller(scenario), **config})
        settings = settings_of(scenario, {**smaller(scenario), **config})
        actions = np.random.default_rng(3)
        n = int(env.action_space.n)
        for seed in range(2):
            env.reset(seed=seed)
            for _ in range(14):
                env.step(int(actions.integers(n)))
                for action in range(n):
                    assert_agrees(env, settings, action)


def put(env: Any, x: float, y: float, heading: float, speed: float, *, crashed: bool) -> None:
    ego = env.inner.vehicle
    ego.position = np.array([x, y], np.float64)
    ego.heading, ego.speed, ego.crashed = heading, speed, crashed
    ego.on_state_update()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ego_anywhere_crashed_or_not(scenario: str) -> None:
    """Ego is put off the road, onto every way out of the intersection, past the end of merge, onto its ramp."""
    places = np.random.default_rng(11)
    bounds = {"merge": (-20, 420, -10, 20), "highway": (0, 500, -8, 18), "highway-fast": (9990, 10010, -8, 18)}
    left, right, top, bottom = bounds.get(scenario, (-70, 70, -70, 70))
    found = set()
    for config in variations(scenario):
        env = live(scenario, {**smaller(scenario), **config})
        settings = settings_of(scenario, {**smaller(scenario), **config})
        env.reset(seed=0)
        env.inner.time = 4.5
        for k in range(120):
            x, y = places.uniform(left, right), places.uniform(top, bottom)
            # Half of them where a road is: the roads of intersection and roundabout run along the axes.
            if k % 2 and scenario in {"roundabout", "intersection"}:
                x = places.choice([-2.0, 2.0])
            heading, speed = places.uniform(-np.pi, np.pi), places.uniform(-5, 42)
            put(env, x, y, places.choice([heading, np.pi / 2, -np.pi / 2]), speed, crashed=bool(places.integers(2)))
            env.inner.time = float(places.choice([0.5, 4.5, 5.0, 600.0]))
            found.add(assert_agrees(env, settings, int(places.integers(env.action_space.n))))
    expected = (
        {RUNNING, TERMINATED} if scenario == "merge" else {RUNNING, TERMINATED, TRUNCATED, TERMINATED | TRUNCATED}
    )
    assert found == expected


def test_a_step_worked_by_hand() -> None:
    """Ego at 30 m/s in the rightmost of three lanes earns all there is; crashed, it loses 1 of 1.5."""
    env = live("highway", {"vehicles_count": 0, "initial_lane_id": 2})
    settings = settings_of("highway", {"vehicles_count": 0, "initial_lane_id": 2})
    env.reset(seed=0)
    put(env, 100, 8, 0.0, 30.0, crashed=False)
    assert verdict(settings, state_of(env, settings), 1) == (pytest.approx(1.0), RUNNING)
    put(env, 100, 8, 0.0, 30.0, crashed=True)
    assert verdict(settings, state_of(env, settings), 1) == (pytest.approx(1 / 3), TERMINATED)
