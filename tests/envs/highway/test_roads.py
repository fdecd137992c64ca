"""Geometry of the roads, compared with highway-env's own lanes at random places."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible_envs.highway import roads as geometry
from legible_envs.highway.roads import RoadError, scenario_roads

SCENARIOS = ["highway", "merge", "roundabout", "intersection"]


def network_of(scenario):
    """highway-env's network, made as `scenario_roads` makes it: without traffic."""
    module = pytest.importorskip(f"highway_env.envs.{scenario}_env")
    maker = getattr(module, f"{scenario.capitalize()}Env")
    blank = maker.__new__(maker)
    blank.config = maker.default_config()
    (blank._create_road if scenario == "highway" else blank._make_road)()
    return blank.road.network


@pytest.fixture(params=SCENARIOS)
def roads(request):
    return scenario_roads(request.param), network_of(request.param), request.param


def places(scenario, n, seed=0):
    rng = np.random.default_rng(seed)
    if scenario in ("highway", "merge"):
        return np.column_stack([rng.uniform(-20, 480, n), rng.uniform(-6, 20, n), rng.uniform(-2, 2, n)])
    return np.column_stack([rng.uniform(-110, 110, (n, 2)), rng.uniform(-8, 8, n)])


def test_lanes_have_highway_envs_names_and_order(roads):
    ours, network, _ = roads
    assert ours.lane_names == tuple(network.lanes_dict())


def test_coordinates(roads):
    ours, network, scenario = roads
    for x, y, _ in places(scenario, 60):
        for number, lane in enumerate(network.lanes_list()):
            s, r = lane.local_coordinates(np.array([x, y]))
            assert geometry.local_coordinates(ours.tables, number, x, y) == pytest.approx((s, r), abs=1e-9)
            assert geometry.longitudinal_of(ours.tables, number, x, y) == pytest.approx(s, abs=1e-9)
            assert geometry.position_on(ours.tables, number, s, 1.5) == pytest.approx(lane.position(s, 1.5), abs=1e-9)
            assert geometry.heading_at(ours.tables, number, s) == pytest.approx(lane.heading_at(s), abs=1e-12)


def test_tests_of_places(roads):
    ours, network, scenario = roads
    for x, y, _ in places(scenario, 60):
        position = np.array([x, y])
        for number, lane in enumerate(network.lanes_list()):
            s, r = geometry.local_coordinates(ours.tables, number, x, y)
            for margin in (0.0, 1.0):
                assert geometry.is_on_lane(ours.tables, number, s, r, margin) == lane.on_lane(position, margin=margin)
            assert geometry.is_reachable(ours.tables, number, x, y) == lane.is_reachable_from(position)
            assert geometry.is_after_end(ours.tables, number, x, y) == lane.after_end(position)
            assert geometry.distance_to_lane(ours.tables, number, x, y) == pytest.approx(lane.distance(position))


def test_the_closest_lane_whatever_the_guess(roads):
    ours, network, scenario = roads
    n = len(ours.lane_names)
    for k, (x, y, heading) in enumerate(places(scenario, 150)):
        expected = network.get_closest_lane_index(np.array([x, y]), heading)
        assert ours.lane_names[geometry.closest_lane(ours.tables, x, y, heading, k % n)] == expected


def test_shortest_paths(roads):
    ours, network, _ = roads
    tables = ours.tables
    for start in ours.nodes:
        for goal in ours.nodes:
            if start == goal or start not in network.graph:
                continue
            path = network.shortest_path(start, goal)
            here, there = ours.node_number(start), ours.node_number(goal)
            n = tables.path_lengths[here, there]
            found = [ours.road_names[road] for road in tables.paths[here, there, :n]]
            assert found == list(pairwise(path))


def test_what_lies_on_the_road():
    assert scenario_roads("merge").tables.obstacles.tolist() == [[310.0, 8.0]]
    assert len(scenario_roads("roundabout").tables.obstacles) == 0


def test_reading_roads_leaves_highway_env_alone():
    behavior = pytest.importorskip("highway_env.vehicle.behavior")
    before = behavior.IDMVehicle.DISTANCE_WANTED, behavior.IDMVehicle.COMFORT_ACC_MAX
    scenario_roads.cache_clear()
    scenario_roads("intersection")
    after = behavior.IDMVehicle.DISTANCE_WANTED, behavior.IDMVehicle.COMFORT_ACC_MAX
    assert after == before


def test_without_highway_env_it_says_what_to_install(monkeypatch, raises_saved):
    scenario_roads.cache_clear()
    monkeypatch.setitem(sys.modules, "highway_env", None)
    with raises_saved(LegibleError):
        scenario_roads("merge")
    with pytest.raises(LegibleError, match=r"legible-rl\[highway\]"):
        EnvironmentSpec("legible/Merge-v0").make()
    with raises_saved(LegibleError):
        EnvironmentSpec("farama/Merge-v0").make()


def test_more_obstacles_than_there_is_room_for_are_refused(raises_saved):
    with raises_saved(RoadError):
        geometry.from_network(None, [None] * 9)


def test_unknown_roads_and_lanes():
    with pytest.raises(RoadError, match="racetrack"):
        scenario_roads("racetrack")

    class SpiralLane:
        pass

    class Network:
        graph = {"a": {"b": [SpiralLane()]}}  # noqa: RUF012

    with pytest.raises(RoadError, match="SpiralLane"):
        geometry.from_network(Network())


def test_wrapping_angles():
    for angle in (0.0, 3.0, -3.0, np.pi, -np.pi, 7.0, -7.0, 100.0):
        assert geometry.wrap_to_pi(angle) == ((angle + np.pi) % (2 * np.pi)) - np.pi
