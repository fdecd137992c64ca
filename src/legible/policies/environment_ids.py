"""Outdated environment ids: the current id, and the changes since.

- `trained_environment`: the environment that a folder of the RL Zoo is named after.
- `todays_id`: the current id of an outdated environment, and the changes since.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HEALTHY = "the reward for staying healthy is only given while healthy, before it was given at every step"
_MUJOCO = "the physics are MuJoCo's own bindings since -v4, before they were mujoco-py's"

# What each version of an environment changed, from the version histories in Gymnasium's documentation. The highest
# version is the current one; versions without visible changes have no text, or are left out.
_CHANGES: Mapping[str, Mapping[int, str]] = {
    "Pendulum": {1: "simpler formulas, the same behaviour"},
    "LunarLander": {
        2: "energy spent counts; wind and turbulence can be switched on",
        3: "wind starts anew with every episode and episodes are reproducible; wider bounds of the observations",
    },
    "BipedalWalker": {
        2: "energy spent counts",
        3: "the lidar returns the closest trace, before it was the furthest",
    },
    "CarRacing": {
        1: "another rule for when the track is complete",
        2: "finishing the lap terminates, before it truncated",
        3: "",
    },
    "FrozenLake": {1: "rewards mended"},
    "CliffWalking": {1: "a slippery variant was added; the default is the same"},
    "Taxi": {3: "the map was corrected", 4: "only its rainy and fickle variants were mended"},
    "Blackjack": {1: "the natural rule follows the book"},
    "Ant": {
        4: f"{_MUJOCO}; contact forces left the observation (27 numbers, before 111)",
        5: f"contact forces are back in the observation (105 numbers; include_cfrc_ext_in_observation=false leaves "
        f"them out) and always cost; {_HEALTHY}",
    },
    "HalfCheetah": {4: _MUJOCO, 5: "the same behaviour, new arguments"},
    "Hopper": {4: _MUJOCO, 5: _HEALTHY},
    "Walker2d": {4: _MUJOCO, 5: f"both feet have the same friction (1.9; the right one had 0.9); {_HEALTHY}"},
    "Humanoid": {
        4: f"{_MUJOCO}; contacts no longer cost",
        5: "contacts cost again; entries that were always 0 left the observation (348 numbers, before 376); "
        f"{_HEALTHY}",
    },
    "HumanoidStandup": {
        4: _MUJOCO,
        5: "entries that were always 0 left the observation (348 numbers, before 376)",
    },
    "Swimmer": {4: _MUJOCO, 5: "the same behaviour, new arguments"},
    "Reacher": {
        4: _MUJOCO,
        5: "the distance is rewarded after the step; an entry that was always 0 left the observation",
    },
    "Pusher": {4: _MUJOCO, 5: "distances are rewarded after the step; the object is heavier than air"},
    "InvertedPendulum": {4: _MUJOCO, 5: _HEALTHY},
    "InvertedDoublePendulum": {
        4: _MUJOCO,
        5: f"entries that were always 0 left the observation (9 numbers, before 11); {_HEALTHY}",
    },
}

_VARIANTS = {
    "LunarLanderContinuous": "LunarLander",
    "BipedalWalkerHardcore": "BipedalWalker",
    "FrozenLake8x8": "FrozenLake",
}


@dataclass(frozen=True)
class RenamedEnvironment:
    """The current id of an outdated environment, and the changes since, oldest first, each with its version."""

    env_id: str
    changes: tuple[str, ...]


def trained_environment(folder: Path) -> str:
    """Return the environment that a folder of the RL Zoo is named after: ``CartPole-v1`` for ``CartPole-v1_1``."""
    return re.sub(r"_\d+$", "", folder.resolve().name)


def todays_id(env_id: str) -> RenamedEnvironment | None:
    """Return the current id of an outdated environment of Gymnasium with the changes since; None if it is not outdated.

    Ids that Gymnasium does not define also return None.

    >>> todays_id("Pendulum-v0")
    RenamedEnvironment(env_id='Pendulum-v1', changes=('v1: simpler formulas, the same behaviour',))
    >>> todays_id("HalfCheetah-v4").env_id
    'HalfCheetah-v5'
    >>> todays_id("CartPole-v1") is None
    True
    """
    parsed = re.fullmatch(r"(\w+)-v(\d{1,3})", env_id)
    if parsed is None:
        return None
    name, version = parsed[1], int(parsed[2])
    changes = _CHANGES.get(_VARIANTS.get(name, name), {})
    current_version = max(changes, default=version)  # an unknown environment counts as current
    if version >= current_version:
        return None
    later_changes = tuple(f"v{later}: {change}" for later, change in changes.items() if later > version and change)
    return RenamedEnvironment(f"{name}-v{current_version}", later_changes)
