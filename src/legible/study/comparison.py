"""Two studies beside each other, by playing: what the rule sets of either do to both policies, on the same seeds.

That one study confirmed a weakness and the other did not says little: it may have had fewer episodes, or other rules.
So every confirmed weakness and the composition of each study are played with both policies.

- `compare_studies`: the comparison; `StudyComparison` is what it says, with a `ComparedRuleSet` for every rule set.
- `alike`: whether two rules say the same but for where their intervals end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation import Sample, WorstCase
from legible.evaluation.statistics import Effect, holm, paired
from legible.evaluation.units import UnitResult
from legible.explanation import Knowledge, knowledge_of
from legible.explanation.knowledge import MARKED, MIN_STATES
from legible.features import FeatureSpace
from legible.formatting import capitalise, confidence_interval, counted
from legible.play import stage_seeds
from legible.rules import Rule, RuleSet, describe_rule_briefly, representative_rule
from legible.study.fingerprint import is_same_behaviour
from legible.study.study import Study

EPISODES = 500
MOST_WEAKNESSES = 6
# A difference of shares that is this many standard errors wide is certain.
_CERTAIN = 3.0

Origin = Literal["first", "second", "both"]


def alike(one: Rule, two: Rule) -> bool:
    """Whether two rules say the same but for where exactly their intervals end.

    Polarity, action and features are the same, and the intervals of every feature overlap. Intervals come from what a
    policy saw, so those of two policies hardly ever agree to the last digit.
    """
    if (one.polarity, one.action, set(one.features)) != (two.polarity, two.action, set(two.features)):
        return False
    others = {condition.feature: condition for condition in two.conditions}
    return all(max(c.low, others[c.feature].low) < min(c.high, others[c.feature].high) for c in one.conditions)


@dataclass(frozen=True)
class ComparedRuleSet:
    """What a rule set does to both policies.

    Parameters
    ----------
    rule_set
        The rules.
    origin
        Which study it is from.
    is_composition
        Whether it is the composition of a study, and no single weakness.
    effects
        Guided minus unguided mean return of each policy, on the same seeds.
    difference
        How much more it does for the first policy than for the second.
    q
        Two-sided p-value of the difference, corrected for all rule sets (Holm).
    """

    rule_set: RuleSet
    origin: Origin
    is_composition: bool
    effects: tuple[Effect, Effect]
    difference: Effect
    q: float

    def words(self, alpha: float = 0.05) -> str:
        """Say for which of the policies it helps, no more certain than it is."""
        helped = [effect.low > 0.0 for effect in self.effects]
        if self.q < alpha:
            more, less = ("first", "second") if self.difference.mean > 0.0 else ("second", "first")
            other = helped[0 if less == "first" else 1]
            return f"helps the {more} more" if other else f"helps the {more}, not the {less}"
        if all(helped):
            return "helps both"
        if any(helped):
            return "helps one for certain; no certain difference"
        return "helps neither for certain"


@dataclass(frozen=True)
class StudyComparison:
    """What two studies have in common and what not.

    Parameters
    ----------
    space
        Names of features and actions.
    is_same_policy
        Whether both studies are of the same policy.
    episodes
        How many episodes each policy played with each rule set, on the same seeds.
    base
        The unguided policies on these seeds.
    difference
        Mean return of the first minus the second policy, unguided, on these seeds.
    rule_sets
        What the rule sets of both studies do to both policies.
    rules_in_both, rules_only_in_first, rules_only_in_second
        Mined rules that both policies keep to, and those that the other policy keeps to markedly less often.
    """

    space: FeatureSpace
    is_same_policy: bool
    episodes: int
    base: tuple[Sample, Sample]
    difference: Effect
    rule_sets: tuple[ComparedRuleSet, ...]
    rules_in_both: tuple[Rule, ...]
    rules_only_in_first: tuple[Rule, ...]
    rules_only_in_second: tuple[Rule, ...]

    def headline(self) -> str:
        """The comparison in a sentence."""
        if self.is_same_policy:
            return (
                "Both studies are of the same policy: whatever differs between them comes from their settings, their "
                "seeds and chance."
            )
        effect = self.difference
        told = f"the first policy's mean return minus the second's is {_interval(effect)}"
        if effect.low > 0.0 or effect.high < 0.0:
            return f"The {'first' if effect.mean > 0 else 'second'} policy is better: {told}."
        return f"Neither policy is better for certain: {told}."

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Columns and lines of the table of returns: what every rule set does to both policies."""
        columns = ("Guided by", "from", "first policy", "second policy", "so it")
        rows = [
            (
                self._name(one),
                one.origin,
                *(_interval(effect) for effect in one.effects),
                one.words(),
            )
            for one in self.rule_sets
        ]
        return columns, rows

    def _name(self, one: ComparedRuleSet) -> str:
        if one.is_composition:
            return f"All that the study composed: {counted(len(one.rule_set), 'rule')}"
        neighbours = [representative_rule(other.rule_set) for other in self.rule_sets if not other.is_composition]
        rule = representative_rule(one.rule_set)
        return capitalise(describe_rule_briefly(rule, self.space, "advice", neighbours=neighbours))

    def paragraphs(self, most: int = 8) -> list[tuple[str, list[str]]]:
        """What the policies do, in words: titles, each with some sentences; nothing where they are one and the same."""
        if self.is_same_policy:
            return []
        told = []
        for title, rules in (
            ("Both policies", self.rules_in_both),
            ("Only the first policy", self.rules_only_in_first),
            ("Only the second policy", self.rules_only_in_second),
        ):
            more = [f"and {len(rules) - most} more"] if len(rules) > most else []
            if rules:
                told.append((title, [*(describe_rule_briefly(rule, self.space) for rule in rules[:most]), *more]))
        return told

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "headline": self.headline(),
            "same_policy": self.is_same_policy,
            "episodes": self.episodes,
            "unguided": [asdict(sample) for sample in self.base],
            "difference": asdict(self.difference),
            "rule_sets": [
                {
                    "rules": [rule.text(self.space) for rule in one.rule_set.rules],
                    "from": one.origin,
                    "composition": one.is_composition,
                    "first": asdict(one.effects[0]),
                    "second": asdict(one.effects[1]),
                    "difference": asdict(one.difference),
                    "q": one.q,
                    "verdict": one.words(),
                }
                for one in self.rule_sets
            ],
            "rules": {
                "both": [rule.text(self.space) for rule in self.rules_in_both],
                "first": [rule.text(self.space) for rule in self.rules_only_in_first],
                "second": [rule.text(self.space) for rule in self.rules_only_in_second],
            },
        }


def _interval(effect: Effect) -> str:
    return confidence_interval(effect.mean, effect.low, effect.high)


def compare_studies(first: Study, second: Study, episodes: int = EPISODES) -> StudyComparison:
    """Compare two studies of policies that see the same features and choose among the same actions.

    Steps that the studies have not done yet are done.

    Parameters
    ----------
    first, second
        The studies.
    episodes
        How many episodes each policy plays with each rule set, on seeds that neither study has used.
    """
    studies = (first, second)
    for study in studies:
        study.improve()
    _refuse_other_worlds(first, second)
    asked = list(_rule_sets(first, second))
    seeds = stage_seeds(first.seed, "comparison", 0, episodes)
    played = [study.play_rule_sets([rule_set for rule_set, *_ in asked], seeds) for study in studies]
    base, guided = [blocks.base for blocks in played], [blocks.results[1:] for blocks in played]
    returns = [[_returns(guided[k][i], base[k]) for k in (0, 1)] for i in range(len(asked))]
    # What a rule set gains the first policy minus what it gains the second, on the same seeds.
    differences = [paired(np.subtract(*one), np.subtract(*two)) for one, two in returns]
    q = holm([1.0 if e.mean == 0.0 else min(1.0, 2 * min(e.p, 1 - e.p)) for e in differences])
    rules = [_told_apart(*pair) for pair in ((first, second), (second, first))]
    return StudyComparison(
        space=first.space,
        is_same_policy=is_same_behaviour(first.fingerprint, second.fingerprint),
        episodes=episodes,
        base=(Sample.of(base[0]), Sample.of(base[1])),
        difference=paired(*_returns(base[0], base[1])),
        rule_sets=tuple(
            ComparedRuleSet(*one, (paired(*returns[i][0]), paired(*returns[i][1])), differences[i], float(q[i]))
            for i, one in enumerate(asked)
        ),
        rules_in_both=rules[0][0],
        rules_only_in_first=rules[0][1],
        rules_only_in_second=rules[1][1],
    )


def _refuse_other_worlds(first: Study, second: Study) -> None:
    if first.space.names != second.space.names or first.space.action_names != second.space.action_names:
        raise LegibleError(
            f"{first.folder} and {second.folder} cannot be compared: their features or actions have different names."
        )
    if first.environment != second.environment:
        raise LegibleError(
            f"{first.folder} and {second.folder} cannot be compared by playing: one is a study of "
            f"{first.environment.name}, the other of {second.environment.name}, or with other arguments."
        )


def _rule_sets(first: Study, second: Study) -> Iterator[tuple[RuleSet, Origin, bool]]:
    """The compositions and confirmed weaknesses of both studies; what both have is there once."""
    found: dict[tuple[frozenset[Rule], bool], tuple[RuleSet, list[Origin]]] = {}
    for name, study in (("first", first), ("second", second)):
        confirmed = [group.front.rule_set for group in study.weaknesses if group.is_confirmed][:MOST_WEAKNESSES]
        composition = [study.improvement.composition] if len(study.improvement.composition) else []
        for rule_set, whole in (*((c, True) for c in composition), *((c, False) for c in confirmed)):
            entry = found.setdefault((frozenset(rule_set.rules), whole), (rule_set, []))
            entry[1].append("first" if name == "first" else "second")
    for (_, whole), (rule_set, origins) in found.items():
        yield rule_set, "both" if len(origins) == 2 else origins[0], whole


def _returns(guided: UnitResult, base: UnitResult) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what both earned on the same seeds; failed episodes count at their worst."""
    pair = WorstCase((guided, base)).of(guided, base)
    return pair[0].returns, pair[1].returns


def _told_apart(study: Study, other: Study) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The mined rules of a study that the policy of the other keeps to as well, and those that it does not."""
    rules = [mined.rule for mined in study.mining.rules]
    own, theirs = (knowledge_of(rules, seen.experiences) for seen in (study, other))
    apart = [_is_apart(*pair) for pair in zip(own, theirs, strict=True)]
    shared = tuple(rule for rule, differs in zip(rules, apart, strict=True) if not differs)
    return shared, tuple(rule for rule, differs in zip(rules, apart, strict=True) if differs)


def _is_apart(own: Knowledge, other: Knowledge) -> bool:
    """Whether the other policy keeps to a rule markedly less often, for certain."""
    if other.triggered < MIN_STATES:
        return False
    gap = own.kept - other.kept
    return gap >= MARKED and gap > _CERTAIN * float(np.hypot(own.error, other.error))
