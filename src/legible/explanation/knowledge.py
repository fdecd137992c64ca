"""Whether a policy keeps to its own rules.

- `Knowledge`, `knowledge_of`: how often the policy, left alone, does as a rule says.
- `summarise_knowledge`: that of a whole rule set in words, "knows it for north, not for east".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from legible.features import FeatureSpace
from legible.formatting import join_words, percent
from legible.mining import MinedRule, judge_rules
from legible.play import Experiences
from legible.rules import Rule, RuleSet, action_words, representative_rule

# Fewer states than this say nothing about whether a policy knows a rule.
MIN_STATES = 5
# A known rule that is broken this many times as often as the mined one is known less well.
LESS_WELL_RATIO = 2.0

Status = Literal["known", "unknown", "unseen"]
"""Whether a policy knows a rule; "unseen" where the states were too few to tell."""

_Grade = Literal["known", "less well", "unknown", "unseen"]
_GRADE_PHRASES: dict[_Grade, str] = {
    "known": "knows it for",
    "less well": "less well for",
    "unknown": "not for",
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
    """

    rule: Rule
    triggered: int
    kept: float
    status: Status

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

    def status(judged: MinedRule) -> Status:
        if judged.triggered < MIN_STATES:
            return "unseen"
        return "known" if judged.agreement >= min_kept else "unknown"

    return tuple(Knowledge(j.rule, j.triggered, j.agreement, status(j)) for j in judge_rules(rules, experiences))


def summarise_knowledge(knowledge: Sequence[Knowledge], rule_set: RuleSet, space: FeatureSpace) -> str:
    """Say for which actions the policy knows its rule and for which not; empty when there is nothing to tell apart.

    Rules are summed up by action, since that is how people tell generalised rules apart.
    """
    names = action_words([k.rule.action for k in knowledge], space)
    by_action = {action: [k for k in knowledge if k.rule.action == action] for action in names}
    usual = _broken_share_of_mined_rule(knowledge, rule_set)
    grades = {action: _grade(found, usual) for action, found in by_action.items()}
    broken = {
        action: _describe_broken(by_action[action])
        for action, grade in grades.items()
        if grade in {"less well", "unknown"}
    }
    if len(grades) < 2:
        # With one action there is nothing to tell apart, only how often the rule is broken.
        return next(iter(broken.values()), "")
    parts = []
    for grade, phrase in _GRADE_PHRASES.items():
        actions = [
            f"{names[action]} ({broken[action]})" if action in broken else names[action]
            for action, own in grades.items()
            if own == grade
        ]
        if actions:
            parts.append(f"{phrase} {join_words(actions)}")
    return ", ".join(parts)


def _broken_share_of_mined_rule(knowledge: Sequence[Knowledge], rule_set: RuleSet) -> float:
    """How often the mined rule itself is broken: what the others are compared with."""
    own = [k.broken for k in knowledge if k.rule == representative_rule(rule_set) and k.status != "unseen"]
    return own[0] if own else 0.0


def _grade(found: Sequence[Knowledge], usual: float) -> _Grade:
    seen = [k for k in found if k.status != "unseen"]
    if not seen:
        return "unseen"
    if any(k.status == "unknown" for k in seen):
        return "unknown"
    broken = [k for k in seen if round(k.broken * k.triggered) >= MIN_STATES]
    return "less well" if any(k.broken > LESS_WELL_RATIO * usual for k in broken) else "known"


def _describe_broken(found: Sequence[Knowledge]) -> str:
    worst = max(k.broken for k in found if k.status != "unseen")
    return f"broken in {percent(worst)} of such states"
