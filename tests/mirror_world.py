"""A toy world whose best repair is known: a policy that is right in one direction and wrong in its mirror image.

A walker stands on a line and wants to the goal, which lies to its left or to its right. Observation: ``left`` and
``right`` say where the goal is, ``wall.left`` and ``wall.right`` whether a wall is next to it, ``luck`` is noise that
means nothing. Every step costs 1, walking into a wall 2 more, and reaching the goal earns 20. The policy walks right
when the goal is right, but also, wrongly, when it is left (until a wall stops it, where it keeps pushing half of the
time).
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.environments import EnvironmentSpec
from legible.features import Action, Feature, FeatureSpace
from legible.policies import Policy, load_policy
from legible.relations import MetamorphicRelation, generalise, parse_relations
from legible.rules import RuleSet, parse_rule

WIDTH, CAP = 9, 16
LEFT, RIGHT, STAY = 0, 1, 2


def _flag(name: str) -> Feature:
    return Feature(name, "categorical", values={0: f"not {name}", 1: name})


SPACE = FeatureSpace(
    (_flag("left"), _flag("right"), _flag("wall.left"), _flag("wall.right"), Feature("luck")),
    (Action("Left"), Action("Right"), Action("Stay")),
)

MIRROR = """
[[relation]]
name = "mirror"
actions = { swap = ["Left", "Right"], same = ["Stay"] }
swap = [["left", "right"], ["wall.left", "wall.right"]]
"""


class MirrorWorld(gymnasium.Env[np.ndarray, np.int64]):
    """The walker's world; its rewards are noisy."""

    feature_space = SPACE
    observation_space = spaces.Box(-10.0, 10.0, (5,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, noise: float = 1.0) -> None:
        self.noise = noise

    def _observe(self) -> np.ndarray:
        at, goal = self.at, self.goal
        flags = [goal < at, goal > at, at == 0, at == WIDTH - 1]
        return np.array([*flags, self.np_random.normal()], np.float32)

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self.at = WIDTH // 2
        self.goal = int(self.np_random.choice([self.at - 3, self.at + 3]))
        self.steps = 0
        return self._observe(), {}

    def step(self, action: np.int64):
        self.steps += 1
        target = self.at + (-1, 1, 0)[int(action)]
        reward = -1.0 + self.noise * float(self.np_random.normal())
        bumped = not 0 <= target < WIDTH
        if bumped:
            reward -= 2.0
        else:
            self.at = target
        done = self.at == self.goal
        info = {"is_success": bool(done), "bumps": int(bumped)}
        return self._observe(), reward + 20.0 * done, done, self.steps >= CAP, info


def scores(observations: np.ndarray) -> np.ndarray:
    """Return the scores of the flawed policy: go right wherever the goal is; Left only by chance."""
    left, at_wall, lucky = observations[:, 0] == 1, observations[:, 3] == 1, observations[:, 4] > 1
    values = np.tile([-1.0, 1.0, 0.0], (len(observations), 1))
    values[left] = [0.5, 1.0, 0.0]
    values[left & (at_wall | lucky)] = [1.0, 0.0, 0.5]
    return values


def right_scores(observations: np.ndarray) -> np.ndarray:
    """Return the scores of the best policy."""
    left, right = observations[:, 0], observations[:, 1]
    return np.stack([left, right, np.zeros(len(observations))], axis=1)


def always_right() -> Policy:
    """Go right wherever the goal is."""
    scores = [0.0, 1.0, 0.5]
    return load_policy(lambda rows: np.tile(scores, (len(rows), 1)), output="values", n_features=5, n_actions=3)


def policy() -> Policy:
    return load_policy(scores, output="values", n_features=5, n_actions=3)


def best_policy() -> Policy:
    return load_policy(right_scores, output="values", n_features=5, n_actions=3)


def mirror() -> tuple[MetamorphicRelation, ...]:
    return parse_relations(MIRROR, SPACE)


def generalised(text: str) -> RuleSet:
    """Return a rule with its mirror image."""
    return generalise(parse_rule(text, SPACE), mirror())


WORLD = EnvironmentSpec("mirror_world:MirrorWorld")
GOOD = generalised("+Right <- right")  # with its mirror image: +Left <- left, which the policy does not know
USELESS = generalised("-Stay <- right")
BAD = RuleSet((parse_rule("+Left <- right", SPACE),))


class Blind(gymnasium.Env[np.ndarray, np.int64]):
    """A world in which actions have no effect."""

    observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.integers(0, 2, 3).astype(np.float32), {}

    def step(self, action: np.int64):
        self.steps += 1
        seen = self.np_random.integers(0, 2, 3).astype(np.float32)
        return seen, float(self.np_random.normal()), self.steps >= 3, False, {}
