"""What the command line says never advises arguments of Python: messages name options, docstrings name arguments."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "legible"
# Only a program can reach these: they are about objects, the trainer of many policies, or writing environments.
FOR_PROGRAMS = {
    "play/choosing.py",
    "policies/activations.py",
    "policies/readers/objects.py",
    "study/check.py",
    "study/first_facts.py",
    "training/fused.py",
    "training/plan.py",
}
ADVICE = re.compile(r"\w=(…|\.\.\.|True|none\b|[\"'\d])|\b(Study|load_policy|GuidedPolicy|EnvironmentSpec)[(.]")


def text_of(node: ast.AST) -> str:
    """Return the text of a string, an f-string or a sum of them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    return text_of(node.left) + text_of(node.right) if isinstance(node, ast.BinOp) else ""


def test_messages_advise_options_and_no_arguments_of_python() -> None:
    seen, found = 0, []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(statement, ast.Raise) or name in FOR_PROGRAMS:
                continue
            for node in ast.walk(statement):
                message = text_of(node)
                seen += bool(message)
                if ADVICE.search(re.sub(r"--set \S+", "", message)):
                    found.append(f"{name}:{node.lineno}: {message}")
    assert seen > 500
    assert found == []
