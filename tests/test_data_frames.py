"""Data frames: what they hold is what the objects hold, and a clear word where pandas is missing."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import mirror_world
from legible.errors import LegibleError
from legible.evaluation import evaluate
from legible.evaluation.units import Setup
from legible.features import deciles
from legible.improvement import improve
from legible.mining import MinedRule, Mining
from legible.play import collect
from legible.relations import generalise
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings
from mirror_world import SPACE, WORLD

pytest.importorskip("pandas")

RULE = parse_rule("+Right <- right", SPACE)


def test_experiences() -> None:
    seen = collect(mirror_world.policy(), WORLD, 7, seed=0)
    frame = seen.to_frame()
    assert list(frame.columns) == ["episode", "step", "action", *SPACE.names, "score.Left", "score.Right", "score.Stay"]
    assert frame.groupby("episode")["step"].max().tolist() == (seen.lengths - 1).tolist()
    assert (frame.groupby("episode")["step"].diff().dropna() == 1).all()
    assert (frame["action"].map(SPACE.action_index) == seen.actions).all()
    np.testing.assert_array_equal(frame[list(SPACE.names)].to_numpy(np.float32), seen.observations)
    np.testing.assert_array_equal(frame["score.Right"].to_numpy(np.float32), seen.scores[:, 1])


def test_mining() -> None:
    intervals = deciles(SPACE, np.zeros((2, 5), np.float32))
    mining = Mining((MinedRule(RULE, 0.9, 0.5, 1.0, 10),), SPACE, intervals, None, 1, {})
    frame = mining.to_frame()
    assert frame.to_dict("records") == mining.to_rows()
    empty = Mining((), SPACE, intervals, None, 0, {}).to_frame()
    assert len(empty) == 0
    assert list(empty.columns) == list(frame.columns)


@pytest.fixture(scope="module")
def setup() -> Setup:
    rule_set = generalise(RULE, mirror_world.mirror())
    return Setup(mirror_world.policy(), WORLD, (rule_set, RuleSet((RULE,), RULE)), PlaySettings(batch=16))


def test_evaluation_and_improvement(setup: Setup) -> None:
    evaluation = evaluate(
        setup, seed=0, settings=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40)
    )
    frame = evaluation.to_frame(SPACE)
    assert frame["rule"].tolist() == ["+Right <- right"] * 2
    assert frame["confirmed"].tolist() == [True, False]
    assert frame["effect"].isna().tolist() == [False, True]
    settings = ImprovementSettings(episodes=40, final_episodes=40, candidates="weaknesses")
    found = improve(setup, evaluation, seed=0, settings=settings)
    steps = found.to_frame(SPACE)
    assert steps.to_dict("records") == found.to_rows(SPACE)
    assert steps["accepted"].tolist() == [True]
    nothing = replace(found, rule_sets=(), composition=RuleSet(()), steps=())
    assert list(nothing.to_frame(SPACE).columns) == list(steps.columns)
    assert replace(found, final_blocks=None) == found != nothing  # what was played for it is no part of what it is


def test_without_pandas(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    seen = collect(mirror_world.policy(), WORLD, 2, seed=0)
    with raises_saved(LegibleError):
        seen.to_frame()
