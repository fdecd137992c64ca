"""Reward terms: named parts of the rewards of an episode.

- `TermReader`: reads them: numbers in the infos, totals that the domain knows, or a function of the user.
- `as_table`: the totals of episodes as an array with a column per term; `join_tables`: tables with other terms in one.

Numbers in infos need not be parts of the reward; `legible.evaluation.ledger` finds those that add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible.environments.domain_registry import load_by_name
from legible.environments.domains import domain_of
from legible.environments.endings import LastStep
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.spec import Env
from legible.errors import LegibleError, describe_error

MOST_TERMS = 32
_NUMBERS = (int, float, np.integer, np.floating)
Terms: TypeAlias = NDArray[Any]
"""Totals of terms, one row per episode: a structured array whose fields are the terms."""


class TermReader:
    """Reads the reward terms of episodes.

    The domain of the environment may know the totals of an episode. The user's function, ``module:function``, takes a
    `LastStep` of every step, not only of the last one, and returns the terms of its reward by name; by default terms
    are the numbers in the infos.
    """

    def __init__(self, environment: str | Env | None = None, function: str = "") -> None:
        domain = None if environment is None else domain_of(environment)
        self.function = function
        self._of_step: Callable[[LastStep], Mapping[str, Any]] | None = load_by_name(function) if function else None
        if function and not callable(self._of_step):
            raise LegibleError(f"reward terms: {function!r} is no function; name one as module:function.")
        known = domain is not None and domain.terms and not function
        self.of_episode: Callable[..., Mapping[str, float]] | None = load_by_name(domain.terms) if known else None  # type: ignore[union-attr]

    def add_step(self, totals: dict[str, float], step: Callable[[], LastStep], info: Mapping[str, Any]) -> None:
        """Add the terms of a step to the totals of its episode."""
        terms: Mapping[Any, Any] = info
        if self._of_step is not None:
            try:
                terms = dict(self._of_step(step()))
            except Exception as error:
                raise UnfitEnvironmentError(
                    f"the function of reward terms {self.function!r} failed: {describe_error(error)}."
                ) from error
        for name, value in terms.items():
            if isinstance(value, _NUMBERS) and not isinstance(value, bool) and isinstance(name, str):
                totals[name] = totals.get(name, 0.0) + float(value)


def as_table(episodes: Sequence[Mapping[str, float]]) -> Terms:
    """Return the totals of episodes as a table; terms that an episode lacks are 0.

    >>> as_table([{"food": 10.0}, {"food": 5.0, "win": 1.0}])["win"]
    array([0., 1.])
    """
    names = list(dict.fromkeys(name for totals in episodes for name in totals if name))[:MOST_TERMS]
    table = np.zeros(len(episodes), [(name, np.float64) for name in names])
    for name in names:
        table[name] = [totals.get(name, 0.0) for totals in episodes]
    return table


def join_tables(tables: Sequence[Terms]) -> list[Terms]:
    """Return tables that all have the same terms; a term that a table lacks is 0."""
    names = list(dict.fromkeys(name for table in tables for name in table.dtype.names or ()))
    if all(list(table.dtype.names or ()) == names for table in tables):
        return list(tables)
    joined = []
    for table in tables:
        wide = np.zeros(len(table), [(name, np.float64) for name in names])
        for name in table.dtype.names or ():
            wide[name] = table[name]
        joined.append(wide)
    return joined
