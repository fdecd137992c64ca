"""Distillation where actions are masked: the network learns what the guided policy does within the mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from legible.distillation import distil_policy
from legible.distillation.losses import margin_of, values_loss
from legible.environments import EnvironmentSpec, map_features, with_features
from legible.features import FeatureSpace
from legible.guidance import GuidedPolicy
from legible.policies import Activation, Layer, NetworkPolicy, Plain
from legible.policies.protocol import MASKED
from legible.rules import parse_rule
from legible.settings import DistillationSettings, PlaySettings
from masked_world import MaskedWorld

SPACE = FeatureSpace.of(["place", "weight", "time"], ["Left", "Right", "Jump", "Rest"])
SMALL = DistillationSettings(
    rounds=2, episodes=24, steps=120, batch=64, learning_rate=2e-3, check_episodes=20, final_episodes=30
)


def test_masked_values_have_no_part_in_the_loss():
    own = torch.tensor([[1.0, MASKED, 3.0], [2.0, 5.0, MASKED]])
    outputs = torch.tensor([[1.5, 77.0, 3.0], [2.0, 5.0, -9.0]], requires_grad=True)
    loss = values_loss(outputs, own, torch.tensor([2, 0]), torch.tensor([False, True]), 1.0)
    loss.backward()
    assert torch.isfinite(loss)
    assert outputs.grad[0, 1] == outputs.grad[1, 2] == 0.0
    assert outputs.grad[1, 0] < 0 < outputs.grad[1, 1]
    assert margin_of(own) == pytest.approx(0.3 * 2.5)
    assert margin_of(torch.tensor([[1.0, MASKED]])) == 1.0


@pytest.mark.parametrize("kind", ["values", "log-probabilities"])
def test_a_rule_is_learnt(kind):
    weights = np.random.default_rng(0).normal(size=(16, 3)) * 0.3
    rests = np.vstack([np.zeros((3, 16)), np.full((1, 16), 0.1)])  # it rests where that is allowed, else goes left
    layers = (Layer(weights, np.zeros(16), Activation("relu")), Layer(rests, np.array([0.2, 0.1, 0.0, 0.3])))
    network = NetworkPolicy(layers, kind, Plain(3))
    env = EnvironmentSpec("masked_world:MaskedWorld")
    features = map_features(MaskedWorld()).with_space(SPACE)
    rules = [parse_rule("+Jump <- place < 7", SPACE), parse_rule("-Left <- place < 9", SPACE)]
    rules.append(parse_rule("-Rest <- place < 9", SPACE))
    guided = GuidedPolicy(network, rules, SPACE, features=features)
    made = distil_policy(
        guided, with_features(env, features), settings=SMALL, play=PlaySettings(batch=16, unit_episodes=50)
    )
    comparison = made.comparison
    assert comparison.guided.returns.mean() > comparison.base.returns.mean() + 5
    assert comparison.distilled.returns.mean() > comparison.base.returns.mean() + 5
