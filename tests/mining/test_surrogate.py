"""Importances from a surrogate, where it is known what the policy looks at."""

import numpy as np
import pytest

from legible.features import FeatureSpace
from legible.mining import Importance, mine, surrogate_importance
from legible.play import Experiences
from legible.policies import load_policy
from legible.settings import MiningSettings
from seen_states import seen_states

SPACE = FeatureSpace.of(["gap", "noise", "light"], ["Brake", "Go"])


def experiences(space: FeatureSpace = SPACE, episodes: int = 20, steps: int = 30) -> Experiences:
    """A policy that brakes when the gap is small; more columns follow the gap with some error."""
    rng = np.random.default_rng(0)
    n = episodes * steps
    seen = rng.random((n, 3)).astype(np.float32)
    actions = (seen[:, 0] > 0.5).astype(np.int64)
    near = np.where(rng.random((n, 1)) < 0.9, actions[:, None], 1 - actions[:, None])
    seen = np.concatenate([seen, np.repeat(near, len(space) - 3, axis=1)], axis=1).astype(np.float32)
    return seen_states(seen, actions, episode_ids=np.repeat(np.arange(episodes), steps), space=space)


def test_what_the_policy_looks_at_matters() -> None:
    seen = experiences()
    found = surrogate_importance(seen, np.arange(len(seen)), np.random.default_rng(1))
    assert found.method == "surrogate"
    assert found.fidelity > 0.95
    for action in (0, 1):
        for polarity in ("+", "-"):
            weights = found.of(polarity, action)  # type: ignore[arg-type]
            assert weights[0] > 0.3
            assert weights[1:].max() < 0.1 * weights[0]


def test_the_same_seed_gives_the_same_bits() -> None:
    seen = experiences()
    first, again = (surrogate_importance(seen, np.arange(len(seen)), np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first.weights, again.weights)
    loaded = Importance.from_arrays(first.to_arrays())
    assert np.array_equal(loaded.weights, first.weights)
    assert (loaded.method, loaded.fidelity) == ("surrogate", first.fidelity)


def test_a_policy_that_never_changes_its_mind() -> None:
    seen = experiences()
    always = Experiences(**{**vars(seen), "actions": np.ones(len(seen), np.int64)})
    found = surrogate_importance(always, np.arange(len(seen)), np.random.default_rng(1))
    assert found.fidelity == 1.0
    assert not found.positive.any()


def test_mining_by_name() -> None:
    seen = experiences()
    policy = load_policy(lambda o: o[:, :2], output="values", n_features=3, n_actions=2)
    mined = mine(policy, seen, seed=0, settings=MiningSettings(importance="surrogate"))
    assert mined.importance is not None
    assert mined.importance.method == "surrogate"
    assert any(set(found.rule.features) == {0} for found in mined.rules)


def test_derived_features_have_importances_on_limes_scale() -> None:
    space = FeatureSpace.from_dict({**SPACE.to_dict(), "derived": {"brakes": "gap < 0.5 and noise > 2"}})
    seen = experiences(space)
    policy = load_policy(
        lambda o: np.stack([0.5 - o[:, 0], o[:, 0] - 0.5], axis=1) * 9, output="values", n_features=None, n_actions=2
    )
    settings = MiningSettings(lime_states=10, lime_samples=300)
    found = mine(policy, seen, seed=0, settings=settings).importance
    assert found is not None
    assert found.method == "lime and surrogate"
    assert found.fidelity == pytest.approx(0.9, abs=0.06)
    # It tells nearly as much as the gap, and less than that.
    assert 0.3 * found.positive[1, 0] < found.positive[1, 3] < found.positive[1, 0]
    assert found.weights.shape == (12, 2, 4)
