"""Environments whose seeds do not decide everything are noticed while pairs are played."""

import numpy as np
import pytest

import mirror_world
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import evaluate
from legible.evaluation.recorded import Repetition
from legible.evaluation.starts import KnownPart, KnownPartCheck
from legible.evaluation.units import Setup
from legible.play import StepRecord
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, PlaySettings

RULES = ("+Left <- luck > 0.8", "+Stay <- luck > 1", "+Right <- luck < -0.9", "+Left <- wall.right & luck > 0")
SETTINGS = EvaluationSettings(race_seeds=400, rung_changes=16, rungs=3)


class LeakyWorld(mirror_world.MirrorWorld):
    """A world in which a reward is random in few steps, whatever the seed."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.rng = share, np.random.default_rng()

    def step(self, action):
        seen, reward, *rest = super().step(action)
        return seen, reward + (self.rng.normal() if self.rng.random() < self.share else 0.0), *rest


def evaluated(share: float):
    rules = tuple(RuleSet((parse_rule(rule, mirror_world.SPACE),)) for rule in RULES)
    world = EnvironmentSpec("evaluation.test_leaks:LeakyWorld", {"share": share})
    setup = Setup(mirror_world.policy(), world, rules, PlaySettings(batch=8, unit_episodes=64))
    return evaluate(setup, seed=0, settings=SETTINGS, confirm=False)


def test_a_world_without_a_leak_is_compared_and_agrees() -> None:
    found = evaluated(0.0)
    assert found.repetition.holds
    assert found.repetition.compared > 20
    assert found.repetition.differed == 0
    assert not found.notes


def test_a_rare_leak_is_reported(monkeypatch) -> None:
    monkeypatch.setattr("legible.evaluation.recorded.MOST_LEAKED", 0.5)
    monkeypatch.setattr("legible.evaluation.recorded._is_same_reversed", lambda *_: True)  # the first check saw nothing
    found = evaluated(0.02)
    assert 0 < found.repetition.differed < found.repetition.compared / 2
    assert "come from the seed" in found.notes[0]


def test_a_frequent_leak_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("legible.evaluation.recorded._is_same_reversed", lambda *_: True)
    with pytest.raises(LegibleError, match="come from the seed"):
        evaluated(0.2)


def test_what_is_said(snapshot) -> None:
    assert Repetition(1, holds=True, compared=100).describe_leak() == ""
    assert Repetition(1, holds=True, compared=100, differed=1).describe_leak() == snapshot


def test_only_known_steps_are_compared() -> None:
    check = KnownPartCheck(KnownPart(np.array([2, 1]), np.array([3.0, 5.0])))
    for step, rewards in enumerate([[1.0, 5.0, 9.0], [2.0, 7.0, 9.0], [4.0, 7.0, 9.0]]):
        check(
            StepRecord(np.array([0, 1, -1]), np.full(3, step), None, np.zeros(3), np.zeros((3, 0)), np.array(rewards))
        )
    assert check.differs.tolist() == [False, False]
    short = KnownPartCheck(KnownPart(np.array([2]), np.array([1.0])))
    short(StepRecord(np.array([0]), np.array([0]), None, np.zeros(1), np.zeros((1, 0)), np.ones(1)))
    assert short.differs.tolist() == [True]
