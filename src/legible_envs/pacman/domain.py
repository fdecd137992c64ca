"""The PAC-Man levels of the paper: ids for Gymnasium, and what legible knows about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legible.environments.domain_registry import Domain, relations_files

# Mazes and step caps of the paper's six levels; NC means "no capsules".
LEVELS: dict[str, dict[str, object]] = {
    "PacmanSmall": {"maze": "small", "step_cap": 400},
    "PacmanSmallNC": {"maze": "small", "step_cap": 400, "capsules": False},
    "PacmanMedium": {"maze": "medium", "step_cap": 400},
    "PacmanMediumNC": {"maze": "medium", "step_cap": 400, "capsules": False},
    "PacmanOriginal": {"maze": "original", "step_cap": 800},
    "PacmanOriginalNC": {"maze": "original", "step_cap": 800, "capsules": False},
}

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    f"legible/{name}-v0": {
        "entry_point": "legible_envs.pacman.env:PacmanEnv",
        "vector_entry_point": "legible_envs.pacman.env:PacmanVectorEnv",
        "kwargs": arguments,
    }
    for name, arguments in LEVELS.items()
}

DOMAIN = Domain(
    name="pacman",
    ids="legible/Pacman.*",
    classes=("legible_envs.pacman.env:PacmanEnv",),
    relations=relations_files(
        Path(__file__).parent,
        (".*", "turn", True),
        (".*", "mirror-east-west", False),
        (".*", "mirror-north-south", False),
        ("legible/Pacman(Small|Medium)(NC)?", "exchange-2-ghosts", False),
        ("legible/PacmanOriginal(NC)?", "exchange-4-ghosts", False),
    ),
    # Those of the paper's table.
    groups={
        "Ghosts": ("near.unscared", "near.scared", "ghost*"),
        "Scared": ("near.unscared", "near.scared", "ghost*.scared", "ghost*.timer"),
    },
    scene="legible_envs.pacman.scene:PacmanScene",
    checker="legible_envs.pacman.checker:PacmanChecker",
    success={".*": "PAC-Man has eaten all food before a ghost catches it or time is up"},
    endings="legible_envs.pacman.env:read_ending",
    terms="legible_envs.pacman.env:read_terms",
    place=("pacman.x", "pacman.y"),
    training="legible_envs.pacman.training:pacman_preset",
)
