"""Environments that come with legible. Importing legible registers them with Gymnasium."""

from __future__ import annotations

# id → arguments. Mazes and step caps of the paper's six PAC-Man levels; NC means "no capsules".
PACMAN_LEVELS: dict[str, dict[str, object]] = {
    "PacmanSmall": {"maze": "small", "step_cap": 400},
    "PacmanSmallNC": {"maze": "small", "step_cap": 400, "capsules": False},
    "PacmanMedium": {"maze": "medium", "step_cap": 400},
    "PacmanMediumNC": {"maze": "medium", "step_cap": 400, "capsules": False},
    "PacmanOriginal": {"maze": "original", "step_cap": 800},
    "PacmanOriginalNC": {"maze": "original", "step_cap": 800, "capsules": False},
}

# Driving: legible's own and, under ``farama/``, Farama's highway-env, both in the configuration of the paper's
# experiments.
SCENARIOS: dict[str, str] = {
    "Highway": "highway",
    "HighwayFast": "highway-fast",
    "Merge": "merge",
    "Intersection": "intersection",
    "Roundabout": "roundabout",
}


def register_envs() -> None:
    """Register every environment, ``legible/…-v0`` and ``farama/…-v0``; calling it again changes nothing."""
    import gymnasium  # noqa: PLC0415 (this is called when somebody has imported it)

    for name, arguments in PACMAN_LEVELS.items():
        env_id = f"legible/{name}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point="legible.environments.pacman.env:PacmanEnv",
                vector_entry_point="legible.environments.pacman.env:PacmanVectorEnv",
                kwargs=dict(arguments),
            )
    for name, scenario in SCENARIOS.items():
        env_id = f"legible/{name}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point="legible.environments.highway.env:HighwayEnv",
                vector_entry_point="legible.environments.highway.env:HighwayVectorEnv",
                kwargs={"scenario": scenario},
            )
        env_id = f"farama/{name}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id, entry_point="legible.environments.highway.farama:FaramaEnv", kwargs={"scenario": scenario}
            )
