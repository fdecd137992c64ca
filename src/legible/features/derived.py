"""Features that are computed from others, step by step, with a memory of each episode.

- `DerivedFeatures`: those of a feature space, ready to be computed for many episodes side by side.
- `derived_kind`, `derived_words`: what follows from the expression of such a feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import did_you_mean
from legible.features.expressions import LAST_ACTION, Expression, StepValues, Values, parse_expression
from legible.features.names import FeatureError

NO_ACTION = -1.0
"""What the last action is before there was one; 0 for the numbers of a continuous one."""


@dataclass(frozen=True, eq=False)
class DerivedFeatures:
    """Features that are computed from the observation and from what happened before.

    Parameters
    ----------
    own
        Names of the features of the observation, in the order of its columns.
    names
        Names of the derived features, in the order of theirs.
    expressions
        How each of them is computed.
    order
        Their numbers in an order in which each comes after those that it uses.
    parts
        Names of the last action's parts, by which expressions call them.
    start
        What the parts are before the first action.
    actions
        Names of the actions.
    width
        Columns of memory.
    """

    own: tuple[str, ...]
    names: tuple[str, ...]
    expressions: tuple[Expression, ...]
    order: tuple[int, ...]
    parts: tuple[str, ...]
    start: tuple[float, ...]
    actions: tuple[str, ...]
    width: int

    def __reduce__(self) -> tuple[Any, ...]:
        # Expressions are made of functions, which cannot be pickled, so that they are read again.
        texts = {name: expression.text for name, expression in zip(self.names, self.expressions, strict=True)}
        return DerivedFeatures.of, (self.own, texts, self.actions, dict(zip(self.parts, self.start, strict=True)))

    @classmethod
    def of(
        cls,
        own: Sequence[str],
        derived: Mapping[str, str],
        actions: Sequence[str] = (),
        parts: Mapping[str, float] | None = None,
    ) -> DerivedFeatures:
        """Make them ready.

        Parameters
        ----------
        own
            Names of the features of the observation.
        derived
            Expressions by the names of the features.
        actions
            Names of the actions, which stand for their numbers.
        parts
            What the parts of the last action are called, and what they are before the first one; by default there is
            one, ``last_action``.

        Examples
        --------
        >>> made = DerivedFeatures.of(["gap"], {"closing": "gap / max(1, -change(gap))"})
        >>> memory = made.new_memory(1)
        >>> made.compute([[12.0]], memory, np.array([True])).tolist()
        [[12.0]]
        >>> made.compute([[8.0]], memory, np.array([False])).tolist()
        [[2.0]]
        """
        parts = {LAST_ACTION: NO_ACTION} if parts is None else parts
        known = {*own, *derived, *parts}
        constants = {name: float(number) for number, name in enumerate(actions) if name not in known}
        width, found = len(parts), []
        for name, text in derived.items():
            expression = parse_expression(text, _called(name), constants=constants, first=width)
            for used in expression.names:
                if used not in known:
                    hint = did_you_mean(used, [*known, *constants])
                    raise FeatureError(f"{_called(name)} = {text!r}: there is no feature called {used!r}.{hint}")
            width += expression.memory
            found.append(expression)
        # Each comes after those that it uses.
        uses = {
            name: [used for used in expression.names if used in derived and used not in parts]
            for name, expression in zip(derived, found, strict=True)
        }
        try:
            order = [list(derived).index(name) for name in TopologicalSorter(uses).static_order()]
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise FeatureError(f"derived features are computed from each other in a circle: {circle}.") from None
        return cls(
            own=tuple(own),
            names=tuple(derived),
            expressions=tuple(found),
            order=tuple(order),
            parts=tuple(parts),
            start=tuple(parts.values()),
            actions=tuple(actions),
            width=width,
        )

    def new_memory(self, n: int) -> Values:
        """Return the memory of n episodes that have not begun."""
        return np.zeros((n, self.width))

    def act(self, memory: Values, actions: ArrayLike) -> None:
        """Remember the actions that were taken, whole numbers counted from 0; a row an episode."""
        memory[:, : len(self.parts)] = np.asarray(actions, np.float64).reshape(len(memory), -1)

    def compute(self, own: ArrayLike, memory: Values, fresh: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the derived features of observations, ``float32[n, derived]``, and move the memory on.

        Parameters
        ----------
        own
            The features of the observation, ``float32[n, own]``.
        memory
            What is remembered of each row's episode; it is changed.
        fresh
            Which rows are at the first step of their episode.
        """
        columns = np.asarray(own, np.float32).astype(np.float64)
        memory[fresh, : len(self.parts)] = self.start
        values: dict[str, Values] = dict(zip(self.parts, memory[:, : len(self.parts)].T.copy(), strict=True))
        values |= dict(zip(self.own, columns.T, strict=True))
        step = StepValues(values, memory, fresh)
        derived = np.empty((len(columns), len(self.names)), np.float32)
        for i in self.order:
            what = f"{_called(self.names[i])} = {self.expressions[i].text!r}"
            try:
                with np.errstate(all="ignore"):
                    found = self.expressions[i].evaluate(step).astype(np.float32)
            except FeatureError as error:
                raise FeatureError(f"{what} {error}.") from None
            if not np.isfinite(found).all():
                bad = found[int(np.argmin(np.isfinite(found)))]
                raise FeatureError(f"{what} is {bad}; it must be a finite number.")
            derived[:, i] = found
            values[self.names[i]] = found.astype(np.float64)
        return derived


def _called(name: str) -> str:
    return f"derived feature {name!r}"


def derived_kind(expression: Expression) -> str:
    """Return the kind of a derived feature as far as its expression tells it."""
    return "categorical" if expression.is_condition or expression.same_as == LAST_ACTION else "numeric"


def derived_words(expression: Expression, name: str, actions: Sequence[Any]) -> dict[float, str]:
    """Return phrases for the values of a derived feature, where they can be told."""
    if expression.is_condition:
        return {0.0: f"{name} does not hold", 1.0: f"{name} holds"}
    depth = expression.text.count("previous")
    if expression.same_as != LAST_ACTION or depth > 1:
        return {}
    what = "the last action" if depth == 0 else "the action before the last"
    words = {float(number): f"{what} was {action.name}" for number, action in enumerate(actions)}
    return {NO_ACTION: f"{what} does not exist yet"} | words
