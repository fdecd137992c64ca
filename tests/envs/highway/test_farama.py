"""Farama's highway-env behind legible's ids."""

import copy

import gymnasium
import numpy as np
import pytest

from legible.engines import InProcess
from legible.environments import EnvironmentSpec, feature_space_of
from legible.settings import StudySettings
from legible.study import Study
from legible_envs.highway.features import COLUMNS
from legible_envs.highway.settings import HighwayError
from toy_environments import Constant

pytest.importorskip("highway_env")

from legible_envs.highway.farama import FaramaEnv, farama_features

SCENARIOS = {
    "Highway": "highway",
    "HighwayFast": "highway-fast",
    "Merge": "merge",
    "Intersection": "intersection",
    "Roundabout": "roundabout",
}
ALL_ACTIONS = ("LANE_LEFT", "IDLE", "LANE_RIGHT", "FASTER", "SLOWER")
FEW = {"vehicles_count": 8}


def make(scenario: str, **config: object) -> FaramaEnv:
    return FaramaEnv(scenario, config)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_authors_configuration_is_the_default(name):
    env = EnvironmentSpec(f"farama/{name}-v0", {"config": {"vehicles_count": 5}}).make()
    config = env.unwrapped.config
    assert (config["lanes_count"], config["policy_frequency"], config["duration"]) == (3, 2, 600)
    assert config["vehicles_count"] == 5
    assert env.observation_space.shape == (70,)
    space = feature_space_of(env)
    assert space.names[7:14] == tuple(f"vehicle1.{column}" for column in COLUMNS)
    assert space.action_names == (("SLOWER", "IDLE", "FASTER") if name == "Intersection" else ALL_ACTIONS)
    lanes = {"Highway": 3, "HighwayFast": 3, "Merge": 2, "Intersection": 1, "Roundabout": 1}[name]
    assert (space[2].unit, space[2].scale) == ("m", 4.0 * lanes)
    assert ("south" in space[2].words) == (name in {"Intersection", "Roundabout"})


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_fast_environments_have_the_same_names_and_words(name):
    theirs, ours = (EnvironmentSpec(f"{namespace}/{name}-v0").make() for namespace in ("farama", "legible"))
    assert feature_space_of(ours) == feature_space_of(theirs)
    assert ours.observation_space.shape == theirs.observation_space.shape


def test_fifty_vehicles_without_a_config():
    env = FaramaEnv("highway")
    assert len(env.inner.road.vehicles) == 51


def test_observations_are_the_inner_table_row_by_row():
    env = make("highway-fast", **FEW)
    observation, _ = env.reset(seed=4)
    assert observation.dtype == np.float32
    table = env.inner.observation_type.observe()
    assert np.array_equal(observation.reshape(table.shape), table)
    ego = env.inner.vehicle
    assert observation[env.feature_space.feature_index("ego.y")] == np.float32(ego.position[1] / 12)
    gaps = [v.position[0] - ego.position[0] for v in env.inner.road.vehicles if v is not ego]
    ahead = min(gap for gap in gaps if gap > -2 * ego.LENGTH)
    assert observation[env.feature_space.feature_index("vehicle1.x")] == np.float32(ahead / 200)


@pytest.mark.parametrize("scenario", ["highway-fast", "merge", "intersection"])
def test_the_same_seed_gives_the_same_episode(scenario):
    env, actions = make(scenario, **FEW), [1, 2, 1, 0, 1]

    def episode():
        start = env.reset(seed=11)[0]
        return np.array([start, *(env.step(action)[0] for action in actions)])

    first = episode()
    assert np.array_equal(first, episode())


def test_an_intersection_changes_nothing_for_the_others():
    env = make("highway-fast", **FEW)

    def gaps():
        env.reset(seed=3)
        return np.array([env.step(1)[0] for _ in range(4)])

    before = gaps()
    crossing = make("intersection")
    crossing.reset(seed=1)
    crossing.step(1)
    assert np.array_equal(gaps(), before)


def test_success_is_reported_at_the_end():
    env = make("highway-fast", duration=1, **FEW)
    env.reset(seed=0)
    assert "is_success" not in env.step(1)[4]
    _, _, terminated, truncated, info = env.step(1)
    assert (terminated, truncated, info["is_success"]) == (False, True, True)
    crossing = make("intersection", duration=1)
    crossing.reset(seed=0)
    crossing.step(0)
    assert crossing.step(0)[4]["is_success"] is False  # time ran out before it arrived


def test_the_scenarios_own_configuration(snapshot):
    env = FaramaEnv("intersection", preset="highway-env")
    assert env.observation_space.shape == (15 * 7,)
    assert env.config["duration"] == 13
    place = env.feature_space[9]
    assert place.words == snapshot
    assert (place.unit, place.scale) == ("m", 100.0)
    raw = FaramaEnv("merge", {"observation": {"type": "Kinematics", "normalize": False}}, preset="highway-env")
    assert raw.feature_space[1].words == snapshot
    assert (raw.feature_space[1].unit, raw.feature_space[1].cuts) == ("m", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": "higway"}, "no scenario 'higway' that is known here. Did you mean 'highway'"),
        ({"scenario": "merge", "config": {"duratoin": 5}}, "merge: there is no setting 'duratoin'. Did you mean 'dur"),
        ({"scenario": "merge", "preset": "mine"}, "preset 'mine' is not known; use one of authors, highway-env"),
        (
            {"scenario": "merge", "config": {"observation": {"type": "OccupancyGrid"}}},
            "merge: the observation must be of the type Kinematics",
        ),
    ],
)
def test_mistakes_are_explained(arguments, message):
    with pytest.raises(HighwayError, match=message):
        FaramaEnv(**arguments)


def test_the_states_of_copies_go_separate_ways():
    env = make("highway-fast", **FEW)
    env.reset(seed=5)
    other = copy.deepcopy(env)
    expected = env.step(3)[0]
    assert np.array_equal(other.step(3)[0], expected)


def test_gymnasiums_own_checks():
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make("farama/Merge-v0", disable_env_checker=True)
    check_env(env.unwrapped, skip_render_check=True)


def test_names_for_any_environment_of_highway_env():
    plain = gymnasium.make("highway_env:highway-fast-v0", config=FEW)
    space = farama_features(plain)
    assert len(space) == 25
    assert space.names[5:10] == ("vehicle1.presence", "vehicle1.x", "vehicle1.y", "vehicle1.vx", "vehicle1.vy")
    assert farama_features(gymnasium.make("highway_env:parking-v0")) is None


def test_plain_ids_have_names_whatever_their_configuration():
    plain = EnvironmentSpec("highway-fast-v0", {"config": FEW}).make()
    assert feature_space_of(plain) == farama_features(plain)
    observation = {"type": "Kinematics", "vehicles_count": 3, "features": ["x", "y"]}
    small = EnvironmentSpec("highway-fast-v0", {"config": {**FEW, "observation": observation}}).make()
    names = ("ego.x", "ego.y", "vehicle1.x", "vehicle1.y", "vehicle2.x", "vehicle2.y")
    assert feature_space_of(small).names == names


@pytest.mark.filterwarnings("ignore:.*is out of date")
def test_shipped_relations_fit_plain_ids(tmp_path):
    for name in ("highway", "highway-fast", "merge", "roundabout", "intersection"):
        config = FEW if name.startswith("highway") else {}
        study = Study(
            tmp_path / name,
            EnvironmentSpec(f"{name}-v0", {"config": {**config, "duration": 2}}),
            Constant(*(float(action == 1) for action in range(3 if name == "intersection" else 5))),
            settings=StudySettings(episodes=2),
            engine=InProcess(),
        )
        study.collect()
        mirrors = {"mirror"} if name != "intersection" else set()
        assert {relation.name for relation in study.relations} == {"next vehicle", "previous vehicle"} | mirrors
