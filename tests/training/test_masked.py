"""Training where actions are masked: PPO keeps to the masks, with and without rules."""

from __future__ import annotations

import numpy as np
import pytest

from legible.features import FeatureSpace
from legible.play import evaluate_policy
from legible.policies import load_policy
from legible.rules import RuleSet, parse_rule
from legible.training import TrainingError, train
from legible.training.rules import RuleLayer, RuleMasks, TrainingRules

SPACE = FeatureSpace.of(["place", "weight", "time"], ["Left", "Right", "Jump", "Rest"])


def rules(*texts):
    return TrainingRules((RuleLayer(RuleSet(tuple(parse_rule(text, SPACE) for text in texts)), "positive"),), SPACE)


def test_rules_within_the_mask():
    allowed = RuleMasks([rules("+Jump <- place > 0", "-Left <- place > 0")]).allowed
    states = np.array([[0.0, 0, 0], [3.0, 0, 0], [2.0, 0, 0], [2.0, 0, 0]], np.float32)
    masks = np.array([[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]], np.bool_)
    expected = [[0, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]  # the last: overruled
    assert allowed(states, masks).astype(int).tolist() == expected


@pytest.mark.parametrize(
    ("env", "taught"),
    [("masked_world:MaskedWorld", None), ("masked_world:by_info", rules("+Jump <- place < 7"))],
    ids=["method", "info and rules"],
)
def test_ppo(tmp_path, env, taught):
    """The environment raises an error for a masked action."""
    trained = train(env, "ppo", 2048, out=tmp_path / "policy", rules=taught, n_episodes=10)
    assert evaluate_policy(load_policy(trained.zip), env, range(20)).mean > -10


def test_dqn_is_refused(tmp_path, raises_saved):
    with raises_saved(TrainingError):
        train("masked_world:MaskedWorld", "dqn", 100, out=tmp_path / "policy")
