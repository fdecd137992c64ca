"""Episodes depend on their seed alone, also where the environment would remember earlier ones."""

from __future__ import annotations

import numpy as np
import pytest

from legible.environments import Env, EnvironmentSpec


def observations(env: Env, seed: int) -> np.ndarray:
    actions = np.random.default_rng(0).uniform(-1, 1, (100, env.action_space.shape[0])).astype(np.float32)
    shown, _ = env.reset(seed=seed)
    seen = [shown]
    for action in actions:
        shown, _, terminated, truncated, _ = env.step(action)
        seen.append(shown)
        if terminated or truncated:
            break
    return np.array(seen)


@pytest.mark.parametrize("env_id", ["BipedalWalker-v3", "BipedalWalkerHardcore-v3", "LunarLanderContinuous-v3"])
def test_the_same_seed_gives_the_same_episode_again(env_id: str) -> None:
    env = EnvironmentSpec(env_id).make()
    first = observations(env, 5)
    observations(env, 6)
    np.testing.assert_array_equal(observations(env, 5), first)
    np.testing.assert_array_equal(observations(EnvironmentSpec(env_id).make(), 5), first)
