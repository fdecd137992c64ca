"""Objectives: what guidance is to raise; a new one from outside the package in a few lines."""

import numpy as np
import pytest

import mirror_world
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import OBJECTIVES, Objective, evaluate, find_objective, register_objective
from legible.evaluation.statistics import paired
from legible.evaluation.units import Setup
from legible.improvement import improve
from legible.play import STAGES, Stage, declare_stage, stage_seeds
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings

GOOD = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
SETUP = Setup(
    mirror_world.policy(),
    EnvironmentSpec("mirror_world:MirrorWorld"),
    (GOOD,),
    PlaySettings(batch=8, unit_episodes=40),
)


def test_the_mean_is_the_default() -> None:
    assert find_objective(EvaluationSettings().objective).words == "mean return"
    with pytest.raises(LegibleError, match="there is no objective 'meen'; they are mean"):
        find_objective("meen")


def test_an_objective_from_outside_the_package_decides(monkeypatch) -> None:
    monkeypatch.setitem(OBJECTIVES, "short", None)
    register_objective(
        Objective(
            "short",
            "short episodes",
            lambda episodes: -float(episodes.lengths.mean()),
            lambda guided, base: paired(-guided.lengths.astype(float), -base.lengths.astype(float)),
        )
    )
    settings = EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40, objective="short")
    found = evaluate(SETUP, seed=0, settings=settings)
    (verdict,) = found.verdicts
    blocks = found.confirmation_blocks
    shorter = blocks.base.lengths - blocks.guided(0).lengths
    assert verdict.confirmation.effect.mean == pytest.approx(shorter.mean())
    improved = improve(SETUP, found, seed=0, settings=ImprovementSettings(episodes=40, final_episodes=40))
    assert improved.rule_sets == (GOOD,)


def test_a_stage_is_one_declaration(monkeypatch) -> None:
    monkeypatch.setattr("legible.play.stages.STAGES", dict(STAGES))
    from legible.play import stages

    stages.declare_stage(Stage("toys", 40, "toy", "to play with", lambda *_: 5, lambda *_: 10))
    assert not set(stage_seeds(0, "toys", 0, 50)) & set(stage_seeds(0, "final", 0, 50))
    for clash in (("toys", 41), ("other", 40), ("other", 0)):
        with pytest.raises(LegibleError, match="clashes"):
            declare_stage(Stage(*clash, "toy", "", lambda *_: 0, lambda *_: 0))
    with pytest.raises(LegibleError, match="must lie in"):
        declare_stage(Stage("far", 64, "toy", "", lambda *_: 0, lambda *_: 0))
    with pytest.raises(LegibleError, match="there is no stage 'nowhere'"):
        stage_seeds(0, "nowhere", 0, 1)


def test_composition_compares_by_the_objective() -> None:
    found = evaluate(SETUP, seed=0, settings=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40))
    improved = improve(SETUP, found, seed=0, settings=ImprovementSettings(episodes=40, final_episodes=40))
    assert improved.chosen.mean == improved.steps[0].mean
    assert np.isclose(improved.effect.mean, improved.guided.mean - improved.base.mean)
