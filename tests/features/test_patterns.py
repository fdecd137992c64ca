"""Patterns: equal to greedy regular expressions, and always fast."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from legible.features.patterns import fill_pattern, match_pattern


@given(st.text("ab.*", max_size=8), st.text("ab.", max_size=10))
def test_matches_equal_those_of_greedy_regular_expressions(pattern: str, name: str) -> None:
    found = re.fullmatch(re.escape(pattern).replace(re.escape("*"), "(.*)"), name)
    assert match_pattern(pattern, name) == (None if found is None else found.groups())


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.data())
def test_filling_undoes_matching(pieces: list[str], data: st.DataObject) -> None:
    pattern = "*".join(pieces)
    texts = data.draw(st.lists(st.text("ab", max_size=3), min_size=len(pieces) - 1, max_size=len(pieces) - 1))
    name = fill_pattern(pattern, texts)
    stands_for = match_pattern(pattern, name)
    assert stands_for is not None
    assert fill_pattern(pattern, stands_for) == name


def test_matching_is_fast_for_any_pattern() -> None:
    begin = time.process_time()
    assert match_pattern("*a" * 14 + "*b", "a" * 200) is None
    assert match_pattern("*a" * 1000 + "*b", "a" * 5000) is None
    assert time.process_time() - begin < 5
