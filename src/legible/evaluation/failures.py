"""`WorstCase` of failed episodes: guidance may have caused the failure, so they are not left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from legible.environments.reward_terms import join_tables
from legible.play.failures import TooManyFailuresError

if TYPE_CHECKING:
    from legible.evaluation.units import UnitResult


class WorstCase:
    """Worst case of failed episodes for the claim that one block of episodes is better than another.

    Parameters
    ----------
    results
        All episodes of the stage.
    value
        Value of an episode; higher is better. The mean return by default.
    """

    def __init__(self, results: Sequence[UnitResult], value: Callable[[UnitResult], float] | None = None) -> None:
        self._results, self._value = results, value or (lambda episodes: float(episodes.returns.mean()))

    @cached_property
    def _extremes(self) -> tuple[UnitResult, UnitResult]:
        """The worst and the best episode of the stage."""
        played = type(self._results[0]).concatenate([result.played for result in self._results])
        if not len(played):
            raise TooManyFailuresError(
                "every episode failed, so there is nothing to compare. 'legible check ENV POLICY' says why."
            )
        values = np.array([self._value(played[i : i + 1]) for i in range(len(played))])
        worst, best = int(np.argmin(values)), int(np.argmax(values))
        return played[worst : worst + 1], played[best : best + 1]

    def of(self, better: UnitResult, worse: UnitResult) -> tuple[UnitResult, UnitResult]:
        """Return both blocks with failed episodes of the first as the worst of the stage, of the second as the best."""
        if not better.failed.any() and not worse.failed.any():
            return better, worse
        lowest, highest = self._extremes
        return _fill_failed(better, lowest), _fill_failed(worse, highest)


def _fill_failed(result: UnitResult, episode: UnitResult) -> UnitResult:
    """Replace every failed episode by the given one."""
    kept = {"failed", "errors", "taken", "endings", "last", "terms", "course", "first_changed"}
    names = [f.name for f in fields(result) if f.name not in kept]
    columns = {n: np.where(result.failed, getattr(episode, n)[0], getattr(result, n)) for n in names}
    terms, others = join_tables([result.terms, episode.terms])
    terms = terms.copy()
    terms[result.failed] = others[0]
    return replace(result, **columns, terms=terms)
