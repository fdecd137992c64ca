"""Studies where actions are masked: planted faults are found, and the best policy stays clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from legible.policies import load_policy
from legible.settings import StudySettings
from masked_world import badly, well
from study.studies import make_study

PLACES = {"method": "masked_world:MaskedWorld", "info": "masked_world:by_info"}
# The planted fault costs less than the default smallest effect of interest.
SMALL = StudySettings.quick().updated({"mistakes": {"episodes": 10}, "evaluation": {"relevant": "0"}}, "test")


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_a_planted_fault_is_found(tmp_path: Path, where: str) -> None:
    """A masked action raises an error in this world, so no stage of the study takes one."""
    policy = load_policy(badly, output="values", n_features=3, n_actions=4)
    study = make_study(tmp_path / "s", PLACES[where], policy, settings=SMALL)
    study.run()
    assert study.improvement.guided.mean > study.improvement.base.mean
    rules = [rule for group in study.weaknesses for rule in group.front.rule_set.rules]
    assert any(rule.conditions and rule.conditions[0].feature == 0 for rule in rules)
    study.do("mistakes")
    places = {int(study.decisions.observations[m.row, 0]) for m in study.mistakes.listed}
    assert places == {3}  # only allowed choices were tried, and the planted fault is the only mistake


@pytest.mark.slow
def test_the_best_policy_stays_clean(tmp_path: Path) -> None:
    policy = load_policy(well, output="values", n_features=3, n_actions=4)
    study = make_study(tmp_path / "s", PLACES["method"], policy, settings=SMALL)
    study.run()
    assert not [verdict for verdict in study.evaluation.verdicts if verdict.is_confirmed]
    assert len(study.references.results) == 6  # random play, four constant actions and exploring, within the mask
