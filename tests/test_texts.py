"""Sentences belong into snapshots: few assertions hold a text of six or more words themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LONG_TEXT_WORDS = 6
MOST_LONG_TEXTS = 40


def long_texts(source: str) -> Iterator[int]:
    """Lines of the assertions, and of the expected errors, that hold a text of six or more words."""
    for node in ast.walk(ast.parse(source)):
        is_raises = isinstance(node, ast.Call) and ast.unparse(node.func) in {"pytest.raises", "pytest.warns"}
        if not is_raises and not isinstance(node, ast.Assert):
            continue
        compared = node.test if isinstance(node, ast.Assert) else node
        parts = [part.value for part in ast.walk(compared) if isinstance(part, ast.Constant)]
        if any(isinstance(text, str) and len(text.split()) >= LONG_TEXT_WORDS for text in parts):
            yield node.lineno


def test_few_assertions_hold_sentences() -> None:
    found = [f"{path}:{line}" for path in sorted(HERE.rglob("*.py")) for line in long_texts(path.read_text("utf-8"))]
    assert len(found) <= MOST_LONG_TEXTS, "use a snapshot: " + ", ".join(found)


def test_sentences_are_noticed() -> None:
    source = (
        'assert x == "one two three four five six"\nwith pytest.raises(E, match="a b c d e f"):\n    f("a b c d e f")'
    )
    assert list(long_texts(source)) == [1, 2]
    assert not list(long_texts('assert "a few words only" in x'))
