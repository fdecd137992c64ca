"""Objectives: what guidance is to raise, as one number of some episodes, with a test for pairs of episodes.

- `Objective`: one of them; `OBJECTIVES`, `register_objective`, `find_objective`: by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from legible.errors import LegibleError, did_you_mean
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import UnitResult


@dataclass(frozen=True)
class Objective:
    """What guidance is to raise.

    Parameters
    ----------
    name
        By which settings ask for it.
    words
        What it is called in sentences: "mean return".
    value
        The number of some episodes; more is better. Of a single episode, too: a failed one counts as the worst (or
        best) of its stage by this number.
    compare
        Compares guided with unguided episodes of the same seeds, and tests whether the guided are better.
    """

    name: str
    words: str
    value: Callable[[UnitResult], float]
    compare: Callable[[UnitResult, UnitResult], Effect]


OBJECTIVES: dict[str, Objective] = {}


def register_objective(objective: Objective) -> None:
    """Let settings ask for an objective by its name."""
    OBJECTIVES[objective.name] = objective


def find_objective(name: str) -> Objective:
    """Return the objective of a name."""
    if name not in OBJECTIVES:
        raise LegibleError(
            f"there is no objective {name!r}; they are {', '.join(OBJECTIVES)}.{did_you_mean(name, OBJECTIVES)}"
        )
    return OBJECTIVES[name]


register_objective(
    Objective(
        "mean",
        "mean return",
        lambda episodes: float(episodes.returns.mean()),
        lambda guided, base: paired(guided.returns, base.returns),
    )
)
