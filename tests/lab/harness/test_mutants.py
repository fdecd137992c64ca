"""Small errors in sources: what they are, and that the tests of a room are asked about them."""

import ast

import pytest

from lab.harness.mutants import mutants_of
from lab.harness.mutate import MODULES, ROOT, key_of, known_equivalent


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.before, mutant.after) for mutant in mutants_of(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = a < b", {("a < b", "(a <= b)")}),
        ("y = a + 1", {("a + 1", "(a - 1)"), ("1", "2")}),
        ("y = a and not b", {("a and not b", "(a or not b)"), ("not b", "(b)")}),
        ("y += 0.5", {("y += 0.5", "y -= 0.5"), ("0.5", "1.0")}),
        ("y = a if b else c", {("a if b else c", "(c if b else a)")}),
        ("for i in s:\n    break", {("break", "continue")}),
        ("y = True", {("True", "False")}),
    ],
)
def test_every_kind_of_change(source, expected):
    assert changes(source) == expected


def test_texts_annotations_decorators_and_errors_stay():
    source = '@f(1)\ndef g(x: T[2]) -> T[3]:\n    """Four 4."""\n    raise E(f"{5}" + "6")\n'
    assert changes(source) == set()


def test_guards_and_what_is_printed_stay():
    assert changes("pairs = zip(a, b, strict=True)") == set()
    assert changes("rows: T = field(repr=False, compare=False)") == {("False", "True")}
    assert changes("Value: TypeAlias = A | B") == set()
    assert changes("strict = True") == {("True", "False")}


def test_mutants_that_look_the_same_are_numbered():
    made = [(m.line, m.which) for m in mutants_of("y = f(2, 2)\nz = f(2)\ny = f(2, 2)")]
    assert made == [(1, 0), (1, 1), (2, 0), (3, 2), (3, 3)]


def test_only_the_place_changes_and_bytes_count_as_signs_do():
    source = '# é\nname = "é"; y = a < b  # left\nz = 2\n'
    first = next(m for m in mutants_of(source) if m.before == "a < b")
    assert first.source == source.replace("a < b", "(a <= b)")
    assert (first.line, first.text) == (2, source.splitlines()[1])


def test_mutants_of_every_module_are_programs():
    for name in MODULES:
        for mutant in mutants_of((ROOT / "src" / name).read_text("utf-8"))[::20]:
            ast.parse(mutant.source)


def test_the_modules_and_their_tests_exist():
    for name, tests in MODULES.items():
        assert (ROOT / "src" / name).is_file()
        assert all((ROOT / test).exists() for test in tests)


def test_what_is_listed_as_equivalent_is_there_and_has_a_reason():
    known = known_equivalent()
    there = {
        key_of(name, mutant)
        for name in {key[0] for key in known}
        for mutant in mutants_of((ROOT / "src" / name).read_text("utf-8"))
    }
    assert [key for key in known if key not in there] == []
    assert all(why.endswith(".") for why in known.values())
