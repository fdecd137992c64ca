"""Rounded interval bounds: every recorded value stays in its interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.features import Feature, FeatureSpace, deciles, round_cuts
from legible.features.rounding import simplest_between

VALUES = st.floats(-1e4, 1e4, width=32)


@pytest.mark.parametrize(
    ("low", "high", "simple"),
    [(-3.3e-06, 0.0012, 0.0), (1.1, 2.7, 2.0), (-1.26, -1.14, -1.25), (99.0, 101.0, 100.0), (0.123, 0.141, 0.125)],
)
def test_the_simplest_number(low: float, high: float, simple: float) -> None:
    assert simplest_between(low, high) == simple


@given(VALUES, VALUES)
def test_the_simplest_number_lies_in_the_range(one: float, two: float) -> None:
    low, high = sorted((one, two))
    if low < high:
        assert low <= simplest_between(low, high) < high


def test_every_recorded_value_stays_in_its_interval() -> None:
    space = FeatureSpace((Feature("vy"), Feature("lane", cuts=(0.123,)), Feature("gap", sentinels=(-1.0,))))
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(500, 3)).astype(np.float32)
    cut = deciles(space, seen)
    plain = round_cuts(cut, space, seen)
    assert (plain.encode(seen) == cut.encode(seen)).all()
    assert [len(np.format_float_positional(end)) for end in plain.highs[0][:-1]] < [
        len(np.format_float_positional(end)) for end in cut.highs[0][:-1]
    ]
    for i in (1, 2):  # fixed cuts and sentinels are not rounded
        assert (plain.highs[i] == cut.highs[i]).all()
