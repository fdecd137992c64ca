"""Rule sets learned from single decisions, as a source of hypotheses: "mistakes".

Mined rules describe what the policy already does. Decisions at which every choice was tried show what it should do:
RIPPER separates decisions in which another choice is better from the others, weighted by the gain. It learns rules of
both polarities, which are extended by relations and judged on held-out decisions.

- `mistakes`: the source.
- `learn_from_decisions`: learns the rule sets; `as_conditions`: converts conditions of RIPPER to conditions of rules.
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
from legible.mistakes.decisions import CHOICE_TAKEN
from legible.relations import MetamorphicRelation, map_states
from legible.rules import CompiledRules, Condition, Polarity, Rule, RuleSet

# Minimum z of the gain of a better choice.
BETTER_Z = 1.5
# Maximum weight of an example, in multiples of the median.
MOST_WEIGHT = 8
FOLDS = 2
FEWEST_EXAMPLES = 5
MOST_RULE_SETS = 20
RESTARTS = 3
# Minimum z of the gain of a rule set at held-out decisions.
LEAST_HELD_OUT_Z = 0.5


def mistakes(known: SourceInput) -> Hypotheses:
    """Propose rules learned from single decisions, with their related forms."""
    if known.decisions is None:
        raise LegibleError(
            'the source "mistakes" needs single decisions, but none could be examined; leave it out of sources.'
        )
    space, relations = known.experiences.space, known.relations
    yield learn_from_decisions(known.decisions, space, relations, seed=known.seed, polarities=known.polarities)


class _Examples(NamedTuple):
    """States, whether a rule should trigger there, and their weights."""

    observations: NDArray[np.float32]
    positive: NDArray[np.bool_]
    stakes: NDArray[np.float64]


def learn_from_decisions(
    decisions: DecisionGains,
    space: FeatureSpace,
    relations: Sequence[MetamorphicRelation],
    *,
    seed: int,
    polarities: Sequence[Polarity] = ("+", "-"),
) -> list[RuleSet]:
    """Return rule sets about states in which another choice is better or the choice taken is bad, the best first.

    Rules are learned on some episodes and judged on the others, in each of `FOLDS` ways to split them.

    Parameters
    ----------
    decisions
        The examined decisions, with the gain of each other choice.
    space
        Features and choices.
    relations
        Symmetries of the task, such as "rotate by 90°". They map decisions to related states, which gives more
        examples, and rules to related choices, which makes a rule set of each rule.
    seed
        Seed of RIPPER, the rule learner.
    polarities
        The kinds of rules to learn: ``"+"`` takes a choice, ``"-"`` avoids one.
    """
    folds = decisions.episodes % FOLDS
    best_worth: dict[frozenset[Rule], tuple[float, RuleSet]] = {}
    for fold in range(FOLDS):
        learning, judging = (
            DecisionGains(*(column[rows] for column in vars(decisions).values()))  # every field has a row per decision
            for rows in (folds != fold, folds == fold)
        )
        # One choice of those that relations map to each other is enough: the rule sets contain the others.
        for choice in _representatives(len(space.actions), relations):
            for polarity in polarities:
                # Learn from the decisions and their related states, and judge each rule with its related rules by the
                # z-value of its gain on the other episodes. The same rule set may be learned in several splits: keep
                # its best judgement.
                examples = _with_images(learning, space, relations, choice, polarity)
                for rule_set in generalised(_rules(examples, space, choice, polarity, seed), relations):
                    worth = _worth(rule_set, judging, space)
                    key = frozenset(rule_set.rules)
                    if worth > LEAST_HELD_OUT_Z and (key not in best_worth or worth > best_worth[key][0]):
                        best_worth[key] = worth, rule_set
    ordered = sorted(best_worth.values(), key=lambda entry: -entry[0])
    return [rule_set for _, rule_set in ordered[:MOST_RULE_SETS]]


def _representatives(n: int, relations: Sequence[MetamorphicRelation]) -> list[int]:
    """Return one of all choices that relations map to each other; the rules of the others follow from its rules."""
    representative = list(range(n))  # of each choice; choices that a relation joins get the smaller one
    for relation in relations:
        joined = representative[relation.action], representative[relation.image_action]
        representative = [min(joined) if choice in joined else choice for choice in representative]
    return sorted(set(representative))


def _examples(decisions: DecisionGains, space: FeatureSpace, choice: int, polarity: str) -> _Examples:
    """Return states where a rule about a choice should trigger, and others; uninformative decisions are left out.

    "Take the choice" should trigger where it is better than the choice taken, "avoid the choice" where it was taken and
    another one is better. Columns are those of `DecisionGains.choices`, the other choices at a decision.
    """
    if polarity == "+":
        is_choice = decisions.choices == choice
        rows = np.flatnonzero(is_choice.any(axis=1))
        columns = is_choice[rows].argmax(axis=1)
    else:
        is_allowed = decisions.choices != CHOICE_TAKEN  # not masked
        was_taken = decisions.taken[:, space.group_of(choice)] == choice
        rows = np.flatnonzero(was_taken & is_allowed.any(axis=1))
        columns = np.where(is_allowed[rows], decisions.gains[rows], -np.inf).argmax(axis=1)
    gain = decisions.gains[rows, columns]
    is_better = (gain > 0) & (gain / np.maximum(decisions.errors[rows, columns], 1e-12) > BETTER_Z)
    return _Examples(decisions.observations[rows], is_better, np.where(is_better, gain, np.maximum(-gain, 0.0)))


def _with_images(
    decisions: DecisionGains, space: FeatureSpace, relations: Sequence[MetamorphicRelation], choice: int, polarity: str
) -> _Examples:
    """Return the examples of a choice, and the images of examples of choices that relations map to it."""
    parts = [_examples(decisions, space, choice, polarity)]
    for relation in relations:
        if relation.image_action == choice:
            others = _examples(decisions, space, relation.action, polarity)
            images, defined = map_states(relation, others.observations)
            parts.append(_Examples(images[defined], others.positive[defined], others.stakes[defined]))
    return _Examples(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _rules(examples: _Examples, space: FeatureSpace, choice: int, polarity: Any, seed: int) -> list[Rule]:
    """Return the rules that RIPPER learns from examples; an example counts up to `MOST_WEIGHT` times, by its stake."""
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
    return [Rule(polarity, choice, as_conditions(rule.conditions)) for rule in classifier.rules_ if rule.conditions]


def as_conditions(learned: Sequence[Any]) -> tuple[Condition, ...]:
    """Return the conditions of a rule, with one interval per feature."""
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
    """Return the z of the gain by guidance at held-out decisions."""
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
