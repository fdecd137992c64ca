"""The vocabulary of searched rules, by hand, and laws of the steps between bodies."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legible.features import Action, Feature, FeatureSpace, Intervals, below
from legible.hypotheses.vocabulary import Span, Vocabulary

ACTIONS = (Action("Brake"), Action("Go"))


def vocabulary(*features: Feature, cuts: list[list[float]]) -> Vocabulary:
    return Vocabulary(FeatureSpace(features, ACTIONS), Intervals.from_cuts(cuts))


def test_a_number_is_an_interval_or_all_up_to_an_end() -> None:
    words = vocabulary(Feature("gap"), cuts=[[1.0, 2.0, 3.0]])
    assert set(words.spans) == {
        *(Span(0, k, k) for k in range(4)),
        *(Span(0, 0, 1), Span(0, 0, 2), Span(0, 1, 3), Span(0, 2, 3)),
    }


def test_a_category_is_one_value_and_a_constant_feature_says_nothing() -> None:
    points = np.array([0.0, 1.0, 5.0], np.float32)
    one = np.array([2.0], np.float32)
    space = FeatureSpace((Feature("kind", "categorical"), Feature("same", "categorical")), ACTIONS)
    words = Vocabulary(space, Intervals((below(points), below(one)), (points, one)))
    assert words.spans == (Span(0, 0, 0), Span(0, 1, 1), Span(0, 2, 2))
    assert not list(words.moved((Span(0, 1, 1),)))


def test_a_sentinel_is_never_drawn_together_with_numbers() -> None:
    # −1 means "none left": intervals (−∞, −1⁻], {−1}, (−1, 4], (4, 9], (9, ∞).
    none = np.float32(-1.0)
    words = vocabulary(Feature("path", sentinels=(-1.0,)), cuts=[[float(below(none)), -1.0, 4.0, 9.0]])
    together = {(span.first, span.last) for span in words.spans if span.first != span.last}
    assert together == {(2, 3), (3, 4)}
    assert Span(0, 1, 1) in words.spans
    assert all(span.first > 1 for (span,) in words.moved((Span(0, 2, 3),)))


def test_the_small_steps_by_hand() -> None:
    words = vocabulary(Feature("gap"), Feature("speed"), cuts=[[1.0, 2.0], [5.0]])
    body = (Span(0, 1, 1),)
    assert set(words.moved(body)) == {(Span(0, 0, 1),), (Span(0, 1, 2),)}
    assert set(words.longer(body)) == {(Span(0, 1, 1), Span(1, k, k)) for k in (0, 1)}
    assert not list(words.shorter(body))
    both = (Span(0, 1, 1), Span(1, 0, 0))
    assert set(words.shorter(both)) == {(Span(0, 1, 1),), (Span(1, 0, 0),)}
    assert [(c.feature, c.low, c.high) for c in words.conditions(both)] == [(0, 1.0, 2.0), (1, -np.inf, 5.0)]


@given(st.integers(2, 6), st.data())
def test_every_span_is_reached_by_small_steps_but_for_the_one_that_says_nothing(
    count: int, data: st.DataObject
) -> None:
    words = vocabulary(Feature("gap"), cuts=[[float(k) for k in range(count - 1)]])
    wanted = data.draw(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).map(sorted))
    reached = {(span,) for span in words.spans}
    while True:
        more = {moved for body in reached for moved in words.moved(body)} | reached
        if more == reached:
            break
        reached = more
    assert ((Span(0, *wanted),) in reached) == (wanted != [0, count - 1])


def test_a_span_moves_by_one_interval_at_either_end() -> None:
    words = vocabulary(Feature("gap"), cuts=[[1.0, 2.0, 3.0, 4.0]])  # five intervals
    moved = [(span.first, span.last) for (span,) in words.moved((Span(0, 1, 2),))]
    assert moved == [(0, 2), (2, 2), (1, 1), (1, 3)]
    assert [span for (span,) in words.moved((Span(0, 0, 3),))] == [Span(0, 1, 3), Span(0, 0, 2)]  # not all of them
