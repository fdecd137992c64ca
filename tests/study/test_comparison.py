"""Two studies beside each other."""

from dataclasses import replace

import pytest

import mirror_world
from legible.evaluation import Sample
from legible.rules import RuleSet, parse_rule
from legible.study.comparison import Comparison, alike

SPACE = mirror_world.SPACE


def rule(text: str):
    return parse_rule(text, SPACE)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("+Left <- luck > 0", "+Left <- luck > 0.5", True),
        ("+Left <- luck > 0", "+Left <- luck < 0", False),
        ("+Left <- luck > 0", "-Left <- luck > 0", False),
        ("+Left <- luck > 0", "+Right <- luck > 0", False),
        ("+Left <- luck > 0", "+Left <- luck > 0 & left", False),
        ("+Left <- luck > 0 & left", "+Left <- left & luck > 1", True),
    ],
)
def test_rules_are_alike_whatever_the_ends_of_their_intervals(one, two, same) -> None:
    assert alike(rule(one), rule(two)) is same
    assert alike(rule(two), rule(one)) is same


def test_a_comparison_in_words() -> None:
    sample = Sample(episodes=100, mean=5.0, error=0.3, length=9.0, success=1.0, cost=0.0, fired=0.0, changed=0.0)
    left = rule("+Left <- left")
    found = Comparison(
        space=SPACE,
        base=(sample, replace(sample, mean=4.0, error=0.4)),
        rules_in_both=(left,),
        rules_only_in_first=(),
        rules_only_in_second=(rule("-Stay <- right"),),
        weaknesses_in_both=(),
        weaknesses_only_in_first=(RuleSet((left, rule("+Right <- right")), left),),
        weaknesses_only_in_second=(),
    )
    mean, low, high = found.difference
    assert (mean, round(high - mean, 3), round(mean - low, 3)) == (1.0, 0.98, 0.98)  # 1.96 · 0.5
    told = dict(found.paragraphs())
    assert list(told) == ["Returns", "Weak only in the first", "Both", "Only the second policy"]
    assert "may be chance" not in told["Returns"][0]
    assert found.to_dict()["weaknesses"]["first"] == ["+Left <- left"]
    assert found.to_dict()["rules"] == {"both": ["+Left <- left"], "first": [], "second": ["-Stay <- right"]}
