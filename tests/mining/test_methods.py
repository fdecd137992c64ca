"""Importance methods and rule learners from outside the package."""

import numpy as np
import pytest

from legible.errors import LegibleError
from legible.features import Action, Feature, FeatureSpace
from legible.mining import Importance, methods, mine, register_importance, register_learner
from legible.play import Experiences
from legible.policies import load_policy
from legible.settings import MiningSettings
from seen_states import seen_states

SPACE = FeatureSpace(tuple(Feature(n, "categorical") for n in ("a", "twin", "b")), (Action("Left"), Action("Right")))
POLICY = load_policy(lambda o: np.stack([o[:, 0], 1 - o[:, 0]], axis=1), output="values", n_features=3, n_actions=2)


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone afterwards."""
    for names in ("_importance_methods", "_learners"):
        monkeypatch.setattr(methods, names, dict(getattr(methods, names)))


def played() -> Experiences:
    """400 states in 40 episodes; Left where a is 1, and always a twin of a beside it."""
    a, b = np.random.default_rng(0).integers(0, 2, (2, 400))
    rows = np.stack([a, a, b], axis=1).astype(np.float32)
    scores = POLICY.scores(rows)
    return seen_states(rows, scores.argmax(axis=1), scores, space=SPACE)


def test_an_importance_method_of_ones_own() -> None:
    def prefers_twins(policy, experiences, rows, intervals, settings, rng) -> Importance:
        weights = np.zeros((1, len(experiences.space.actions), len(experiences.space)))
        weights[:, :, 1] = 1.0
        return Importance(weights, np.zeros((1, 2)))

    register_importance("prefers twins", prefers_twins)
    mining = mine(POLICY, played(), seed=0, settings=MiningSettings(importance="prefers twins"))
    assert "+Left <- twin = 1" in {m.rule.text(SPACE) for m in mining.rules}
    plain = mine(POLICY, played(), seed=0, settings=MiningSettings(importance="none"))
    assert "+Left <- a = 1" in {m.rule.text(SPACE) for m in plain.rules}
    assert plain.importance is None


def test_a_rule_learner_of_ones_own() -> None:
    def purest_condition(codes, positive, *, n_values, importances, settings, seed):
        every = [(f, v) for f, n in enumerate(n_values) for v in range(n)]
        shares = [positive[codes[:, f] == v].mean() if (codes[:, f] == v).any() else 0.0 for f, v in every]
        return [(every[int(np.argmax(shares))],)]

    register_learner("purest condition", purest_condition)
    mining = mine(POLICY, played(), seed=0, settings=MiningSettings(learner="purest condition", importance="none"))
    assert mining.learned == 4
    assert {m.rule.text(SPACE) for m in mining.rules} == {
        f"{sign} <- a = {value}" for sign, value in (("+Left", 1), ("-Left", 0), ("+Right", 0), ("-Right", 1))
    }


def test_names_are_checked_before_anything_is_computed(raises_saved) -> None:
    with raises_saved(LegibleError):
        mine(POLICY, played(), seed=0, settings=MiningSettings(importance="lima"))
    with raises_saved(LegibleError):
        mine(POLICY, played(), seed=0, settings=MiningSettings(learner="cn2"))
    with pytest.raises(LegibleError, match="importance method 'lime' already exists"):
        register_importance("lime", methods.find_importance("none"))
    with pytest.raises(LegibleError, match="rule learner 'ripper' already exists"):
        register_learner("ripper", methods.find_learner("ripper"))
