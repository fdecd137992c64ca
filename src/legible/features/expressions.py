"""A small expression language for derived features: arithmetic, comparisons, and a memory of the episode.

- `parse_expression`: reads the text of an `Expression`.
- `StepValues`: the values of one step and the memory of earlier steps, on which expressions are evaluated.

The language is a subset of Python, read by Python's parser and never run as code: numbers, names of features and
actions, ``+ - * / % **``, comparisons, ``and or not``, and the functions ``min max abs clip previous change since``.
``last_action`` is the index of the last action, −1 before the first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from legible.errors import did_you_mean
from legible.features.names import FeatureError

LAST_ACTION = "last_action"
"""Name of the last action in expressions; ``last_action.PART`` where actions have several parts."""
LONGEST_EXPRESSION = 1000
MOST_POWER = 8.0
# A text in quotes, or a name with its dots.
_QUOTED_OR_NAME = re.compile(r"""'[^']*'|"[^"]*"|[A-Za-z_]\w*(?:\.\w+)*""")

Values = NDArray[np.float64]


@dataclass
class StepValues:
    """Values of one step of n episodes."""

    values: dict[str, Values]  # values of this step by name: ``float64[n]``
    memory: Values  # memory of earlier steps, ``float64[n, columns]``; evaluation updates it
    fresh: NDArray[np.bool_]  # marks rows at the first step of their episode, ``bool[n]``


Evaluate = Callable[[StepValues], Values]


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression that can be evaluated."""

    text: str
    names: tuple[str, ...]  # names that it uses, in order of appearance
    memory: int  # number of memory columns that it uses
    is_condition: bool  # whether its value is 1 (yes) or 0 (no)
    same_as: str  # the name whose current or earlier values it takes unchanged: x for ``previous(x)``; else ""
    evaluate: Evaluate = field(repr=False)  # computes its values, ``float64[n]``, and updates the memory


class _WrongExpressionError(Exception):
    """An invalid expression; the message does not name the expression."""


def parse_expression(
    text: str, where: str, *, constants: Mapping[str, float] | None = None, first: int = 0
) -> Expression:
    """Return the expression that a text defines, ready to be evaluated; raise an error that says what is wrong with it.

    `where` is the name of the expression in errors. `constants` are names that stand for a number, such as those of
    actions; other names are looked up during evaluation. `first` is the first free column in the memory of an episode,
    which `previous`, `change` and `since` need.

    >>> closing = parse_expression("gap / max(1, -change(gap))", "closing")
    >>> closing.names, closing.memory
    (('gap',), 1)
    >>> step = StepValues({"gap": np.array([8.0])}, np.array([[12.0]]), np.array([False]))
    >>> closing.evaluate(step).tolist()
    [2.0]
    >>> parse_expression("desired_goal.1 - achieved_goal.1", "above").names
    ('desired_goal.1', 'achieved_goal.1')
    """
    if not isinstance(text, str) or not text.strip():
        raise FeatureError(f"{where}: an expression is expected, got {text!r}.")
    if len(text) > LONGEST_EXPRESSION:
        raise FeatureError(f"{where}: the expression has {len(text)} characters; the limit is {LONGEST_EXPRESSION}.")

    # Python's parser reads the text; it is never run. Names such as ``goal.1``, which Python does not allow, are put
    # in quotes first.
    reader = _Reader(constants or {}, first)
    try:
        tree = ast.parse(_QUOTED_OR_NAME.sub(_quote_numbered_name, text.strip()), mode="eval").body
        evaluate = reader.read(tree)
    except SyntaxError as error:
        raise FeatureError(f"{where}: {text!r} cannot be read: {error.msg}.") from error
    except (_WrongExpressionError, RecursionError, MemoryError, ValueError) as error:
        problem = str(error) or "is nested too deeply"
        end = "" if problem.endswith("?") else "."  # some problems end with a suggestion: "Did you mean …?"
        raise FeatureError(f"{where}: {text!r}: {problem}{end}") from error

    # Whether the value is yes or no, and whether it is a feature itself: look into ``previous(…)``, which returns an
    # earlier value unchanged.
    names = tuple(dict.fromkeys(reader.names))
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "previous" and tree.args:
        tree = tree.args[0]
    is_condition = isinstance(tree, (ast.Compare, ast.BoolOp)) or (
        isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
    )
    return Expression(text, names, reader.memory - first, is_condition, _name_of(tree) or "", evaluate)


def _quote_numbered_name(found: re.Match[str]) -> str:
    """Put a name with numbers between dots, such as ``goal.1``, in quotes: Python does not allow it as a name."""
    numbered = any(part[0].isdigit() for part in found[0].split(".")[1:])
    return repr(found[0]) if numbered and found[0][0] not in "'\"" else found[0]


def _name_of(tree: ast.expr) -> str | None:
    """Return the name that a node stands for (``gap``, ``food.north`` or a quoted name), or None."""
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        return tree.value
    if isinstance(tree, ast.Attribute):
        before = _name_of(tree.value)
        return None if before is None else f"{before}.{tree.attr}"
    return None


_ARITHMETIC: Mapping[type, Callable[[Values, Values], Values]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
}
_COMPARISONS: Mapping[type, Callable[[Values, Values], NDArray[np.bool_]]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_SIGNS: Mapping[type, Callable[[Values], Values]] = {
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Not: lambda values: (values == 0.0).astype(np.float64),
}
# Functions with their minimum and maximum number of arguments.
_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    **{"min": (2, 8), "max": (2, 8), "abs": (1, 1), "clip": (3, 3)},
    **{"previous": (1, 1), "change": (1, 1), "since": (1, 1)},
}


class _Reader:
    """Converter from Python's syntax tree to functions on arrays; refuses everything outside the language."""

    def __init__(self, constants: Mapping[str, float], first: int) -> None:
        self.constants = constants
        self.names: list[str] = []
        self.memory = first

    def read(self, tree: ast.expr) -> Evaluate:
        """Return a function that evaluates a parsed expression for one step of n episodes, as ``float64[n]``.

        The names of the features that it uses are added to ``self.names``.
        """
        # A name is a feature, or a constant such as the name of an action.
        name = _name_of(tree)
        if name is not None:
            if name not in self.constants:
                self.names.append(name)
                return lambda step: step.values[name]
            tree = ast.Constant(self.constants[name])

        # Every other node that the language allows.
        match tree:
            case ast.Constant(value=bool() | int() | float() as value):
                constant = float(value)
                return lambda step: np.full(len(step.fresh), constant)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
                inner, sign = self.read(operand), _SIGNS[type(op)]
                return lambda step: sign(inner(step))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(left, op, right)
            case ast.BoolOp() | ast.Compare():
                return self._logic(tree) if isinstance(tree, ast.BoolOp) else self._comparison(tree)
            case ast.Call():
                return self._call(tree)
        raise _WrongExpressionError(f"{ast.unparse(tree)!r} is not supported")

    def _binary(self, left: ast.expr, op: ast.operator, right: ast.expr) -> Evaluate:
        """Return a function that applies an arithmetic operator to the values of two expressions."""
        first, second = self.read(left), self.read(right)
        if type(op) in _ARITHMETIC:
            function = _ARITHMETIC[type(op)]
            return lambda step: function(first(step), second(step))
        # A zero divisor is an error in that step, instead of an infinite feature.
        if isinstance(op, (ast.Div, ast.Mod)):
            divisor_text = ast.unparse(right)
            if isinstance(right, ast.Constant) and right.value == 0:
                raise _WrongExpressionError("it divides by zero")
            divide: Callable[[Values, Values], Values] = np.divide if isinstance(op, ast.Div) else np.mod

            def divided(step: StepValues) -> Values:
                value, divisor = first(step), second(step)
                if (divisor == 0.0).any():
                    raise FeatureError(
                        f"divides by zero: {divisor_text} is 0; prevent that, for example with max(1, …)"
                    )
                return divide(value, divisor)

            return divided
        # Constant, limited exponents keep the values finite and avoid roots of negative numbers.
        if isinstance(op, ast.Pow):
            if not isinstance(right, ast.Constant) or not isinstance(right.value, (int, float)):
                raise _WrongExpressionError("the exponent must be a number")
            if not 0 <= right.value <= MOST_POWER:
                raise _WrongExpressionError(f"the exponent must lie between 0 and {MOST_POWER:g}")
            return lambda step: np.power(first(step), second(step))
        raise _WrongExpressionError(f"the operator in {ast.unparse(ast.BinOp(left, op, right))!r} is not supported")

    def _logic(self, tree: ast.BoolOp) -> Evaluate:
        parts = [self.read(value) for value in tree.values]
        combine: Callable[..., NDArray[np.bool_]] = np.logical_and if isinstance(tree.op, ast.And) else np.logical_or

        def evaluate(step: StepValues) -> Values:
            # All parts are evaluated, whatever the values: the memory must not depend on them.
            truths = [part(step) != 0.0 for part in parts]
            return reduce(combine, truths).astype(np.float64)

        return evaluate

    def _comparison(self, tree: ast.Compare) -> Evaluate:
        if any(type(op) not in _COMPARISONS for op in tree.ops):
            raise _WrongExpressionError("comparisons must be one of < <= > >= == !=")
        compares = [_COMPARISONS[type(op)] for op in tree.ops]
        parts = [self.read(operand) for operand in (tree.left, *tree.comparators)]

        def evaluate(step: StepValues) -> Values:
            values = [part(step) for part in parts]
            holds = [compare(left, right) for compare, (left, right) in zip(compares, pairwise(values), strict=True)]
            return np.logical_and.reduce(holds).astype(np.float64)

        return evaluate

    def _call(self, tree: ast.Call) -> Evaluate:
        name = _name_of(tree.func) or ast.unparse(tree.func)
        if name not in _FUNCTIONS:
            hint = did_you_mean(name, _FUNCTIONS) or f" The functions are {', '.join(_FUNCTIONS)}."
            raise _WrongExpressionError(f"there is no function {name!r}.{hint.removesuffix('.')}")
        least, most = _FUNCTIONS[name]
        if tree.keywords or not least <= len(tree.args) <= most:
            needs = str(least) if least == most else f"{least} to {most}"
            raise _WrongExpressionError(f"{name} takes {needs} values, got {len(tree.args) + len(tree.keywords)}")
        parts = [self.read(argument) for argument in tree.args]
        if name in {"previous", "change", "since"}:
            column, self.memory = self.memory, self.memory + 1
            return _remembering(name, parts[0], column)
        if name == "abs":
            return lambda step: np.abs(parts[0](step))
        if name == "clip":
            return lambda step: np.minimum(np.maximum(parts[0](step), parts[1](step)), parts[2](step))
        function: Callable[[Values, Values], Values] = np.minimum if name == "min" else np.maximum
        return lambda step: reduce(function, (part(step) for part in parts))


def _remembering(name: str, inner: Evaluate, column: int) -> Evaluate:
    """Return the function that evaluates ``previous``, ``change`` or ``since`` with a column of the memory."""

    def evaluate(step: StepValues) -> Values:
        now, before = inner(step), step.memory[:, column].copy()
        if name == "since":
            found = step.memory[:, column] = np.where(now != 0.0, 0.0, np.where(step.fresh, 0.0, before) + 1.0)
            return found
        step.memory[:, column] = now
        return np.where(step.fresh, now, before) if name == "previous" else np.where(step.fresh, 0.0, now - before)

    return evaluate
