"""Functions that return actions, and objects with predict, as policies."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from legible.environments.choices import default_choices
from legible.features import Feature, FeatureSpace
from legible.play import adapt_policy, evaluate_policy
from legible.policies import PolicyError, UnclearPolicyError, load_policy
from legible.policies.protocol import lacks_fallback

BOX = spaces.Box(-3.0, 3.0, (4,))
LEFT_OR_RIGHT = {"observation_space": BOX, "action_space": spaces.Discrete(2)}


def one(observation):
    return int(observation[2] + observation[3] > 0)


def many(observations):
    return (observations[:, 2] + observations[:, 3] > 0).astype(int)


class Predictor:
    def predict(self, observation):
        return (np.asarray(observation)[..., 2:].sum(axis=-1) > 0).astype(int), None


class TestForms:
    @pytest.mark.parametrize("source", [one, many, Predictor()], ids=["one", "many", "predict"])
    def test_one_observation_or_a_batch(self, source):
        policy = load_policy(source, **LEFT_OR_RIGHT)
        assert policy.batched == (source is not one)
        batch = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        np.testing.assert_array_equal(policy.predict(batch)[0], many(batch))
        np.testing.assert_array_equal(policy.scores(batch).argmax(axis=1), many(batch))
        assert policy.predict(batch[3])[0] == many(batch)[3]
        assert policy.predict(batch[:1])[0].shape == (1,)

    def test_it_plays(self):
        assert evaluate_policy(load_policy(one, **LEFT_OR_RIGHT), "CartPole-v1", range(3)).mean > 300

    @pytest.mark.parametrize(
        ("space", "function", "expected"),
        [
            (spaces.MultiDiscrete([3, 2]), lambda o: [2, int(o[0] > 0)], [2, 1]),
            (spaces.MultiBinary(2), lambda o: o[:, :2] > 0, [1, 0]),
            (spaces.Box(-1.0, 1.0, (1,)), lambda o: -5 * o[:1], [-1.0]),
            (spaces.Box(-1.0, 1.0, (2,)), lambda o: o[:, :2], [1.0, -0.5]),
            (spaces.Discrete(3, start=4), lambda o: 5, 1),
        ],
    )
    def test_every_action_space(self, space, function, expected):
        policy = load_policy(function, observation_space=BOX, action_space=space)
        observation = np.array([1.0, -0.5, 0.0, 0.0], np.float32)
        np.testing.assert_allclose(policy.predict(observation)[0], expected)
        np.testing.assert_allclose(policy.predict(np.tile(observation, (3, 1)))[0][1], expected)

    def test_dictionaries(self):
        space = spaces.Dict({"place": spaces.Discrete(5), "wind": spaces.Box(-1, 1, (2,))})
        options = {"observation_space": space, "action_space": spaces.Discrete(2)}
        policy = load_policy(lambda o: int(o["place"] > 2 and o["wind"][0] > 0), **options)
        batch = {"place": np.array([1, 4, 4]), "wind": np.array([[1.0, 0], [1, 0], [-1, 0]], np.float32)}
        assert policy.predict(batch)[0].tolist() == [0, 1, 0]


class TestRefusals:
    def test_a_function_that_remembers(self, raises_saved):
        steps = iter(range(1000))
        with raises_saved(PolicyError):
            load_policy(lambda _: next(steps) % 2, **LEFT_OR_RIGHT)

    def test_scores_are_not_taken_for_actions(self):
        with pytest.raises(UnclearPolicyError, match="log-probabilities or probabilities"):
            load_policy(lambda o: o[:, :2], **LEFT_OR_RIGHT)

    def test_no_actions(self, raises_saved):
        with raises_saved(PolicyError):
            load_policy(lambda o: o[:, :2], output="actions", **LEFT_OR_RIGHT)
        with raises_saved(PolicyError):
            load_policy(lambda _: 1 / 0, output="actions", **LEFT_OR_RIGHT)

    def test_actions_out_of_range(self, raises_saved):
        policy = load_policy(lambda o: 0 if o[0] == 0 else 7, **LEFT_OR_RIGHT)
        with raises_saved(PolicyError):
            policy.predict(np.ones(4, np.float32))

    def test_without_spaces(self, raises_saved):
        with raises_saved(UnclearPolicyError):
            load_policy(one, output="actions")

    def test_a_fallback_that_is_no_action(self, raises_saved):
        with raises_saved(PolicyError):
            load_policy(one, fallback=2, **LEFT_OR_RIGHT)


class TestFallback:
    def test_scores(self):
        spaces_given = {"observation_space": BOX, "action_space": spaces.Discrete(4)}
        policy = load_policy(lambda _: 3, fallback=1, **spaces_given)
        assert policy.scores(np.zeros((1, 4), np.float32)).tolist() == [[0.0, 0.5, 0.0, 1.0]]
        assert not lacks_fallback(policy)
        assert lacks_fallback(load_policy(lambda _: 3, **spaces_given))
        assert not lacks_fallback(load_policy(one, **LEFT_OR_RIGHT))  # blocking one of two leaves one

    def test_parts(self):
        actions = spaces.MultiDiscrete([3, 2])
        policy = load_policy(lambda _: [2, 0], fallback=(1, 0), observation_space=BOX, action_space=actions)
        choices, groups = default_choices(actions)
        space = FeatureSpace(tuple(Feature(name) for name in "abcd"), choices, groups)
        scores = adapt_policy(policy, space=space).scores(np.zeros((1, 4), np.float32))
        assert scores.tolist() == [[0.0, 0.5, 1.0, 1.0, 0.0]]
