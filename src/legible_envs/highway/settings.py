"""The settings of the five scenarios, checked; `configuration.settings_of` makes them.

- `HighwaySettings`: everything about an environment. The kernels take it in parts: `driving`, `spawning`, `viewing`,
  `rewarding`.
- `KinematicsObservation`: what ego sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legible.errors import LegibleError
from legible_envs.highway.observation import OBSERVABLE, Viewing, takes_time
from legible_envs.highway.presets import FIVE_FEATURES
from legible_envs.highway.rewards import Rewarding
from legible_envs.highway.roads import DEFAULT_WIDTH as LANE_WIDTH
from legible_envs.highway.roads import RoadMap, scenario_roads
from legible_envs.highway.spawn import Spawning, places_of
from legible_envs.highway.state import HIGHWAY, HIGHWAY_FAST, INTERSECTION, MAX_SPEED, MERGE, ROUNDABOUT, Driving


class HighwayError(LegibleError):
    """A setting, an action or a state that the driving scenarios do not have."""


SCENARIOS = {
    "highway": HIGHWAY,
    "highway-fast": HIGHWAY_FAST,
    "merge": MERGE,
    "intersection": INTERSECTION,
    "roundabout": ROUNDABOUT,
}

ACTION_NAMES = ("LANE_LEFT", "IDLE", "LANE_RIGHT", "FASTER", "SLOWER")

# How long the intersection's traffic drives before ego appears, and how often the rules of the road are enforced.
_WARM_UP_SECONDS = 3
REGULATIONS_PER_SECOND = 2
# Of the road on which ego starts. highway-env scales y by the lanes it finds there and keeps the scale for the episode.
_LANES_AT_START = {MERGE: 2, INTERSECTION: 1, ROUNDABOUT: 1}


@dataclass(frozen=True)
class KinematicsObservation:
    """The observation of ego: a row for itself, then one for each of the vehicles nearest along its lane.

    Parameters
    ----------
    features
        The columns.
    vehicles_count
        The rows.
    features_range
        For a column the values that become -1 and 1; None means highway-env's own choice.
    absolute
        Whether other vehicles are given in the road's coordinates instead of relative to ego.
    order
        "sorted" by distance along ego's lane, or "unsorted": as they came onto the road.
    normalize, clip
        Whether columns are mapped to [-1, 1], and cut off there.
    see_behind
        Whether vehicles more than ten metres behind are seen.
    observe_intentions
        Whether other vehicles' destinations (cos_d, sin_d) are seen.
    include_obstacles
        Whether merge's obstacle is seen like a vehicle.
    """

    features: tuple[str, ...] = FIVE_FEATURES
    vehicles_count: int = 5
    features_range: tuple[tuple[str, tuple[float, float]], ...] | None = None
    absolute: bool = False
    order: str = "sorted"
    normalize: bool = True
    clip: bool = True
    see_behind: bool = False
    observe_intentions: bool = False
    include_obstacles: bool = True


@dataclass(frozen=True)
class HighwaySettings:
    """Everything that makes one driving environment differ from another; made by `configuration.settings_of`.

    The names are highway-env's. Entries that a scenario does not have keep their defaults and are not read.
    """

    scenario: str
    observation: KinematicsObservation
    actions: tuple[int, ...]
    target_speeds: tuple[float, ...]
    simulation_frequency: int
    policy_frequency: int
    duration: float = float("inf")
    lanes_count: int = 0
    vehicles_count: int = 4
    initial_lane_id: int | None = None
    ego_spacing: float = 2.0
    vehicles_density: float = 1.0
    collision_reward: float = 0.0
    right_lane_reward: float = 0.0
    high_speed_reward: float = 0.0
    merging_speed_reward: float = 0.0
    lane_change_reward: float = 0.0
    arrived_reward: float = 0.0
    reward_speed_range: tuple[float, float] = (20.0, 30.0)
    normalize_reward: bool = True
    offroad_terminal: bool = False
    destination: str | None = None
    initial_vehicle_count: int = 0
    spawn_probability: float = 0.0
    incoming_vehicle_destination: int | None = None

    @property
    def kind(self) -> int:
        """The kernels' number of the scenario."""
        return SCENARIOS[self.scenario]

    @property
    def is_highway(self) -> bool:
        """True if the road is a plain highway."""
        return self.kind in {HIGHWAY, HIGHWAY_FAST}

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions in the order of their numbers."""
        return tuple(ACTION_NAMES[code] for code in self.actions)

    @property
    def capacity(self) -> int:
        """Largest number of vehicles on the road at once, ego included."""
        if self.is_highway:
            return 1 + self.vehicles_count
        if self.kind == INTERSECTION:
            # No vehicle enters within 15 m of another, and those that wait keep 7 m from centre to centre: four
            # roads of 100 m hold 57. In gridlocked episodes of 600 s, 58 were seen at most.
            return 96
        return 5

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The values that become -1 and 1, for every normalised column."""
        if not self.observation.normalize:
            return {}
        if self.observation.features_range:
            return dict(self.observation.features_range)
        across = LANE_WIDTH * (self.lanes_count if self.is_highway else _LANES_AT_START[self.kind])
        return {
            "x": (-5.0 * MAX_SPEED, 5.0 * MAX_SPEED),
            "y": (-across, across),
            "vx": (-2 * MAX_SPEED, 2 * MAX_SPEED),
            "vy": (-2 * MAX_SPEED, 2 * MAX_SPEED),
        }

    def roads(self) -> RoadMap:
        """Return the road network."""
        if self.is_highway:
            return scenario_roads("highway", self.lanes_count)
        return scenario_roads(self.scenario)

    def driving(self) -> Driving:
        """Return what the driving kernels have to know."""
        frame = 1 / self.simulation_frequency
        crossing = self.kind == INTERSECTION
        return Driving(
            dt=frame,
            # Frames of a step; the clock advances by 1 / policy_frequency in any case.
            frames=self.simulation_frequency // self.policy_frequency,
            comfort_acceleration=6.0 if crossing else 3.0,
            comfort_braking=-3.0 if crossing else -5.0,
            distance_wanted=7.0 if crossing else 10.0,
            target_speeds=np.array(self.target_speeds, np.float64),
            ego_actions=np.array(self.actions, np.int64),
            only_ego_collides=self.kind == HIGHWAY_FAST,
            regulation_period=int(1 / frame / REGULATIONS_PER_SECOND) if crossing else 0,
        )

    def spawning(self) -> Spawning:
        """Return the settings of the compiled code that puts vehicles onto the road."""
        random = -1  # stands for a lane or destination that is drawn at random
        places = places_of(self.kind, self.roads())
        lane = random if self.initial_lane_id is None else self.initial_lane_id
        # At the intersection ego has a destination ("o1" is node 1), elsewhere the first of the other vehicles.
        destination = self.incoming_vehicle_destination
        if self.kind == INTERSECTION:
            destination = None if self.destination is None else int(self.destination[1:])
        return Spawning(
            scenario=self.kind,
            vehicles=self.vehicles_count,
            ego_lane=lane,
            ego_spacing=float(self.ego_spacing),
            spacing=1 / self.vehicles_density,
            initial_vehicles=self.initial_vehicle_count,
            spawn_probability=float(self.spawn_probability),
            destination=random if destination is None else destination,
            warm_up_frames=_WARM_UP_SECONDS * self.simulation_frequency,
            lanes=places.lanes,
            goals=places.goals,
            exits=places.exits,
        )

    def viewing(self) -> Viewing:
        """Return what the observation's kernel has to know."""
        observation = self.observation
        ranges = self.ranges
        pairs = [ranges.get(name, (np.nan, np.nan)) for name in observation.features]
        return Viewing(
            rows=observation.vehicles_count,
            columns=np.array([OBSERVABLE.index(name) for name in observation.features], np.int64),
            lows=np.array([low for low, _ in pairs], np.float64),
            highs=np.array([high for _, high in pairs], np.float64),
            clip=observation.clip,
            absolute=observation.absolute,
            sort=observation.order == "sorted",
            see_behind=observation.see_behind,
            intentions=observation.observe_intentions,
            obstacles=observation.include_obstacles,
            detailed=any(takes_time(name) for name in observation.features),
        )

    def rewarding(self) -> Rewarding:
        """Return what the kernel of rewards and ends of episodes has to know."""
        roads = self.roads()
        return Rewarding(
            scenario=self.kind,
            duration=float(self.duration),
            collision_reward=self.collision_reward,
            right_lane_reward=self.right_lane_reward,
            high_speed_reward=self.high_speed_reward,
            lane_change_reward=self.lane_change_reward,
            merging_speed_reward=self.merging_speed_reward,
            arrived_reward=self.arrived_reward,
            slow=self.reward_speed_range[0],
            fast=self.reward_speed_range[1],
            normalize=self.normalize_reward,
            offroad_terminal=self.offroad_terminal,
            ramp=roads.lane_number(("b", "c", 2)) if self.kind == MERGE else -1,
            exits=places_of(self.kind, roads).exits,
        )
