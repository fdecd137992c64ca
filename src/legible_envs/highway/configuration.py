"""From a configuration under highway-env's own names to settings, with every entry checked.

`settings_of` starts from a preset, puts the user's configuration over it as highway-env does (a given ``observation``
or ``action`` replaces the whole entry), and refuses what the kernels cannot do.

>>> settings = settings_of("merge")
>>> settings.policy_frequency, settings.observation.vehicles_count, settings.high_speed_reward
(2, 10, 0.2)
>>> settings_of("merge", preset="highway-env").observation.features
('presence', 'x', 'y', 'vx', 'vy')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from legible.errors import did_you_mean
from legible_envs.highway.observation import OBSERVABLE
from legible_envs.highway.presets import AUTHORS_CONFIGURATION, FIVE_FEATURES, HIGHWAY_ENV_DEFAULTS, PRESETS
from legible_envs.highway.settings import (
    REGULATIONS_PER_SECOND,
    SCENARIOS,
    HighwayError,
    HighwaySettings,
    KinematicsObservation,
)
from legible_envs.highway.state import (
    FASTER,
    HIGHWAY,
    HIGHWAY_FAST,
    IDLE,
    INTERSECTION,
    LANE_LEFT,
    LANE_RIGHT,
    MERGE,
    ROUNDABOUT,
    SLOWER,
)

_ACTIONS_BOTH = (LANE_LEFT, IDLE, LANE_RIGHT, FASTER, SLOWER)
_ACTIONS_ALONG = (SLOWER, IDLE, FASTER)
_ACTIONS_ACROSS = (LANE_LEFT, IDLE, LANE_RIGHT)

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


def settings_of(scenario: str, config: Mapping[str, Any] | None = None, *, preset: str = "authors") -> HighwaySettings:
    """Return the settings of a scenario: a preset with the user's changes, all checked.

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
    if preset not in PRESETS:
        raise HighwayError(f"preset {preset!r} is not known; use one of {', '.join(PRESETS)}.")
    # The scenario's own defaults, and on top of them what the paper's authors set in all scenarios.
    defaults = dict(HIGHWAY_ENV_DEFAULTS[scenario])
    if preset == "authors":
        defaults |= {name: value for name, value in AUTHORS_CONFIGURATION.items() if name in defaults}
    merged = dict(defaults)
    for name, value in (config or {}).items():
        if name in defaults:
            merged[name] = value
        elif name not in _WINDOW_KEYS:  # entries about highway-env's window change nothing here
            _check_only_value(scenario, name, value, defaults)
    return _checked(scenario, merged)


def _check_only_value(scenario: str, name: str, value: object, known: Mapping[str, Any]) -> None:
    """Raise unless an entry that is no setting of the scenario has the only value that legible supports.

    `known` are the scenario's settings, for the message.
    """
    kind = SCENARIOS[scenario]
    if name in _ONLY_VALUE:
        if value != _ONLY_VALUE[name]:
            raise HighwayError(
                f"{name} = {value!r} is not supported by legible's {scenario}; only {_ONLY_VALUE[name]!r} is. "
                "highway-env itself can do more."
            )
    elif (kind, name) in _WITHOUT_EFFECT:
        if value != _WITHOUT_EFFECT[kind, name]:
            raise HighwayError(f"{name} has no effect in {scenario}, in highway-env neither; leave it out.")
    else:
        why_absent = _WHY_ABSENT.get((kind, name))
        if why_absent is not None:
            raise HighwayError(f"{scenario} has no {name}: {why_absent}.")
        names = [*known, *_ONLY_VALUE]
        raise HighwayError(
            f"{scenario} has no setting {name!r}.{did_you_mean(name, names)} It has: {', '.join(sorted(known))}."
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
    if scenario == "intersection" and values["simulation_frequency"] < REGULATIONS_PER_SECOND:
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
    """Return the settings of the observation from its entry in a configuration, with every value checked.

    `entry` is the ``observation`` mapping of highway-env, such as ``{"type": "Kinematics", "vehicles_count": 10}``; its
    values are replaced by checked ones.
    """
    _check_type("observation", entry, "Kinematics")
    entry.pop("flatten", None)  # highway-env accepts and ignores it
    known = KinematicsObservation.__dataclass_fields__
    for name in entry:
        if name not in known:
            raise HighwayError(
                f"observation has no setting {name!r}.{did_you_mean(name, known)} It has: {', '.join(known)}."
            )
    for name in ("absolute", "normalize", "clip", "see_behind", "observe_intentions", "include_obstacles"):
        if name in entry:
            entry[name] = _flag(f"observation's {name}", entry[name])
    if "vehicles_count" in entry:
        # With one row highway-env returns as many as there are vehicles, whatever its observation space says.
        entry["vehicles_count"] = _whole("observation's vehicles_count", entry["vehicles_count"], 2)
    if entry.get("order", "sorted") not in ("sorted", "unsorted"):
        raise HighwayError(f"observation's order is 'sorted' or 'unsorted', got {entry['order']!r}.")
    entry["features"] = _columns_of(entry.get("features") or FIVE_FEATURES)
    ranges = entry.get("features_range")  # the values that normalisation maps to -1 and 1
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
