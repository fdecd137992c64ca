"""Values as people write them, the same in the terminal, in the report and in documents.

- `number`, `signed`, `percent`, `p_value`: one number.
- `with_error`, `confidence_interval`: a number with its uncertainty.
- `duration`: a time.
- `in_words`, `counted`: how many of something; `join_words`: a list of words.
- `capitalise`, `quoted`, `unbroken`: the beginning of a sentence; a quotation; what must stay on one line.
- `data_frame`: rows as a data frame, for those who have pandas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from legible.imports import optional_package

MINUS = "\u2212"
NARROW_SPACE = "\u202f"
UNKNOWN = "–"
# Numbers of everyday size are written without a power of ten.
LEAST_PLAIN, MOST_PLAIN = 1e-4, 1e9
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def number(value: float | None, digits: int = 3) -> str:
    r"""Return a number as text with at most `digits` significant digits; digits before the point are always shown.

    A missing number (None or NaN) is "–". Very small and very large ones are written with a power of ten.

    >>> number(1411.505), number(0.12345), number(-3.0), number(0.5), number(None)
    ('1412', '0.123', '−3', '0.5', '–')
    >>> number(12345.6), number(0.0000334), number(2.5e12)
    ('12\u202f346', '3.34·10⁻⁵', '2.5·10¹²')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    size = abs(value)
    sign = MINUS if value < 0 else ""  # the typographic minus
    if math.isinf(size):
        return f"{sign}∞"
    if size and not LEAST_PLAIN <= size < MOST_PLAIN:
        return sign + _power_of_ten(size, digits)
    # No digits after the point: whole numbers, and those whose whole part has all the digits. From 10 000 on, thousands
    # are separated.
    if size >= 10**digits or size == round(size):
        text = f"{size:,.0f}" if size >= 10_000 else f"{size:.0f}"
        return sign + text.replace(",", NARROW_SPACE)
    whole_digits = math.floor(math.log10(size)) + 1  # 0 or less below 1
    return sign + _without_zeros(f"{size:.{max(0, digits - whole_digits)}f}")


def _power_of_ten(size: float, digits: int) -> str:
    factor, power = f"{size:.{digits - 1}e}".split("e")
    return f"{_without_zeros(factor)}·10{str(int(power)).translate(_RAISED)}"


def _without_zeros(text: str) -> str:
    """Return a decimal fraction without the zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float | None, digits: int = 3) -> str:
    """Write a difference with its sign.

    >>> signed(12.34), signed(-0.5), signed(0.0)
    ('+12.3', '−0.5', '0')
    """
    plus = "+" if value is not None and value > 0 else ""
    return plus + number(value, digits)


def percent(share: float | None) -> str:
    """Write a share, with decimals near none and near all: a small one is not called none, nor nearly all called all.

    >>> percent(0.254), percent(0.0908), percent(0.0004), percent(0.00001), percent(0.0)
    ('25 %', '9.1 %', '0.04 %', '< 0.01 %', '0 %')
    >>> percent(0.937), percent(0.9996), percent(0.99999), percent(1.0)
    ('93.7 %', '99.96 %', '> 99.99 %', '100 %')
    """
    if share is None or math.isnan(share):
        return UNKNOWN
    hundred = 100 * share
    if 0 < hundred < 0.01:
        return "< 0.01 %"
    if 99.99 < hundred < 100:
        return "> 99.99 %"
    to_end = min(hundred, 100 - hundred)
    places = 0 if to_end >= 10 else 1 if to_end >= 1 else 2
    return f"{_without_zeros(f'{hundred:.{places}f}')} %"


def p_value(p: float | None, name: str = "") -> str:
    """Write a p- or q-value, as an equation where it has a name; tiny ones as a power of ten.

    >>> p_value(0.0123), p_value(0.00004), p_value(0.0), p_value(0.0123, "q"), p_value(0.0, "p")
    ('0.012', '4·10⁻⁵', '< 10⁻³⁰⁰', 'q = 0.012', 'p < 10⁻³⁰⁰')
    """
    if p is not None and p < 1e-300:
        return f"{name} < 10⁻³⁰⁰".lstrip()
    if p is None or math.isnan(p):
        text = UNKNOWN
    elif p >= 0.001:
        text = f"{p:.3f}" if p < 0.995 else "1"
    else:
        text = _power_of_ten(p, 1)
    return f"{name} = {text}" if name else text


def with_error(mean: float, error: float) -> str:
    """Write a mean with its standard error.

    >>> with_error(628.43, 20.12), with_error(0.5, 0.0123)
    ('628.4 ± 20', '0.5 ± 0.012')
    """
    return f"{number(mean, 4)} ± {number(error, 2)}"


def confidence_interval(mean: float, low: float, high: float) -> str:
    """Write a difference with its 95 % confidence interval.

    >>> confidence_interval(61.2, 20.4, 102.0)
    '+61.2 (95 % CI +20.4 to +102)'
    """
    return f"{signed(mean)} (95 % CI {signed(low)} to {signed(high)})"


def duration(seconds: float) -> str:
    """Write a time as people say it.

    >>> [duration(s) for s in (0.4, 44, 100, 5000, 90_000)]
    ['less than a second', '44 seconds', '1 min 40 s', '1 h 23 min', '25 hours']
    """
    if seconds < 1:
        return "less than a second"
    whole = round(seconds)
    if whole < 90:
        return counted(whole, "second")
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    if whole < 36_000:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{round(whole / 3600)} hours"


def in_words(count: int) -> str:
    """Write a small count as a word.

    >>> in_words(3), in_words(0), in_words(40)
    ('three', 'no', '40')
    """
    return _COUNTS[count] if 0 <= count < len(_COUNTS) else number(count)


def counted(count: int, thing: str, things: str = "") -> str:
    """Write a count with its noun.

    >>> counted(1, "rule"), counted(4, "rule"), counted(2, "weakness", "weaknesses")
    ('1 rule', '4 rules', '2 weaknesses')
    """
    return f"{number(count)} {thing if count == 1 else things or thing + 's'}"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Write a list with commas and a last word.

    >>> join_words(["north", "south", "east"]), join_words(["north", "south"], "or"), join_words(["north"])
    ('north, south and east', 'north or south', 'north')
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def capitalise(sentence: str) -> str:
    """Begin a sentence with a capital letter and leave the rest as it is.

    >>> capitalise("avoids ghost A")
    'Avoids ghost A'
    """
    return sentence[:1].upper() + sentence[1:]


def quoted(text: str) -> str:
    """Put a text into quotation marks; those in it become single ones.

    >>> quoted("do “NOOP” when the ball is far")
    '“do ‘NOOP’ when the ball is far”'
    """
    return f"“{text.replace('“', '‘').replace('”', '’')}”"


def unbroken(text: str) -> str:
    r"""Keep figures, their errors and their percent signs on one line.

    >>> unbroken("13 % of them: 1.4 ± 0.1")
    '13\xa0% of them: 1.4\xa0±\xa00.1'
    """
    return text.replace(" %", "\u00a0%").replace(" ± ", "\u00a0±\u00a0")


def data_frame(data: Sequence[Mapping[str, Any]] | Mapping[str, Any], columns: Sequence[str] | None = None) -> Any:
    """Make a pandas data frame from rows or columns.

    `columns` names the columns of a frame that may have no rows, so that it has its columns all the same.
    """
    pandas = optional_package("pandas", "pandas", "data frames")
    return pandas.DataFrame(data, columns=columns if columns is not None and not len(data) else None)
