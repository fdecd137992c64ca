"""Which rule sets are confirmed, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from legible.evaluation.candidates import SAME_EPISODES_SHARE, Contender, choose_contenders, sameness
from legible.evaluation.confirmation import MOST_CHANGES_FACTOR, OVERSAMPLING, Expectation, changes_to_confirm
from legible.evaluation.pairs import Pairs
from legible.settings import EvaluationSettings
from played_blocks import result

BASE = result([1.0, 1.0, 1.0, 1.0])
SAME_BUT_ONE, OTHER = [2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 3.0, 4.0, 5.0, 7.0]


def pairs(*returns: float) -> Pairs:
    guided = result(list(returns))
    return Pairs(guided, BASE, np.array(returns) != 1.0)


def test_sameness_by_hand() -> None:
    assert sameness(pairs(5.0, 1.0, 1.0, 1.0), pairs(5.0, 1.0, 1.0, 1.0)) == 1.0
    assert sameness(pairs(5.0, 6.0, 1.0, 1.0), pairs(5.0, 7.0, 8.0, 1.0)) == 1 / 3  # the first of three
    assert sameness(pairs(1.0, 1.0, 1.0, 1.0), pairs(1.0, 1.0, 1.0, 1.0)) == 0.0  # nothing is changed
    both = np.array([True, False, True, False])
    once = Pairs(result([5.0, 1.0, 1.0, 1.0]), BASE, both)  # its third episode was changed, and came to the same
    assert sameness(once, pairs(5.0, 1.0, 1.0, 1.0)) == 0.5
    shorter = Pairs(result([5.0, 1.0]), BASE[:2], np.array([True, False]))
    assert sameness(shorter, pairs(5.0, 1.0, 9.0, 9.0)) == 1.0  # on the seeds that both have


def test_few_of_a_search_are_confirmed_and_all_that_were_mined() -> None:
    contenders = [
        Contender(("searched",), 3.0, pairs(5.0, 6.0, 7.0, 8.0)),
        Contender(("mined",), 0.1, pairs(2.0, 1.0, 1.0, 1.0)),
        Contender(("searched",), 9.0, pairs(9.0, 1.0, 1.0, 1.0)),
        Contender(("alone", "mined"), 0.2, pairs(1.0, 2.0, 1.0, 1.0)),
        Contender(("searched",), 5.0, pairs(1.0, 9.0, 1.0, 1.0)),
        Contender((), 0.0, pairs(1.0, 1.0, 1.0, 2.0)),
        Contender(("alone",), 1.0, pairs(1.0, 1.0, 2.0, 1.0)),
    ]
    assert choose_contenders(contenders, most=2) == [1, 2, 3, 4, 5, 6]  # the best two of the search
    assert choose_contenders(contenders, most=0) == list(range(7))
    assert choose_contenders([], most=2) == []


def test_of_those_that_do_the_same_the_best_is_confirmed() -> None:
    same = pairs(5.0, 6.0, 7.0, 8.0)
    contenders = [Contender(("searched",), worth, same) for worth in (1.0, 3.0, 2.0)]
    assert choose_contenders(contenders, most=9) == [1]
    mined = Contender(("mined",), 0.0, same)
    assert choose_contenders([*contenders, mined], most=9) == [3]
    unchanged = [Contender(("searched",), worth, pairs(1.0, 1.0, 1.0, 1.0)) for worth in (1.0, 3.0)]
    assert choose_contenders(unchanged, most=9) == [0, 1]  # of what changes nothing nothing is known


def test_small_effects_are_confirmed_on_more_changed_episodes() -> None:
    settings = EvaluationSettings(confirmation_changes=500, confirmation_seeds=4000)
    assert changes_to_confirm(Expectation(0.5), settings) == 500
    assert changes_to_confirm(Expectation(0.5, changes=125), settings) == 500
    assert changes_to_confirm(Expectation(0.5, changes=124), settings) == 496
    assert changes_to_confirm(Expectation(0.5, changes=100), settings) == 400
    assert changes_to_confirm(Expectation(0.5, changes=1), settings) == 200
    assert changes_to_confirm(Expectation(0.1, changes=100), settings) == 200
    assert changes_to_confirm(Expectation(0.5, changes=900), settings) == 900
    assert changes_to_confirm(Expectation(0.9, changes=10**6), settings) == 2000
    assert changes_to_confirm(Expectation(0.5, changes=10**6), settings) == 1600  # so many are to be expected
    assert changes_to_confirm(Expectation(0.1, changes=10**6), settings) == 200
    assert changes_to_confirm(Expectation(0.01, changes=10**6), settings) == 0


def test_one_of_a_source_is_the_best_one() -> None:
    contenders = [
        Contender(("searched",), 3.0, pairs(5.0, 1.0, 1.0, 1.0)),
        Contender(("searched",), 9.0, pairs(1.0, 9.0, 1.0, 1.0)),
        Contender(("alone",), 1.0, pairs(1.0, 1.0, 2.0, 1.0)),
    ]
    assert choose_contenders(contenders, most=1) == [1, 2]


def test_where_just_as_many_changes_are_expected_as_are_needed() -> None:
    """A quarter more than the number itself: 625 of 4,000 for 500, 250 for 200."""
    settings = EvaluationSettings(confirmation_changes=500, confirmation_seeds=4000)
    assert changes_to_confirm(Expectation(625 / 4000), settings) == 500
    assert changes_to_confirm(Expectation(624 / 4000), settings) == 200
    assert changes_to_confirm(Expectation(250 / 4000), settings) == 200
    assert changes_to_confirm(Expectation(249 / 4000), settings) == 0
    assert (Expectation(0.5).changes, MOST_CHANGES_FACTOR, OVERSAMPLING) == (0, 4, 1.25)


def test_what_just_differs_enough_is_confirmed() -> None:
    """Four of five changed episodes are the same: not more than four fifths."""
    one, other = (Pairs(result(returns), result([1.0] * 5), np.ones(5, np.bool_)) for returns in (SAME_BUT_ONE, OTHER))
    assert sameness(one, other) == SAME_EPISODES_SHARE == 0.8
    contenders = [Contender(("searched",), 2.0, one), Contender(("searched",), 1.0, other)]
    assert choose_contenders(contenders, most=0) == [0, 1]
    assert choose_contenders([contenders[0], contenders[0]], most=0) == [0]
    longer = replace(other.guided, lengths=np.array([20, 20, 20, 21, 20]))
    assert sameness(one, replace(other, guided=longer)) == pytest.approx(0.6)
