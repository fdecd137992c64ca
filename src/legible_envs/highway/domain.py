"""The driving scenarios of the paper: ids for Gymnasium, and what legible knows about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legible.environments.domain_registry import Domain, relations_files

SCENARIOS = {
    "Highway": "highway",
    "HighwayFast": "highway-fast",
    "Merge": "merge",
    "Intersection": "intersection",
    "Roundabout": "roundabout",
}

# Legible's own and, under ``farama/``, Farama's highway-env, both in the configuration of the paper's experiments.
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    **{
        f"legible/{name}-v0": {
            "entry_point": "legible_envs.highway.env:HighwayEnv",
            "vector_entry_point": "legible_envs.highway.env:HighwayVectorEnv",
            "kwargs": {"scenario": scenario},
        }
        for name, scenario in SCENARIOS.items()
    },
    **{
        f"farama/{name}-v0": {
            "entry_point": "legible_envs.highway.farama:FaramaEnv",
            "kwargs": {"scenario": scenario},
        }
        for name, scenario in SCENARIOS.items()
    },
}

# highway-v0 as Farama has it (no namespace) has four lanes, in the paper's configuration (legible/Highway-v0,
# farama/Highway-v0) it has three.
DOMAIN = Domain(
    name="highway",
    ids="(legible|farama)/(Highway|HighwayFast|Merge|Intersection|Roundabout)"
    "|(exit|highway|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn)(-.*)?",
    classes=(
        "legible_envs.highway.env:HighwayEnv",
        "legible_envs.highway.farama:FaramaEnv",
        "highway_env",
    ),
    names={".*": "legible_envs.highway.farama:farama_features"},
    relations=relations_files(
        Path(__file__).parent,
        ("(legible|farama)/.*|highway|highway-fast|merge|roundabout|intersection", "vehicles", True),
        ("(legible|farama)/(Highway|HighwayFast)|highway-fast", "mirror-3-lanes", True),
        ("highway", "mirror-3-lanes", False),
        ("(legible|farama)/Highway", "mirror-4-lanes", False),
        ("highway", "mirror-4-lanes", True),
        ("(legible|farama)/Merge|merge", "mirror-merge", True),
        ("(legible|farama)/Roundabout|roundabout", "mirror-roundabout", True),
    ),
    scene="legible_envs.highway.scene:road_scene",
    success={
        "(legible|farama)/Intersection|intersection": "ego has arrived without a crash",
        ".*": "ego has not crashed by its end",
    },
    endings="legible_envs.highway.endings:read_ending",
    training="legible_envs.highway.training:highway_preset",
)
