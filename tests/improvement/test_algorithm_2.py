"""The paper's Algorithm 2 stays what it was: figures that were recorded before compositions were selected."""

from dataclasses import replace

import pytest

import mirror_world
from legible.evaluation import evaluate
from legible.evaluation.units import Setup
from legible.improvement import improve
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings
from mirror_world import SPACE, WORLD, generalised

SETS = (
    generalised("-Left <- right"),
    generalised("+Right <- right"),
    generalised("-Right <- wall.right"),
    RuleSet((parse_rule("+Left <- left & luck > 0", SPACE),)),
    RuleSet((parse_rule("-Right <- left", SPACE),)),
)
SETUP = Setup(mirror_world.policy(), WORLD, SETS, PlaySettings(batch=16, unit_episodes=100))
SETTINGS = EvaluationSettings(method="paper", episodes=60, confirmation_episodes=80)


def test_the_paper_composes_as_it_did() -> None:
    evaluation = evaluate(SETUP, seed=1, settings=SETTINGS, confirm=False)
    everything = replace(evaluation, verdicts=tuple(replace(v, is_weakness=True) for v in evaluation.verdicts))
    settings = ImprovementSettings(episodes=40, final_episodes=40, most_candidates=4, order="negative-first")
    found = improve(SETUP, everything, seed=1, settings=settings)
    assert [step.accepted for step in found.steps] == [True, False, False, False]
    mean, error = float.fromhex("0x1.119e3ede4a59ap+4"), float.fromhex("0x1.bf3e4bb98bd7ep-3")
    for step in found.steps:
        assert (step.mean, step.error) == pytest.approx((mean, error), rel=1e-14)
    assert found.composition.text(SPACE).splitlines() == ["-Left <- right", "-Right <- left"]
    assert found.chosen.mean == pytest.approx(17.101134174654, rel=1e-14)
    effect = (found.effect.mean, found.effect.low, found.effect.high, found.effect.p)
    recorded = (18.415887745580932, 12.94684830378781, 23.884927187374053, 1.9494955766016283e-08)
    assert effect == pytest.approx(recorded, rel=1e-12)
    assert found.front == ()
    assert found.check is None
