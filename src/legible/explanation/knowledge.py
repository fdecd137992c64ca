"""Frequency with which a policy follows its own rules.

- `Knowledge`, `knowledge_of`: how often the unguided policy follows a rule.
- `summarise_knowledge`: a summary by action, "follows it for north (99 %), rarely for east (30 %)", if the difference
  is large and significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from legible.evaluation.statistics import holm
from legible.features import FeatureSpace
from legible.formatting import join_words, percent
from legible.play import Experiences
from legible.rules import CompiledRules, Rule, RuleSet, representative_rule, short_action_words

# Fewer matching states than this are too few to judge whether a policy follows a rule.
MIN_STATES = 5
# Smallest difference between two shares that is worth mentioning.
MIN_KEPT_DIFFERENCE = 0.1
# A rule that is followed in a smaller share of its states is followed rarely.
RARE_SHARE = 0.5

Status = Literal["known", "unknown", "unseen"]
"""Status of a rule: followed or not; "unseen" if there are too few matching states."""

_Grade = Literal["known", "less well", "unknown", "unseen"]


@dataclass(frozen=True)
class Knowledge:
    """The frequency with which the unguided policy follows a rule.

    Parameters
    ----------
    rule
        The rule.
    triggered
        Number of states in the experiences in which its conditions hold.
    kept
        Share of these states in which the policy followed the rule; NaN if there are none.
    status
        "known" or "unknown", by that share; "unseen" if there are too few states.
    error
        Standard error of that share, clustered by episode.
    """

    rule: Rule
    triggered: int
    kept: float
    status: Status
    error: float = 0.0

    @property
    def broken(self) -> float:
        """Return the share of the states in which the policy broke the rule."""
        return 1.0 - self.kept


def knowledge_of(
    rule_set: RuleSet | Iterable[Rule], experiences: Experiences, *, min_kept: float = 0.9
) -> tuple[Knowledge, ...]:
    """Return how often the policy that made the experiences follows each rule of a set.

    Parameters
    ----------
    rule_set
        The rules.
    experiences
        Recorded steps of the unguided policy.
    min_kept
        Smallest share of states in which the policy follows a rule that it knows; mining uses the same threshold.
    """
    rules = list(rule_set.rules if isinstance(rule_set, RuleSet) else rule_set)
    if not rules:
        return ()
    matched = CompiledRules.compile([rules]).matches(experiences.observations)
    measured = []
    for rule, holds in zip(rules, matched.T, strict=True):
        taken = experiences.taken(rule.action)
        kept = (taken if rule.polarity == "+" else ~taken)[holds]  # whether it follows the rule, in its states
        share = float(kept.mean()) if len(kept) else float("nan")
        status: Status = "unseen" if len(kept) < MIN_STATES else "known" if share >= min_kept else "unknown"
        error = _share_error(kept, experiences.episode_ids[holds])
        measured.append(Knowledge(rule, len(kept), share, status, error))
    return tuple(measured)


def _share_error(kept: NDArray[np.bool_], episodes: NDArray[np.int64]) -> float:
    """Return the standard error of a share of states, clustered by episode.

    It is at least the error of independent states with one more success and one more failure, so that shares of 0 and
    1 have an error, too.
    """
    n = len(kept)
    if not n:
        return float("nan")
    off_by_episode = np.bincount(np.unique(episodes, return_inverse=True)[1], kept - kept.mean())
    smoothed = (int(kept.sum()) + 1) / (n + 2)
    return math.sqrt(max(float((off_by_episode**2).sum()) / n**2, smoothed * (1 - smoothed) / (n + 2)))


def summarise_knowledge(
    knowledge: Sequence[Knowledge], rule_set: RuleSet, space: FeatureSpace, alpha: float = 0.05
) -> str:
    """Say for which actions the policy follows its rule and for which not; empty if there is no clear difference.

    Rules are pooled by action. An action is named only if its rules are followed less often than the mined one by a
    large and significant margin (Holm's correction).
    """
    names = short_action_words([k.rule.action for k in knowledge], space)
    if len(names) < 2:
        return ""
    by_action = {action: _pooled([k for k in knowledge if k.rule.action == action]) for action in names}
    # The others are compared with the mined rule, else with the action that is followed most often.
    of_rule = [k for k in knowledge if k.rule == representative_rule(rule_set) and k.status != "unseen"]
    seen = [k for k in by_action.values() if k.status != "unseen"]
    usual = of_rule[0] if of_rule else max(seen, key=lambda k: k.kept, default=None)
    if usual is None:
        return ""
    grades = _grades(by_action, usual, alpha)
    if not {"less well", "unknown"} & set(grades.values()):
        return ""
    phrases: dict[_Grade, str] = {
        "known": "follows the rule for" if usual.status == "known" else "follows the rule more often for",
        "less well": "less often for",
        "unknown": "rarely for",
        "unseen": "never met it for",
    }
    parts = []
    for grade, phrase in phrases.items():
        actions = [
            names[action] if grade == "unseen" else f"{names[action]} ({percent(by_action[action].kept)})"
            for action, given in grades.items()
            if given == grade
        ]
        if actions:
            parts.append(f"{phrase} {join_words(actions)}")
    return ", ".join(parts)


def _pooled(rules: Sequence[Knowledge]) -> Knowledge:
    """Return the rules of one action as one; a state counts for every rule that holds in it."""
    seen = [k for k in rules if k.triggered]
    count = sum(k.triggered for k in seen)
    if not count:
        return rules[0]
    kept = sum(k.kept * k.triggered for k in seen) / count
    # The states of several rules overlap, so their errors do not average out.
    error = sum(k.error * k.triggered for k in seen) / count
    return Knowledge(rules[0].rule, count, kept, "known" if count >= MIN_STATES else "unseen", error)


def _grades(by_action: Mapping[int, Knowledge], usual: Knowledge, alpha: float) -> dict[int, _Grade]:
    seen = [action for action, k in by_action.items() if k.status != "unseen"]
    z = [(usual.kept - by_action[a].kept) / math.hypot(usual.error, by_action[a].error) for a in seen]
    significant = dict(zip(seen, holm(ndtr(-np.asarray(z))) < alpha, strict=True))

    def grade(action: int, own: Knowledge) -> _Grade:
        if own.status == "unseen":
            return "unseen"
        if not significant[action] or usual.kept - own.kept < MIN_KEPT_DIFFERENCE:
            return "known"
        return "unknown" if own.kept < RARE_SHARE else "less well"

    grades = {action: grade(action, own) for action, own in by_action.items()}
    # Without a gap between the shares of two actions, a line between them would be arbitrary.
    for action in sorted(seen, key=lambda a: -by_action[a].kept):
        known = [by_action[a].kept for a in seen if grades[a] == "known"]
        if grades[action] == "less well" and known and min(known) - by_action[action].kept < MIN_KEPT_DIFFERENCE / 2:
            grades[action] = "known"
    return grades
