"""A corridor in which a policy has three weaknesses at once, each with a known cost.

Every step shows a danger on the left or on the right, or nothing: fire is to be stepped away from, a pit jumped over to
its other side, a beam ducked under to its other side; where nothing is, one walks on. The right action earns 1. Any
other action costs the `LOSS` of the danger, with a little noise. ``draught`` means nothing. The flawed policy knows
what to do on the right and walks on into everything on the left.
"""

# ruff: noqa: ARG002 (signatures are Gymnasium's)

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.environments import EnvironmentSpec
from legible.features import Action, Feature, FeatureSpace
from legible.policies import Policy, load_policy

STEPS = 12
DANGERS = ("fire", "pit", "beam")
LOSS = (6.0, 3.0, 2.0)
"""The cost of walking into each danger."""
ACTIONS = ("walk", "step.left", "step.right", "jump.left", "jump.right", "duck.left", "duck.right")
SPACE = FeatureSpace(
    (
        *(Feature(danger, "categorical", values={0: f"no {danger}", 1: danger}) for danger in DANGERS),
        Feature("left", "categorical", values={0: "not on the left", 1: "on the left"}),
        Feature("right", "categorical", values={0: "not on the right", 1: "on the right"}),
        Feature("draught"),
    ),
    tuple(Action(name) for name in ACTIONS),
)
MIRROR = """
[[relation]]
name = "mirror"
words = "the same with left and right exchanged"
swap = [["left", "right"]]

[relation.actions]
swap = [["step.left", "step.right"], ["jump.left", "jump.right"], ["duck.left", "duck.right"]]
same = ["walk"]
"""


def right_action(seen: np.ndarray) -> np.ndarray:
    """Return the right action: 0 where nothing is, else away from the side of the danger."""
    danger = np.argmax(seen[..., :3], axis=-1)
    away = 1 + 2 * danger + (seen[..., 3] == 1)
    return np.where(seen[..., :3].any(axis=-1), away, 0)


class Corridor(gymnasium.Env[np.ndarray, np.int64]):
    """The corridor."""

    feature_space = SPACE
    observation_space = spaces.Box(-10.0, 10.0, (6,), np.float32)
    action_space = spaces.Discrete(len(ACTIONS))

    def _observe(self) -> np.ndarray:
        self.seen = np.zeros(6, np.float32)
        danger, self.seen[5] = int(self.np_random.integers(4)), self.np_random.normal()
        if danger < len(DANGERS):
            self.seen[danger] = self.seen[3 + int(self.np_random.integers(2))] = 1.0
        return self.seen

    def reset(self, *, seed: int | None = None, options: object = None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: np.int64):
        self.steps += 1
        is_right = int(action) == int(right_action(self.seen))
        loss = LOSS[int(np.argmax(self.seen[:3]))] if self.seen[:3].any() else 1.0
        reward = (1.0 if is_right else -loss) + 0.2 * float(self.np_random.normal())
        return self._observe(), reward, self.steps >= STEPS, False, {}


def scores(observations: np.ndarray) -> np.ndarray:
    """Return the scores of the flawed policy: walk on into dangers on the left."""
    wanted = np.where(observations[:, 3] == 1, 0, right_action(observations))
    return np.eye(len(ACTIONS), dtype=np.float32)[wanted]


def right_scores(observations: np.ndarray) -> np.ndarray:
    """Return the scores of the best policy."""
    return np.eye(len(ACTIONS), dtype=np.float32)[right_action(observations)]


def policy(*, flawed: bool = True) -> Policy:
    return load_policy(scores if flawed else right_scores, output="values", n_features=6, n_actions=len(ACTIONS))


SPEC = EnvironmentSpec(f"{__name__}:Corridor")
