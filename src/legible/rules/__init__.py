"""Rules: frozen values, their text, compiled matching, and rules as English sentences."""

from __future__ import annotations

from legible.rules.rule import CompiledRules, Condition, Polarity, Rule, RuleError, RuleSet, parse_rule, triggers

__all__ = [
    "CompiledRules",
    "Condition",
    "Polarity",
    "Rule",
    "RuleError",
    "RuleSet",
    "parse_rule",
    "triggers",
]
