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
    experiences, space, text = desk.recorded, desk.space, text_of(body, "filter", "").strip()
    try:
        fits, rule = _matching(experiences, space, text)
    except LegibleError as error:  # half a filter is no error of the page
        return {"problem": str(error)}

    # Columns of the table: the features of the filter, then those with the most values.
    features_used = [] if rule is None else list(rule.features)
    values_of = _count_values(experiences.observations)
    columns = list(dict.fromkeys([*features_used, *np.argsort(-values_of).tolist()]))[:MOST_COLUMNS]
    # Axes of the map, unless the page names them: features with enough values to fill the cells of a map first, and
    # among these the features of the filter.
    axes = sorted(columns, key=lambda i: (values_of[i] < CELLS / 4, i not in features_used, -values_of[i]))
    x = number_of(body, "x", len(space), axes[0])
    y = number_of(body, "y", len(space), axes[min(1, len(axes) - 1)])

    # The table shows a sample of the rows that fit, evenly spread over them.
    rows = np.flatnonzero(fits)
    shown = rows if len(rows) <= MOST_STATES else rows[np.linspace(0, len(rows) - 1, MOST_STATES).astype(int)]
    actions = experiences.actions.reshape(len(experiences), -1)  # [steps, parts of an action]
    states = [
        {
            "episode": int(experiences.episode_ids[row]),
            "step": int(desk.steps[row]),
            "action": ", ".join(space.action_names[choice] for choice in actions[row]),
            "values": [float(f"{experiences.observations[row, i]:.4g}") for i in columns],
        }
        for row in shown
    ]
    n_episodes = len(np.unique(experiences.episode_ids[rows]))
    sentence = (
        f"{number(len(rows))} of {number(len(experiences))} recorded states fit ({percent(fits.mean())}), in "
        f"{number(n_episodes)} of {number(experiences.n_episodes)} episodes."
    )
    if rule is None:
        sentence = f"All {number(len(experiences))} recorded states; type a condition to see those in which it holds."
    return {
        "sentence": sentence,
        "columns": [space.names[i] for i in columns],
        "states": states,
        "map": _map(experiences.observations, fits, x, y),
        "x": x,
        "y": y,
    }


def _matching(experiences: Experiences, space: FeatureSpace, text: str) -> tuple[NDArray[np.bool_], Rule | None]:
    """Return which recorded steps fit a filter, and the filter as a rule; None if it is empty."""
    if not text:
        return np.ones(len(experiences), np.bool_), None
    names_action = "<-" in text or "←" in text
    rule = parse_rule(text if names_action else f"+{space.action_names[0]} <- {text}", space)
    fits = rule.matches(experiences.observations)
    if names_action:
        taken = experiences.taken(rule.action)
        fits &= taken if rule.polarity == "+" else ~taken
    return fits, rule


def _count_values(observations: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how many different values each feature has in about a thousand rows."""
    sample = observations[:: max(1, len(observations) // 1000)]
    return np.array([len(np.unique(column)) for column in sample.T], np.float64)


def _map(observations: NDArray[np.float32], fits: NDArray[np.bool_], x: int, y: int) -> dict[str, Any]:
    """Return how many states, and how many that fit, lie in each cell of a map of two features."""
    values = observations[:, [x, y]].astype(np.float64)
    is_finite = np.isfinite(values).all(axis=1)
    values, fits = values[is_finite], fits[is_finite]
    low, high = values.min(axis=0), values.max(axis=0)
    high = np.where(high > low, high, low + 1.0)  # a feature with one value still needs a range
    ranges = list(zip(low, high, strict=True))
    all_counts, _, _ = np.histogram2d(values[:, 0], values[:, 1], CELLS, ranges)
    fit_counts, _, _ = np.histogram2d(values[fits, 0], values[fits, 1], CELLS, ranges)
    return {
        "low": low.tolist(),
        "high": high.tolist(),
        "all": all_counts.astype(int).tolist(),
        "fit": fit_counts.astype(int).tolist(),
    }
