"""Small changes to a program's source: what a careless edit could have made of it.

- `Mutant`: one change; `mutants_of`: all of them for the source of a module.

Comparisons, arithmetic, truth values, constants, `and` and `or`, `break` and `continue` are exchanged for their
neighbours. What no test of behaviour could notice stays as it is: texts, annotations, aliases of types, decorators,
what stands in a `raise` or an `assert`, and the arguments ``strict=`` of `zip` (a guard, like an assertion) and
``repr=`` of a dataclass's `field`.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Mutant:
    """A changed source.

    Parameters
    ----------
    line
        The line that was changed, from 1.
    before, after
        What stood there, and what stands there now.
    text
        The whole line as it was, without its margin.
    which
        How many mutants of the module before this one have the same `before`, `after` and `text`. The four identify
        it, also after the module was edited elsewhere.
    source
        The changed module.
    """

    line: int
    before: str
    after: str
    text: str
    which: int
    source: str


def mutants_of(source: str) -> list[Mutant]:
    """Return every mutant of a module."""
    lines = source.encode().splitlines(keepends=True)  # positions of the syntax tree count bytes
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()
    for node in _nodes(ast.parse(source)):
        for changed in _changes(node):
            head, before, tail = _parts(lines, node)
            after = ast.unparse(changed)
            if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
                after = f"({after})"
            words = (" ".join(before.split()), " ".join(after.split()), lines[node.lineno - 1].decode().strip())
            found.append(Mutant(node.lineno, *words, which=seen[words], source=head + after + tail))
            seen[words] += 1
    return found


def _parts(lines: list[bytes], node: ast.expr | ast.stmt) -> tuple[str, str, str]:
    """Return what stands before a node, the node itself, and what stands behind it."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    own = b"".join(lines[first : last + 1])
    end = len(own) - len(lines[last]) + node.end_col_offset
    head, tail = b"".join(lines[:first]) + own[: node.col_offset], own[end:] + b"".join(lines[last + 1 :])
    return head.decode(), own[node.col_offset : end].decode(), tail.decode()


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield all expressions and statements that are computed."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _never_matters(child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            if not isinstance(child, ast.AnnAssign) or child.value is not None:
                yield from _nodes(child)


def _never_matters(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assert():
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.keyword(arg="strict" | "repr", value=ast.Constant(value=bool())):
            return True
        case _:
            return False


def _changes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare():
            for i, sign in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[i] = _COMPARISONS[type(sign)]()
                yield changed
        case ast.BinOp(op=op) if type(op) in _OPERATORS and not _is_text(node):
            changed_sum = copy.deepcopy(node)
            changed_sum.op = _OPERATORS[type(op)]()
            yield changed_sum
        case ast.AugAssign(op=op) if type(op) in _OPERATORS:
            changed_step = copy.deepcopy(node)
            changed_step.op = _OPERATORS[type(op)]()
            yield changed_step
        case ast.BoolOp():
            changed_bool = copy.deepcopy(node)
            changed_bool.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield changed_bool
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1 if isinstance(value, int) else (2 * value or 1.0))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_text(node: ast.BinOp) -> bool:
    """Return whether an operation joins texts."""
    return any(
        isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and isinstance(n.value, str))
        for n in ast.walk(node)
    )
