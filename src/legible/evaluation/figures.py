"""Figures of blocks of episodes by every objective, not only the one that was optimised.

A gain in one figure may cost a loss in another, so all of them are reported.

- `Figure`: a number with its confidence interval; `figures`: all figures of a block; `figure_of`: by one objective;
  `objectives_with_data`: the objectives that blocks provide data for.
- `effects`: guided against unguided episodes by every objective; `effect_by`: by one objective.
- `check_constraints`: checks whether guidance keeps the constraints.
- `figure_rows`: figures as plain rows, for JSON; `figure_table`: figures as a table of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv, stdtrit

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
    """A figure of a block of episodes in its usual sign, and its 95 % confidence interval."""

    value: float
    low: float
    high: float


def figures(episodes: UnitResult, also: str = "mean") -> dict[str, Figure]:
    """Return the figures of a block by every objective that it has data for; failed episodes are left out.

    `also` is the objective of the study, which may be a reward term.
    """
    played = episodes.played
    return {objective.name: figure_of(objective, played) for objective in objectives_with_data(played, also=also)}


def objectives_with_data(*blocks: UnitResult, also: str = "mean") -> list[Objective]:
    """Return the objectives that all blocks have data for: success and cost only where they are known.

    `also` is the objective of the study, which may be a reward term.
    """
    if min(len(block) for block in blocks) < 2:
        return []
    unknown = set()
    if any(np.isnan(block.success).any() for block in blocks):
        unknown.add("success")
    if not any(np.nan_to_num(block.costs).any() for block in blocks):
        unknown.add("cost")
    known = [objective for objective in OBJECTIVES.values() if objective.name not in unknown]
    return known if also in OBJECTIVES else [*known, find_objective(also)]


def figure_of(objective: Objective, episodes: UnitResult) -> Figure:
    """Return the figure of episodes, none of which failed, by an objective."""
    values = objective.values(episodes)
    n, tail = len(values), (1.0 - _CONFIDENCE) / 2.0
    if objective.ranks is not None:
        low, high = rank_interval(values, objective.ranks, resamples=resamples_for(1), rng_seed=0)
    elif objective.is_binary:
        _, low, high = share_figure(int(values.sum()), n)
    else:
        half = float(-stdtrit(n - 1, tail)) * standard_error(values)
        low, high = float(values.mean()) - half, float(values.mean()) + half
    return Figure(objective.shown(objective.value(episodes)), *sorted((objective.shown(low), objective.shown(high))))


def share_figure(yes: int, n: int) -> Figure:
    """Return a share with its exact interval by Clopper and Pearson."""
    tail = (1.0 - _CONFIDENCE) / 2.0
    low = float(betaincinv(yes, n - yes + 1, tail)) if yes else 0.0
    high = float(betainccinv(yes + 1, n - yes, tail)) if yes < n else 1.0
    return Figure(yes / n, low, high)


def effect_by(
    objective: Objective, results: Sequence[UnitResult], guided: UnitResult, base: UnitResult, method: Method
) -> Effect:
    """Return the effect of guidance on an objective; failed episodes count as the worst case among all results."""
    better, worse = WorstCase(results, objective.value).of(guided, base)
    # An empty composition has the same failed episodes on both sides.
    return objective.compare(better, better if guided is base else worse, method=method)


def effects(
    results: Sequence[UnitResult],
    guided: UnitResult,
    base: UnitResult,
    method: Method = "racing",
    also: str = "mean",
) -> dict[str, Effect]:
    """Return the effect of guidance on every objective that has data; positive is better, also for costs.

    `also` is the objective of the study, which may be a reward term.
    """
    known = objectives_with_data(guided.played, base.played, also=also)
    return {objective.name: effect_by(objective, results, guided, base, method) for objective in known}


def check_constraints(
    settings: EvaluationSettings, results: Sequence[UnitResult], guided: UnitResult, base: UnitResult
) -> tuple[ConstraintCheck, ...]:
    """Check the constraints of the settings on guided and unguided episodes of the same seeds."""
    return tuple(
        constraint.check(effect_by(constraint.objective, results, guided, base, settings.method))
        for constraint in parse_constraints(settings.constraint)
    )


def figure_rows(
    blocks: Mapping[str, Mapping[str, Figure]],
    changes: Mapping[str, Effect] | None = None,
    references: Mapping[str, Mapping[str, Figure]] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of a table of results, one dictionary per objective (mean return, success, worst tenth, …).

    A row has the name of the objective, its description ("words"), and for every block of episodes the value and the
    ends of its confidence interval. Objectives that some block lacks are left out.

    Parameters
    ----------
    blocks
        For every block of episodes, such as "base" (unguided) and "guided", its figures by the name of the objective.
    changes
        Effects of guidance by objective; they become "difference" in the rows.
    references
        For every baseline its figures by objective; they become "references" in the rows.
    """
    references, rows = references or {}, []
    # Built-in objectives first, in their order; then those that only these episodes have, such as reward terms.
    other_names = [name for block_figures in blocks.values() for name in block_figures]
    for objective in map(find_objective, dict.fromkeys([*OBJECTIVES, *other_names])):
        name = objective.name
        if not all(name in block_figures for block_figures in (*blocks.values(), *references.values())):
            continue
        row: dict[str, Any] = {"objective": name, "words": objective.words}
        row |= {block: block_figures[name]._asdict() for block, block_figures in blocks.items()}
        if changes:
            # Shown in the direction of the objective: for a cost, that flips the sign and so the ends of the interval.
            effect = changes[name]
            low, high = sorted((objective.shown(effect.low), objective.shown(effect.high)))
            row["difference"] = {
                "value": objective.shown(effect.mean),
                "low": low,
                "high": high,
                "p": effect.p,
                "detectable": effect.detectable,
            }
        row["references"] = {baseline: its_figures[name]._asdict() for baseline, its_figures in references.items()}
        rows.append(row)
    return rows


def figure_table(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and the lines of a table of rows made by `figure_rows`, with 95 % confidence intervals."""
    blocks = [name for name in (rows[0] if rows else {}) if name not in ("objective", "words", "references")]
    baselines = list(rows[0]["references"]) if rows else []
    columns = ("On held-out seeds (95 % CI)", *("unguided" if name == "base" else name for name in blocks), *baselines)
    lines = []
    for row in rows:
        cells = [_format_cell(row, row[name], is_difference=name == "difference") for name in blocks]
        cells += [_format_cell(row, row["references"][name]) for name in baselines]
        lines.append((capitalise(row["words"]), *cells))
    return columns, lines


def _format_cell(row: Mapping[str, Any], cell: Mapping[str, Any], *, is_difference: bool = False) -> str:
    """Format a figure with its interval; shares in percent, differences of shares in percentage points."""
    is_share = find_objective(row["objective"]).is_binary
    ends = [cell[name] for name in ("value", "low", "high")]
    if is_difference:
        value, low, high = (signed(100.0 * end if is_share else end) for end in ends)
        return f"{value}{' points' if is_share else ''} ({low} to {high})"
    value, low, high = (percent(end) if is_share else number(end) for end in ends)
    return f"{value} ({low} to {high})"
