"""`Importance`: how much every feature matters for and against every action, the sums imp(⊗, a, f) of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.rules import Polarity
from legible.schemas import IMPORTANCE, check_arrays


class ImportanceError(LegibleError):
    """Importances that cannot be computed: wrong data, settings or scores."""


@dataclass(frozen=True, eq=False)
class Importance:
    """The weight of every feature for every action in every explained state.

    >>> weights = np.array([[[0.5, -0.2]], [[0.1, -0.3]]])
    >>> importance = Importance(weights, np.zeros((2, 1)))
    >>> importance.of("+", 0).tolist(), importance.of("-", 0).tolist()
    ([0.6, 0.0], [0.0, 0.5])
    """

    # ``float64[states, actions, features]``. With a positive weight, the value of the feature in this state favours the
    # action, with a negative one it opposes the action. Global methods have a single row instead of states.
    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]  # ``float64[states, actions]``, the constant terms of the linear models, or zeros
    method: str = ""  # "lime", "surrogate", "lime and surrogate" (for derived features), or "" if unknown
    fidelity: float = float("nan")  # share of held-out states in which the surrogate, if any, predicts the action

    def __post_init__(self) -> None:
        for name in ("weights", "intercepts"):
            array = np.array(getattr(self, name), np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.weights.ndim != 3 or self.intercepts.shape != self.weights.shape[:2]:
            raise ImportanceError(
                "expected weights of shape (states, actions, features) and intercepts of shape (states, actions), got "
                f"{self.weights.shape} and {self.intercepts.shape}."
            )

    @cached_property
    def positive(self) -> NDArray[np.float64]:
        """Return imp(+, a, f) as ``float64[actions, features]``: the sum of the positive weights over all states."""
        return np.maximum(self.weights, 0.0).sum(axis=0)

    @cached_property
    def negative(self) -> NDArray[np.float64]:
        """Return imp(−, a, f) as ``float64[actions, features]``: the sum of the sizes of the negative weights."""
        return np.maximum(-self.weights, 0.0).sum(axis=0)

    def of(self, polarity: Polarity, action: int) -> NDArray[np.float64]:
        """Return the importance of every feature for ("+") or against ("-") an action; all zeros mean no preference."""
        return (self.positive if polarity == "+" else self.negative)[action]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return arrays for a file."""
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights, "intercepts": self.intercepts}
        if not np.isnan(self.fidelity):
            arrays |= {"method": np.array(self.method), "fidelity": np.array(self.fidelity)}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Importance:
        """Return the importance that `to_arrays` wrote."""
        check_arrays(arrays, IMPORTANCE)
        if "fidelity" not in arrays:
            return cls(arrays["weights"], arrays["intercepts"])
        return cls(arrays["weights"], arrays["intercepts"], str(arrays["method"]), float(arrays["fidelity"]))
