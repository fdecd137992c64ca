"""Values as codes: numbers of categories, intervals between cut points, and how they are stored."""

import numpy as np
import pytest

from legible.mining.ripper.encoding import CUT_SAMPLE, Encoded, encode


def encoded(*columns, nominal: bool, max_bins: int = 256) -> Encoded:
    X = np.column_stack(columns)
    return encode(X, np.full(X.shape[1], nominal), max_bins, seed=0)


@pytest.mark.parametrize(
    "column",
    [
        [5, 7, 5],  # one number is missing in between
        [0, 1, 5],
        [0, 5, 0],
        [3, 3, 3],
        [-90, 100, -90],  # too far apart for the short way
        list(range(65)),
        list(range(64)),
        [2**53, 2**53 + 1],  # float64 cannot tell them apart
        [-(2**53), -(2**53) - 1],
        [0.5, 0.25, 0.5],
    ],
)
def test_every_category_has_a_code(column: list[float]) -> None:
    found = encoded(column, [1] * len(column), nominal=True)
    assert found.values[0].tolist() == sorted(set(column))
    assert found.codes[:, 0].tolist() == [sorted(set(column)).index(value) for value in column]
    assert found.codes[:, 1].tolist() == [0] * len(column)
    assert found.n_values.tolist() == [len(set(column)), 1]


@pytest.mark.parametrize(
    ("column", "cuts", "codes"),
    [
        ([0.5, 1.5, 1.5, 4.0], [1.0, 2.75], [0, 1, 1, 2]),
        ([0, 1, 1, 4], [0, 2], [0, 1, 1, 2]),  # whole numbers between whole numbers
        ([100, -1, 100], [49], [1, 0, 1]),
        ([0, 1000], [500], [0, 1]),
    ],
)
def test_cut_points_lie_in_the_middle(column: list[float], cuts: list[float], codes: list[int]) -> None:
    found = encoded(column, nominal=False)
    assert found.values[0].tolist() == cuts
    assert found.codes[:, 0].tolist() == codes
    assert found.n_values.tolist() == [len(cuts) + 1]


def test_neighbouring_numbers_have_a_cut_between_them() -> None:
    lower = np.nextafter(1.0, 2.0)
    upper = np.nextafter(lower, 2.0)
    assert lower / 2 + upper / 2 == upper  # the middle is rounded to the upper one
    found = encoded([lower, upper], nominal=False)
    assert found.values[0].tolist() == [lower]
    assert found.codes[:, 0].tolist() == [0, 1]


def test_cut_points_at_quantiles() -> None:
    # Of nine values in three bins the cuts are behind the third and the sixth.
    nine = np.arange(9) + 0.5
    assert encoded(nine, nominal=False, max_bins=3).values[0].tolist() == [3, 6]
    assert encoded(nine, nominal=False, max_bins=9).values[0].tolist() == list(range(1, 9))
    # As many different values as bins: all cuts, however often a value occurs.
    assert encoded([0.5] * 9 + [1.5, 2.5], nominal=False, max_bins=3).values[0].tolist() == [1, 2]
    # Nothing lies above the quantiles, so there is no cut behind them.
    assert encoded([0.5, 1.5, 2.5] + [9.5] * 10, nominal=False, max_bins=3).values[0].tolist() == []


def test_codes_are_stored_in_as_few_bytes_as_they_need() -> None:
    for categories, dtype in ((255, np.uint8), (256, np.uint16), (65535, np.uint16)):
        found = encoded([f"{i:05}" for i in range(categories)], nominal=True)
        assert found.codes.dtype == dtype
        assert found.codes[:, 0].tolist() == list(range(categories))
    for intervals, dtype in ((256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)):
        found = encoded(np.arange(intervals) * 0.5, nominal=False, max_bins=10**6)
        assert found.codes.dtype == dtype
        assert found.codes[:, 0].tolist() == list(range(intervals))


def test_cuts_of_very_many_rows_are_chosen_from_some_of_them() -> None:
    assert CUT_SAMPLE == 200_000
    column = np.random.default_rng(0).permutation(CUT_SAMPLE + 1) + 0.5
    found = encoded(column, nominal=False, max_bins=10**6)
    assert len(found.values[0]) == CUT_SAMPLE - 1  # between as many different values
    assert found.codes.max() == CUT_SAMPLE - 1
