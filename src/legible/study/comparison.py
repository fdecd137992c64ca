"""Two studies beside each other: what both policies do, what only one does, and where each is weak.

- `compare_studies`: the comparison; `Comparison` is what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from legible.errors import LegibleError
from legible.evaluation import Sample
from legible.features import FeatureSpace
from legible.formatting import confidence_interval
from legible.rules import Rule, RuleSet, describe_rule, describe_rule_set
from legible.study.study import Study

# The normal distribution's: samples of studies are hundreds of episodes.
_CONFIDENCE = 1.96


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
class Comparison:
    """What two studies have in common and what not.

    Parameters
    ----------
    space
        Names of features and actions.
    base
        The unguided policies on their final seeds.
    rules_in_both, rules_only_in_first, rules_only_in_second
        Mined rules; rules in both are told in the words of the first.
    weaknesses_in_both, weaknesses_only_in_first, weaknesses_only_in_second
        Rule sets whose weakness is confirmed.
    """

    space: FeatureSpace
    base: tuple[Sample, Sample]
    rules_in_both: tuple[Rule, ...]
    rules_only_in_first: tuple[Rule, ...]
    rules_only_in_second: tuple[Rule, ...]
    weaknesses_in_both: tuple[RuleSet, ...]
    weaknesses_only_in_first: tuple[RuleSet, ...]
    weaknesses_only_in_second: tuple[RuleSet, ...]

    @property
    def difference(self) -> tuple[float, float, float]:
        """Mean return of the first minus the second policy, unguided, with a 95 % confidence interval."""
        first, second = self.base
        reach = _CONFIDENCE * float(first.error**2 + second.error**2) ** 0.5
        mean = first.mean - second.mean
        return mean, mean - reach, mean + reach

    def paragraphs(self, most: int = 8) -> list[tuple[str, list[str]]]:
        """The comparison in words: titles, each with some sentences."""
        _, low, high = self.difference
        clear = "" if low > 0 or high < 0 else ", which may be chance"
        returns = f"The first policy's mean return minus the second's: {confidence_interval(*self.difference)}{clear}."
        told = [("Returns", [returns])]
        for title, sets in (
            ("Weak in the same way", self.weaknesses_in_both),
            ("Weak only in the first", self.weaknesses_only_in_first),
            ("Weak only in the second", self.weaknesses_only_in_second),
        ):
            told.append((title, _some([describe_rule_set(s, self.space, "advice") for s in sets], most)))
        for title, rules in (
            ("Both", self.rules_in_both),
            ("Only the first policy", self.rules_only_in_first),
            ("Only the second policy", self.rules_only_in_second),
        ):
            told.append((title, _some([describe_rule(rule, self.space) for rule in rules], most)))
        return [(title, sentences) for title, sentences in told if sentences]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        mean, low, high = self.difference
        return {
            "difference": {"mean": mean, "low": low, "high": high},
            "rules": {
                "both": [rule.text(self.space) for rule in self.rules_in_both],
                "first": [rule.text(self.space) for rule in self.rules_only_in_first],
                "second": [rule.text(self.space) for rule in self.rules_only_in_second],
            },
            "weaknesses": {
                "both": [_source(s).text(self.space) for s in self.weaknesses_in_both],
                "first": [_source(s).text(self.space) for s in self.weaknesses_only_in_first],
                "second": [_source(s).text(self.space) for s in self.weaknesses_only_in_second],
            },
        }


def _some(sentences: Sequence[str], most: int) -> list[str]:
    more = [f"and {len(sentences) - most} more"] if len(sentences) > most else []
    return [*sentences[:most], *more]


def _source(rule_set: RuleSet) -> Rule:
    return rule_set.source or rule_set.rules[0]


def compare_studies(first: Study, second: Study) -> Comparison:
    """Compare two studies of policies that see the same features and choose among the same actions.

    Steps that the studies have not done yet are done.
    """
    if first.space.names != second.space.names or first.space.action_names != second.space.action_names:
        raise LegibleError(
            f"{first.folder} and {second.folder} cannot be compared: their features or actions have different names."
        )
    for study in (first, second):
        study.improve()
    rules = [[mined.rule for mined in study.mining.rules] for study in (first, second)]
    weak = [[verdict.rule_set for verdict in study.evaluation.confirmed] for study in (first, second)]
    heads = [[_source(rule_set) for rule_set in sets] for sets in weak]
    return Comparison(
        space=first.space,
        base=(first.improvement.base, second.improvement.base),
        rules_in_both=tuple(rule for rule in rules[0] if _known(rule, rules[1])),
        rules_only_in_first=tuple(rule for rule in rules[0] if not _known(rule, rules[1])),
        rules_only_in_second=tuple(rule for rule in rules[1] if not _known(rule, rules[0])),
        weaknesses_in_both=tuple(s for s in weak[0] if _known(_source(s), heads[1])),
        weaknesses_only_in_first=tuple(s for s in weak[0] if not _known(_source(s), heads[1])),
        weaknesses_only_in_second=tuple(s for s in weak[1] if not _known(_source(s), heads[0])),
    )


def _known(rule: Rule, others: Sequence[Rule]) -> bool:
    return any(alike(rule, other) for other in others)
