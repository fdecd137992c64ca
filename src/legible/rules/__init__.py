"""Rules: frozen values, their text, compiled matching, and rules as English sentences."""

from __future__ import annotations

from legible.rules.rule import CompiledRules, Condition, Polarity, Rule, RuleError, RuleSet, parse_rule, triggers
from legible.rules.wording import (
    Mood,
    action_words,
    describe_likewise,
    describe_rule,
    describe_rule_briefly,
    describe_rule_set,
    gerund,
    representative_rule,
    rule_parts,
    third_person,
)

__all__ = [
    "CompiledRules",
    "Condition",
    "Mood",
    "Polarity",
    "Rule",
    "RuleError",
    "RuleSet",
    "action_words",
    "describe_likewise",
    "describe_rule",
    "describe_rule_briefly",
    "describe_rule_set",
    "gerund",
    "parse_rule",
    "representative_rule",
    "rule_parts",
    "third_person",
    "triggers",
]
