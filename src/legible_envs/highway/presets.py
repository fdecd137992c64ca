"""Default settings of each scenario, under highway-env's own names."""

from __future__ import annotations

from typing import Any

FIVE_FEATURES = ("presence", "x", "y", "vx", "vy")
SEVEN_FEATURES = (*FIVE_FEATURES, "cos_h", "sin_h")

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
            "features": list(SEVEN_FEATURES),
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
# does not have (lanes in merge, say); `settings_of` leaves the same entries out.
AUTHORS_CONFIGURATION: dict[str, Any] = {
    "lanes_count": 3,
    "vehicles_count": 50,
    "observation": {
        "type": "Kinematics",
        "vehicles_count": 10,
        "features": list(SEVEN_FEATURES),
        "absolute": False,
    },
    "policy_frequency": 2,
    "duration": 600,
}

PRESETS = ("authors", "highway-env")
