"""Pictures of the report, in percent of their width and height; the template draws them.

- `SeedDots`, `seed_dots`: every held-out seed, unguided against guided.
- `StateMap`, `state_map`: visited states by two features, where failures follow, and where a rule set triggers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.environments import Ending
from legible.evaluation import PlayedBlocks
from legible.formatting import number, percent
from legible.report.charts import Scale
from legible.rules import CompiledRules, RuleSet
from legible.study import Study

MOST_DOTS = 400
MAP_CELLS = (36, 24)
STEPS_BEFORE_FAILURE = 20
MIN_MAP_VALUES = 30
_OUTLIERS = 0.005


@dataclass(frozen=True)
class Dot:
    """One seed: its place in percent, whether guidance gains or loses, and the number of its replay, if any."""

    left: float
    bottom: float
    kind: str
    title: str
    replay: int | None


@dataclass(frozen=True)
class SeedDots:
    """Returns of the first held-out seeds, unguided (from left to right) against guided (from bottom to top)."""

    scale: Scale
    dots: tuple[Dot, ...]
    seeds: int


def seed_dots(final: PlayedBlocks, replays: Mapping[int, int]) -> SeedDots | None:
    """Return the seeds of the final episodes; None without a guided policy.

    `replays` maps seeds to the numbers of their replays.
    """
    if not final.setup.treatments:
        return None
    base, guided = final.base.returns, final.guided(0).returns
    known = np.flatnonzero(~np.isnan(base) & ~np.isnan(guided))
    # Seeds with a replay come first, so that they are always shown.
    shown = sorted(known.tolist(), key=lambda i: final.seeds[i] not in replays)[:MOST_DOTS]
    if not shown:
        return None
    low, high = (float(f([base[shown], guided[shown]])) for f in (np.min, np.max))
    margin = 0.03 * (high - low) or 0.5
    scale = Scale(low - margin, high + margin)
    dots = []
    for i in reversed(shown):  # replays on top
        kind = "better" if guided[i] > base[i] else "worse" if guided[i] < base[i] else "same"
        title = f"seed {final.seeds[i]}: {number(base[i])} → {number(guided[i])}"
        dots.append(Dot(scale.at(base[i]), scale.at(guided[i]), kind, title, replays.get(final.seeds[i])))
    return SeedDots(scale, tuple(dots), len(known))


@dataclass(frozen=True)
class Cell:
    """One cell of a map: its place, how often it is visited, and the shares of failing and of triggering states."""

    left: float
    bottom: float
    visits: float
    fails: float
    fires: float
    title: str


@dataclass(frozen=True)
class StateMap:
    """Visited states by two features."""

    words: tuple[str, str]
    scales: tuple[Scale, Scale]
    cells: tuple[Cell, ...]
    width: float
    height: float
    has_failures: bool
    has_rule: bool


def state_map(study: Study, rule_set: RuleSet | None) -> StateMap | None:
    """Return a map of the recorded states by the two most important numeric features; None with fewer than two.

    Features of the rule set come first, then those that matter most to the policy.
    """
    seen, space = study.experiences, study.space
    weights = np.zeros(len(space))
    if study.mining.importance is not None:
        weights += np.abs(study.mining.importance.weights).sum(axis=(0, 1))
    weights /= weights.max() or 1.0
    for rule in () if rule_set is None else rule_set.rules:
        weights[list(rule.features)] += 1.0
    order = [i for i in np.argsort(-weights, kind="stable").tolist() if space[i].kind == "numeric"]
    map_features = [i for i in order if len(np.unique(seen.observations[:2000, i])) >= MIN_MAP_VALUES][:2]
    if len(map_features) < 2:
        return None
    scales, places = [], []
    for feature, count in zip(map_features, MAP_CELLS, strict=True):
        low, high = (float(end) for end in np.quantile(seen.observations[:, feature], [_OUTLIERS, 1 - _OUTLIERS]))
        scales.append(Scale(low, high if high > low else low + 1.0))
        share = (seen.observations[:, feature] - scales[-1].low) / (scales[-1].high - scales[-1].low)
        places.append(np.clip((count * share).astype(np.int64), 0, count - 1))
    cells = places[0] * MAP_CELLS[1] + places[1]
    size = MAP_CELLS[0] * MAP_CELLS[1]
    fails, rule_sets = _before_failure(study), [] if rule_set is None else [rule_set]
    fires = CompiledRules.compile(rule_sets).matches(seen.observations).any(axis=1)
    visits, failing, firing = (np.bincount(cells, weight, size) for weight in (None, fails, fires))
    max_visits = np.log1p(visits.max())
    map_cells = []
    for cell in np.flatnonzero(visits).tolist():
        column, row = divmod(cell, MAP_CELLS[1])
        failure_share, firing_share = (float(part[cell] / visits[cell]) for part in (failing, firing))
        map_cells.append(
            Cell(
                left=round(100 * column / MAP_CELLS[0], 2),
                bottom=round(100 * row / MAP_CELLS[1], 2),
                visits=round(float(np.log1p(visits[cell]) / max_visits), 3),
                fails=round(failure_share, 2),
                fires=round(firing_share, 2),
                title=f"{int(visits[cell])} states; shortly before a failure: {percent(failure_share)}; "
                f"the rules hold: {percent(firing_share)}",
            )
        )
    return StateMap(
        words=(space[map_features[0]].label, space[map_features[1]].label),
        scales=(scales[0], scales[1]),
        cells=tuple(map_cells),
        width=round(100 / MAP_CELLS[0], 3),
        height=round(100 / MAP_CELLS[1], 3),
        has_failures=bool(fails.any()),
        has_rule=bool(fires.any()),
    )


def _before_failure(study: Study) -> NDArray[np.bool_]:
    """Return a mask of the recorded states in the last steps of episodes that fail."""
    seen = study.experiences
    failed = np.array([Ending.parse(text).kind in {"failure", "other"} and text != "" for text in seen.endings], bool)
    left = np.cumsum(seen.lengths)[seen.episode_ids] - np.arange(len(seen))
    mask: NDArray[np.bool_] = failed[seen.episode_ids] & (left <= STEPS_BEFORE_FAILURE)
    return mask
