"""Features that matter to the policy (`importance_tabs`) and occur in its rules (`group_rows`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.environments import domain_groups
from legible.explanation import feature_groups, group_shares
from legible.features import Feature
from legible.formatting import percent
from legible.mining import Importance
from legible.study import Study

MOST_IMPORTANT = 5
# A flag with one value in at least this share of the states is named by that value.
NEARLY_ALWAYS_SHARE = 0.8


@dataclass(frozen=True)
class Weight:
    """The importance of a feature, as a share of the sum and of the largest."""

    words: str
    share: float
    length: float


@dataclass(frozen=True)
class ImportanceTab:
    """The features for and against an action, and the method."""

    action: str
    speaks_for: tuple[Weight, ...]
    speaks_against: tuple[Weight, ...]
    found: str


def importance_tabs(study: Study) -> Iterator[ImportanceTab]:
    """Return the most important features of every action; nothing if mining used no importances."""
    importance = study.mining.importance
    if importance is None:
        return
    words = [weighed_words(study.space[i], study.experiences.observations[:, i]) for i in range(len(study.space))]
    for number, action in enumerate(study.space.actions):
        speaks_for, speaks_against = (_weights(importance.of(polarity, number), words) for polarity in ("+", "-"))
        yield ImportanceTab(action.label, speaks_for, speaks_against, _how_found(importance, study))


def _how_found(importance: Importance, study: Study) -> str:
    """Describe the method; for a surrogate, also its fidelity."""
    lime = f"Shares of the LIME weights over {study.settings.mining.lime_states} states."
    fidelity = f"It predicts the action in {percent(importance.fidelity)} of held-out states."
    if importance.method == "surrogate":
        return (
            "Permutation importance: how much worse a random forest that imitates the policy gets when the values of a "
            f"feature are shuffled. {fidelity}"
        )
    if importance.method == "lime and surrogate":
        return (
            f"{lime} The policy does not see derived features, so theirs come from a random forest that imitates it: "
            f"its loss when their values are shuffled, on the scale of LIME. {fidelity}"
        )
    return lime


def weighed_words(feature: Feature, values: NDArray[np.float32]) -> str:
    """Describe the weight of a feature by the value that it usually has.

    LIME weighs the present value: "food is north" would read backwards where the weight is that it is not.

    >>> food = Feature("food", "categorical", values={1: "food is north", 0: "food is not north"})
    >>> weighed_words(food, np.array([0] * 9 + [1], np.float32))
    'food is not north (in 90 % of the states)'
    >>> weighed_words(food, np.array([0, 1], np.float32))
    'whether food is north (it is in 50 % of the states)'
    >>> weighed_words(Feature("gap", words="the gap"), np.array([3.0], np.float32))
    'the size of the gap'
    """
    if not feature.is_flag:
        return f"the size of {feature.label}" if feature.kind == "numeric" else f"the value of {feature.label}"
    share_of_ones = float((values == 1.0).mean())
    usual, share = (1.0, share_of_ones) if share_of_ones >= 0.5 else (0.0, 1.0 - share_of_ones)
    if share >= NEARLY_ALWAYS_SHARE:
        return f"{feature.values[usual]} (in {percent(share)} of the states)"
    return f"{feature.question} (it is in {percent(share_of_ones)} of the states)"


def _weights(values: NDArray[np.float64], words: Sequence[str]) -> tuple[Weight, ...]:
    """Return the largest weights with the words of their features, the most important first."""
    total, greatest = float(values.sum()), float(values.max())
    ranked = [i for i in np.argsort(-values, kind="stable")[:MOST_IMPORTANT].tolist() if values[i] > 0.0]
    return tuple(Weight(words[i], float(values[i]) / total, 100 * float(values[i]) / greatest) for i in ranked)


def group_rows(study: Study) -> Iterator[tuple[str, float]]:
    """Return the shares of mined rules that use a group of features: of the domain, else of the features."""
    space = study.space
    groups = domain_groups(study.environment, space)
    if groups is None and not any(feature.group for feature in space.features):
        return
    shares = group_shares(study.mining.rules, space, groups or feature_groups(space))
    yield from sorted(shares.items(), key=lambda entry: -entry[1])
