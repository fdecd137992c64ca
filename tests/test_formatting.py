"""Values as people write them: they read back, and nothing is called none or all that is not."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.formatting import (
    confidence_interval,
    counted,
    duration,
    in_words,
    join_words,
    number,
    p_value,
    percent,
    signed,
    with_error,
)

_NORMAL = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-", "\u202f")


def read(text: str) -> float:
    """The value that a number was written for, as far as its digits tell."""
    return float(re.sub("·10", "e", text.translate(_NORMAL)))


@given(st.floats(-1e12, 1e12), st.integers(1, 9))
def test_numbers_read_back(value: float, digits: int) -> None:
    assert read(number(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits), abs=1e-300)
    assert read(signed(value, digits).removeprefix("+")) == read(number(value, digits))
    assert signed(value, digits).startswith("+") == (value > 0)


def test_numbers_by_hand() -> None:
    shown = {
        0.5: "0.5",
        -0.0: "0",
        999.6: "1000",
        9999.9: "10000",
        0.0004: "0.0004",
        -0.00004: "−4·10⁻⁵",
        9.996: "10",
        1e9: "1·10⁹",
        123456.7: "123\u202f457",
        float("inf"): "∞",
        -float("inf"): "−∞",
    }
    assert {value: number(value) for value in shown} == shown
    assert number(1234.56, 5) == "1234.6"


def test_what_is_not_known_is_a_dash() -> None:
    nan = float("nan")
    assert [write(nan) for write in (number, signed, percent, p_value)] == ["–"] * 4
    assert [write(None) for write in (number, signed, percent, p_value)] == ["–"] * 4


@given(st.floats(0.0, 1.0))
def test_only_none_is_none_and_only_all_is_all(share: float) -> None:
    text = percent(share)
    assert (text == "0 %") == (share == 0.0)
    assert (text == "100 %") == (100 * share == 100.0)


def test_shares_by_hand() -> None:
    shares = (0.07, 0.254, 0.0996, 0.9949, 0.996, 0.0051, 0.00123)
    assert [percent(share) for share in shares] == ["7 %", "25 %", "10 %", "99.49 %", "99.6 %", "0.51 %", "0.12 %"]


def test_p_values_are_equations_where_they_have_a_name() -> None:
    assert [p_value(p, "q") for p in (0.01, 1.7e-9, 0.0, 0.999)] == ["q = 0.010", "q = 2·10⁻⁹", "q < 10⁻³⁰⁰", "q = 1"]
    assert p_value(0.05) == "0.050"


def test_what_a_number_may_be_off_by() -> None:
    assert confidence_interval(1234.56, -0.00001, 12345.6) == "+1235 (95 % CI −1·10⁻⁵ to +12\u202f346)"
    assert confidence_interval(0.0, 0.0, 0.0) == "0 (95 % CI 0 to 0)"
    assert with_error(1234.56, 7.89) == "1235 ± 7.9"


def test_counts_and_lists() -> None:
    assert join_words([]) == ""
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b", "c"], "or") == "a, b or c"
    assert [in_words(n) for n in (0, 1, 12, 13)] == ["no", "one", "twelve", "13"]
    assert [counted(n, "rule") for n in (0, 1, 20_000)] == ["0 rules", "1 rule", "20\u202f000 rules"]


def test_times() -> None:
    told = {1.2: "1 second", 89: "89 seconds", 599: "9 min 59 s", 600: "10 min", 36_000: "10 hours"}
    assert {seconds: duration(seconds) for seconds in told} == told


def test_numbers_just_below_a_power_of_ten_are_rounded() -> None:
    assert number(np.nextafter(1000.0, 0.0)) == "1000"
    assert number(np.nextafter(-100.0, 0.0)) == "−100"
