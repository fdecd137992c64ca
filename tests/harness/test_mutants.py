"""Small errors in sources: what they are, and that the tests of a room are asked about them."""

import ast

import pytest

from harness.mutants import mutants_of
from harness.mutate import MODULES, ROOT


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


def test_only_the_place_changes_and_bytes_count_as_signs_do():
    source = '# é\nname = "é"; y = a < b  # left\nz = 2\n'
    first = next(m for m in mutants_of(source) if m.before == "a < b")
    assert first.source == source.replace("a < b", "(a <= b)")
    assert (first.line, first.text) == (2, 'name = "é"; y = a < b  # left')


def test_every_mutant_of_every_module_is_a_program():
    for name in MODULES:
        for mutant in mutants_of((ROOT / "src/legible" / name).read_text("utf-8")):
            ast.parse(mutant.source)


def test_the_modules_and_their_tests_exist():
    for name, tests in MODULES.items():
        assert (ROOT / "src/legible" / name).is_file()
        assert all((ROOT / test).exists() for test in tests)
