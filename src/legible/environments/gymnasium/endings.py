"""Endings of episodes in Gymnasium's own environments: one function per family, see `legible.environments.endings`.

Time limits without an own clause, and terminations that a function does not know, are read by `EndingReader`.
"""

from __future__ import annotations

import numpy as np

from legible.environments.endings import LastStep


def cartpole(last: LastStep) -> str:
    """Return the ending of an episode of CartPole."""
    if not last.terminated:
        return "success: the pole is up when time runs out"
    states = np.atleast_2d(np.transpose(last.env.state))  # a vector environment has one column per episode
    position, _, angle, _ = states[last.row]
    if abs(position) > last.env.x_threshold:
        return f"failure: the cart leaves the track on the {_side(position)}"
    return f"failure: the pole falls to the {_side(angle)}"


def mountain_car(last: LastStep) -> str:
    """Return the ending of an episode of MountainCar."""
    return "success: it reaches the goal" if last.terminated else "time limit: time runs out before the goal"


def acrobot(last: LastStep) -> str:
    """Return the ending of an episode of Acrobot."""
    return "success: the tip reaches the line" if last.terminated else "time limit: time runs out below the line"


def lunar_lander(last: LastStep) -> str:
    """Return the ending of an episode of LunarLander."""
    if not last.terminated:
        return "time limit: time runs out before it lands"
    if not last.env.lander.awake:
        return "success: it lands"
    if last.env.game_over:
        return "failure: it crashes"
    return f"failure: it flies out of sight on the {_side(last.observation[0])}"


def bipedal_walker(last: LastStep) -> str | None:
    """Return the ending of an episode of BipedalWalker."""
    if not last.terminated:
        return "time limit: time runs out before the end of the terrain"
    if last.env.game_over:
        return "failure: it falls"
    return "failure: it walks back behind the start" if last.env.hull.position.x < 0 else "success: it reaches the end"


def inverted_pendulum(last: LastStep) -> str:
    """Return the ending of an episode of InvertedPendulum."""
    if not last.terminated:
        return "success: the pole is up when time runs out"
    return f"failure: the pole falls to the {_side(last.env.data.qpos[1])}"


def mujoco(last: LastStep) -> str | None:
    """Return the ending of an episode of a MuJoCo robot: terminations mean that it is unhealthy."""
    if not last.terminated:
        return None if getattr(last.env, "is_healthy", None) is None else "success: it is up when time runs out"
    return "failure: it falls"


def frozen_lake(last: LastStep) -> str | None:
    """Return the ending of an episode of FrozenLake."""
    if not last.terminated:
        return "time limit: time runs out before the goal"
    return "success: it reaches the goal" if last.reward > 0 else "failure: it falls into a hole"


def _side(value: float) -> str:
    return "left" if value < 0 else "right"
