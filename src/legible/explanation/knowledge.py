"""Whether a policy keeps to its own rules.

- `Knowledge`, `knowledge_of`: how often the policy, left alone, does as a rule says.
- `summarise_knowledge`: that of a whole rule set in words, "knows it for north (kept in 99 %), not for east (kept in
  30 %)", where the difference is marked and certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from legible.evaluation.statistics import holm
from legible.features import FeatureSpace
from legible.formatting import join_words, percent
from legible.play import Experiences
from legible.rules import CompiledRules, Rule, RuleSet, representative_rule, short_action_words

# Fewer states than this say nothing about whether a policy knows a rule.
MIN_STATES = 5
# A rule is kept markedly less often than another when the shares differ by this much, for certain.
MARKED = 0.1
# A rule that is kept in less than this share of its states is not known at all.
HALF = 0.5

Status = Literal["known", "unknown", "unseen"]
"""Whether a policy knows a rule; "unseen" where the states were too few to tell."""

_Grade = Literal["known", "less well", "unknown", "unseen"]
_KNOWN_PHRASES: dict[_Grade, str] = {
    "known": "knows it for",
    "less well": "less well for",
    "unknown": "not for",
    "unseen": "never met it for",
}
# Of a rule that the policy breaks often everywhere nothing is called known.
_KEPT_PHRASES: dict[_Grade, str] = {
    "known": "keeps to it more often for",
    "less well": "less often for",
    "unknown": "seldom for",
    "unseen": "never met it for",
}


@dataclass(frozen=True)
class Knowledge:
    """Whether a policy, left alone, does as a rule says.

    Parameters
    ----------
    rule
        The rule.
    triggered
        In how many states of the experiences its conditions hold.
    kept
        In which share of them the policy did as the rule says; NaN when there are none.
    status
        "known" or "unknown", by that share; "unseen" when the states were too few to tell.
    error
        Standard error of that share; states of one episode are alike, so whole episodes are counted.
    """

    rule: Rule
    triggered: int
    kept: float
    status: Status
    error: float = 0.0

    @property
    def broken(self) -> float:
        """The share of the states in which the policy did otherwise."""
        return 1.0 - self.kept


def knowledge_of(
    rule_set: RuleSet | Iterable[Rule], experiences: Experiences, *, min_kept: float = 0.9
) -> tuple[Knowledge, ...]:
    """Say for every rule of a set whether the policy that made the experiences knows it.

    Parameters
    ----------
    rule_set
        The rules.
    experiences
        What the policy, unguided, saw and did.
    min_kept
        The share of states from which on a rule is known; mining asks the same of a rule.
    """
    rules = list(rule_set.rules if isinstance(rule_set, RuleSet) else rule_set)
    if not rules:
        return ()
    matched = CompiledRules.compile([rules]).matches(experiences.observations)
    return tuple(_knowledge(rule, column, experiences, min_kept) for rule, column in zip(rules, matched.T, strict=True))


def _knowledge(rule: Rule, holds: NDArray[np.bool_], experiences: Experiences, min_kept: float) -> Knowledge:
    taken = experiences.taken(rule.action)
    kept = (taken if rule.polarity == "+" else ~taken)[holds]
    count = int(holds.sum())
    share = float(kept.mean()) if count else float("nan")
    status: Status = "unseen" if count < MIN_STATES else "known" if share >= min_kept else "unknown"
    return Knowledge(rule, count, share, status, _share_error(kept, experiences.episode_ids[holds]))


def _share_error(kept: NDArray[np.bool_], episodes: NDArray[np.int64]) -> float:
    """Standard error of a share of states, of which those of one episode may be alike.

    No less than if the states were independent and one more had been kept and one more broken: a share of all or none
    is not certain either.
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
    """Say for which actions the policy keeps to its rule and for which not; empty when there is nothing to tell apart.

    Rules are summed up by action, since that is how people tell generalised rules apart. An action is told apart only
    where its rules are kept markedly less often than the mined one, and that for certain (Holm's correction).
    """
    names = short_action_words([k.rule.action for k in knowledge], space)
    if len(names) < 2:
        return ""
    by_action = {action: _pooled([k for k in knowledge if k.rule.action == action]) for action in names}
    # What the others are compared with: the mined rule itself, else the action that is kept to best.
    own = [k for k in knowledge if k.rule == representative_rule(rule_set) and k.status != "unseen"]
    seen = [k for k in by_action.values() if k.status != "unseen"]
    usual = own[0] if own else max(seen, key=lambda k: k.kept, default=None)
    if usual is None:
        return ""
    grades = _grades(by_action, usual, alpha)
    if not {"less well", "unknown"} & set(grades.values()):
        return ""
    parts = []
    for grade, phrase in (_KNOWN_PHRASES if usual.status == "known" else _KEPT_PHRASES).items():
        told = [
            names[action] if grade == "unseen" else f"{names[action]} (kept in {percent(by_action[action].kept)})"
            for action, found in grades.items()
            if found == grade
        ]
        if told:
            parts.append(f"{phrase} {join_words(told)}")
    return ", ".join(parts)


def _pooled(found: Sequence[Knowledge]) -> Knowledge:
    """All rules of an action as one; a state counts for every rule that holds in it."""
    seen = [k for k in found if k.triggered]
    count = sum(k.triggered for k in seen)
    if not count:
        return found[0]
    kept = sum(k.kept * k.triggered for k in seen) / count
    # The states of several rules overlap, so their errors are added up and not averaged out.
    error = sum(k.error * k.triggered for k in seen) / count
    return Knowledge(found[0].rule, count, kept, "known" if count >= MIN_STATES else "unseen", error)


def _grades(by_action: Mapping[int, Knowledge], usual: Knowledge, alpha: float) -> dict[int, _Grade]:
    seen = [action for action, k in by_action.items() if k.status != "unseen"]
    z = [(usual.kept - by_action[a].kept) / math.hypot(usual.error, by_action[a].error) for a in seen]
    certain = dict(zip(seen, holm(stats.norm.sf(z)) < alpha, strict=True))

    def grade(action: int, own: Knowledge) -> _Grade:
        if own.status == "unseen":
            return "unseen"
        if not certain[action] or usual.kept - own.kept < MARKED:
            return "known"
        return "unknown" if own.kept < HALF else "less well"

    grades = {action: grade(action, own) for action, own in by_action.items()}
    # From one action to the next there must be a step, or else the line between them is drawn at random.
    for action in sorted(seen, key=lambda a: -by_action[a].kept):
        known = [by_action[a].kept for a in seen if grades[a] == "known"]
        if grades[action] == "less well" and known and min(known) - by_action[action].kept < MARKED / 2:
            grades[action] = "known"
    return grades
