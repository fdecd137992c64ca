"""What RIPPER has learned, as frozen values that print well.

- `RipperCondition`: a condition on one feature.
- `RipperRule`: a conjunction of conditions, and the class that it speaks for.
"""

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
        """Return for every value of the feature whether it meets the condition."""
        if self.operator == "=":
            return np.asarray(column == self.value, np.bool_)
        # float32 columns would otherwise round the threshold to their own precision
        above = column.astype(np.float64) > self.value
        return above if self.operator == ">" else ~above

    def __str__(self) -> str:
        value = f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)
        return f"{self.name} {self.operator} {value}"


@dataclass(frozen=True)
class RipperRule:
    """Where all conditions hold, the class is ``label``.

    Attributes
    ----------
    conditions : tuple of RipperCondition
        In the order in which they were added.
    label : object
        The class that the rule speaks for.
    covered, correct : int
        How many training rows the rule decided, that is, no rule before it matched; and how many of them rightly.
    """

    conditions: tuple[RipperCondition, ...]
    label: Any
    covered: int
    correct: int

    def matches(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for every row of a matrix whether all conditions hold."""
        matched = np.zeros(len(X), np.bool_)
        matched[self.matching(X, np.arange(len(X)))] = True
        return matched

    def matching(self, X: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows in which all conditions hold."""
        for condition in self.conditions:
            rows = rows[condition.holds(X[rows, condition.feature])]
        return rows

    def __str__(self) -> str:
        body = " and ".join(str(condition) for condition in self.conditions)
        return f"{self.label} if {body} ({self.correct} of {self.covered})"
