"""What the policy looks at and what its rules speak of.

- `ImportanceTab`, `importance_tabs`: which features speak for and against each action, by their `Weight`;
  `weighed_words`: what was weighed of a feature.
- `group_rows`: the share of rules that speak of a group of features.
"""

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

MOST_IMPORTANT = 8
# A flag that has one value in this share of the states is told by that value: it is what was weighed.
NEARLY_ALWAYS = 0.8


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
    words = [weighed_words(study.space[i], study.experiences.observations[:, i]) for i in range(len(study.space))]
    for action, named in enumerate(study.space.actions):
        speaks = [_weights(importance.of(polarity, action), words) for polarity in ("+", "-")]
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


def weighed_words(feature: Feature, values: NDArray[np.float32]) -> str:
    """Say what LIME weighed of a feature: the value that it has, which is nearly always the same one for some.

    That "the path to the capsule starts north" should speak against going north reads backwards; weighed was that it
    does not.

    >>> food = Feature("food", "categorical", values={1: "food is north", 0: "food is not north"})
    >>> weighed_words(food, np.array([0] * 9 + [1], np.float32))
    'food is not north (in 90 % of the states)'
    >>> weighed_words(food, np.array([0, 1], np.float32))
    'whether food is north (it is in 50 % of the states)'
    >>> weighed_words(Feature("gap", words="the gap"), np.array([3.0], np.float32))
    'how large this is: the gap'
    """
    if not feature.is_flag:
        return (
            f"how large this is: {feature.label}" if feature.kind == "numeric" else f"which one it is: {feature.label}"
        )
    yes = float((values == 1.0).mean())
    usual, share = (1.0, yes) if yes >= 0.5 else (0.0, 1.0 - yes)
    if share >= NEARLY_ALWAYS:
        return f"{feature.values[usual]} (in {percent(share)} of the states)"
    return f"{feature.question} (it is in {percent(yes)} of the states)"


def _weights(values: NDArray[np.float64], words: Sequence[str]) -> tuple[Weight, ...]:
    total, greatest = float(values.sum()), float(values.max())
    if total == 0.0:
        return ()
    ranked = np.argsort(-values, kind="stable")[:MOST_IMPORTANT]
    return tuple(
        Weight(words[int(i)], float(values[i]) / total, 100 * float(values[i]) / greatest)
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
