"""The state explorer: recorded states that fit a filter, as a table and as a map.

- `find_states`: a filter is a rule. ``+Brake <- gap < 5`` finds the states in which the conditions hold and the policy
  brakes, ``-Brake <- gap < 5`` those in which it does something else, and conditions alone all in which they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.formatting import number, percent
from legible.play import Experiences
from legible.rules import Rule, parse_rule
from legible.server.desk import Desk, number_of, text_of

MOST_STATES = 200
MOST_COLUMNS = 6
CELLS = 24


def find_states(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded states that fit a filter: their number, a sample as a table, and a map of two features."""
    seen, space, text = desk.recorded, desk.space, text_of(body, "filter", "").strip()
    try:
        fits, rule = _matching(seen, space, text)
    except LegibleError as error:  # half a filter is no error of the page
        return {"problem": str(error)}
    rows = np.flatnonzero(fits)
    shown = rows if len(rows) <= MOST_STATES else rows[np.linspace(0, len(rows) - 1, MOST_STATES).astype(int)]
    used = [] if rule is None else list(rule.features)
    spread = _spread(seen.observations)
    columns = list(dict.fromkeys([*used, *np.argsort(-spread).tolist()]))[:MOST_COLUMNS]
    widest = sorted(columns, key=lambda i: (spread[i] < CELLS / 4, i not in used, -spread[i]))
    x, y = (number_of(body, axis, len(space), widest[min(k, len(widest) - 1)]) for k, axis in enumerate("xy"))
    actions = seen.actions.reshape(len(seen), -1)
    return {
        "sentence": f"{number(len(rows))} of {number(len(seen))} recorded states fit ({percent(fits.mean())}), in "
        f"{number(len(np.unique(seen.episode_ids[rows])))} of {number(seen.n_episodes)} episodes.",
        "columns": [space.names[i] for i in columns],
        "states": [
            {
                "episode": int(seen.episode_ids[row]),
                "step": int(desk.steps[row]),
                "action": ", ".join(space.action_names[choice] for choice in actions[row]),
                "values": [float(f"{seen.observations[row, i]:.4g}") for i in columns],
            }
            for row in shown
        ],
        "map": _map(seen.observations, fits, x, y),
        "x": x,
        "y": y,
    }


def _matching(seen: Experiences, space: FeatureSpace, text: str) -> tuple[NDArray[np.bool_], Rule | None]:
    if not text:
        return np.ones(len(seen), np.bool_), None
    has_head = "<-" in text or "←" in text
    rule = parse_rule(text if has_head else f"+{space.action_names[0]} <- {text}", space)
    fits = rule.matches(seen.observations)
    if has_head:
        taken = seen.taken(rule.action)
        fits &= taken if rule.polarity == "+" else ~taken
    return fits, rule


def _spread(observations: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how many different values each feature has, at most a thousand rows looked at."""
    some = observations[:: max(1, len(observations) // 1000)]
    return np.array([len(np.unique(column)) for column in some.T], np.float64)


def _map(observations: NDArray[np.float32], fits: NDArray[np.bool_], x: int, y: int) -> dict[str, Any]:
    """Return how many states, and how many that fit, lie in each cell of a map of two features."""
    columns = observations[:, [x, y]].astype(np.float64)
    known = np.isfinite(columns).all(axis=1)
    columns, fits = columns[known], fits[known]
    low, high = columns.min(axis=0), columns.max(axis=0)
    high = np.where(high > low, high, low + 1.0)
    ranges = list(zip(low, high, strict=True))
    every, _, _ = np.histogram2d(columns[:, 0], columns[:, 1], CELLS, ranges)
    some, _, _ = np.histogram2d(columns[fits, 0], columns[fits, 1], CELLS, ranges)
    return {
        "low": low.tolist(),
        "high": high.tolist(),
        "all": every.astype(int).tolist(),
        "fit": some.astype(int).tolist(),
    }
