"""Which rule sets are confirmed, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from legible.evaluation.candidates import SAME_EPISODES_SHARE, Contender, choose_contenders, share_changed_alike
from legible.evaluation.confirmation import Expectation, changes_to_confirm
from legible.evaluation.pairs import Pairs
from legible.settings import EvaluationSettings
from played_blocks import result

BASE = result([1.0, 1.0, 1.0, 1.0])
SAME_BUT_ONE, OTHER = [2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 3.0, 4.0, 5.0, 7.0]


def pairs(*returns: float) -> Pairs:
    guided = result(list(returns))
    return Pairs(guided, BASE, np.array(returns) != 1.0)


def test_sameness_by_hand() -> None:
    assert share_changed_alike(pairs(5.0, 1.0, 1.0, 1.0), pairs(5.0, 1.0, 1.0, 1.0)) == 1.0
    assert share_changed_alike(pairs(5.0, 6.0, 1.0, 1.0), pairs(5.0, 7.0, 8.0, 1.0)) == 1 / 3  # the first of three
    assert share_changed_alike(pairs(1.0, 1.0, 1.0, 1.0), pairs(1.0, 1.0, 1.0, 1.0)) == 0.0  # nothing is changed
    both = np.array([True, False, True, False])
    once = Pairs(result([5.0, 1.0, 1.0, 1.0]), BASE, both)  # its third episode was changed, and came to the same
    assert share_changed_alike(once, pairs(5.0, 1.0, 1.0, 1.0)) == 0.5
    shorter = Pairs(result([5.0, 1.0]), BASE[:2], np.array([True, False]))
    assert share_changed_alike(shorter, pairs(5.0, 1.0, 9.0, 9.0)) == 1.0  # on the seeds that both have


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


def test_at_most_so_many_that_change_the_same_states_are_confirmed() -> None:
    states = np.arange(100)
    low = [replace(contender(5.0 - i), states=states < 20 + i) for i in range(4)]  # each within the next
    high, unknown = replace(contender(1.0), states=states > 60), contender(0.5)
    mined = replace(contender(0.1), found_by=("mined",), states=states < 20)
    few = replace(contender(4.5), states=states < 9)  # too few states to compare
    contenders = [*low, high, unknown, mined, few]
    for most_alike, chosen in ((0, [0, 1, 2, 3, 4, 5, 6, 7]), (1, [4, 5, 6, 7]), (2, [0, 4, 5, 6, 7])):
        found = choose_contenders(contenders, 0, most_alike=most_alike, alike=0.7)
        assert found == chosen, most_alike
    assert choose_contenders(low, 0, most_alike=2, alike=0.7) == [0, 1]  # the best two
    assert choose_contenders([*low, high], 3, most_alike=1, alike=0.7) == [0, 4]


def contender(worth: float) -> Contender:
    """Return a contender that changes all episodes in a way of its own."""
    return Contender(("searched",), worth, pairs(*(2.0 + worth + place for place in range(4))))


@pytest.mark.parametrize(
    ("share", "changes", "expected"),
    [
        (0.5, 0, 500),
        (0.5, 125, 500),
        (0.5, 124, 496),
        (0.5, 1, 200),
        (0.1, 100, 200),
        (0.5, 900, 900),
        (0.9, 10**6, 2000),
        (0.5, 10**6, 1600),  # no more are expected
        (0.01, 10**6, 0),
        (625 / 4000, 0, 500),  # a quarter more than needed must be expected
        (624 / 4000, 0, 200),
        (250 / 4000, 0, 200),
        (249 / 4000, 0, 0),
    ],
)
def test_small_effects_are_confirmed_on_more_changed_episodes(share: float, changes: int, expected: int) -> None:
    settings = EvaluationSettings(confirmation_changes=500, confirmation_seeds=4000)
    assert changes_to_confirm(Expectation(share, changes), settings) == expected


@pytest.mark.parametrize(
    ("share", "changes", "factor", "expected"),
    [
        (0.5, 0, 2.0, 1000),
        (0.5, 125, 2.0, 500),
        (0.5, 1, 2.0, 400),
        (0.5, 1500, 2.0, 1500),
        (0.2, 0, 2.0, 640),  # as many as are expected, less a quarter
        (0.1, 0, 2.0, 200),  # the usual number is not reached
    ],
)
def test_effects_near_the_smallest_of_interest_are_confirmed_on_more_changed_episodes(
    share: float, changes: int, factor: float, expected: int
) -> None:
    settings = EvaluationSettings(confirmation_changes=500, confirmation_seeds=4000)
    assert changes_to_confirm(Expectation(share, changes, sample_factor=factor), settings) == expected


def test_of_those_that_do_the_same_the_best_is_confirmed() -> None:
    same = pairs(5.0, 6.0, 7.0, 8.0)
    contenders = [Contender(("searched",), worth, same) for worth in (1.0, 3.0, 2.0)]
    assert choose_contenders(contenders, most=9) == [1]
    mined = Contender(("mined",), 0.0, same)
    assert choose_contenders([*contenders, mined], most=9) == [3]
    unchanged = [Contender(("searched",), worth, pairs(1.0, 1.0, 1.0, 1.0)) for worth in (1.0, 3.0)]
    assert choose_contenders(unchanged, most=9) == [0, 1]  # of what changes nothing nothing is known


def test_rule_sets_at_the_threshold_of_sameness_are_confirmed() -> None:
    """Four of five changed episodes are the same: not more than four fifths."""
    one, other = (Pairs(result(returns), result([1.0] * 5), np.ones(5, np.bool_)) for returns in (SAME_BUT_ONE, OTHER))
    assert share_changed_alike(one, other) == SAME_EPISODES_SHARE == 0.8
    contenders = [Contender(("searched",), 2.0, one), Contender(("searched",), 1.0, other)]
    assert choose_contenders(contenders, most=0) == [0, 1]
    assert choose_contenders([contenders[0], contenders[0]], most=0) == [0]
    longer = replace(other.guided, lengths=np.array([20, 20, 20, 21, 20]))
    assert share_changed_alike(one, replace(other, guided=longer)) == pytest.approx(0.6)
