"""Environments with their own names, or that only look as if they were of a domain; and a domain from outside.

- `Renamed`: CartPole with other names. `real_cartpole`: Gymnasium's, by a factory. `cartpole`: a namesake.
- `Pond`, `pond_domain`: an environment and the record of its domain, as another package would bring them.
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.environments import Domain, RelationsFile
from legible.features import FeatureSpace
from legible.relations.check import StateSetter
from legible.relations.check.settable import StateChecker
from legible.report.scenes import FeatureScene

OWN = FeatureSpace.of(["place", "speed", "lean", "turn"], ["West", "East"])
MIRROR_OF_OWN = '[[relation]]\nname = "mirror"\nactions = { swap = ["West", "East"] }\nnegate = "*"\n'


class Renamed(gymnasium.Wrapper):
    """CartPole by other names."""

    feature_space = OWN


def real_cartpole() -> gymnasium.Env:
    """Return Gymnasium's own CartPole, behind a factory."""
    return gymnasium.make("CartPole-v1")


class Pond(gymnasium.Env):
    """A boat on a pond: it drifts by its speed, and the rudder changes that by one. Four steps."""

    observation_space = spaces.Box(-100, 100, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = self.np_random.integers(-3, 4, 2).astype(np.float32), 0
        return self.state.copy(), {}

    def step(self, action):
        place, speed = self.state
        self.state = np.array([place + speed, speed + (1 if action else -1)], np.float32)
        self.steps += 1
        return self.state.copy(), -abs(float(self.state[0])), self.steps == 4, False, {}


def cartpole() -> gymnasium.Env:
    """Return an environment that is not CartPole at all."""
    return Pond()


def pond_names(env: gymnasium.Env) -> FeatureSpace:
    """Return names that are made for the environment."""
    return FeatureSpace.of([f"boat.{what}" for what in ("place", "speed")], ["Port", "Starboard"])


def pond_scene(env: gymnasium.Env) -> FeatureScene:
    """Return the scene of the boat."""
    return FeatureScene(env, pond_names(env), [0])


def pond_checker(inputs, env: gymnasium.Env) -> StateChecker:
    """Return a checker; the pond's state is its observation."""
    return StateChecker(inputs, StateSetter(np.array, np.array, (-50, -5), (50, 5)))


def pond_domain(folder: Path) -> Domain:
    """Return the record of the pond, whose relations file is written into a folder."""
    path = folder / "over-the-bow.toml"
    path.write_text('[[relation]]\nname = "bow"\nactions = { swap = ["Port", "Starboard"] }\nnegate = "*"\n')
    return Domain(
        name="pond",
        ids="water/Pond.*",
        classes=("named_environments:Pond",),
        names={".*": "named_environments:pond_names"},
        relations=(RelationsFile(".*", path, default=True),),
        groups={"Boat": ("boat.*",)},
        scene="named_environments:pond_scene",
        checker="named_environments:pond_checker",
    )
