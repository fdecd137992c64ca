"""How much every feature matters to a policy, for and against every action.

- `Importance`: the weights, and the sums imp(⊗, a, f) that steer the learning of rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.files import DamagedFileError, read_arrays, write_arrays
from legible.rules import Polarity


class ImportanceError(LegibleError):
    """Importances that cannot be found, or that are not there."""


@dataclass(frozen=True, eq=False)
class Importance:
    """The weight of every feature for every action in every explained state.

    Parameters
    ----------
    weights
        ``float64[states, actions, features]``. A positive weight says that the value which the feature has in this
        state speaks for taking the action there, a negative one that it speaks against it. A method that looks at all
        states together has one line for them.
    intercepts
        ``float64[states, actions]``, the constant terms of the linear models; zeros where there are none.
    method
        How they were found: "lime", "surrogate", "lime and surrogate" (for derived features), or "" where unknown.
    fidelity
        Of the surrogate, where there is one: the share of held-out states in which it does what the policy does.

    >>> weights = np.array([[[0.5, -0.2]], [[0.1, -0.3]]])
    >>> importance = Importance(weights, np.zeros((2, 1)))
    >>> importance.of("+", 0).tolist(), importance.of("-", 0).tolist()
    ([0.6, 0.0], [0.0, 0.5])
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    method: str = ""
    fidelity: float = float("nan")

    def __post_init__(self) -> None:
        for name in ("weights", "intercepts"):
            array = np.array(getattr(self, name), np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.weights.ndim != 3 or self.intercepts.shape != self.weights.shape[:2]:
            raise ImportanceError(
                "weights of shape (states, actions, features) and intercepts of shape (states, actions) are "
                f"expected, got {self.weights.shape} and {self.intercepts.shape}."
            )

    @cached_property
    def positive(self) -> NDArray[np.float64]:
        """imp(+, a, f) as ``float64[actions, features]``: the sum of the positive weights over all states."""
        return np.maximum(self.weights, 0.0).sum(axis=0)

    @cached_property
    def negative(self) -> NDArray[np.float64]:
        """imp(−, a, f) as ``float64[actions, features]``: the sum of the negative weights' magnitudes."""
        return np.maximum(-self.weights, 0.0).sum(axis=0)

    def of(self, polarity: Polarity, action: int) -> NDArray[np.float64]:
        """Importance of every feature to take ("+") or to avoid ("-") an action.

        All zeros when nothing speaks for (or against) the action; rule mining then has no preference among features.
        """
        if polarity not in {"+", "-"}:
            raise ImportanceError(f"polarity must be '+' or '-', got {polarity!r}.")
        actions = self.weights.shape[1]
        if not 0 <= action < actions:
            raise ImportanceError(f"there is no action {action}: {actions} actions, 0 to {actions - 1}.")
        return (self.positive if polarity == "+" else self.negative)[action]

    def ranking(self, polarity: Polarity, action: int) -> NDArray[np.intp]:
        """Feature numbers from the most to the least important; equal ones in the order of the vector."""
        return np.argsort(-self.of(polarity, action), kind="stable")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays, for a file; those of a surrogate say so."""
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights, "intercepts": self.intercepts}
        if not np.isnan(self.fidelity):
            arrays |= {"method": np.array(self.method), "fidelity": np.array(self.fidelity)}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Importance:
        """Make it from what `to_arrays` returned."""
        if "fidelity" not in arrays:
            return cls(arrays["weights"], arrays["intercepts"])
        return cls(arrays["weights"], arrays["intercepts"], str(arrays["method"]), float(arrays["fidelity"]))

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file, whole or not at all; `load` reads it back to the same bits."""
        write_arrays(Path(path), self.to_arrays())

    @classmethod
    def load(cls, path: str | Path) -> Importance:
        """Read what `save` wrote."""
        try:
            data = read_arrays(Path(path), advice="make it again")
            return cls.from_arrays(data)
        except FileNotFoundError as error:
            raise ImportanceError(f"{path}: cannot be read ({error.strerror}).") from error
        except (DamagedFileError, KeyError, ValueError, TypeError) as error:
            raise ImportanceError(
                f"{path}: holds no importances; expected a file that Importance.save wrote."
            ) from error
