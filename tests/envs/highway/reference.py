"""Live environments of highway-env whose states, views and random numbers can be compared with legible's."""

from typing import Any

import numpy as np
import pytest

from lab.synchronise import read_state
from legible.streams import uniform
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.settings import HighwaySettings
from legible_envs.highway.state import World, new_world

SCENARIOS = ("highway", "highway-fast", "merge", "roundabout", "intersection")


class OurStream:
    """A generator for highway-env that draws legible's random numbers, one for each that legible draws.

    It has the methods that highway-env calls when it puts vehicles onto the road. Of one thing none is drawn.
    """

    def __init__(self, key: int, count: int = 0) -> None:
        self.key = np.uint64(key)
        self.count = count

    def random(self) -> float:
        number = uniform(self.key, np.uint64(self.count))
        self.count += 1
        return float(number)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * self.random()

    def integers(self, low: int, high: int | None = None) -> int:
        first, last = (0, low) if high is None else (low, high)
        return first + int(self.random() * (last - first))

    def normal(self, mean: float = 0.0) -> float:
        radius = np.sqrt(-2.0 * np.log(1.0 - self.random()))
        return float(mean + radius * np.cos(2.0 * np.pi * self.random()))

    def choice(self, options: Any, size: int | None = None, *, replace: bool = True) -> Any:
        things = list(range(options)) if isinstance(options, int) else list(options)
        if size is not None:
            assert (size, replace) == (2, False)
            first = int(self.random() * len(things))
            second = int(self.random() * (len(things) - 1))
            return np.array([things[first], things[second + (second >= first)]])
        return things[0] if len(things) == 1 else things[int(self.random() * len(things))]


def live(scenario: str, config: dict[str, Any] | None = None, *, preset: str = "authors") -> Any:
    """Return highway-env's own environment inside one that keeps its drivers apart from other scenarios'."""
    pytest.importorskip("highway_env")
    from legible_envs.highway.farama import FaramaEnv

    return FaramaEnv(scenario, config, preset=preset)


def state_of(env: Any, settings: HighwaySettings) -> World:
    """Return the state of a live environment in a batch of one."""
    world = new_world(1, settings.capacity)
    read_state(env.inner, settings.roads(), world, 0)
    return world


def smaller(scenario: str, vehicles: int = 12) -> dict[str, Any]:
    """Return a configuration with less traffic, so that highway-env takes less time."""
    return {"vehicles_count": vehicles} if scenario.startswith("highway") else {}


__all__ = ["SCENARIOS", "OurStream", "live", "settings_of", "smaller", "state_of"]
