"""Derived features: features that are computed from others step by step, with a memory per episode.

- `DerivedFeatures`: the derived features of a space, to compute for many episodes at once.
- `derived_kind`, `derived_words`: the kind and the words that follow from an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import suggest_names
from legible.features.expressions import LAST_ACTION, Expression, StepValues, Values, parse_expression
from legible.features.names import FeatureError

NO_ACTION = -1.0
"""Value of the last action before the first step; continuous parts are 0 then."""


@dataclass(frozen=True, eq=False)
class DerivedFeatures:
    """Features that are computed from the observation and from earlier steps."""

    own: tuple[str, ...]  # names of the features of the observation, in the order of its columns
    names: tuple[str, ...]  # names of the derived features, in the order of their columns
    expressions: tuple[Expression, ...]  # expression of each derived feature
    order: tuple[int, ...]  # order of computation: each feature comes after those that it uses
    # Names of the parts of the last action in expressions, and their values before the first action
    parts: tuple[str, ...]
    start: tuple[float, ...]
    actions: tuple[str, ...]  # names of the actions
    width: int  # number of memory columns

    def __reduce__(self) -> tuple[Any, ...]:
        # Expressions hold functions, which cannot be pickled, so their texts are parsed again.
        texts = {name: expression.text for name, expression in zip(self.names, self.expressions, strict=True)}
        return DerivedFeatures.of, (self.own, texts, self.actions, dict(zip(self.parts, self.start, strict=True)))

    @classmethod
    def of(
        cls,
        own: Sequence[str],
        derived: Mapping[str, str],
        actions: Sequence[str] = (),
        start_values: Mapping[str, float] | None = None,
    ) -> DerivedFeatures:
        """Return the derived features that these expressions define, or raise an error that names the wrong one.

        `own` names the features of the observation. `derived` holds the expressions by the names of the new features;
        they may use any other feature, and the names of `actions`, which stand for their indices. `start_values` are
        the parts of the last action in expressions, each with its value before the first action; by default there is
        one part, ``last_action``.

        >>> made = DerivedFeatures.of(["gap"], {"closing": "gap / max(1, -change(gap))"})
        >>> memory = made.new_memory(1)
        >>> made.compute([[12.0]], memory, np.array([True])).tolist()
        [[12.0]]
        >>> made.compute([[8.0]], memory, np.array([False])).tolist()
        [[2.0]]
        """
        start_values = {LAST_ACTION: NO_ACTION} if start_values is None else start_values
        known_names = {*own, *derived, *start_values}
        constants = {name: float(i) for i, name in enumerate(actions) if name not in known_names}

        # The memory of an episode begins with the parts of the last action; then each expression has columns for the
        # earlier values that `previous`, `change` and `since` need.
        n_columns = len(start_values)
        dependencies, expressions = {}, []
        for name, text in derived.items():
            expression = parse_expression(text, f"derived feature {name!r}", constants=constants, first=n_columns)
            for used in expression.names:
                if used not in known_names:
                    hint = suggest_names(used, [*own, *derived, *start_values, *constants], "names in expressions")
                    raise FeatureError(f"derived feature {name!r} = {text!r}: there is no feature {used!r}.{hint}")
            n_columns += expression.memory
            dependencies[name] = [used for used in expression.names if used in derived and used not in start_values]
            expressions.append(expression)

        # Features are computed after those that they use.
        try:
            order = [list(derived).index(name) for name in TopologicalSorter(dependencies).static_order()]
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            raise FeatureError(f"derived features depend on each other in a circle: {cycle}.") from None
        return cls(
            own=tuple(own),
            names=tuple(derived),
            expressions=tuple(expressions),
            order=tuple(order),
            parts=tuple(start_values),
            start=tuple(start_values.values()),
            actions=tuple(actions),
            width=n_columns,
        )

    def new_memory(self, n: int) -> Values:
        """Return the memory for n new episodes."""
        return np.zeros((n, self.width))

    def act(self, memory: Values, actions: ArrayLike) -> None:
        """Store the actions of a step in the memory, one row per episode; discrete actions count from 0."""
        memory[:, : len(self.parts)] = np.asarray(actions, np.float64).reshape(len(memory), -1)

    def compute(self, own: ArrayLike, memory: Values, fresh: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the derived features of one step of n episodes, ``float32[n, derived]``, and update the memory.

        `own` are the features of the observation, ``float32[n, own]``; `memory` is that of each episode, ``float64[n,
        columns]``, from `new_memory`. `fresh`, ``bool[n]``, marks the episodes that are at their first step: their last
        action is reset.
        """
        # What expressions can use, in float64: the parts of the last action, which the first columns of the memory
        # hold, and the features of the observation.
        own_values = np.asarray(own, np.float32).astype(np.float64)
        memory[fresh, : len(self.parts)] = self.start
        values: dict[str, Values] = dict(zip(self.parts, memory[:, : len(self.parts)].T.copy(), strict=True))
        values |= dict(zip(self.own, own_values.T, strict=True))
        step = StepValues(values, memory, fresh)

        # Evaluate in the order of their dependencies; each result is available to the expressions after it. NumPy's
        # warnings are off, because a result that is not finite is an error here.
        derived = np.empty((len(own_values), len(self.names)), np.float32)
        for i in self.order:
            definition = f"derived feature {self.names[i]!r} = {self.expressions[i].text!r}"  # for errors
            try:
                with np.errstate(all="ignore"):
                    result = self.expressions[i].evaluate(step).astype(np.float32)
            except FeatureError as error:
                raise FeatureError(f"{definition} {error}.") from None
            if not np.isfinite(result).all():
                wrong_value = result[int(np.argmin(np.isfinite(result)))]
                raise FeatureError(f"{definition} is {wrong_value}; it must be a finite number.")
            derived[:, i] = result
            values[self.names[i]] = result.astype(np.float64)
        return derived


def derived_kind(expression: Expression) -> str:
    """Return the kind of a derived feature that follows from its expression."""
    return "categorical" if expression.is_condition or expression.same_as == LAST_ACTION else "numeric"


def derived_words(expression: Expression, name: str, actions: Sequence[Any]) -> dict[float, str]:
    """Return phrases for the values of a derived feature, if its expression implies any."""
    if expression.is_condition:
        return {0.0: f"{name} does not hold", 1.0: f"{name} holds"}
    depth = expression.text.count("previous")
    if expression.same_as != LAST_ACTION or depth > 1:
        return {}
    what = "the last action" if depth == 0 else "the action before the last"
    words = {float(number): f"{what} was {action.name}" for number, action in enumerate(actions)}
    return {NO_ACTION: f"{what} does not exist yet"} | words
