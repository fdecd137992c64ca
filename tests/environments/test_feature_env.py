"""Environments with rows of features: native batches equal single ones, and states carry the memory."""

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

from legible.environments import EnvironmentSpec, FeaturedSpec, FeatureEnv, map_features, with_features
from legible.features import FeatureSpace
from legible.play import (
    BatchSlots,
    PolicyChooser,
    SingleSlots,
    adapt_policy,
    find_branching_method,
    make_branching,
    make_slots,
    play_episodes,
)
from legible.play.branching.packed import pack_states, unpack_states
from legible.policies import load_policy

PACMAN = EnvironmentSpec("legible/PacmanSmall-v0")
DERIVED = FeatureSpace.from_dict(
    {"derived": {"before": "last_action", "north": "since(last_action == North)", "twice": "previous(before)"}}
)


def featured(spec: EnvironmentSpec, names: FeatureSpace | None = DERIVED, features: str | None = None) -> Any:
    env = spec.make()
    mapped = map_features(env, names, features)
    env.close()
    return with_features(spec, mapped)


def wandering() -> Any:
    weights = np.random.default_rng(0).normal(size=(200, 5))
    return load_policy(lambda o: o @ weights[: o.shape[1]], output="values", n_features=None, n_actions=5)


def test_without_anything_to_map_the_environment_stays_as_it_is() -> None:
    assert featured(PACMAN, None) is PACMAN


def test_a_batch_and_single_environments_show_the_same() -> None:
    spec = featured(PACMAN)
    again = pickle.loads(pickle.dumps(spec))
    assert repr(again) == repr(spec) != repr(PACMAN)
    batch, single = make_slots(spec, 3), SingleSlots([again.make() for _ in range(3)])
    assert isinstance(batch, BatchSlots)
    recorded: list[list[Any]] = [[], []]
    for slots, kept in zip((batch, single), recorded, strict=True):
        chooser = PolicyChooser(adapt_policy(wandering(), spec), [5, 6, 7, 8, 9])

        def keep(step: Any, kept: list[Any] = kept) -> None:
            playing = step.episodes >= 0
            kept.append((step.observations[playing], step.actions[playing]))

        play_episodes(slots, chooser, [5, 6, 7, 8, 9], step_limit=60, on_step=keep)
    assert len(recorded[0]) == len(recorded[1])
    for one, other in zip(*recorded, strict=True):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])


def test_packed_states_carry_the_memory() -> None:
    spec = featured(PACMAN)
    slots = make_slots(spec, 2)
    assert isinstance(slots, BatchSlots)
    slots.start(np.arange(2), [3, 4])
    everything = np.ones(2, np.bool_)
    for actions in ([0, 1], [2, 1], [2, 3]):
        slots.step(np.array(actions), everything)
    packed, shown = pack_states(slots, np.arange(2)), slots.observations.copy()
    assert packed.shape[1]
    after = []
    for _ in range(2):
        slots.step(np.array([1, 0]), everything)
        after.append(slots.observations.copy())
    make_branching(slots, "rows").start(np.arange(2), unpack_states(slots, packed, shown))
    assert np.array_equal(slots.observations, shown)
    for expected in after:
        slots.step(np.array([1, 0]), everything)
        assert np.array_equal(slots.observations, expected)


@pytest.mark.parametrize("name", ["legible/PacmanSmall-v0", "CartPole-v1"])
def test_branching_carries_the_memory(name: str) -> None:
    spec = featured(EnvironmentSpec(name), FeatureSpace.from_dict({"derived": {"before": "previous(last_action)"}}))
    assert isinstance(spec, FeaturedSpec)
    assert find_branching_method(spec).way is not None


def test_features_keep_their_values_where_an_episode_is_over() -> None:
    """No decision follows, so that a division by zero at the end does not matter."""
    space = FeatureSpace.from_dict({"derived": {"x": "1 / (cart.position - cart.position + 1)"}})
    env = featured(EnvironmentSpec("CartPole-v1"), space).make()
    assert isinstance(env, FeatureEnv)
    row, _ = env.reset(seed=0)
    assert row.shape == (5,)
    assert row[4] == 1.0
    assert np.array_equal(env.shown, row[:4])


def test_dictionaries_with_pictures_keep_them_for_the_policy() -> None:
    class Seeing(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Dict(
            {"picture": gymnasium.spaces.Box(0, 255, (30, 30, 1), np.uint8), "speed": gymnasium.spaces.Discrete(4)}
        )
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
            return {"picture": np.full((30, 30, 1), 7, np.uint8), "speed": 3}, {}

    env = Seeing()
    mapped = map_features(env)
    assert mapped.space.names == ("speed",)
    assert (mapped.n_features, mapped.width) == (1, 1 + 901)
    assert mapped.space[0].kind == "categorical"
    row, _ = FeatureEnv(env, mapped).reset()
    policy = adapt_policy(_Reads(Seeing.observation_space), FeatureEnv(env, mapped))
    assert policy.scores(row[None]).tolist() == [[7.0, 3.0]]


class _Reads:
    n_actions, n_features, kind, recurrent, stochastic = 2, None, "values", False, False
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, space: Any) -> None:
        self.observation_space = space

    def scores(self, observations: Any) -> Any:
        assert observations["picture"].dtype == np.uint8
        assert observations["picture"].shape[1:] == (30, 30, 1)
        return np.stack([observations["picture"].mean(axis=(1, 2, 3)), observations["speed"]], axis=1)

    def predict(self, observation: Any, *_: Any) -> Any:
        return self.scores(observation).argmax(axis=1), None
