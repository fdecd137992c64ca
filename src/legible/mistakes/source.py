"""Rule sets learned from single decisions, as a source of hypotheses: "mistakes".

Mined rules say what the policy already does somewhere. Decisions at which every choice was tried say what it should do:
RIPPER tells those in which another choice is better from those in which it is not, weighted by what is at stake; rules
of both polarities, generalised, and judged on decisions that learning has not seen.

- `mistakes`: the source.
- `learn_from_decisions`: the rule sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance.kernel import guide_scores
from legible.hypotheses import DecisionGains, Hypotheses, SourceInput, generalised, register_source
from legible.relations import MetamorphicRelation, map_states
from legible.rules import CompiledRules, Condition, Rule, RuleSet

# A choice is better, or worse, where its gain is this many standard errors from zero.
BETTER_Z = 1.5
# What is at stake counts up to this many times the median.
MOST_WEIGHT = 8
FOLDS = 2
FEWEST_EXAMPLES = 5
MOST_RULE_SETS = 20
RESTARTS = 3
# A rule set is tested if guidance with it is this many standard errors above zero at decisions that were held out.
LEAST_HELD_OUT_Z = 0.5


def mistakes(known: SourceInput) -> Hypotheses:
    """Rules learned from single decisions, generalised."""
    if known.decisions is None:
        raise LegibleError("rule sets are to come from mistakes, but no single decisions could be looked at.")
    yield learn_from_decisions(known.decisions, known.experiences.space, known.relations, seed=known.seed)


class _Examples(NamedTuple):
    """States, whether a rule shall trigger there, and what is at stake."""

    observations: NDArray[np.float32]
    positive: NDArray[np.bool_]
    stakes: NDArray[np.float64]


def learn_from_decisions(
    decisions: DecisionGains, space: FeatureSpace, relations: Sequence[MetamorphicRelation], *, seed: int
) -> list[RuleSet]:
    """Learn rules that say where another choice is better, or where what is done is not good; the best first.

    Parameters
    ----------
    decisions
        What other choices are worth.
    space
        Features and choices.
    relations
        Carry decisions over to related states, so that there are more of them, and rules over to related choices.
    seed
        Of RIPPER's splits.
    """
    folds = decisions.episodes % FOLDS
    found: dict[frozenset[Rule], tuple[float, RuleSet]] = {}
    for fold in range(FOLDS):
        learning, judging = (
            DecisionGains(*(column[rows] for column in vars(decisions).values()))
            for rows in (folds != fold, folds == fold)
        )
        for choice in _representatives(len(space.actions), relations):
            for polarity in ("+", "-"):
                examples = _with_images(learning, space, relations, choice, polarity)
                for rule_set in generalised(_rules(examples, space, choice, polarity, seed), relations):
                    worth = _worth(rule_set, judging, space)
                    key = frozenset(rule_set.rules)
                    if worth > LEAST_HELD_OUT_Z and (key not in found or worth > found[key][0]):
                        found[key] = worth, rule_set
    ordered = sorted(found.values(), key=lambda entry: -entry[0])
    return [rule_set for _, rule_set in ordered[:MOST_RULE_SETS]]


def _representatives(n: int, relations: Sequence[MetamorphicRelation]) -> list[int]:
    """One of all choices that relations map to each other: the rules of the others follow from its own."""
    group = list(range(n))
    for relation in relations:
        one, other = group[relation.action], group[relation.image_action]
        group = [min(one, other) if entry in (one, other) else entry for entry in group]
    return sorted(set(group))


def _examples(decisions: DecisionGains, space: FeatureSpace, choice: int, polarity: str) -> _Examples:
    """Where a rule about a choice shall trigger, and where not; decisions that say nothing are left out."""
    if polarity == "+":
        column = decisions.choices == choice
        row = np.flatnonzero(column.any(axis=1))
        place = column[row].argmax(axis=1)
    else:
        row = np.flatnonzero(decisions.taken[:, space.group_of(choice)] == choice)
        place = decisions.gains[row].argmax(axis=1)
    gain = decisions.gains[row, place]
    better = (gain > 0) & (gain / np.maximum(decisions.errors[row, place], 1e-12) > BETTER_Z)
    return _Examples(decisions.observations[row], better, np.where(better, gain, np.maximum(-gain, 0.0)))


def _with_images(
    decisions: DecisionGains,
    space: FeatureSpace,
    relations: Sequence[MetamorphicRelation],
    choice: int,
    polarity: str,
) -> _Examples:
    """The examples of a choice, and the images of those of other choices."""
    parts = [_examples(decisions, space, choice, polarity)]
    for relation in relations:
        if relation.image_action == choice:
            others = _examples(decisions, space, relation.action, polarity)
            images, defined = map_states(relation, others.observations)
            parts.append(_Examples(images[defined], others.positive[defined], others.stakes[defined]))
    return _Examples(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _rules(examples: _Examples, space: FeatureSpace, choice: int, polarity: Any, seed: int) -> list[Rule]:
    if min(examples.positive.sum(), (~examples.positive).sum()) < FEWEST_EXAMPLES:
        return []
    from legible.mining.ripper import RipperClassifier  # noqa: PLC0415 (scikit-learn takes half a second)

    usual = float(np.median(examples.stakes[examples.stakes > 0]))
    times = np.clip(np.ceil(examples.stakes / usual), 1, MOST_WEIGHT).astype(np.int64)
    classifier = RipperClassifier(
        categorical_features=np.array([feature.kind == "categorical" for feature in space.features]),
        positive_class=True,
        restarts=RESTARTS,
        random_state=seed,
    )
    classifier.fit(np.repeat(examples.observations, times, axis=0), np.repeat(examples.positive, times))
    return [Rule(polarity, choice, _conditions(rule.conditions)) for rule in classifier.rules_ if rule.conditions]


def _conditions(learned: Sequence[Any]) -> tuple[Condition, ...]:
    """Conditions of a rule, all of one feature as one interval."""
    ends: dict[int, tuple[float, float]] = {}
    for condition in learned:
        low, high = ends.get(condition.feature, (-np.inf, np.inf))
        if condition.operator == "=":
            equal = Condition.equals(condition.feature, float(condition.value))
            low, high = max(low, equal.low), min(high, equal.high)
        elif condition.operator == "<=":
            high = min(high, float(np.float32(condition.value)))
        else:
            low = max(low, float(np.float32(condition.value)))
        ends[condition.feature] = low, high
    return tuple(Condition(feature, low, high) for feature, (low, high) in sorted(ends.items()))


def _worth(rule_set: RuleSet, decisions: DecisionGains, space: FeatureSpace) -> float:
    """How many standard errors above zero guidance is at decisions that learning has not seen."""
    scores = decisions.scores.astype(np.float64)
    guide_scores(CompiledRules.compile([rule_set]), decisions.observations, False, scores, space.group_starts)
    gains = np.zeros(len(scores))
    for number, group in enumerate(space.groups):
        chosen = group.first + scores[:, group.choices].argmax(axis=1)
        changed = (chosen != decisions.taken[:, number]) & ~np.isneginf(scores[:, group.choices]).all(axis=1)
        gains += np.where((decisions.choices == chosen[:, None]) & changed[:, None], decisions.gains, 0.0).sum(axis=1)
    error = float(gains.std()) / np.sqrt(max(1, len(gains)))
    return float(gains.mean()) / error if error > 0 else 0.0


register_source("mistakes", mistakes)
