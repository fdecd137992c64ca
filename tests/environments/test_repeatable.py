"""Episodes depend on their seed alone, also where the environment would remember earlier ones."""

import numpy as np
import pytest

from legible.environments import Env, EnvironmentSpec
from legible.environments.game_starts import RememberedStarts


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


def whole_steps(env: Env, seed: int) -> list[object]:
    """All that is seen of an episode of random actions; some of them are repeated, at random, by the emulator."""
    shown, info = env.reset(seed=seed)
    seen: list[object] = [shown.tobytes(), info, env.unwrapped.np_random.bit_generator.state]
    for action in np.random.default_rng(seed).integers(env.action_space.n, size=60):
        shown, *rest = env.step(int(action))
        seen += [shown.tobytes(), *rest]
        if rest[1] or rest[2]:
            break
    return seen


@pytest.mark.parametrize("game", ["Pong", "Boxing"])
def test_a_remembered_start_of_a_game_is_the_start(game: str) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("ale_py")
    spec = EnvironmentSpec(f"ALE/{game}-v5", {"obs_type": "grayscale", "max_episode_steps": 50})
    env, other = spec.make(), spec.make()
    assert isinstance(env, RememberedStarts)
    first = {seed: whole_steps(env, seed) for seed in (5, 6)}
    other.close()
    other.close()
    other = spec.make()  # the one that was closed, and no other
    assert spec.make().unwrapped is not other.unwrapped
    plain = gymnasium.make(spec.name, disable_env_checker=True, **spec.arguments)
    for seed in (5, 6, 5):
        assert whole_steps(env, seed) == whole_steps(other, seed) == whole_steps(plain, seed) == first[seed]
