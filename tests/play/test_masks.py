"""Action masks: they are read from three places, and no play takes a masked action."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_with_masks

from legible.environments import EnvironmentSpec, MaskReader, UnfitEnvironmentError, find_masks, map_features
from legible.environments.feature_env import with_features
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance import GuidedChooser, GuidedPolicy
from legible.guidance.kernel import block_choices
from legible.play import adapt_policy, choose_actions, collect, evaluate_policy
from legible.policies import load_policy
from legible.policies.protocol import MASKED
from legible.rules import RuleSet, parse_rule
from masked_world import JUMP, LAST, LEFT, RIGHT, MaskedWorld, by_entry, by_info, well

WHERE = {"method": "masked_world:MaskedWorld", "info": "masked_world:by_info", "entry": "masked_world:by_entry"}
SPACE = FeatureSpace.of(["place", "weight", "time"], ["Left", "Right", "Jump", "Rest"])


def rules(*texts):
    return RuleSet(tuple(parse_rule(text, SPACE) for text in texts))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    trained = MaskablePPO("MlpPolicy", MaskedWorld(), seed=0, n_steps=64, policy_kwargs={"net_arch": [8]})
    trained.learn(256)
    path = tmp_path_factory.mktemp("masked") / "model.zip"
    trained.save(path)
    return trained, path


class TestReading:
    @pytest.mark.parametrize("env", [MaskedWorld(), by_info(), by_entry()], ids=list(WHERE))
    def test_three_places(self, env):
        reader = find_masks(env)
        assert reader == MaskReader(env.where, (4,))
        observation, info = env.reset(seed=3)
        np.testing.assert_array_equal(reader.read(observation, info, env), env.mask())
        mapped = map_features(env)
        assert len(mapped.space) == 3  # the mask is no feature
        assert map_features(env, masks=False).masks is None

    def test_an_environment_without_masks(self):
        assert find_masks(EnvironmentSpec("CartPole-v1").make()) is None

    def test_masks_that_make_no_sense(self, raises_saved):
        reader = MaskReader("info", (2, 2))
        with raises_saved(UnfitEnvironmentError):
            reader.read(None, {"action_mask": [1, 1, 1]}, None)
        with raises_saved(UnfitEnvironmentError):
            reader.read(None, {"action_mask": [1, 1, 0, 0]}, None)
        with raises_saved(UnfitEnvironmentError):
            reader.read(None, {}, None)
        parts = ([1, 0], [1, 1])  # as a tuple of parts, as Gymnasium masks MultiDiscrete
        assert reader.read(None, {"action_mask": parts}, None).tolist() == [True, False, True, True]


class TestChoosing:
    def test_masked_actions_are_never_taken(self):
        rng = np.random.default_rng(0)
        masks = rng.random((500, 4)) < 0.5
        masks[~masks.any(axis=1)] = True
        scores = np.where(masks, rng.normal(size=(500, 4)), MASKED)
        keys, steps = np.arange(500, dtype=np.uint64), np.zeros(500, np.int64)
        for options in ({}, {"epsilon": 0.7}, {"sample": True}, {"epsilon": 1.0}):
            chosen = choose_actions(scores, keys, steps, **options)
            assert masks[np.arange(500), chosen].all()
        blocked = np.where(masks, -np.inf, MASKED)
        assert masks[np.arange(500), choose_actions(blocked, keys, steps)].all()

    @pytest.mark.parametrize(
        ("blocked", "enforced", "expected", "overruled"),
        [
            ([0, 0, 0], [0, 0, 0], [1.0, MASKED, 2.0], False),
            ([1, 0, 0], [0, 0, 0], [-np.inf, MASKED, 2.0], False),
            ([1, 0, 1], [0, 0, 0], [1.0, MASKED, 2.0], True),  # all that is allowed is blocked
            ([0, 0, 0], [0, 1, 0], [1.0, MASKED, 2.0], True),  # a masked choice is enforced
            ([1, 0, 0], [0, 1, 0], [-np.inf, MASKED, 2.0], True),
            ([0, 0, 0], [1, 1, 0], [1.0, MASKED, -np.inf], True),
            ([0, 1, 0], [0, 0, 1], [-np.inf, MASKED, 2.0], False),
        ],
    )
    def test_rules_within_the_mask(self, blocked, enforced, expected, overruled):
        scores = np.array([1.0, MASKED, 2.0])
        said = block_choices(np.array(blocked, np.bool_), np.array(enforced, np.bool_), False, scores)
        assert (scores.tolist(), said) == (expected, overruled)

    def test_overruled_steps_are_counted(self):
        env = EnvironmentSpec(WHERE["method"])
        with_rows = with_features(env, map_features(env.make()))
        policy = adapt_policy(load_policy(well, output="values", n_features=3, n_actions=4), with_rows)
        chooser = GuidedChooser(
            policy,
            [rules("+Jump <- place > 0", "-Left <- place > 0", "-Right <- place > 0", "-Rest <- place > 0")],
            [0, 0],
            [0, 1],
        )
        rows = np.array([[3, 0, 0, 1, 1, 0, 0], [2, 0, 0, 1, 1, 1, 0]], np.float32)
        actions, _ = chooser(rows, np.array([0, 1]), np.zeros(2, np.int64))
        assert actions.tolist() == [RIGHT, JUMP]
        assert chooser.overruled.tolist() == [1, 0]


class TestReturns:
    @pytest.mark.parametrize("where", WHERE)
    def test_play_and_experiences(self, where):
        policy = load_policy(well, output="values", n_features=3, n_actions=4)
        if where == "entry":
            shown = {"observation_space": by_entry().observation_space, "action_space": spaces.Discrete(4)}
            policy = load_policy(lambda o: JUMP if o["action_mask"][JUMP] else RIGHT, **shown)
        found = collect(policy, WHERE[where], 20, seed=0)
        places = found.observations[:, 0]
        np.testing.assert_array_equal(found.actions, np.where((places % 2 == 0) & (places < LAST - 1), JUMP, RIGHT))
        if where != "entry":
            assert (found.scores[places == 0, LEFT] == MASKED).all()
            assert np.isnan(found.to_frame()["score.action0"][places == 0]).all()
        assert evaluate_policy(policy, WHERE[where], found.seeds.tolist()).episodes.returns.tolist() == (
            found.returns.tolist()
        )
        collect(policy, WHERE[where], 20, seed=0, epsilon=0.5)  # random actions keep to the mask, or this raises

    def test_base_returns_are_those_of_sb3_contrib(self, model):
        trained, path = model
        found = collect(load_policy(path), WHERE["method"], 30, seed=1)
        seeds = iter([*found.seeds.tolist(), 0])

        class Seeded(MaskedWorld):
            def reset(self, **_):
                return super().reset(seed=next(seeds))

        returns, lengths = evaluate_with_masks(
            trained, Seeded(), n_eval_episodes=30, return_episode_rewards=True, deterministic=True, warn=False
        )
        np.testing.assert_array_equal(found.returns, returns)
        np.testing.assert_array_equal(found.lengths, lengths)
        sampled = collect(load_policy(path), WHERE["method"], 30, seed=1, sample=True)
        assert not np.array_equal(sampled.returns, found.returns)


class TestGuidedPolicy:
    def test_predict_takes_masks(self, model, raises_saved):
        _, path = model
        env = MaskedWorld()
        mapped = map_features(env)
        policy = load_policy(path)
        guided = GuidedPolicy(policy, rules("+Jump <- place > 0"), SPACE, features=mapped.with_space(SPACE))
        observation, _ = env.reset(seed=0)
        with raises_saved(LegibleError):
            guided.predict(observation)
        seen = np.array([2.0, 0.0, 0.0], np.float32)
        assert guided.predict(seen, action_masks=[1, 1, 1, 0])[0] == JUMP
        assert guided.predict(seen, action_masks=[1, 1, 0, 0])[0] in (LEFT, RIGHT)
        explained = guided.explain([2.0, 0.0, 0.0, 1, 1, 0, 0])
        assert explained.overruled
        assert "mask overrules" in str(explained)
        for seed in range(5):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                action, _ = guided.predict(observation, action_masks=env.action_masks())
                observation, _, terminated, truncated, _ = env.step(int(action))
                over = terminated or truncated
