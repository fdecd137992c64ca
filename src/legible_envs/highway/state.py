"""Traffic in arrays: where everything about an episode is kept, for whole batches.

A batch is a `World` of five arrays, episodes first. Of one episode, ``motion[e]`` and ``marks[e]`` are tables with a
row for every quantity below and a column for every vehicle, so that one quantity of all vehicles lies side by side.
Only the first ``episode[e, COUNT]`` columns mean anything. Columns are in the order in which highway-env lists the
vehicles (it decides ties and which acts first); a vehicle that leaves closes the gap.

Everything that the course of an episode depends on is in these arrays: copying them copies the episode.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible_envs.compiled import compiled

# Scenarios.
HIGHWAY, HIGHWAY_FAST, MERGE, ROUNDABOUT, INTERSECTION = 0, 1, 2, 3, 4

# Commands for ego.
LANE_LEFT, IDLE, LANE_RIGHT, FASTER, SLOWER = 0, 1, 2, 3, 4

# Rows of `motion` (float64).
X, Y, HEADING, SPEED = 0, 1, 2, 3
# cos and sin of HEADING; code that sets HEADING sets them too (`place_vehicle` does).
COS, SIN = 4, 5
TARGET_SPEED = 6
# Seconds since the last thought about changing lanes; the driver's own IDM exponent. Ego uses neither.
TIMER, EXPONENT = 7, 8
# Shove by a collision, carried out in the next frame if SHOVED is set.
SHOVE_X, SHOVE_Y = 9, 10
# What the driver decided in this frame: sine of the slip angle and acceleration. Not part of the state.
SLIP, ACCELERATION = 11, 12
N_MOTION = 13

# Rows of `marks` (int32). Lanes are numbers of `roads.Roads`.
LANE, TARGET_LANE = 0, 1
CRASHED, SHOVED, YIELDING = 2, 3, 4
# Route: how many roads are left (NO_ROUTE: none was ever planned), the lane wanted on the first of them (ANY_LANE:
# none in particular), and the roads' numbers, in rows ROUTE, ROUTE + 1, …
ROUTE_LENGTH, ROUTE_LANE, ROUTE = 5, 6, 7
MAX_ROUTE = 12
N_MARKS = ROUTE + MAX_ROUTE
NO_ROUTE, ANY_LANE = -1, -1

# Columns of `episode` (int64).
COUNT, EGO = 0, 1  # vehicles on the road, ego among them; ego's column
SPEED_INDEX = 2  # which of the target speeds ego goes for
FRAMES = 3  # simulated frames, warm-up included (the rhythm of the rules of the road)
STEPS = 4  # policy steps
STATUS = 5
DRAWS = 6  # random numbers drawn so far: the place in the episode's stream
N_EPISODE = 7

# Values of STATUS.
RUNNING, TERMINATED, TRUNCATED = 0, 1, 2

Motion: TypeAlias = NDArray[np.float64]
"""The motion of the vehicles of one episode, ``[N_MOTION, vehicles]``: a row per quantity, a column per vehicle."""
Marks: TypeAlias = NDArray[np.int32]
"""Their lanes, routes and flags, ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle."""
Counters: TypeAlias = NDArray[np.int64]
"""The counters of one episode, ``[N_EPISODE]``."""

# Size of a vehicle and of an obstacle (metres), and the bounds of a vehicle's speed.
LENGTH, WIDTH = 5.0, 2.0
OBSTACLE_LENGTH, OBSTACLE_WIDTH = 2.0, 2.0
MAX_SPEED = 40.0


class World(NamedTuple):
    """A batch of n episodes with room for `capacity` vehicles each."""

    motion: NDArray[np.float64]  # [n, N_MOTION, capacity]
    marks: NDArray[np.int32]  # [n, N_MARKS, capacity]
    episode: NDArray[np.int64]  # [n, N_EPISODE]
    clock: NDArray[np.float64]  # [n] seconds since the start, as the time limit counts them
    keys: NDArray[np.uint64]  # [n] random streams (`legible.streams`)


class Driving(NamedTuple):
    """The settings that the driving kernels need."""

    dt: float  # seconds a frame
    frames: int  # frames a policy step
    comfort_acceleration: float  # IDM's a
    comfort_braking: float  # IDM's b, negative
    distance_wanted: float  # IDM's jam distance, from centre to centre
    target_speeds: NDArray[np.float64]  # what ego's FASTER and SLOWER choose from
    ego_actions: NDArray[np.int64]  # the command of each action (LANE_LEFT …)
    only_ego_collides: bool  # others pass through each other (highway-fast)
    regulation_period: int  # frames between two enforcements of the rules of the road; 0: there are none


def new_world(n: int, capacity: int) -> World:
    """Return an empty batch."""
    return World(
        np.zeros((n, N_MOTION, capacity)),
        np.zeros((n, N_MARKS, capacity), np.int32),
        np.zeros((n, N_EPISODE), np.int64),
        np.zeros(n),
        np.zeros(n, np.uint64),
    )


@compiled
def place_vehicle(
    motion: Motion, marks: Marks, i: int, x: float, y: float, heading: float, speed: float, lane: int
) -> None:
    """Write a new vehicle into column i of the arrays of an episode. It keeps its speed and lane, and has no route.

    Parameters
    ----------
    motion, marks
        ``[N_MOTION, vehicles]`` and ``[N_MARKS, vehicles]``: a row per quantity, a column per vehicle.
    i
        The column.
    x, y, heading, speed
        Position in metres, angle in radians, and metres per second.
    lane
        Number of the lane closest to the position.
    """
    motion[X, i] = x
    motion[Y, i] = y
    motion[HEADING, i] = heading
    motion[COS, i] = np.cos(heading)
    motion[SIN, i] = np.sin(heading)
    motion[SPEED, i] = speed
    motion[TARGET_SPEED, i] = speed
    # Vehicles think about changing lanes at different times, which highway-env derives from their place.
    motion[TIMER, i] = ((x + y) * np.pi) % 1.0
    motion[EXPONENT, i] = 4.0  # IDM's usual one
    motion[SHOVE_X, i] = 0.0
    motion[SHOVE_Y, i] = 0.0
    motion[SLIP, i] = 0.0
    motion[ACCELERATION, i] = 0.0
    marks[LANE, i] = lane
    marks[TARGET_LANE, i] = lane
    marks[CRASHED, i] = 0
    marks[SHOVED, i] = 0
    marks[YIELDING, i] = 0
    marks[ROUTE_LENGTH, i] = NO_ROUTE
    marks[ROUTE_LANE, i] = ANY_LANE
    for k in range(MAX_ROUTE):
        marks[ROUTE + k, i] = 0


@compiled
def move_column(motion: Motion, marks: Marks, source: int, target: int) -> None:
    """Copy a vehicle from one column to another."""
    for row in range(N_MOTION):
        motion[row, target] = motion[row, source]
    for row in range(N_MARKS):
        marks[row, target] = marks[row, source]
