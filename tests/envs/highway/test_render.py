"""Pictures, text and plain data of traffic."""

import json

import numpy as np
import pytest

pytest.importorskip("highway_env")

from legible_envs.highway import render, state
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.render import Picture, Traffic, describe_roads, to_text

SCALE = 5.0


def roads_of(scenario):
    return settings_of(scenario).roads()


def traffic(*vehicles, crashed=(), ego=0):
    """Return traffic of vehicles given as (x, y, heading)."""
    x, y, heading = np.array(vehicles, np.float64).T
    return Traffic(
        x, y, heading, np.full(len(x), 20.0), np.array([i in crashed for i in range(len(x))]), ego, seconds=1.5
    )


def colour_at(frame, column, row):
    return tuple(int(value) for value in frame[row, column])


def test_the_camera_follows_ego_along_straight_roads():
    picture = Picture(roads_of("highway"), SCALE)
    near, far = picture.draw(traffic((100, 4, 0))), picture.draw(traffic((1000, 4, 0)))
    assert near.shape == far.shape == (80, 600, 3)  # 120 m and three lanes of 4 m with 2 m of grass on each side
    middle = (round(render.BEHIND * SCALE) - 5, 40)
    assert colour_at(near, *middle) == colour_at(far, *middle) == render.EGO
    assert colour_at(near, 300, 2) == render.GRASS
    assert colour_at(near, 300, 40) == render.ASPHALT


def test_vehicles_are_drawn_where_they_are():
    frame = Picture(roads_of("highway"), SCALE).draw(traffic((100, 0, 0), (120, 8, 0), (140, 4, 0), crashed={2}))

    def pixel(x, y):
        return colour_at(frame, int((x - 100 + render.BEHIND) * SCALE), int((y + 4) * SCALE))

    assert pixel(98.5, 0) == render.EGO
    assert pixel(118.5, 8) == render.OTHER
    assert pixel(138.5, 4) == render.CRASHED
    assert pixel(120.9, 8) == render.WINDOW  # the windscreen is in front of the middle
    assert pixel(130, 0) == render.ASPHALT


def test_the_lines_between_lanes_are_striped_and_edges_are_not():
    frame = Picture(roads_of("highway"), SCALE).draw(traffic((1000, 4, 0)))
    bright = (frame > 180).all(axis=2)
    between, edge = bright[int((2 + 4) * SCALE)], bright[int((-2 + 4) * SCALE)]
    assert 0.2 < between.mean() < 0.5
    assert edge.all()


@pytest.mark.parametrize("scenario", ["roundabout", "intersection"])
def test_the_camera_stands_still_where_roads_bend(scenario):
    picture = Picture(roads_of(scenario), SCALE)
    first, second = picture.draw(traffic((2, 40, -np.pi / 2))), picture.draw(traffic((2, 30, -np.pi / 2)))
    assert first.shape == (500, 500, 3)
    changed = np.argwhere((first != second).any(axis=2))
    rows, columns = changed[:, 0] / SCALE - render.AROUND, changed[:, 1] / SCALE - render.AROUND
    assert rows.min() > 27
    assert rows.max() < 43
    assert np.abs(columns - 2).max() < 1.5


def test_the_obstacle_at_the_end_of_the_ramp():
    roads = roads_of("merge")
    (x, y) = roads.tables.obstacles[0]
    frame = Picture(roads, SCALE).draw(traffic((x - 30, 0, 0)))
    orange = np.argwhere((frame == render.OBSTACLE).all(axis=2))
    assert len(orange) >= 60  # 2 m × 2 m
    assert np.isclose(orange[:, 1].mean() / SCALE, render.BEHIND + 30, atol=0.3)
    assert "#" in to_text(roads, traffic((x - 30, 0, 0))).splitlines()[1 + round(y / 4)]


def test_text_of_lanes(snapshot):
    lines = to_text(roads_of("highway"), traffic((100, 4, 0), (110, 8, 0), (60, 0, 0), (400, 0, 0), crashed={1}))
    top, left, middle, right, bottom, status, *_ = lines.splitlines()
    assert top == bottom == "-" * 64
    assert middle == "." * 15 + "@>" + "." * 47
    assert right == "." * 19 + "xx" + "." * 43
    assert left == ">" + "." * 63  # half of it is out of sight
    assert status == snapshot


def test_text_of_a_map():
    board = to_text(roads_of("intersection"), traffic((2, 30, -np.pi / 2), (-30, 2, 0), (30, -2, np.pi), ego=0))
    lines = board.splitlines()
    assert len(lines) == 27
    assert lines[20][27] == "@"
    assert lines[13][11] == ">"
    assert lines[12][41] == "<"
    assert "crashed" in to_text(roads_of("intersection"), traffic((2, 30, 0.0), crashed={0}))


def test_plain_data_for_a_page():
    roads = describe_roads(roads_of("roundabout"))
    assert json.loads(json.dumps(roads)) == roads
    assert roads["straight"] is False
    assert len(roads["lanes"]) == 32
    ring = [lane for lane in roads["lanes"] if np.allclose(np.hypot(*np.array(lane["points"]).T), 24, atol=0.02)]
    assert len(ring) == 8
    assert all(lane["striped"] for lane in ring)
    merge = describe_roads(roads_of("merge"))
    assert merge["straight"] is True
    assert merge["obstacles"] == [[310.0, 8.0]]
    assert json.loads(json.dumps(merge)) == merge


def test_traffic_is_copied_out_of_a_batch():
    world = state.new_world(2, 4)
    for i, (x, y) in enumerate([(10.0, 0.0), (30.0, 4.0)]):
        state.place_vehicle(world.motion[1], world.marks[1], i, x, y, 0.1, 22.0, 0)
    world.episode[1, state.COUNT], world.episode[1, state.EGO], world.clock[1] = 2, 1, 3.5
    world.marks[1, state.CRASHED, 0] = 1
    seen = Traffic.of(world, 1)
    assert (seen.x.tolist(), seen.y.tolist(), seen.ego, seen.seconds) == ([10.0, 30.0], [0.0, 4.0], 1, 3.5)
    assert seen.crashed.tolist() == [True, False]
    world.motion[1, state.X, 0] = 99.0
    assert seen.x[0] == 10.0
