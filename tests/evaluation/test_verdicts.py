"""What is said of all rule sets together, by hand."""

from dataclasses import replace

import numpy as np

from drawn_play import evaluation_of, rule_set
from legible.evaluation import Sample
from legible.evaluation.screening import _first_verdicts
from played_blocks import result, with_returns


def failing(returns: list[float], failed: list[int]):
    """Episodes of which some failed."""
    made = result(returns)
    marks = np.isin(np.arange(len(returns)), failed)
    return replace(made, failed=marks, errors=np.where(marks, "it broke", ""))


def test_failures_are_counted_on_each_side_and_in_the_confirmation() -> None:
    found = evaluation_of([rule_set(0), rule_set(1)])
    assert found.failed == (0, 0)
    samples = [Sample.of(failing([1.0, 2.0, 3.0, 4.0], failed)) for failed in ([0], [1, 2])]
    verdicts = tuple(replace(v, sample=s) for v, s in zip(found.verdicts, samples, strict=True))
    found = replace(found, base=Sample.of(failing([1.0] * 4, [3])), verdicts=verdicts)
    assert found.failed == (3, 1)
    blocks = with_returns([0.0] * 5, [0.0] * 5)
    blocks = replace(blocks, results=(failing([0.0] * 5, [0, 1]), failing([0.0] * 5, [2])))
    assert replace(found, confirmation_blocks=blocks).failed == (4, 3)


def test_what_is_found_lies_below_the_level_and_not_on_it() -> None:
    base, better = result([0.0, 1.0, 2.0, 3.0]), result([2.0, 3.0, 3.0, 4.0])
    (found,) = _first_verdicts([rule_set(0)], base, [better], 0.05)
    assert 0.0 < found.p < 0.5
    above = float(np.nextafter(found.p, 1.0))
    weak = [_first_verdicts([rule_set(0)], base, [better], alpha)[0].is_weakness for alpha in (found.p, above)]
    assert weak == [False, True]
    (found,) = _first_verdicts([rule_set(0)], better, [base], 0.05)
    above = float(np.nextafter(found.q_harm, 1.0))
    harms = [_first_verdicts([rule_set(0)], better, [base], alpha)[0].is_harmful for alpha in (found.q_harm, above)]
    assert harms == [False, True]
