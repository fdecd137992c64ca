"""Names with stars: matched as a regular expression would, but never slowly."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from legible.features.patterns import fill_pattern, match_pattern


@given(st.text("ab.*", max_size=8), st.text("ab.", max_size=10))
def test_it_matches_as_greedy_regular_expressions_do(pattern: str, name: str) -> None:
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


def test_no_pattern_takes_long() -> None:
    begin = time.monotonic()
    assert match_pattern("*a" * 14 + "*b", "a" * 200) is None
    assert match_pattern("*a" * 1000 + "*b", "a" * 5000) is None
    assert time.monotonic() - begin < 1
