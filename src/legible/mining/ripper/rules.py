"""The rules that RIPPER learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RipperCondition:
    """A condition on one feature: ``name = value``, ``name <= value`` or ``name > value``."""

    feature: int
    name: str
    operator: Literal["=", "<=", ">"]
    value: Any

    def holds(self, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each value of the feature meets the condition."""
        if self.operator == "=":
            return np.asarray(column == self.value, np.bool_)
        # A float32 column would round the threshold.
        above = column.astype(np.float64) > self.value
        return above if self.operator == ">" else ~above

    def __str__(self) -> str:
        value = f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)
        return f"{self.name} {self.operator} {value}"


@dataclass(frozen=True)
class RipperRule:
    """A rule: if all conditions hold, the class is ``label``."""

    conditions: tuple[RipperCondition, ...]  # in the order in which they were added
    label: Any  # the predicted class
    # Number of training rows that the rule decides (no earlier rule matches), and of those with the right class.
    covered: int
    correct: int

    def matches(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether all conditions hold in each row of a matrix."""
        matched = np.zeros(len(X), np.bool_)
        matched[self.matching(X, np.arange(len(X)))] = True
        return matched

    def matching(self, X: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the given rows in which all conditions hold."""
        for condition in self.conditions:
            rows = rows[condition.holds(X[rows, condition.feature])]
        return rows

    def __str__(self) -> str:
        body = " and ".join(str(condition) for condition in self.conditions)
        return f"{self.label} if {body} ({self.correct} of {self.covered})"
