"""Small worlds with planted symmetries, and decoys in which something breaks them.

- `WORLDS`: worlds by name, each with the relation that was planted, as TOML.
- `FLAWS`: what a decoy has: a wall, wind, unequal rewards, one biased motor.
- `count_disagreements`: an independent referee, which compares a relation with the world in many states.
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.features import Action, ActionGroup, Feature, FeatureSpace, Regions, cut_choices
from legible.relations import MetamorphicRelation, map_actions, map_states

FLAWS = ("wall", "wind", "unequal rewards", "biased motor")
STEPS = 60


class PlantedWorld(gymnasium.Env[NDArray[np.float32], Any]):
    """Carts on lines, which pushes accelerate and a spring pulls to their centres; flaws concern the first cart.

    The state is position and velocity of every cart, and a meter that nothing depends on, if there is one.
    """

    def __init__(
        self, carts: int = 1, centre: float = 0.0, meter: bool = False, continuous: bool = False, flaw: str = ""
    ) -> None:
        self.carts, self.centre, self.meter, self.continuous, self.flaw = carts, centre, meter, continuous, flaw
        size = 2 * carts + meter
        low, high = np.full(size, -2.0, np.float32), np.full(size, 2.0, np.float32)
        low[:carts] += centre
        high[:carts] += centre
        self.observation_space = spaces.Box(low - 1, high + 1)
        self.action_space = spaces.Box(-1.0, 1.0, (carts,)) if continuous else spaces.Discrete(2 * carts + 1)
        self.state, self.steps = np.zeros(size), 0
        names = [f"cart{c}.{what}" for what in ("position", "velocity") for c in range(carts)] + ["meter"] * meter
        features = tuple(Feature(name) for name in names)
        if continuous:
            parts = [f"push{c}" for c in range(carts)]
            choices = tuple(Action(f"{part}.{side}") for part in parts for side in ("back", "weak", "ahead"))
            groups = tuple(ActionGroup(part, 3 * c, 3, Regions(-1.0, 1.0)) for c, part in enumerate(parts))
            self.feature_space = FeatureSpace(features, choices, groups)
        else:
            pushes = [Action(f"{side}{c}") for c in range(carts) for side in ("Left", "Right")]
            self.feature_space = FeatureSpace(features, (*pushes, Action("Wait")))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, len(self.state))
        self.state[: self.carts] += self.centre
        self.steps = 0
        return self.state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        n = self.carts
        place, speed = self.state[:n] - self.centre, self.state[n : 2 * n]
        push = np.zeros(n)
        if self.continuous:
            push[:] = np.clip(action, -1.0, 1.0)
        elif int(action) < 2 * n:
            push[int(action) // 2] = 1.0 if int(action) % 2 else -1.0
        if self.flaw == "biased motor" and push[0] > 0:
            push[0] *= 1.15
        speed = 0.95 * speed + 0.15 * push - 0.1 * np.sin(2 * place)
        if n > 1:
            speed = speed + 0.02 * (place.sum() - 2 * place)
        if self.flaw == "wind":
            speed[0] += 0.02
        place = place + 0.2 * speed
        if self.flaw == "wall" and place[0] < -0.7:
            place[0], speed[0] = -0.7, 0.0
        reward = float(np.cos(place).sum() - 0.1 * (push**2).sum())
        if self.flaw == "unequal rewards" and place[0] > 0.5:
            reward += 0.3
        ended = bool((np.abs(place) > 1.9).any())
        state = [*(place + self.centre), *speed]
        if self.meter:
            state.append(0.9 * self.state[-1] + 0.1 * float(np.exp(speed[0])))
        self.state = np.array(state)
        self.steps += 1
        return self.state.astype(np.float32), reward, ended, self.steps >= STEPS, {}


MIRROR = """
[[relation]]
name = "mirror"
actions = { swap = ["Left0", "Right0"], same = "Wait" }
"""
WORLDS: dict[str, tuple[dict[str, Any], str]] = {
    "cart": ({}, f'{MIRROR}negate = ["cart0.position", "cart0.velocity"]'),
    "cart off centre": (
        {"centre": 0.7},
        f'{MIRROR}reflect = {{ features = "cart0.position", about = 0.7 }}\nnegate = "cart0.velocity"',
    ),
    "cart with a meter": (
        {"meter": True},
        f'{MIRROR}negate = ["cart0.position", "cart0.velocity"]\nignore = "meter"',
    ),
    "two carts": (
        {"carts": 2},
        '[[relation]]\nname = "exchange"\nswap = ["cart0.*", "cart1.*"]\n'
        'actions = { swap = [["Left0", "Left1"], ["Right0", "Right1"]], same = "Wait" }',
    ),
    "continuous pushes": (
        {"carts": 2, "continuous": True},
        '[[relation]]\nname = "exchange"\nswap = ["cart0.*", "cart1.*"]\nactions = { swap = ["push0", "push1"] }',
    ),
}


def count_disagreements(
    world: PlantedWorld, relations: Sequence[MetamorphicRelation], states: int = 4000, seed: int = 0
) -> int:
    """Return the number of states in which a step does not agree with relations of one name."""
    rng = np.random.default_rng(seed)
    space = cut_choices(world.feature_space)
    low, high = world.observation_space.low + 1, world.observation_space.high - 1  # type: ignore[attr-defined]
    wrong = 0
    for _ in range(states):
        relation = relations[int(rng.integers(len(relations)))]
        before = rng.uniform(low, high)
        open_features = list(relation.unconstrained)
        image = map_states(relation, before[None])[0][0].astype(np.float64)
        image[open_features] = rng.uniform(low, high)[open_features]
        if world.continuous:
            action = rng.uniform(-1.0, 1.0, (1, world.carts))
            image_action = map_actions(relations, space, action)[0][0]
            taken: Any = action[0]
        else:
            taken, image_action = relation.action, relation.image_action
        world.state = before
        after, reward, ended, _, _ = world.step(taken)
        world.state = image
        image_after, image_reward, image_ended, _, _ = world.step(image_action)
        expected = map_states(relation, after[None])[0][0]
        same = np.abs(expected - image_after) < 1e-4
        same[open_features] = True
        wrong += not (same.all() and abs(reward - image_reward) < 1e-4 and ended == image_ended)
    return wrong
