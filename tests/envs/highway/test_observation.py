"""The view of ego: the same numbers as highway-env's Kinematics observation, in every form that it can take."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from envs.highway.reference import SCENARIOS, live, smaller, state_of
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.observation import OBSERVABLE, observe
from legible_envs.highway.scratch import new_scratch
from legible_envs.highway.settings import HighwaySettings
from legible_envs.highway.state import COUNT, EGO, LANE, SPEED, World, X, Y, new_world, place_vehicle

SEVEN = ["presence", "x", "y", "vx", "vy", "cos_h", "sin_h"]
VIEWS: dict[str, dict[str, Any]] = {
    "authors": {"vehicles_count": 10, "features": SEVEN, "absolute": False},
    "everything": {"vehicles_count": 6, "features": list(OBSERVABLE), "absolute": True, "observe_intentions": True},
    "relative, behind, intentions hidden": {"features": list(OBSERVABLE[::-1]), "see_behind": True},
    "as it is": {"vehicles_count": 20, "features": SEVEN, "normalize": False, "order": "unsorted"},
    "unclipped, own ranges": {
        "features": SEVEN,
        "clip": False,
        "features_range": {"x": [-30, 10], "vy": [-1, 3], "cos_h": [0, 1]},
        "include_obstacles": False,
    },
    "two rows": {"vehicles_count": 2, "see_behind": True, "order": "unsorted"},
}


def view(settings: HighwaySettings, world: World) -> NDArray[np.float32]:
    rows, columns = settings.observation.vehicles_count, len(settings.observation.features)
    out = np.full(rows * columns, 7.0, np.float32)
    state = (world.motion[0], world.marks[0], world.episode[0])
    observe(settings.roads().tables, settings.viewing(), *state, out, new_scratch(settings.capacity))
    return out.reshape(rows, columns)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_view_is_that_of_highway_env(scenario: str) -> None:
    env = live(scenario, smaller(scenario))
    kinds = __import__("highway_env.envs.common.observation", fromlist=["KinematicObservation"])
    settings = {
        name: settings_of(scenario, {**smaller(scenario), "observation": {"type": "Kinematics", **config}})
        for name, config in VIEWS.items()
    }
    for seed in range(2):
        env.reset(seed=seed)
        theirs = {name: kinds.KinematicObservation(env.inner, **config) for name, config in VIEWS.items()}
        actions = np.random.default_rng(seed)
        for _ in range(14):
            world = state_of(env, settings["authors"])
            for name, own in settings.items():
                # The first view of an episode settles the ranges, so all of them look at every state.
                expected = theirs[name].observe()
                np.testing.assert_allclose(view(own, world), expected, rtol=1e-6, atol=1e-6, err_msg=name)
            env.step(int(actions.integers(env.action_space.n)))


def scene(*vehicles: tuple[float, float, float]) -> tuple[HighwaySettings, World]:
    """Return a highway of three lanes with ego first: x, y and speed of each."""
    settings = settings_of("highway", {"vehicles_count": len(vehicles) - 1})
    world = new_world(1, len(vehicles))
    for i, (x, y, speed) in enumerate(vehicles):
        place_vehicle(world.motion[0], world.marks[0], i, x, y, 0.0, speed, int(y // 4))
    world.episode[0, [COUNT, EGO]] = len(vehicles), 0
    return settings, world


def test_a_scene_worked_by_hand() -> None:
    settings, world = scene((100, 4, 24), (140, 8, 20), (92, 0, 28), (89, 4, 20), (301, 4, 20))
    expected = np.zeros((10, 7))
    expected[0] = 1, 100 / 200, 4 / 12, 24 / 80, 0, 1, 0
    expected[1] = 1, -8 / 200, -4 / 12, 4 / 80, 0, 1, 0  # eight metres behind are seen
    expected[2] = 1, 40 / 200, 4 / 12, -4 / 80, 0, 1, 0
    # Eleven metres behind are not, nor are 201 metres ahead.
    np.testing.assert_allclose(view(settings, world), expected, atol=1e-7)


def test_of_equally_near_vehicles_the_first_on_the_road_comes_first() -> None:
    settings, world = scene((100, 4, 25), (105, 0, 21), (95, 8, 22), (105, 8, 23), (104, 4, 24))
    speeds = view(settings, world)[1:5, 3] * 80 + 25
    np.testing.assert_allclose(speeds, [24, 21, 22, 23], atol=1e-5)


def test_only_the_nearest_get_a_row() -> None:
    settings, world = scene((0, 4, 25), *((100.0 - 5 * k, 0.0, 20.0) for k in range(15)))
    ahead = view(settings, world)[1:, 1] * 200
    np.testing.assert_allclose(ahead, np.arange(30.0, 75.0, 5.0), atol=1e-4)


def test_what_lies_beyond_the_range_is_cut_off() -> None:
    settings, world = scene((1000, 4, 25), (1010, 4, 25))
    world.motion[0, SPEED, 1] = -70.0
    world.motion[0, Y, 1] = 40.0
    seen = view(settings, world)
    assert seen[0, 1] == 1.0
    assert (seen[1, 2], seen[1, 3]) == (1.0, -1.0)
    assert world.motion[0, X, 0] == 1000.0
    assert world.marks[0, LANE, 0] == 1
