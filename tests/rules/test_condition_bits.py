"""Bit sets of conditions: by hand, and equal to matching row by row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from legible.rules import CompiledRules, Condition, Rule
from legible.rules.condition_bits import ConditionBits, holds_in, pack_rows, trigger_bits


def test_by_hand() -> None:
    above_one, all_rows = Condition(0, 1.0, np.inf), ()
    rules = CompiledRules.compile([[Rule("+", 0, (above_one,))], [Rule("-", 1, all_rows), Rule("+", 1, (above_one,))]])
    known = ConditionBits.of(rules, np.array([[1.0], [2.0], [3.0]], np.float32))
    assert known.words.tolist() == [[0b110]], "equal conditions are compared once"
    assert known.number.tolist() == [0, 0]
    of_rules, of_any = np.empty((2, 1), np.uint64), np.empty(1, np.uint64)
    trigger_bits(rules, known, 0, of_rules, of_any)
    assert of_any.tolist() == [0b110]
    trigger_bits(rules, known, 1, of_rules, of_any)
    assert of_rules.tolist() == [[0b111], [0b110]], "a rule without conditions holds in all rows, and in no others"
    assert of_any.tolist() == [0b111]


@st.composite
def rules_and_rows(draw: st.DrawFn) -> tuple[list[list[Rule]], np.ndarray]:
    ends = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf])
    features = draw(st.integers(1, 4))

    def rule() -> Rule:
        conditions = []
        for feature in draw(st.sets(st.integers(0, features - 1), max_size=3)):
            low, high = sorted(draw(st.lists(ends, min_size=2, max_size=2, unique=True)))
            conditions.append(Condition(feature, low, high))
        return Rule(draw(st.sampled_from("+-")), draw(st.integers(0, 2)), tuple(conditions))

    sets = [[rule() for _ in range(draw(st.integers(0, 3)))] for _ in range(draw(st.integers(1, 4)))]
    n = draw(st.sampled_from([0, 1, 63, 64, 65, 200]))
    rows = np.random.default_rng(draw(st.integers(0, 99))).choice([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan], (n, features))
    return sets, rows.astype(np.float32)


@given(rules_and_rows())
@settings(max_examples=60, deadline=None)
def test_bits_equal_matching_row_by_row(case: tuple[list[list[Rule]], np.ndarray]) -> None:
    sets, rows = case
    rules = CompiledRules.compile(sets)
    known = ConditionBits.of(rules, rows)
    matched = rules.matches(rows)
    of_rules = np.empty((known.most_rules, known.words.shape[1]), np.uint64)
    of_any = np.empty(known.words.shape[1], np.uint64)
    for s in range(len(sets)):
        trigger_bits(rules, known, s, of_rules, of_any)
        mine = matched[:, rules.set_starts[s] : rules.set_starts[s + 1]]
        for k in range(mine.shape[1]):
            assert [holds_in(of_rules[k], i) for i in range(len(rows))] == mine[:, k].tolist()
        assert np.array_equal(of_any, pack_rows(mine.any(axis=1)))
