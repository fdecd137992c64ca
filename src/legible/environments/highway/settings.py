"""The settings of the five scenarios, under highway-env's own names.

`settings_of` starts from a preset, puts the user's configuration over it as highway-env does (a given ``observation``
or ``action`` replaces the whole entry), and refuses what the kernels cannot do. The kernels take the settings in
parts: `HighwaySettings.driving`, `spawning`, `viewing`, `rewarding`.

>>> settings = settings_of("merge")
>>> settings.policy_frequency, settings.observation.vehicles_count, settings.high_speed_reward
(2, 10, 0.2)
>>> settings_of("merge", preset="highway-env").observation.features
('presence', 'x', 'y', 'vx', 'vy')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from legible.environments.highway.observation import OBSERVABLE, Viewing, takes_time
from legible.environments.highway.rewards import Rewarding
from legible.environments.highway.roads import DEFAULT_WIDTH as LANE_WIDTH
from legible.environments.highway.roads import RoadMap, scenario_roads
from legible.environments.highway.spawn import Spawning, places_of
from legible.environments.highway.state import (
    FASTER,
    HIGHWAY,
    HIGHWAY_FAST,
    IDLE,
    INTERSECTION,
    LANE_LEFT,
    LANE_RIGHT,
    MAX_SPEED,
    MERGE,
    ROUNDABOUT,
    SLOWER,
    Driving,
)
from legible.errors import LegibleError, did_you_mean


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
_ACTIONS_BOTH = (LANE_LEFT, IDLE, LANE_RIGHT, FASTER, SLOWER)
_ACTIONS_ALONG = (SLOWER, IDLE, FASTER)
_ACTIONS_ACROSS = (LANE_LEFT, IDLE, LANE_RIGHT)

# How long the intersection's traffic drives before ego appears, and how often the rules of the road are enforced.
_WARM_UP_SECONDS = 3
_REGULATIONS_A_SECOND = 2
# Of the road on which ego starts. highway-env scales y by the lanes it finds there and keeps the scale for the episode.
_LANES_AT_START = {MERGE: 2, INTERSECTION: 1, ROUNDABOUT: 1}

_FIVE_FEATURES = ("presence", "x", "y", "vx", "vy")
_SEVEN_FEATURES = (*_FIVE_FEATURES, "cos_h", "sin_h")

_HIGHWAY: dict[str, Any] = {
    "simulation_frequency": 15,
    "policy_frequency": 1,
    "observation": {"type": "Kinematics"},
    "action": {"type": "DiscreteMetaAction"},
    "lanes_count": 4,
    "vehicles_count": 50,
    "initial_lane_id": None,
    "duration": 40,
    "ego_spacing": 2,
    "vehicles_density": 1,
    "collision_reward": -1,
    "right_lane_reward": 0.1,
    "high_speed_reward": 0.4,
    "reward_speed_range": [20, 30],
    "normalize_reward": True,
    "offroad_terminal": False,
}

# The defaults of highway-env 1.12.1. A key that is missing here does not exist in that scenario.
HIGHWAY_ENV_DEFAULTS: dict[str, dict[str, Any]] = {
    "highway": _HIGHWAY,
    "highway-fast": {
        **_HIGHWAY,
        "simulation_frequency": 5,
        "lanes_count": 3,
        "vehicles_count": 20,
        "duration": 30,
        "ego_spacing": 1.5,
    },
    "merge": {
        "simulation_frequency": 15,
        "policy_frequency": 1,
        "observation": {"type": "Kinematics"},
        "action": {"type": "DiscreteMetaAction"},
        "collision_reward": -1,
        "right_lane_reward": 0.1,
        "high_speed_reward": 0.2,
        "reward_speed_range": [20, 30],
        "merging_speed_reward": -0.5,
        "lane_change_reward": -0.05,
    },
    "intersection": {
        "simulation_frequency": 15,
        "policy_frequency": 1,
        "observation": {
            "type": "Kinematics",
            "vehicles_count": 15,
            "features": list(_SEVEN_FEATURES),
            "features_range": {"x": [-100, 100], "y": [-100, 100], "vx": [-20, 20], "vy": [-20, 20]},
            "absolute": True,
            "flatten": False,
            "observe_intentions": False,
        },
        "action": {
            "type": "DiscreteMetaAction",
            "longitudinal": True,
            "lateral": False,
            "target_speeds": [0, 4.5, 9],
        },
        "duration": 13,
        "destination": "o1",
        "initial_vehicle_count": 10,
        "spawn_probability": 0.6,
        "collision_reward": -5,
        "high_speed_reward": 1,
        "arrived_reward": 1,
        "reward_speed_range": [7.0, 9.0],
        "normalize_reward": False,
        "offroad_terminal": False,
    },
    "roundabout": {
        "simulation_frequency": 15,
        "policy_frequency": 1,
        "observation": {
            "type": "Kinematics",
            "absolute": True,
            "features_range": {"x": [-100, 100], "y": [-100, 100], "vx": [-15, 15], "vy": [-15, 15]},
        },
        "action": {"type": "DiscreteMetaAction", "target_speeds": [0, 8, 16]},
        "incoming_vehicle_destination": None,
        "collision_reward": -1,
        "high_speed_reward": 0.2,
        "lane_change_reward": -0.05,
        "duration": 11,
        "normalize_reward": True,
    },
}

# The configuration that the paper's authors gave to all five scenarios. highway-env ignores in silence what a scenario
# does not have (lanes in merge, say); `_over_preset` leaves the same entries out.
AUTHORS_CONFIGURATION: dict[str, Any] = {
    "lanes_count": 3,
    "vehicles_count": 50,
    "observation": {
        "type": "Kinematics",
        "vehicles_count": 10,
        "features": list(_SEVEN_FEATURES),
        "absolute": False,
    },
    "policy_frequency": 2,
    "duration": 600,
}

PRESETS = ("authors", "highway-env")

# Entries of highway-env that concern its own window. They are accepted, so that a whole configuration can be handed
# over, and change nothing.
_WINDOW_KEYS = frozenset(
    {
        "screen_width",
        "screen_height",
        "centering_position",
        "scaling",
        "render_agent",
        "offscreen_rendering",
        "real_time_rendering",
    }
)

# Entries that exist in highway-env, of which the kernels do one value only.
_ONLY_VALUE: dict[str, object] = {
    "other_vehicles_type": "highway_env.vehicle.behavior.IDMVehicle",
    "controlled_vehicles": 1,
    "manual_control": False,
    "show_trajectories": False,
    "neighbour_vehicles_connected_lanes": False,
}
# Likewise, because highway-env reads them in none of its computations.
_WITHOUT_EFFECT: dict[tuple[int, str], object] = {
    (HIGHWAY, "lane_change_reward"): 0,
    (HIGHWAY_FAST, "lane_change_reward"): 0,
    (ROUNDABOUT, "right_lane_reward"): 0,
}
_WHY_ABSENT = {
    (MERGE, "duration"): "its episodes end where the road ends",
    (MERGE, "lanes_count"): "its road always has two lanes and a ramp",
    (MERGE, "vehicles_count"): "its traffic is always four vehicles",
    (MERGE, "normalize_reward"): "its rewards are always normalised",
    (ROUNDABOUT, "lanes_count"): "its ring always has two lanes",
    (ROUNDABOUT, "vehicles_count"): "its traffic is always four vehicles",
    (INTERSECTION, "lanes_count"): "its roads always have one lane each way",
    (INTERSECTION, "vehicles_count"): "use initial_vehicle_count and spawn_probability",
}


@dataclass(frozen=True)
class KinematicsObservation:
    """What ego sees: a row for itself, then one for each of the vehicles nearest along its lane.

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

    features: tuple[str, ...] = _FIVE_FEATURES
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
    """Everything that makes one driving environment differ from another; made by `settings_of`.

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
        """Whether the road is a plain highway."""
        return self.kind in {HIGHWAY, HIGHWAY_FAST}

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions in the order of their numbers."""
        return tuple(ACTION_NAMES[code] for code in self.actions)

    @property
    def frames(self) -> int:
        """How many frames are simulated in a step; the clock advances by 1 / policy_frequency all the same."""
        return self.simulation_frequency // self.policy_frequency

    @property
    def capacity(self) -> int:
        """How many vehicles, ego among them, can be on the road at once."""
        if self.is_highway:
            return 1 + self.vehicles_count
        if self.kind == INTERSECTION:
            # Nobody enters within 15 m of another vehicle, and those who wait keep 7 m from centre to centre: four
            # roads of 100 m hold 57. In gridlocked episodes of 600 s, 58 were seen at most.
            return 96
        return 5

    @property
    def observation_shape(self) -> tuple[int, int]:
        """Rows and columns of the observation."""
        return self.observation.vehicles_count, len(self.observation.features)

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
            frames=self.frames,
            comfort_acceleration=6.0 if crossing else 3.0,
            comfort_braking=-3.0 if crossing else -5.0,
            distance_wanted=7.0 if crossing else 10.0,
            target_speeds=np.array(self.target_speeds, np.float64),
            ego_actions=np.array(self.actions, np.int64),
            only_ego_collides=self.kind == HIGHWAY_FAST,
            regulation_period=int(1 / frame / _REGULATIONS_A_SECOND) if crossing else 0,
        )

    def spawning(self) -> Spawning:
        """Return what the kernels that put vehicles onto the road have to know."""
        random = -1
        places = places_of(self.kind, self.roads())
        lane = random if self.initial_lane_id is None else self.initial_lane_id
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


def settings_of(scenario: str, config: Mapping[str, Any] | None = None, *, preset: str = "authors") -> HighwaySettings:
    """Return the settings of a scenario.

    Parameters
    ----------
    scenario
        "highway", "highway-fast", "merge", "intersection" or "roundabout".
    config
        Entries by highway-env's names that differ from the preset. As there, an ``observation`` or ``action``
        replaces the preset's whole entry.
    preset
        "authors": the configuration of the paper's experiments; "highway-env": the scenario's own defaults.

    Raises
    ------
    HighwayError
        For an entry that the scenario does not have, or a value that is not supported.
    """
    if scenario not in SCENARIOS:
        raise HighwayError(
            f"scenario {scenario!r} is not known; use one of {', '.join(SCENARIOS)}.{did_you_mean(scenario, SCENARIOS)}"
        )
    merged = _over_preset(scenario, _preset(scenario, preset), config or {})
    return _checked(scenario, merged)


def _preset(scenario: str, preset: str) -> dict[str, Any]:
    defaults = HIGHWAY_ENV_DEFAULTS[scenario]
    if preset == "highway-env":
        return dict(defaults)
    if preset == "authors":
        return {**defaults, **{key: value for key, value in AUTHORS_CONFIGURATION.items() if key in defaults}}
    raise HighwayError(f"preset {preset!r} is not known; use one of {', '.join(PRESETS)}.")


def _over_preset(scenario: str, preset: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(preset)
    for key, value in config.items():
        if key in preset:
            merged[key] = value
        elif key not in _WINDOW_KEYS:
            _check_only_value(scenario, key, value, preset)
    return merged


def _check_only_value(scenario: str, key: str, value: object, known: Mapping[str, Any]) -> None:
    kind = SCENARIOS[scenario]
    if key in _ONLY_VALUE:
        if value != _ONLY_VALUE[key]:
            raise HighwayError(
                f"{key} = {value!r} is not supported by legible's {scenario}; only {_ONLY_VALUE[key]!r} is. "
                "highway-env itself can do more."
            )
    elif (kind, key) in _WITHOUT_EFFECT:
        if value != _WITHOUT_EFFECT[kind, key]:
            raise HighwayError(f"{key} has no effect in {scenario}, in highway-env neither; leave it out.")
    else:
        why = _WHY_ABSENT.get((kind, key))
        if why is not None:
            raise HighwayError(f"{scenario} has no {key}: {why}.")
        names = [*known, *_ONLY_VALUE]
        raise HighwayError(
            f"{scenario} has no setting {key!r}.{did_you_mean(key, names)} It has: {', '.join(sorted(known))}."
        )


def _checked(scenario: str, config: Mapping[str, Any]) -> HighwaySettings:
    values = dict(config)
    observation = _observation_of(_entry(values.pop("observation"), "observation"))
    actions, target_speeds = _actions_of(_entry(values.pop("action"), "action"))
    for name, value in values.items():
        if name in _LEAST:
            values[name] = _whole(name, value, _LEAST[name])
        elif name in {"normalize_reward", "offroad_terminal"}:
            values[name] = _flag(name, value)
        elif name in {"duration", "ego_spacing", "vehicles_density", "spawn_probability"} or name.endswith("_reward"):
            values[name] = _number(name, value)
        elif name == "reward_speed_range":
            values[name] = _range(name, value)
    _check_limits(scenario, values)
    _check_places(values)
    settings = HighwaySettings(
        scenario=scenario, observation=observation, actions=actions, target_speeds=target_speeds, **values
    )
    _check_normalisation(settings)
    return settings


# Whole numbers and the least that each may be.
_LEAST = {
    "simulation_frequency": 1,
    "policy_frequency": 1,
    "lanes_count": 1,
    "vehicles_count": 0,
    "initial_vehicle_count": 1,
}


def _check_limits(scenario: str, values: dict[str, Any]) -> None:
    """Check the numbers that have to lie in a certain range."""
    if scenario == "intersection" and values["simulation_frequency"] < _REGULATIONS_A_SECOND:
        raise HighwayError(
            "the intersection enforces its rules twice a second: simulation_frequency must be 2 at least, "
            f"got {values['simulation_frequency']}."
        )
    if values["simulation_frequency"] < values["policy_frequency"]:
        raise HighwayError(
            f"policy_frequency ({values['policy_frequency']}) is above simulation_frequency "
            f"({values['simulation_frequency']}): a step would simulate nothing."
        )
    for name in ("duration", "ego_spacing", "vehicles_density"):
        if values.get(name, 1) <= 0:
            raise HighwayError(f"{name} must be above 0, got {values[name]}.")
    if not 0 <= values.get("spawn_probability", 0) <= 1:
        raise HighwayError(f"spawn_probability is between 0 and 1, got {values['spawn_probability']}.")


def _check_places(values: dict[str, Any]) -> None:
    """Check the entries that name a lane or a destination."""
    lane = values.get("initial_lane_id")
    if lane is not None:
        values["initial_lane_id"] = _whole("initial_lane_id", lane, 0)
        if lane >= values["lanes_count"]:
            raise HighwayError(f"initial_lane_id {lane} does not exist: lanes are 0…{values['lanes_count'] - 1}.")
    if values.get("destination") not in (None, "o1", "o2", "o3"):
        raise HighwayError(
            f"destination is 'o1' (west), 'o2' (north), 'o3' (east) or None (random), got {values['destination']!r}."
        )
    if values.get("incoming_vehicle_destination") not in (None, 0, 1, 2):
        raise HighwayError(
            "incoming_vehicle_destination is 0 (east), 1 (south), 2 (north) or None (random), "
            f"got {values['incoming_vehicle_destination']!r}."
        )


def _check_normalisation(settings: HighwaySettings) -> None:
    """Refuse weights with which highway-env's normalisation of rewards divides by zero."""
    if not settings.normalize_reward:
        return
    best = settings.high_speed_reward
    if settings.is_highway or settings.kind == MERGE:
        best += settings.right_lane_reward
    if settings.kind == INTERSECTION:
        best = settings.arrived_reward
    worst = settings.collision_reward
    if settings.kind == MERGE:
        worst += settings.merging_speed_reward
    if best == worst:
        raise HighwayError(
            f"the best and the worst reward of {settings.scenario} are both {best}; rewards cannot be normalised so."
        )


def _entry(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise HighwayError(f"{name} must be a mapping such as {{'type': …}}, got {value!r}.")
    return dict(value)


def _observation_of(entry: dict[str, Any]) -> KinematicsObservation:
    _check_type("observation", entry, "Kinematics")
    entry.pop("flatten", None)  # highway-env accepts and ignores it
    known = KinematicsObservation.__dataclass_fields__
    for key in entry:
        if key not in known:
            raise HighwayError(
                f"observation has no setting {key!r}.{did_you_mean(key, known)} It has: {', '.join(known)}."
            )
    for name in ("absolute", "normalize", "clip", "see_behind", "observe_intentions", "include_obstacles"):
        if name in entry:
            entry[name] = _flag(f"observation's {name}", entry[name])
    if "vehicles_count" in entry:
        # With one row highway-env returns as many as there are vehicles, whatever its observation space says.
        entry["vehicles_count"] = _whole("observation's vehicles_count", entry["vehicles_count"], 2)
    if entry.get("order", "sorted") not in ("sorted", "unsorted"):
        raise HighwayError(f"observation's order is 'sorted' or 'unsorted', got {entry['order']!r}.")
    entry["features"] = _columns_of(entry.get("features") or _FIVE_FEATURES)
    ranges = entry.get("features_range")
    if ranges is not None:
        entry["features_range"] = _ranges_of(ranges) or None
    return KinematicsObservation(**entry)


def _columns_of(features: object) -> tuple[str, ...]:
    if isinstance(features, str) or not isinstance(features, Sequence):
        raise HighwayError(f"observation's features is a list of names, got {features!r}.")
    for name in features:
        if name not in OBSERVABLE:
            raise HighwayError(
                f"feature {name!r} cannot be observed.{did_you_mean(str(name), OBSERVABLE)} "
                f"There are: {', '.join(OBSERVABLE)}."
            )
    if len(set(features)) < len(features):
        raise HighwayError(f"observation's features names one twice: {', '.join(features)}.")
    return tuple(features)


def _ranges_of(ranges: object) -> tuple[tuple[str, tuple[float, float]], ...]:
    if not isinstance(ranges, Mapping):
        raise HighwayError(f"observation's features_range maps features to [low, high], got {ranges!r}.")
    return tuple((name, _range(f"features_range of {name}", bounds)) for name, bounds in ranges.items())


def _actions_of(entry: dict[str, Any]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    _check_type("action", entry, "DiscreteMetaAction")
    known = ("longitudinal", "lateral", "target_speeds")
    for key in entry:
        if key not in known:
            raise HighwayError(f"action has no setting {key!r}.{did_you_mean(key, known)} It has: {', '.join(known)}.")
    along = _flag("action's longitudinal", entry.get("longitudinal", True))
    across = _flag("action's lateral", entry.get("lateral", True))
    if not along and not across:
        raise HighwayError("action needs longitudinal or lateral actions, or both.")
    speeds = entry.get("target_speeds")
    target_speeds = (20.0, 25.0, 30.0) if speeds is None else tuple(_number("target_speeds", speed) for speed in speeds)
    if len(target_speeds) < 2 or target_speeds[0] == target_speeds[-1]:
        raise HighwayError(f"target_speeds needs two different speeds at least, got {list(target_speeds)}.")
    if along:
        return _ACTIONS_BOTH if across else _ACTIONS_ALONG, target_speeds
    return _ACTIONS_ACROSS, target_speeds


def _check_type(name: str, entry: dict[str, Any], only: str) -> None:
    kind = entry.pop("type", only)
    if kind != only:
        raise HighwayError(f"{name} of type {kind!r} is not supported; only {only!r} is.")


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise HighwayError(f"{name} is a whole number of at least {least}, got {value!r}.")
    return int(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise HighwayError(f"{name} is a number, got {value!r}.")
    return float(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise HighwayError(f"{name} is True or False, got {value!r}.")
    return bool(value)


def _range(name: str, bounds: Any) -> tuple[float, float]:
    if isinstance(bounds, str) or not isinstance(bounds, (Sequence, np.ndarray)) or len(bounds) != 2:
        raise HighwayError(f"{name} is a pair [low, high], got {bounds!r}.")
    low, high = _number(name, bounds[0]), _number(name, bounds[1])
    if low == high:
        raise HighwayError(f"{name} has no width: both ends are {low}.")
    return low, high
