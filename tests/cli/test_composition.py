"""What the terminal and JSON say of compositions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from drawn_play import SETUP, DrawnPlay, evaluation_of, noise, rule, rule_set
from legible.cli.composition import composition_data, print_composition
from legible.improvement import Improvement, improve
from legible.rules import RuleSet
from legible.settings import ImprovementSettings
from mirror_world import SPACE


@pytest.fixture(scope="module")
def improvement() -> Improvement:
    play = DrawnPlay({rule(0): noise(2.0, 9.0), rule(1): noise(2.0, 4.0)}, changes={rule(0): 8, rule(1): 2})
    settings = ImprovementSettings(episodes=400, final_episodes=100)
    return improve(SETUP, evaluation_of([rule_set(0), rule_set(1)]), seed=0, settings=settings, run=play)


def printed(improvement: Improvement, capsys: pytest.CaptureFixture[str]) -> str:
    print_composition(SimpleNamespace(improvement=improvement, space=SPACE))
    return " ".join(capsys.readouterr().out.split())


def test_the_front_is_a_table(improvement: Improvement, capsys: pytest.CaptureFixture[str], snapshot) -> None:
    told = printed(improvement, capsys)
    assert told.partition(" ─")[0] == snapshot
    assert "10 % 1 +" in told
    assert "50 % 2 +" in told
    assert "given up" not in told
    assert "more than" not in told


def test_what_changes_too_much_says_so(improvement: Improvement, capsys: pytest.CaptureFixture[str], snapshot) -> None:
    capped = replace(improvement, settings=replace(improvement.settings, most_changed=0.3))
    assert printed(capped, capsys).partition(" yes ")[2] == snapshot


@pytest.mark.parametrize(("rare", "why"), [(False, "not better beyond chance"), (True, "too few episodes change")])
def test_what_was_given_up_says_why(
    improvement: Improvement, capsys: pytest.CaptureFixture[str], rare: bool, why: str, snapshot
) -> None:
    check = replace(improvement.check, is_passed=False, is_too_rare=rare)
    told = printed(replace(improvement, check=check, rule_sets=(), composition=RuleSet(())), capsys)
    assert told.partition(" yes ")[2] == snapshot
    assert why in told


def test_plain_data(improvement: Improvement) -> None:
    data = composition_data(SimpleNamespace(improvement=improvement, space=SPACE))
    assert data["changed"] == 0.5
    assert [point["changed"] for point in data["front"]] == [0.1, 0.4, 0.5]
    assert [len(point["rules"]) for point in data["front"]] == [1, 1, 2]
    assert data["front"][-1]["chosen"] is True
    assert data["check"]["passed"] is True
    assert data["environment_steps"] == improvement.environment_steps > 0
