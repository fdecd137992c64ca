"""Values as people write them: numbers in text and in the report, and data frames for those who have pandas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from legible.imports import optional_package

MINUS = "\u2212"
NARROW_SPACE = "\u202f"


def number(value: float | None, digits: int = 3) -> str:
    r"""Write a number with so many significant digits, thousands apart; whole parts are never rounded away.

    >>> number(1411.505), number(0.12345), number(-3.0), number(None), number(12345.6)
    ('1412', '0.123', '−3', '–', '12\u202f346')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size >= 10**digits or size == round(size):
        text = f"{size:,.0f}" if size >= 10_000 else f"{size:.0f}"
    else:
        whole = math.floor(math.log10(size)) + 1
        text = f"{size:.{max(0, digits - whole)}f}" if size >= 0.001 else f"{size:.1e}"
    return (MINUS if value < 0 and float(text.replace(",", "")) != 0 else "") + text.replace(",", NARROW_SPACE)


def signed(value: float | None, digits: int = 3) -> str:
    """Write a difference with its sign.

    >>> signed(12.34), signed(-0.5), signed(0.0)
    ('+12.3', '−0.500', '0')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"+{number(value, digits)}" if value > 0 else number(value, digits)


def percent(share: float | None) -> str:
    r"""Write a share in percent.

    >>> percent(0.0908), percent(1.0), percent(0.0004), percent(0.0)
    ('9.1\xa0%', '100\xa0%', '0.04\xa0%', '0\xa0%')
    """
    if share is None or math.isnan(share):
        return "–"
    hundred = 100 * share
    digits = 0 if hundred >= 10 or hundred == round(hundred) else 1 if hundred >= 1 else 2
    return f"{hundred:.{digits}f}\u00a0%"


def p_value(p: float | None) -> str:
    """Write a p- or q-value; tiny ones as a power of ten.

    >>> p_value(0.0123), p_value(0.00004), p_value(1.7e-9), p_value(0.0)
    ('0.012', '4·10⁻⁵', '2·10⁻⁹', '< 10⁻³⁰⁰')
    """
    if p is None or math.isnan(p):
        return "–"
    if p >= 0.001:
        return f"{p:.3f}" if p < 0.995 else "1"
    if p < 1e-300:
        return "< 10⁻³⁰⁰"
    digit, power = f"{p:.0e}".split("e-")
    raised = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digit}·10⁻{raised}"


def unbroken(text: str) -> str:
    r"""Keep figures and their percent signs on one line.

    >>> unbroken("13 % of them")
    '13\xa0% of them'
    """
    return text.replace(" %", "\u00a0%")


def times(count: int, thing: str, things: str = "") -> str:
    """Write a count with its noun.

    >>> times(1, "rule"), times(4, "rule"), times(2, "weakness", "weaknesses")
    ('1 rule', '4 rules', '2 weaknesses')
    """
    return f"{number(count)} {thing if count == 1 else things or thing + 's'}"


def data_frame(data: Sequence[Mapping[str, Any]] | Mapping[str, Any], columns: Sequence[str] | None = None) -> Any:
    """Make a pandas data frame from rows or columns.

    `columns` names the columns of a frame that may have no rows, so that it has its columns all the same.
    """
    pandas = optional_package("pandas", "pandas", "data frames")
    return pandas.DataFrame(data, columns=columns if columns is not None and not len(data) else None)
