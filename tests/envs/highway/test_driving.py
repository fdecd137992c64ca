"""The driving kernels on cases small enough to be worked out by hand."""

import numpy as np
import pytest

from legible_envs.highway import collisions, driving, idm, neighbours, right_of_way, state, steering
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.roads import closest_lane, heading_at, next_lane, plan_route, position_on, scenario_roads
from legible_envs.highway.scratch import new_scratch

DT = 1 / 15


class Scene:
    """One episode, built vehicle by vehicle; the first one is ego if `ego` is 0."""

    def __init__(self, scenario="highway", ego=-1, capacity=16):
        self.settings = settings_of(scenario)
        self.map = self.settings.roads()
        self.roads, self.driving = self.map.tables, self.settings.driving()
        world = state.new_world(1, capacity)
        self.motion, self.marks, self.episode = world.motion[0], world.marks[0], world.episode[0]
        self.episode[state.EGO] = ego
        self.scratch = new_scratch(capacity)

    def add(self, x, y, speed, heading=0.0, target=None, exponent=4.0):
        i = int(self.episode[state.COUNT])
        lane = closest_lane(self.roads, x, y, heading, 0)
        state.place_vehicle(self.motion, self.marks, i, x, y, heading, speed, lane)
        self.motion[state.EXPONENT, i] = exponent
        self.motion[state.TIMER, i] = 0.0
        if target is not None:
            self.motion[state.TARGET_SPEED, i] = target
        self.episode[state.COUNT] = i + 1
        return i

    def place(self, *vehicles):
        """Add vehicles: x, y, speed and, if given, heading and target speed."""
        for vehicle in vehicles:
            self.add(*vehicle)
        return self

    @property
    def count(self):
        return int(self.episode[state.COUNT])

    def simulate(self, frames=1):
        driving.simulate_frames(self.roads, self.driving, self.motion, self.marks, self.episode, frames, self.scratch)

    def order(self):
        """Bring the order along x up to date, as simulating does."""
        self.scratch.order[: self.count] = np.argsort(self.motion[state.X, : self.count], kind="stable")
        self.scratch.rank[self.scratch.order[: self.count]] = np.arange(self.count)

    def neighbours(self, i, lane):
        self.order()
        return neighbours.neighbours(self.roads, self.motion, self.count, i, lane, self.scratch)

    def should_change(self, i, lane):
        self.order()
        return idm.should_change(self.roads, self.driving, self.motion, self.marks, self.count, i, lane, self.scratch)

    def interaction(self, i, front):
        return idm.interaction(self.roads, self.driving, self.motion, self.marks, self.count, i, front)


# IDM ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "target", "expected"),
    [(25, 30, 3 * (1 - (25 / 30) ** 4)), (30, 36, 0.0)],  # the limit is 30, whatever the target
)
def test_free_road_acceleration(speed, target, expected):
    scene = Scene()
    i = scene.add(100, 4, speed=speed, target=target)
    found = idm.free_acceleration(scene.roads, scene.driving, scene.motion, scene.marks, i, 4.0)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ego", "speed", "target", "expected"),
    [(-1, 10, 0, 10 - 6 * DT), (0, 20, 25, 20 + 5 / 0.6 * DT)],
    ids=["a driver that wants to stop brakes fully", "ego approaches its target speed"],
)
def test_speed_after_a_frame(ego, speed, target, expected):
    scene = Scene(ego=ego).place((100, 4, speed, 0.0, target))
    scene.simulate()
    assert scene.motion[state.SPEED, 0] == pytest.approx(expected)


def test_braking_behind_a_leader():
    # Wanted: 10 m + 20 m/s · 1.5 s = 40 m, exactly the distance: the whole comfortable acceleration goes.
    assert Scene().place((100, 4, 20), (140, 4, 20)).interaction(0, 1) == pytest.approx(3.0)
    # 10 m/s faster: 20 · 10 / (2 √15) metres more.
    closing_in = Scene().place((100, 4, 20), (140, 4, 10))
    assert closing_in.interaction(0, 1) == pytest.approx(3 * ((40 + 200 / (2 * np.sqrt(15))) / 40) ** 2)


def test_a_frame_of_two_vehicles():
    scene = Scene().place((100, 4, 20, 0.0, 20), (160, 4, 20, 0.0, 20))
    scene.simulate()
    assert scene.motion[state.X, :2] == pytest.approx([100 + 20 * DT, 160 + 20 * DT])
    assert scene.motion[state.SPEED, :2] == pytest.approx([20 - 3 * (40 / 60) ** 2 * DT, 20])


def test_a_lane_change_minds_both_lanes():
    scene = Scene()
    i = scene.add(100, 4, speed=20, target=20)
    scene.add(160, 4, speed=20)
    scene.add(140, 8, speed=20)
    scene.marks[state.TARGET_LANE, i] = 2
    scene.simulate()
    assert scene.motion[state.SPEED, i] == pytest.approx(20 - 3.0 * DT)  # 40 m wanted, 40 m there


# Neighbours -----------------------------------------------------------------------------------------------------------


def test_neighbours_on_each_lane():
    scene = Scene().place((100, 4, 20), (150, 4, 20), (130, 8, 20), (70, 4, 20))
    scene.add(90, 6.5, 20)  # between two lanes: counts on both, a lane's half width and a metre being 3 m
    assert scene.neighbours(0, 1) == (1, 4)
    assert scene.neighbours(0, 2) == (2, 4)
    assert scene.neighbours(0, 0) == (-1, -1)


def test_equals_among_neighbours():
    # Of two equally far ahead the last in the list, of two equally far behind the first; level counts as ahead.
    scene = Scene().place((100, 4, 20), (120, 4.5, 20), (120, 3.5, 20), (80, 3.5, 20), (80, 4.5, 20))
    assert scene.neighbours(0, 1) == (2, 3)
    scene.add(100, 5, 20)
    assert scene.neighbours(0, 1) == (5, 3)
    assert scene.neighbours(5, 1) == (0, 3)


def test_the_ramp_ends_at_an_obstacle():
    scene = Scene("merge")
    i = scene.add(290, 8, 20)
    assert scene.neighbours(i, scene.map.lane_number(("b", "c", 2))) == (scene.count, -1)
    # 20 m to a thing that stands: 10 + 30 + 400 / (2 √15) metres are wanted.
    assert scene.interaction(i, scene.count) == pytest.approx(3 * ((40 + 400 / (2 * np.sqrt(15))) / 20) ** 2)


# MOBIL ----------------------------------------------------------------------------------------------------------------


def slow_leader(right=None, left=None):
    """Return a scene: a vehicle on the middle lane behind a slower one, with others on the neighbouring lanes."""
    scene = Scene().place((100, 4, 20, 0.0, 25), (130, 4, 15))
    if left is not None:
        scene.add(100 + left, 0, speed=20)
    if right is not None:
        scene.add(100 + right, 8, speed=20)
    return scene


def test_a_free_lane_is_better_than_a_slow_leader():
    assert slow_leader().should_change(0, 0)
    assert slow_leader().should_change(0, 2)
    assert not Scene().place((100, 4, 20, 0.0, 25)).should_change(0, 0)  # there is nothing to gain without a leader


def test_the_one_behind_must_not_have_to_brake_hard():
    # It wants 40 m and would have d: it would brake by 3 · (40 / d)² + 3 · (20 / 20)⁴ - 3, at most 2 is allowed.
    least = 40 * np.sqrt(3 / 2)
    assert slow_leader(right=-least - 0.1).should_change(0, 2)
    assert not slow_leader(right=-least + 0.1).should_change(0, 2)


def test_the_exponent_of_the_deciding_driver_counts():
    # The follower is above its target speed, which brakes it alone: 3 · (1 - (24/20)^δ), δ the thinker's.
    scene = slow_leader(right=-90)
    scene.motion[state.SPEED, 2], scene.motion[state.TARGET_SPEED, 2] = 24, 20
    wanted = 10 + 24 * 1.5 + 24 * 4 / (2 * np.sqrt(15))
    for exponent in (1.0, 4.0):
        scene.motion[state.EXPONENT, 0] = exponent
        braking = 3 * (1 - (24 / 20) ** exponent) - 3 * (wanted / 90) ** 2
        assert scene.should_change(0, 2) == (braking >= -2)
    assert not scene.should_change(0, 2)


def test_right_beats_left_once_a_second():
    scene = slow_leader()
    scene.motion[state.TIMER, 0] = 1.0  # not yet: more than a second is asked for
    scene.simulate()
    assert scene.marks[state.TARGET_LANE, 0] == 1
    scene.simulate()
    assert scene.marks[state.TARGET_LANE, 0] == 2
    assert scene.motion[state.TIMER, 0] == pytest.approx(DT)


def test_left_where_right_is_unsafe():
    scene = slow_leader(right=-20)
    scene.motion[state.TIMER, 0] = 1.5
    scene.simulate()
    assert scene.marks[state.TARGET_LANE, 0] == 0


def test_a_contested_change_is_given_up():
    scene = Scene().place((100, 0, 20), (120, 8, 20))
    scene.marks[state.TARGET_LANE, :2] = 1
    scene.simulate()
    # 40 m are wanted and 20 m there: the one behind gives up, the one in front goes on.
    assert scene.marks[state.TARGET_LANE, :2].tolist() == [0, 1]


# Steering -------------------------------------------------------------------------------------------------------------


def test_steering_towards_the_middle():
    # 0.6 m to the right at 20 m/s: 1 m/s to the left is wanted, a heading of -asin(1/20), to be reached with 5/s.
    scene = Scene()
    i = scene.add(100, 4.6, speed=20)
    slip = steering.steer(scene.roads, scene.motion, i, 1)
    assert slip == pytest.approx(2.5 / 20 * 5 * -np.arcsin(1 / 20))


def test_the_slip_stands_for_the_steering_angle():
    """The formula of highway-env, by way of the steering angle δ, for moderate and for full lock."""
    scene = Scene()
    i = scene.add(100, 4, speed=2)
    for y, speed in ((4.1, 20.0), (5.9, 15.0), (7.0, 1.0), (1.0, 0.0), (4.5, -3.0)):
        scene.motion[state.Y, i], scene.motion[state.SPEED, i] = y, speed
        divisor = speed if abs(speed) > 1e-2 else 1e-2
        heading = np.clip(np.arcsin(np.clip(-(y - 4) / 0.6 / divisor, -1, 1)), -np.pi / 4, np.pi / 4)
        angle = np.arctan(2 * np.tan(np.arcsin(np.clip(2.5 / divisor * 5 * heading, -1, 1))))
        expected = np.sin(np.arctan(np.tan(np.clip(angle, -np.pi / 3, np.pi / 3)) / 2))
        assert steering.steer(scene.roads, scene.motion, i, 1) == pytest.approx(expected, abs=1e-12)


def test_a_frame_of_the_bicycle():
    scene = Scene(ego=0).place((100, 4.6, 20))
    slip = np.arcsin(2.5 / 20 * 5 * -np.arcsin(1 / 20))
    scene.simulate()
    x, y, heading = scene.motion[[state.X, state.Y, state.HEADING], 0]
    assert (x, y) == pytest.approx((100 + 20 * np.cos(slip) * DT, 4.6 + 20 * np.sin(slip) * DT))
    assert heading == pytest.approx(20 * np.sin(slip) / 2.5 * DT)
    assert scene.motion[[state.COS, state.SIN], 0] == pytest.approx([np.cos(heading), np.sin(heading)])


# Ego ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "command", "index"),
    [
        (20.0, state.FASTER, 1),
        (20.0, state.SLOWER, 0),
        (29.0, state.FASTER, 2),
        (22.5, state.FASTER, 1),  # halfway between two speeds: the even one, 0, is the closest
        (27.5, state.FASTER, 2),  # likewise 2
        (26.0, state.SLOWER, 0),
    ],
)
def test_commands_for_speed(speed, command, index):
    scene = Scene(ego=0).place((100, 4, speed))
    driving.command_ego(scene.roads, scene.driving, scene.motion, scene.marks, scene.episode, command)
    assert scene.episode[state.SPEED_INDEX] == index
    assert scene.motion[state.TARGET_SPEED, 0] == 20 + 5 * index


def test_commands_for_lanes_end_at_the_edge():
    scene = Scene(ego=0).place((100, 4, 25))
    seen = []
    for command in (state.LANE_LEFT, state.LANE_LEFT, state.LANE_RIGHT, state.LANE_RIGHT, state.LANE_RIGHT, state.IDLE):
        driving.command_ego(scene.roads, scene.driving, scene.motion, scene.marks, scene.episode, command)
        seen.append(int(scene.marks[state.TARGET_LANE, 0]))
    assert seen == [0, 0, 1, 2, 2, 2]


# Collisions -----------------------------------------------------------------------------------------------------------


def test_a_collision():
    # Rectangles of 5 m, 4 m from centre to centre: they overlap by a metre, and each is shoved by half of it.
    scene = Scene().place((100, 4, 20, 0.0, 20), (104, 4, 20, 0.0, 20))
    # Deciding brakes the one behind, but speeds change at the end of a frame: both move alike.
    scene.simulate()
    assert scene.marks[state.CRASHED, :2].tolist() == [1, 1]
    assert scene.marks[state.SHOVED, :2].tolist() == [1, 1]
    speeds = scene.motion[state.SPEED, :2].copy()
    # The one behind is slower by now and drops back a little within a frame.
    assert speeds == pytest.approx([20 - 6 * DT, 20])
    shove = 1.0
    assert scene.motion[state.SHOVE_X, :2] == pytest.approx([-shove / 2, shove / 2])
    assert scene.motion[state.SHOVE_Y, :2] == pytest.approx([0, 0])
    before = scene.motion[state.X, :2].copy()
    scene.simulate()
    assert scene.motion[state.X, :2] == pytest.approx(before + speeds * DT + [-0.5, 0.5])
    assert scene.motion[state.SPEED, :2] == pytest.approx(speeds * (1 - DT))


def test_a_collision_to_come():
    # 5.5 m apart; within a frame the faster one closes in by 10 m/s / 15 = 0.67 m.
    car = (1.0, 0.0, 5.0, 2.0)
    touching, meeting, x, y = collisions.rectangles_meet(5.5, 0.0, 10 * DT, 0.0, car, car)
    assert (touching, meeting) == (False, True)
    assert (x, y) == pytest.approx((-(10 * DT - 0.5), 0.0))
    # Next to each other they do not meet.
    assert collisions.rectangles_meet(0.0, 2.1, 0.0, 0.0, car, car) == (False, False, 0.0, 0.0)


@pytest.mark.parametrize(("scenario", "ego"), [("highway", -1), ("highway", 17), ("highway-fast", 17), ("merge", 3)])
def test_a_pile_up_of_all_is_that_of_a_plain_loop(scenario, ego):
    """Sixty vehicles, most of them within reach of all others: 1,770 pairs, and merge's obstacle."""
    rng = np.random.default_rng(4)
    scene = Scene(scenario, ego=ego, capacity=60)
    middle = scene.roads.obstacles[0] if len(scene.roads.obstacles) else (100.0, 4.0)
    for _ in range(60):
        x, y = middle + rng.normal(0, 2, 2)
        scene.add(x, y, speed=rng.uniform(-5, 30), heading=rng.uniform(-3, 3))
    scene.order()
    expected = scene.motion.copy(), scene.marks.copy()
    met = 0
    for i in range(60):
        for j in range(i + 1, 60):
            if scenario != "highway-fast" or ego in (i, j):
                dx, dy = scene.motion[[state.X, state.Y], j] - scene.motion[[state.X, state.Y], i]
                if np.hypot(dx, dy) <= np.sqrt(29) + scene.motion[state.SPEED, i] * scene.driving.dt:
                    met += 1
                    collisions._collide_pair(scene.roads, scene.driving.dt, *expected, 60, i, j)
        for k, obstacle in enumerate(scene.roads.obstacles):
            reach = (np.sqrt(29) + np.sqrt(8)) / 2 + scene.motion[state.SPEED, i] * scene.driving.dt
            if np.hypot(*(obstacle - scene.motion[[state.X, state.Y], i])) <= reach:
                collisions._collide_pair(scene.roads, scene.driving.dt, *expected, 60, i, 60 + k)
    assert met > (8 * 60 if scenario != "highway-fast" else 40)
    collisions.collide(scene.roads, scene.driving, scene.motion, scene.marks, 60, ego, scene.scratch)
    np.testing.assert_array_equal(scene.motion, expected[0])
    np.testing.assert_array_equal(scene.marks, expected[1])


def test_others_pass_through_each_other_on_the_fast_highway():
    scene = Scene("highway-fast", ego=0).place((100, 4, 20), (200, 4, 20), (203, 4, 20))
    scene.simulate()
    assert not scene.marks[state.CRASHED, :3].any()
    scene.motion[state.X, 0] = scene.motion[state.X, 1] - 3
    scene.simulate()
    assert scene.marks[state.CRASHED, :3].tolist() == [1, 1, 0]


def test_an_obstacle_takes_the_whole_shove():
    scene = Scene("merge", ego=0)
    x, y = scene.roads.obstacles[0]
    scene.add(x - 3, y, speed=0, target=0)
    scene.simulate()
    assert scene.marks[state.CRASHED, 0]
    assert scene.motion[state.SHOVE_X, 0] == pytest.approx(-0.5)  # halves of 5 m and 2 m, 3 m apart


# Rules of the road ----------------------------------------------------------------------------------------------------


def at_crossing(*placed):
    """Return a scene with vehicles on lanes of the intersection, at distances, bound for nodes, at 8 m/s."""
    scene = Scene("intersection")
    for lane_name, along, goal in placed:
        lane = scene.map.lane_number(lane_name)
        x, y = position_on(scene.roads, lane, along, 0.0)
        i = scene.add(x, y, 8.0, heading_at(scene.roads, lane, along))
        assert scene.marks[state.LANE, i] == lane
        plan_route(scene.roads, scene.marks, i, lane, scene.map.node_number(goal))
    return scene


@pytest.mark.parametrize(
    "placed",
    [
        # From the south (priority 1) and from the west (priority 3), both straight on.
        [(("o0", "ir0", 0), 95, "o2"), (("o1", "ir1", 0), 95, "o3")],
        # Among equals the one behind yields.
        [(("o0", "ir0", 0), 50, "o2"), (("o0", "ir0", 0), 60, "o2")],
    ],
)
def test_right_of_way(placed):
    scene = at_crossing(*placed)
    assert right_of_way.yielding_vehicle(scene.roads, scene.motion, scene.marks, 0, 1) == 0
    assert right_of_way.yielding_vehicle(scene.roads, scene.motion, scene.marks, 1, 0) == 0


def test_yielding_begins_and_ends_with_the_rules_rhythm():
    scene = at_crossing((("o0", "ir0", 0), 88, "o2"), (("o1", "ir1", 0), 88, "o3"))
    period = scene.driving.regulation_period
    assert period == 7
    scene.simulate(period - 1)
    assert not scene.marks[state.YIELDING, :2].any()
    scene.simulate()
    assert scene.marks[state.YIELDING, :2].tolist() == [1, 0]
    assert scene.motion[state.TARGET_SPEED, :2].tolist() == [0, 8]
    # Once the other is gone, the next enforcement lets it go on, at the limit of its lane.
    scene.episode[state.COUNT] = 1
    scene.simulate(period)
    assert not scene.marks[state.YIELDING, 0]
    assert scene.motion[state.TARGET_SPEED, 0] == 10


@pytest.mark.parametrize(("ego", "other", "goal"), [(0, ("o1", "ir1", 0), "o3"), (-1, ("o2", "ir2", 0), "o0")])
def test_neither_ego_nor_vehicles_on_opposite_lanes_yield(ego, other, goal):
    scene = at_crossing((("o0", "ir0", 0), 88, "o2"), (other, 88, goal))
    scene.episode[state.EGO] = ego
    scene.simulate(7)
    assert not scene.marks[state.YIELDING, :2].any()


# Routes ---------------------------------------------------------------------------------------------------------------


def test_a_route_is_followed_and_used_up():
    scene = at_crossing((("o0", "ir0", 0), 99, "o1"))
    names, roads = scene.map.lane_names, scene.map.road_names
    route = [roads[r] for r in scene.marks[state.ROUTE : state.ROUTE + scene.marks[state.ROUTE_LENGTH, 0], 0]]
    assert route == [("o0", "ir0"), ("ir0", "il1"), ("il1", "o1")]
    scene.simulate()  # within 2.5 m of the end of its lane it goes for the next one
    assert names[scene.marks[state.TARGET_LANE, 0]] == ("ir0", "il1", 0)
    assert scene.marks[state.ROUTE_LENGTH, 0] == 2
    assert scene.marks[state.ROUTE_LANE, 0] == state.ANY_LANE


def test_without_a_route_the_closest_lane_is_next():
    roads = scenario_roads("merge")
    scene = Scene("merge")
    i = scene.add(229, 4, speed=20)
    found = next_lane(scene.roads, scene.marks, i, roads.lane_number(("a", "b", 1)), 229.0, 4.0)
    assert roads.lane_names[found] == ("b", "c", 1)
    # From the ramp's single lane onto a road of three: the third, which continues it.
    found = next_lane(scene.roads, scene.marks, i, roads.lane_number(("k", "b", 0)), 229.0, 8.0)
    assert roads.lane_names[found] == ("b", "c", 2)
    # The road ends at d: nothing follows.
    last = roads.lane_number(("c", "d", 0))
    assert next_lane(scene.roads, scene.marks, i, last, 459.0, 0.0) == last
