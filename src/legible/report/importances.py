"""What the policy looks at and what its rules speak of.

- `ImportanceTab`, `importance_tabs`: which features speak for and against each action, by their `Weight`.
- `group_rows`: the share of rules that speak of a group of features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.environments import domain_groups
from legible.explanation import feature_groups, group_shares
from legible.formatting import percent
from legible.mining import Importance
from legible.study import Study

MOST_IMPORTANT = 8


@dataclass(frozen=True)
class Weight:
    """A feature's importance, as a share of all and of the greatest."""

    words: str
    share: float
    length: float


@dataclass(frozen=True)
class ImportanceTab:
    """What speaks for and against an action, and how that was found."""

    action: str
    speaks_for: tuple[Weight, ...]
    speaks_against: tuple[Weight, ...]
    found: str


def importance_tabs(study: Study) -> Iterator[ImportanceTab]:
    """Return for every action the features that weigh most; nothing where mining did without importances."""
    importance = study.mining.importance
    if importance is None:
        return
    for action, named in enumerate(study.space.actions):
        speaks = [_weights(importance.of(polarity, action), study) for polarity in ("+", "-")]
        yield ImportanceTab(named.label, speaks[0], speaks[1], _how_found(importance, study))


def _how_found(importance: Importance, study: Study) -> str:
    """How importances were found, in words; a surrogate is called one, with how well it stands for the policy."""
    lime = f"by LIME: shares of the weights over {study.settings.mining.lime_states} states."
    surrogate = f"does what the policy does in {percent(importance.fidelity)} of held-out states"
    match importance.method:
        case "surrogate":
            return (
                f"by permutation importance of a surrogate, a random forest that predicts the choice from the features "
                f"and {surrogate}: shares of what it loses when a feature's values are shuffled."
            )
        case "lime and surrogate":
            return (
                f"{lime} The policy does not see derived features: their shares are the permutation importance of a "
                f"surrogate, a random forest that sees only them and {surrogate}, on LIME's scale."
            )
    return lime


def _weights(values: np.ndarray[Any, np.dtype[np.float64]], study: Study) -> tuple[Weight, ...]:
    total, greatest = float(values.sum()), float(values.max())
    if total == 0.0:
        return ()
    ranked = np.argsort(-values, kind="stable")[:MOST_IMPORTANT]
    return tuple(
        Weight(study.space[int(i)].question, float(values[i]) / total, 100 * float(values[i]) / greatest)
        for i in ranked
        if values[i] > 0.0
    )


def group_rows(study: Study) -> Iterator[tuple[str, float]]:
    """Shares of the mined rules that speak of a group of features: the domain's, else the features' own."""
    space = study.space
    groups = domain_groups(study.environment, space)
    if groups is None and not any(feature.group for feature in space.features):
        return
    shares = group_shares(study.mining.rules, space, groups or feature_groups(space))
    yield from sorted(shares.items(), key=lambda entry: -entry[1])
