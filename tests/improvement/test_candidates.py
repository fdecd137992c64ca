"""Which rule sets a composition is made of, and in which order, by hand."""

from dataclasses import replace

import pytest
from scipy.special import ndtri

from drawn_play import evaluation_of, rule, rule_set
from legible.evaluation import Evaluation
from legible.evaluation.statistics import Effect
from legible.evaluation.verdicts import Confirmation
from legible.improvement.candidates import candidates_by_worth, find_candidates, worth
from legible.rules import Rule, RuleSet
from legible.settings import ImprovementSettings

POSITIVE = Rule("+", 0, rule(7).conditions)


def evaluation(*differences: float, **changes: object) -> Evaluation:
    """Verdicts with these differences, in this order, each a weakness."""
    made = evaluation_of([rule_set(number) for number in range(len(differences))])
    verdicts = [replace(v, difference=d, **changes) for v, d in zip(made.verdicts, differences, strict=True)]
    return replace(made, verdicts=tuple(verdicts))


def differences(found: list) -> list[float]:
    return [verdict.difference for verdict in found]


@pytest.mark.parametrize(
    ("order", "most", "expected"),
    [
        ("mined", 0, [2.0, 9.0, 5.0, 7.0]),
        ("mined", 3, [9.0, 5.0, 7.0]),
        ("effect", 0, [9.0, 7.0, 5.0, 2.0]),
        ("effect", 2, [9.0, 7.0]),
        ("effect", 1, [9.0]),
    ],
)
def test_the_largest_effects_in_the_order_that_is_asked_for(order, most, expected) -> None:
    settings = ImprovementSettings(order=order, most_candidates=most)
    assert differences(find_candidates(evaluation(2.0, 9.0, 5.0, 7.0), settings, ())) == expected


def test_negative_rules_come_first() -> None:
    found = evaluation(2.0, 9.0, 5.0)
    first = replace(found.verdicts[0], treatment=RuleSet((POSITIVE,), POSITIVE))
    found = replace(found, verdicts=(first, *found.verdicts[1:]))
    settings = ImprovementSettings(order="negative-first")
    assert differences(find_candidates(found, settings, ())) == [9.0, 5.0, 2.0]


def test_only_those_that_are_asked_for() -> None:
    found = evaluation(2.0, 0.0, -5.0, 7.0)
    verdicts = [replace(found.verdicts[0], is_weakness=False), *found.verdicts[1:3]]
    verdicts.append(replace(found.verdicts[3], is_confirmed=True))
    found = replace(found, verdicts=tuple(verdicts))
    for kind, expected in (("best", [2.0, 7.0]), ("weaknesses", [0.0, -5.0, 7.0]), ("confirmed", [7.0])):
        assert differences(find_candidates(found, ImprovementSettings(candidates=kind), ())) == expected


def test_a_veto_is_on_a_rule_and_on_what_it_was_mined_from() -> None:
    found = evaluation(3.0, 2.0, 1.0)
    other = replace(found.verdicts[1], treatment=RuleSet((rule(5), rule(6)), rule(1)))
    found = replace(found, verdicts=(found.verdicts[0], other, found.verdicts[2]))
    settings = ImprovementSettings()
    assert differences(find_candidates(found, settings, [rule(1)])) == [3.0, 1.0]
    assert differences(find_candidates(found, settings, [rule(6)])) == [3.0, 1.0]
    assert differences(find_candidates(found, settings, [rule(0), rule(2)])) == [2.0]


def confirmed(mean: float) -> Confirmation:
    return Confirmation(Effect(mean, 1.0, 0.0, 1.0, 0.01), 0.01, None, None)


def test_worth_is_what_fresh_seeds_say_else_the_difference_less_its_error() -> None:
    (verdict,) = evaluation(10.0).verdicts
    assert worth(replace(verdict, confirmation=confirmed(4.0))) == 4.0
    z = 2.0
    assert worth(replace(verdict, p=float(1 - 0.9772498680518208))) == pytest.approx(10.0 * (1 - 1 / z))
    below = 0.4012936743170763  # a quarter of a standard error above zero
    assert worth(replace(verdict, p=below)) == pytest.approx(10.0 * (1 - 4))
    assert worth(replace(verdict, p=0.5)) == -10.0  # it shows nothing
    assert worth(replace(verdict, p=0.9, difference=-3.0)) == -3.0
    most = float(ndtri(1.0 - 1e-15))
    assert worth(replace(verdict, p=0.0)) == pytest.approx(10.0 * (1.0 - 1.0 / most))


def test_each_once_the_most_worthy_first_and_none_that_changes_too_much() -> None:
    found = evaluation(1.0, 2.0, 3.0, 4.0, p=1e-15)
    again = replace(found.verdicts[0], treatment=rule_set(3), difference=9.0)  # the fourth's rules
    sample = found.verdicts[1].sample
    much = replace(found.verdicts[1], sample=replace(sample, changed=0.31))
    some = replace(found.verdicts[2], sample=replace(sample, changed=0.3))
    found = replace(found, verdicts=(found.verdicts[0], much, some, found.verdicts[3], again))
    settings = ImprovementSettings(most_changed=0.3)
    assert differences(candidates_by_worth(found, settings, ())) == [9.0, 3.0, 1.0]
    assert differences(candidates_by_worth(found, ImprovementSettings(), ())) == [9.0, 3.0, 2.0, 1.0]
