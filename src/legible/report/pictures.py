"""Data of the report's charts, as plain values; `assets/charts.js` draws them with Observable Plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible.environments import Ending, domain_of
from legible.evaluation import PlayedBlocks
from legible.evaluation.ledger import Ledger
from legible.evaluation.statistics import Effect
from legible.formatting import number, percent, signed
from legible.report.charts import round_step
from legible.report.returns import PolicyReturns
from legible.rules import CompiledRules, RuleSet
from legible.study import Study

Chart: TypeAlias = dict[str, Any]
"""``kind`` names the function that draws it, ``label`` describes it, and ``rows`` are what it shows, also as CSV."""

MOST_DOTS = 400
ALMOST_ALWAYS = 0.9
"""Share of the states from which on a map does not say where rules hold."""
MAP_CELLS = (36, 24)
STEPS_BEFORE_FAILURE = 20
MIN_MAP_VALUES, MIN_PLACES = 8, 3
"""Fewest values of a feature of a map, and of one that is a place."""
MOST_EFFECTS = 20
MOST_BINS = 60
SAMPLED_STATES = 2000
"""States in which the values of features are counted, to choose the axes of a map."""
_OUTLIERS = 0.005


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def effect_chart(rows: Sequence[tuple[str, str, Effect, str, bool]], objective_words: str) -> Chart | None:
    """Return effects as a forest plot, the largest on top, at most `MOST_EFFECTS`; None without any.

    Each row is a name, its words, the effect, the address that a click opens, and whether the effect is confirmed.
    `objective_words` say what the effects change, such as "mean return".
    """
    if not rows:
        return None
    ordered = sorted(rows, key=lambda row: -row[2].mean)[:MOST_EFFECTS]
    return {
        "kind": "forest",
        "label": f"Effects on the {objective_words}, with 95 % confidence intervals",
        "axis": f"effect on the {objective_words}",
        "rows": [
            {
                "name": name,
                "words": row_words,
                "effect": _rounded(effect.mean),
                "low": _rounded(effect.low),
                "high": _rounded(effect.high),
                "confirmed": is_confirmed,
                "href": address,
                "figures": f"{signed(effect.mean)} ({signed(effect.low)} to {signed(effect.high)})",
            }
            for name, row_words, effect, address, is_confirmed in ordered
        ],
    }


def seed_chart(final: PlayedBlocks, replays: Mapping[int, int]) -> Chart | None:
    """Return the returns of the final seeds, unguided and guided; None without a guided policy.

    `replays` maps seeds to the numbers of their replays.
    """
    if not final.setup.treatments:
        return None
    base, guided = final.base.returns, final.guided(0).returns  # the composition is the only treatment
    played = np.flatnonzero(~np.isnan(base) & ~np.isnan(guided)).tolist()  # both episodes, without an error
    # Seeds with a replay are always among the shown ones, and drawn last, on top.
    shown = sorted(played, key=lambda i: final.seeds[i] not in replays)[:MOST_DOTS]
    if not shown:
        return None
    return {
        "kind": "seeds",
        "label": f"Returns unguided and guided of {len(shown)} seeds",
        "shown": len(shown),
        "seeds": len(played),
        "rows": [
            {
                "seed": int(final.seeds[i]),
                "unguided": _rounded(base[i]),
                "guided": _rounded(guided[i]),
                "result": "gains" if guided[i] > base[i] else "loses" if guided[i] < base[i] else "same return",
                "href": f"#seed={final.seeds[i]}" if final.seeds[i] in replays else "",
            }
            for i in reversed(shown)
        ],
    }


def state_chart(study: Study, rule_set: RuleSet | None) -> Chart | None:
    """Return a map of the recorded states by two features; None where there are no two.

    The features are those that say where the policy is, if the domain has a place; otherwise those of the rule set
    come first, then those that matter most to the policy.
    """
    recorded, space = study.experiences, study.space
    axes, is_place = _axes_of_map(study, rule_set)
    if not axes:
        return None
    # Cut both axes into cells: the edges of the cells, and for each state the number of its cell on the axis.
    edges, cells_on_axis = [], []
    for feature, most in zip(axes, MAP_CELLS, strict=True):
        column = recorded.observations[:, feature].astype(np.float64)
        low, high = (float(end) for end in np.quantile(column, [_OUTLIERS, 1 - _OUTLIERS]))
        values = np.unique(column[(column >= low) & (column <= high)])
        width, count = (high - low or 1.0) / most, most
        if 1 < len(values) <= most:  # a cell for each value, such as the columns of a maze
            width = float(np.diff(values).min())
            count = min(most, round((high - low) / width) + 1)
            low -= width / 2
        edges.append(low + width * np.arange(count + 1))
        cells_on_axis.append(np.clip(((column - low) / width).astype(np.int64), 0, count - 1))
    # Count for each cell of the map how many states lie in it, precede a failure, and meet the conditions of a rule.
    n_up = len(edges[1]) - 1
    cells, n_cells = cells_on_axis[0] * n_up + cells_on_axis[1], (len(edges[0]) - 1) * n_up
    is_before_failure = _before_failure(study)
    rule_sets = [] if rule_set is None else [rule_set]
    rule_holds = CompiledRules.compile(rule_sets).matches(recorded.observations).any(axis=1)
    visits, failing, firing = (
        np.bincount(cells, weights, n_cells) for weights in (None, is_before_failure, rule_holds)
    )
    rows = []
    for cell in np.flatnonzero(visits).tolist():
        left, bottom = divmod(cell, n_up)
        x, y = edges[0][left : left + 2], edges[1][bottom : bottom + 2]
        rows.append(
            {
                "x1": _rounded(x[0]),
                "x2": _rounded(x[1]),
                "y1": _rounded(y[0]),
                "y2": _rounded(y[1]),
                "states": int(visits[cell]),
                "before_failure": round(float(failing[cell] / visits[cell]), 3),
                "rules_hold": round(float(firing[cell] / visits[cell]), 3),
            }
        )
    across, up = (space[feature].label for feature in axes)
    return {
        "kind": "states",
        "label": f"Visited states by {across} and {up}",
        "axes": [across, up],
        "is_place": is_place,
        "has_failures": bool(is_before_failure.any()),
        "has_rule": bool(0.0 < rule_holds.mean() < ALMOST_ALWAYS),
        "rows": rows,
    }


def _axes_of_map(study: Study, rule_set: RuleSet | None) -> tuple[tuple[int, ...], bool]:
    """Return the two features of the map, or none, and whether they are a place."""
    recorded, space = study.experiences, study.space
    # The number of values of each numeric feature in some states; 0 for categorical ones.
    n_values = [
        len(np.unique(column)) if space[i].kind == "numeric" else 0
        for i, column in enumerate(recorded.observations[:SAMPLED_STATES].T)
    ]
    # A place: the features that the domain names, or features called x and y.
    domain = domain_of(study.environment.name)
    place = ("x", "y") if domain is None or domain.place is None else domain.place
    if set(place) <= set(space.names):
        across, up = (space.feature_index(name) for name in place)
        if min(n_values[across], n_values[up]) >= MIN_PLACES:
            return (across, up), True
    # Otherwise the features with the largest weights: importance for the policy, and 1 for each rule that uses them.
    weights = np.zeros(len(space))
    if study.mining.importance is not None:
        weights += np.abs(study.mining.importance.weights).sum(axis=(0, 1))  # over states and actions
    weights /= weights.max() or 1.0
    for rule in () if rule_set is None else rule_set.rules:
        weights[list(rule.features)] += 1.0
    best = [i for i in np.argsort(-weights, kind="stable").tolist() if n_values[i] >= MIN_MAP_VALUES]
    return tuple(best[:2]) if len(best) > 1 else (), False


def _before_failure(study: Study) -> NDArray[np.bool_]:
    """Return a mask of the recorded states in the last steps of episodes that fail."""
    recorded = study.experiences
    kinds = [Ending.parse(text).kind if text else "" for text in recorded.endings]
    failed = np.isin(kinds, ("failure", "other"))  # bool[episodes]
    steps_left = np.cumsum(recorded.lengths)[recorded.episode_ids] - np.arange(len(recorded))
    mask: NDArray[np.bool_] = failed[recorded.episode_ids] & (steps_left <= STEPS_BEFORE_FAILURE)
    return mask


def return_chart(policies: Sequence[PolicyReturns]) -> Chart:
    """Return the distributions of returns of the policies, and the means of the baselines.

    Baselines (of the kind "reference") are only marks: a constant return would flatten all other distributions.
    """
    shown = [entry for entry in policies if entry.kind != "reference"]
    baselines = [entry for entry in policies if entry.kind == "reference"]
    samples = {entry.words: entry.result.played.returns for entry in shown}
    everything = np.concatenate(list(samples.values()))
    low, high = float(everything.min()), float(everything.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = round_step((high - low) / MOST_BINS)
    # Edges are multiples of the step; the last one lies above the maximum.
    edges = np.arange(np.floor(low / step), np.floor(high / step) + 2) * step
    rows = []
    for name, sample in samples.items():
        counts = np.histogram(sample, edges)[0]
        for i in np.flatnonzero(counts).tolist():
            share = float(counts[i] / len(sample))
            bins = {"low": _rounded(edges[i]), "high": _rounded(edges[i + 1])}
            rows.append({"policy": name, **bins, "share": share, "episodes": percent(share)})
    means, baseline_means = (
        [
            {"policy": entry.words, "mean": _rounded(entry.sample.mean), "text": number(entry.sample.mean, 4)}
            for entry in entries
        ]
        for entries in (shown, baselines)
    )
    in_words = ", ".join(f"{entry['policy']}: mean {entry['text']}" for entry in [*means, *baseline_means])
    return {
        "kind": "returns",
        "label": f"Distributions of returns; {in_words}",
        "policies": list(samples),
        "means": means,
        "baselines": baseline_means,
        "rows": rows,
    }


def ledger_chart(ledger: Ledger | None) -> Chart | None:
    """Return the parts of a gain, split in every way that is known; None where nothing splits it."""
    if ledger is None or not ledger.splits:
        return None
    return {
        "kind": "ledger",
        "label": f"Parts of the gain of {signed(ledger.total.value)}, with 95 % confidence intervals",
        "rows": [
            {
                "split": split,
                "part": part.words,
                "gain": _rounded(part.gain.value),
                "low": _rounded(part.gain.low),
                "high": _rounded(part.gain.high),
                "share_of_seeds": round(part.share, 4),
                "steps": part.steps,
                "figures": f"{signed(part.gain.value)} ({signed(part.gain.low)} to {signed(part.gain.high)})",
            }
            for split, parts in ledger.splits.items()
            for part in parts
        ],
    }
