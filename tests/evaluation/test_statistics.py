"""Tests on returns, by hand and against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from legible.errors import LegibleError
from legible.evaluation.statistics import benjamini_hochberg, paired, standard_error, welch

SAMPLES = st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=30)


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy's, where one sample does not vary
@given(SAMPLES, SAMPLES)
def test_welch_is_scipys_where_anything_varies(first: list[float], second: list[float]) -> None:
    if np.ptp(first) or np.ptp(second):
        expected = stats.ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
        assert welch(first, second) == pytest.approx(expected)
    else:
        assert welch(first, second) == (0.0 if first[0] > second[0] else 1.0)


def test_welch_by_hand() -> None:
    """Means 4 and 2, variances 1 and 1, three each: t = 2 / √(2/3) = 2.449 with 4 degrees of freedom."""
    assert welch([3, 4, 5], [1, 2, 3]) == pytest.approx(stats.t.sf(2 / np.sqrt(2 / 3), 4))
    assert standard_error([3, 4, 5]) == pytest.approx(1 / np.sqrt(3))


@given(SAMPLES)
def test_a_paired_test_of_a_sample_with_itself_finds_nothing(sample: list[float]) -> None:
    effect = paired(sample, sample)
    assert (effect.mean, effect.error, effect.p) == (0.0, 0.0, 1.0)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=2, max_size=30))
def test_paired_is_scipys(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array(column, float) for column in zip(*pairs, strict=True))
    effect = paired(first, second)
    if np.ptp(first - second):
        expected = stats.ttest_rel(first, second, alternative="greater")
        assert effect.p == pytest.approx(expected.pvalue)
        low, high = stats.ttest_rel(first, second).confidence_interval(0.95)
        assert (effect.low, effect.high) == pytest.approx((low, high))
    else:
        assert effect.p == (0.0 if first[0] > second[0] else 1.0)


@given(st.lists(st.floats(0, 1), max_size=40))
def test_benjamini_hochberg_is_scipys(p: list[float]) -> None:
    expected = stats.false_discovery_control(p) if p else []
    np.testing.assert_allclose(benjamini_hochberg(p), expected)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0], [1.0, 2.0], "at least two episodes"),
        ([], [1.0, 2.0], "at least two episodes"),
        ([1.0, np.nan], [1.0, 2.0], "return of episode 1 is nan"),
        ([1.0, 2.0], [np.inf, 2.0], "return of episode 0 is inf"),
    ],
)
def test_samples_that_cannot_be_compared(first: list[float], second: list[float], message: str) -> None:
    for test in (welch, paired):
        with pytest.raises(LegibleError, match=message):
            test(first, second)


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(LegibleError, match="3 guided and 2 base"):
        paired([1, 2, 3], [1, 2])
