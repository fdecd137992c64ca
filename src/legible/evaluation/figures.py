"""Figures of whole blocks of episodes by every objective, whichever was asked for.

A gain in one figure may be bought with a loss in another, which one figure alone does not show.

- `Figure`: a number with its interval; `figures`: those of some episodes; `figure_of`: one of them, by an objective;
  `objectives_told`: by which objectives there are any.
- `effects`: guided against unguided episodes, by every objective; `effect_by`: by one.
- `check_constraints`: whether guidance is shown to keep to the constraints.
- `figure_rows`: all of them as plain rows, for JSON; `figure_table`: as a table of words, for terminal and report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from legible.evaluation.changed import resamples_for
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import OBJECTIVES, ConstraintCheck, Objective, find_objective, parse_constraints
from legible.evaluation.ranks import rank_interval
from legible.evaluation.statistics import Effect, standard_error
from legible.evaluation.units import UnitResult
from legible.formatting import capitalise, number, percent, signed
from legible.settings import EvaluationSettings, Method

_CONFIDENCE = 0.95


class Figure(NamedTuple):
    """A number of some episodes, as people read it, and its 95 % confidence interval."""

    value: float
    low: float
    high: float


def figures(episodes: UnitResult) -> dict[str, Figure]:
    """Return the figures of some episodes by every objective that they tell; failed episodes are left out."""
    played = episodes.played
    return {objective.name: figure_of(objective, played) for objective in objectives_told(played)}


def objectives_told(*blocks: UnitResult) -> list[Objective]:
    """Return the objectives that blocks of episodes tell about."""
    told = [objective for objective in OBJECTIVES.values() if min(len(block) for block in blocks) > 1]
    if any(np.isnan(block.success).any() for block in blocks):
        told = [objective for objective in told if objective.name != "success"]
    if not any(np.nan_to_num(block.costs).any() for block in blocks):
        told = [objective for objective in told if objective.name != "cost"]
    return told


def figure_of(objective: Objective, episodes: UnitResult) -> Figure:
    """Return the figure of some episodes, none of which failed, by an objective."""
    values = objective.values(episodes)
    n, tail = len(values), (1.0 - _CONFIDENCE) / 2.0
    if objective.ranks is not None:
        low, high = rank_interval(values, objective.ranks, resamples=resamples_for(1), rng_seed=0)
    elif objective.is_binary:
        yes = int(values.sum())
        low = float(stats.beta.ppf(tail, yes, n - yes + 1)) if yes else 0.0
        high = float(stats.beta.isf(tail, yes + 1, n - yes)) if yes < n else 1.0
    else:
        half = float(stats.t.isf(tail, n - 1)) * standard_error(values)
        low, high = float(values.mean()) - half, float(values.mean()) + half
    ends = sorted((objective.shown(low), objective.shown(high)))
    return Figure(objective.shown(objective.value(episodes)), ends[0], ends[1])


def effect_by(
    objective: Objective, results: Sequence[UnitResult], guided: UnitResult, base: UnitResult, method: Method
) -> Effect:
    """Return the effect of guidance on an objective; episodes that failed count at their worst among all results."""
    if guided is base:  # what failed is the same on both sides
        return objective.compare(*(WorstCase(results, objective.value).of(base, base)[:1] * 2), method=method)
    return objective.compare(*WorstCase(results, objective.value).of(guided, base), method=method)


def effects(
    results: Sequence[UnitResult], guided: UnitResult, base: UnitResult, method: Method = "racing"
) -> dict[str, Effect]:
    """Return the effect of guidance by every objective that the episodes tell; above 0 is better, for costs, too."""
    told = objectives_told(guided.played, base.played)
    return {objective.name: effect_by(objective, results, guided, base, method) for objective in told}


def check_constraints(
    settings: EvaluationSettings, results: Sequence[UnitResult], guided: UnitResult, base: UnitResult
) -> tuple[ConstraintCheck, ...]:
    """Check the constraints of the settings on guided and unguided episodes of the same seeds."""
    return tuple(
        ConstraintCheck.of(one, effect_by(one.objective, results, guided, base, settings.method))
        for one in parse_constraints(settings.constraint)
    )


def figure_rows(
    blocks: Mapping[str, UnitResult],
    changes: Mapping[str, Effect] | None = None,
    references: Mapping[str, UnitResult] | None = None,
) -> list[dict[str, Any]]:
    """Return a row an objective: its name and words, and for every block of episodes value, low and high.

    Parameters
    ----------
    blocks
        Episodes by name, such as "base" and "guided".
    changes
        Effects of guidance by objective, which become "difference" in the rows.
    references
        Episodes of references by name, which become "references" in the rows.
    """
    found = {name: figures(episodes) for name, episodes in blocks.items()}
    others = {name: figures(episodes) for name, episodes in (references or {}).items()}
    told = [one for one in OBJECTIVES.values() if all(one.name in of for of in (*found.values(), *others.values()))]
    return [
        {"objective": one.name, "words": one.words}
        | {name: figure[one.name]._asdict() for name, figure in found.items()}
        | ({"difference": _shown_effect(one, changes[one.name])} if changes else {})
        | {"references": {name: figure[one.name]._asdict() for name, figure in others.items()}}
        for one in told
    ]


def _shown_effect(objective: Objective, effect: Effect) -> dict[str, Any]:
    ends = sorted((objective.shown(effect.low), objective.shown(effect.high)))
    return {
        "value": objective.shown(effect.mean),
        "low": ends[0],
        "high": ends[1],
        "p": effect.p,
        "detectable": effect.detectable,
    }


_COLUMNS = {"base": "the policy alone"}


def figure_table(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and the lines of a table of rows as `figure_rows` makes them, with 95 % intervals."""
    names = [name for name in (rows[0] if rows else {}) if name not in ("objective", "words", "references")]
    others = list(rows[0]["references"]) if rows else []
    columns = ("On fresh seeds (95 % CI)", *(_COLUMNS.get(name, name) for name in names), *others)
    lines = [
        (
            capitalise(row["words"]),
            *((_shown_change if name == "difference" else _shown)(row["objective"], row[name]) for name in names),
            *(_shown(row["objective"], row["references"][name]) for name in others),
        )
        for row in rows
    ]
    return columns, lines


def _shown(objective: str, cell: Mapping[str, Any]) -> str:
    write = percent if find_objective(objective).is_binary else number
    return f"{write(cell['value'])} ({write(cell['low'])} to {write(cell['high'])})"


def _shown_change(objective: str, cell: Mapping[str, Any]) -> str:
    """Return a difference in words; one of shares in percentage points."""
    is_share = find_objective(objective).is_binary
    value, low, high = (signed(100.0 * cell[name] if is_share else cell[name]) for name in ("value", "low", "high"))
    return f"{value}{' points' if is_share else ''} ({low} to {high})"
