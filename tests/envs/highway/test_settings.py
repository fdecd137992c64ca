"""Settings: highway-env's own defaults, the authors' preset, and refusals that name the mistake."""

from typing import Any

import numpy as np
import pytest

from legible_envs.highway.configuration import settings_of
from legible_envs.highway.presets import HIGHWAY_ENV_DEFAULTS
from legible_envs.highway.settings import SCENARIOS, HighwayError
from legible_envs.highway.state import INTERSECTION

CLASSES = {
    "highway": ("highway_env.envs.highway_env", "HighwayEnv"),
    "highway-fast": ("highway_env.envs.highway_env", "HighwayEnvFast"),
    "merge": ("highway_env.envs.merge_env", "MergeEnv"),
    "intersection": ("highway_env.envs.intersection_env", "IntersectionEnv"),
    "roundabout": ("highway_env.envs.roundabout_env", "RoundaboutEnv"),
}


def own_defaults(scenario: str) -> dict[str, Any]:
    module, name = CLASSES[scenario]
    classes = pytest.importorskip(module)
    defaults: dict[str, Any] = getattr(classes, name).default_config()
    return defaults


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_defaults_are_those_of_the_installed_highway_env(scenario: str) -> None:
    theirs = own_defaults(scenario)
    ours = HIGHWAY_ENV_DEFAULTS[scenario]
    assert {key: theirs[key] for key in ours} == ours


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_whole_configuration_of_highway_env_is_accepted_and_is_the_preset(scenario: str) -> None:
    assert settings_of(scenario, own_defaults(scenario)) == settings_of(scenario, preset="highway-env")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_authors_configuration_is_the_default(scenario: str) -> None:
    settings = settings_of(scenario)
    assert (settings.observation.vehicles_count, len(settings.observation.features)) == (10, 7)
    assert settings.policy_frequency == 2
    assert settings.duration == (float("inf") if scenario == "merge" else 600)
    assert not settings.observation.absolute
    assert settings.observation.features_range is None
    assert settings.driving().frames == (2 if scenario == "highway-fast" else 7)


def test_actions_and_speeds_stay_those_of_the_scenario() -> None:
    assert settings_of("intersection").action_names == ("SLOWER", "IDLE", "FASTER")
    assert settings_of("intersection").target_speeds == (0, 4.5, 9)
    assert settings_of("roundabout").target_speeds == (0, 8, 16)
    assert settings_of("highway").target_speeds == (20, 25, 30)
    assert settings_of("highway").action_names == ("LANE_LEFT", "IDLE", "LANE_RIGHT", "FASTER", "SLOWER")


def test_a_given_observation_replaces_the_whole_entry_as_in_highway_env() -> None:
    settings = settings_of("roundabout", {"observation": {"vehicles_count": 3}}, preset="highway-env")
    assert settings.observation.features_range is None
    assert not settings.observation.absolute


def test_ranges_in_the_form_of_the_kernel() -> None:
    viewing = settings_of("highway").viewing()
    np.testing.assert_array_equal(viewing.highs, [np.nan, 200, 12, 80, 80, np.nan, np.nan])
    assert settings_of("intersection").viewing().highs[2] == 4
    assert settings_of("merge").viewing().highs[2] == 8
    own = settings_of("roundabout", preset="highway-env").viewing()
    np.testing.assert_array_equal(own.lows, [np.nan, -100, -100, -15, -15])
    plain = settings_of("highway", {"observation": {"normalize": False}}).viewing()
    assert np.isnan(plain.lows).all()


def test_destinations_in_the_form_of_the_kernel() -> None:
    assert settings_of("intersection").spawning().destination == 1
    assert settings_of("intersection", {"destination": None}).spawning().destination == -1
    assert settings_of("roundabout").spawning().destination == -1
    assert settings_of("roundabout", {"incoming_vehicle_destination": 2}).spawning().destination == 2


def test_the_intersection_has_its_own_drivers_and_rules() -> None:
    there, elsewhere = settings_of("intersection").driving(), settings_of("roundabout").driving()
    assert (there.distance_wanted, there.comfort_acceleration, there.comfort_braking) == (7, 6, -3)
    assert (elsewhere.distance_wanted, elsewhere.comfort_acceleration, elsewhere.comfort_braking) == (10, 3, -5)
    assert (there.regulation_period, elsewhere.regulation_period) == (7, 0)
    assert settings_of("highway-fast").driving().only_ego_collides


def test_how_many_vehicles_there_can_be() -> None:
    assert settings_of("highway", {"vehicles_count": 7}).capacity == 8
    assert settings_of("merge").capacity == 5
    assert settings_of("intersection").capacity > 10
    assert settings_of("intersection").kind == INTERSECTION


@pytest.mark.parametrize(
    ("scenario", "config", "words"),
    [
        ("motorway", {}, "'motorway' is not known"),
        ("highway", {"lane_count": 3}, "Did you mean 'lanes_count'"),
        ("merge", {"duration": 40}, "end where the road ends"),
        ("merge", {"vehicles_count": 40}, "always four vehicles"),
        ("intersection", {"vehicles_count": 40}, "initial_vehicle_count"),
        ("highway", {"controlled_vehicles": 2}, "controlled_vehicles = 2 is not supported"),
        ("highway", {"neighbour_vehicles_connected_lanes": True}, "not supported"),
        ("highway", {"other_vehicles_type": "highway_env.vehicle.behavior.LinearVehicle"}, "not supported"),
        ("highway", {"lane_change_reward": -1}, "has no effect"),
        ("highway", {"lanes_count": 0}, "at least 1"),
        ("highway", {"lanes_count": 2.5}, "whole number"),
        ("highway", {"duration": 0}, "above 0"),
        ("highway", {"duration": "long"}, "is a number"),
        ("highway", {"initial_lane_id": 3}, "lanes are 0…2"),
        ("highway", {"policy_frequency": 30}, "simulate nothing"),
        ("highway", {"normalize_reward": 1}, "True or False"),
        ("highway", {"reward_speed_range": [20, 20]}, "no width"),
        ("highway", {"reward_speed_range": 20}, "pair"),
        ("highway", {"collision_reward": 0.5}, "cannot be normalised"),
        ("intersection", {"spawn_probability": 1.5}, "between 0 and 1"),
        ("intersection", {"destination": "o0"}, "'o1'"),
        ("roundabout", {"incoming_vehicle_destination": 3}, "incoming_vehicle_destination is 0"),
        ("intersection", {"simulation_frequency": 1, "policy_frequency": 1}, "must be 2 at least"),
        ("highway", {"observation": "Kinematics"}, "must be a mapping"),
        ("highway", {"observation": {"type": "OccupancyGrid"}}, "'OccupancyGrid' is not supported"),
        ("highway", {"observation": {"order": "shuffled"}}, "'sorted' or 'unsorted'"),
        ("highway", {"observation": {"vehicles_count": 1}}, "at least 2"),
        ("highway", {"observation": {"features": ["x", "vz"]}}, "'vz' cannot be observed"),
        ("highway", {"observation": {"features": ["x", "x"]}}, "twice"),
        ("highway", {"observation": {"see_behnd": True}}, "Did you mean 'see_behind'"),
        ("highway", {"action": {"type": "ContinuousAction"}}, "'ContinuousAction' is not supported"),
        ("highway", {"action": {"lateral": False, "longitudinal": False}}, "needs longitudinal or lateral"),
        ("highway", {"action": {"target_speeds": [20]}}, "two different speeds"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(scenario: str, config: dict[str, Any], words: str) -> None:
    with pytest.raises(HighwayError, match=words):
        settings_of(scenario, config)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(HighwayError, match="authors, highway-env"):
        settings_of("highway", preset="paper")
